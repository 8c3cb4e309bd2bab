"""Control flow compiled by Numba; kernels called by symbols that are resolved when machine code is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import boolean, float64, int64, njit, void
from numba.core import cgutils
from numba.core.types import Tuple
from numba.extending import intrinsic, overload

from pathfold.program.machine import load

from .sizes import KERNELS

# Fast arithmetic that still respects NaN and infinity: the status tests rely on them.
_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "arcp", "nsz", "afn"},
    "no_cfunc_wrapper": True,
}
compiled = njit(**_OPTIONS)

ARRAY, INTEGERS = float64[::1], int64[::1]


def once(result, *arguments):
    """Compile a function for one signature, once; other native code calls it by its symbol.

    A compiled function that calls another the ordinary way takes a copy of its code and optimises it again, at every
    level of calls. Arguments and result are named by letters: a for a block, n for whole numbers, i, f, b for scalars.
    """
    types = {"a": ARRAY, "n": INTEGERS, "i": int64, "f": float64, "b": boolean, "": void}
    signature = types[result](*(types[letter] for letter in arguments))

    def decorate(function):
        dispatcher = compiled(function)
        dispatcher.compile(signature)
        done = dispatcher.get_compile_result(signature)
        symbol = f"{function.__module__}.{function.__name__}"
        llvm.add_symbol(symbol, done.library.get_pointer_to_function(done.fndesc.llvm_func_name))

        @intrinsic
        def call(typing, *given):
            def code(context, builder, _, packed):
                values = cgutils.unpack_tuple(builder, packed[0])
                values = [context.cast(builder, *v) for v in zip(values, given, signature.args, strict=True)]
                kind = context.call_conv.get_function_type(signature.return_type, signature.args)
                target = cgutils.get_or_insert_function(builder.module, kind, symbol)
                _, value = context.call_conv.call_function(
                    builder, target, signature.return_type, signature.args, values
                )
                return value

            return signature.return_type(Tuple(given)), code

        def entry(*arguments):
            return dispatcher(*arguments)

        @overload(entry)
        def native_entry(*arguments):
            return lambda *arguments: call(*arguments)

        return entry

    return decorate


_ADDRESSES = load((Path(__file__).parent / "kernels.o").read_bytes(), KERNELS)


def kernel(name, *parts):
    """A kernel as native code calls it: (index, layout, blocks).

    `parts` says for each record of the kernel in which block it lies and where the layout table holds its place there.
    """
    symbol = f"{__package__}.{name}"
    llvm.add_symbol(symbol, _ADDRESSES[name])

    @intrinsic
    def call(typing, *given):
        def code(context, builder, signature, arguments):
            index, layout, *blocks = cgutils.unpack_tuple(builder, arguments[0])

            def data(kind, value):
                return context.make_array(kind)(context, builder, value).data

            table = data(given[1], layout)
            values = [context.cast(builder, index, given[0], int64), table]
            for block, at in parts:
                begin = builder.load(builder.gep(table, [context.get_constant(int64, at)]))
                values.append(builder.gep(data(given[2 + block], blocks[block]), [begin]))
            kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), values)
            return context.get_dummy_value()

        return void(Tuple(given)), code

    return call
