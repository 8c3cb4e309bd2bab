"""How the functions of this package are compiled; the generated `sizes` says whether they are at all."""

from __future__ import annotations

import ctypes
from pathlib import Path

from pathfold.program.machine import load

from .sizes import COMPILED, KERNELS

ADDRESSES = load((Path(__file__).parent / "kernels.o").read_bytes(), KERNELS)

if COMPILED:
    import llvmlite.binding as llvm
    from llvmlite import ir
    from numba import int64, njit, void
    from numba.core import cgutils
    from numba.core.types import Tuple
    from numba.extending import intrinsic

    # Fast arithmetic that still respects NaN and infinity: the status tests rely on them.
    compiled = njit(
        cache=True,
        nogil=True,
        error_model="numpy",
        fastmath={"contract", "reassoc", "arcp", "nsz", "afn"},
        no_cfunc_wrapper=True,
    )

    def kernel(name, *parts):
        """A kernel as native code calls it: (index, layout, blocks).

        `parts` says for each record of the kernel in which block it lies and where the layout table holds its place
        there. The call goes to a symbol that is resolved when machine code is loaded, from the cache or fresh.
        """
        symbol = f"{__package__}.{name}"
        llvm.add_symbol(symbol, ADDRESSES[name])

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

else:

    def compiled(function):
        return function

    def kernel(name, *parts):
        pointers = [ctypes.c_void_p] * (1 + len(parts))
        function = ctypes.CFUNCTYPE(None, ctypes.c_int64, *pointers)(ADDRESSES[name])

        def call(index, layout, *blocks):
            records = (blocks[block].ctypes.data + 8 * int(layout[at]) for block, at in parts)
            function(index, layout.ctypes.data, *records)

        return call
