"""Compiling the functions of this package, and calling a model's kernels from them."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import config, int64, typeof, void
from numba.core.ccallback import CFunc
from numba.core.types import UniTuple
from numba.extending import intrinsic, overload

from .pieces import OPTIONS, CompilesWholes, HostFunction

def compiled[F: Callable](function: F) -> F:
    """Compile a function when it is first called; Numba keeps what it compiled for the next process.

    Where Numba finds no folder it can write to, the function is compiled anew in every process. To a type checker it is
    the function that it was, as it is in plain Python.
    """
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    entry: Any = HostFunction(function)
    with suppress(RuntimeError):
        entry.enable_caching()
        _stamp(entry)
    return entry


def _stamp(dispatcher: Any) -> None:
    """Let Numba's cache depend on all native sources; by itself it notices changes in the function's own file alone."""
    dispatcher._cache._cache_file._source_stamp = native_sources()


@cache
def native_sources() -> str:
    """Return a hash of all sources that the compiled functions are made from."""
    engine = Path(__file__).parents[1]
    files = [*sorted(engine.parent.glob("*/native/*.py")), engine / "table.py", engine / "status.py"]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


@compiled
def kernel(place, index, layout, problem, point, other, scratch):
    """Call the kernel whose address the layout table has at `place`, on a chunk or a series.

    `other` is the vector, the gradient or the moving point that a kernel works on beside the point.
    """
    blocks = address_of(layout), address_of(problem), address_of(point), address_of(other), address_of(scratch)
    call(layout[place], (index, *blocks))


def address_of(block):
    """Return the address at which a block begins."""
    return block.ctypes.data


@overload(address_of)
def _native_address_of(block):
    address: Any = _address
    return lambda block: address(block)


@intrinsic
def _address(typing, block):
    def code(context, builder, signature, arguments):
        return builder.ptrtoint(context.make_array(block)(context, builder, arguments[0]).data, ir.IntType(64))

    return int64(block), code


def call(function, numbers):
    """Call the function at an address with whole numbers, which may be addresses too."""
    _function_at(int(function), len(numbers))(*map(int, numbers))


@cache
def _function_at(address: int, numbers: int) -> Callable:
    return ctypes.CFUNCTYPE(None, *numbers * [ctypes.c_int64])(address)


@overload(call)
def _native_call(function, numbers):
    call: Any = _call
    return lambda function, numbers: call(function, numbers)


@intrinsic
def _call(typing, function, numbers):
    def code(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), len(numbers) * [ir.IntType(64)])
        values = [builder.extract_value(arguments[1], i) for i in range(len(numbers))]
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), values)
        return context.get_dummy_value()

    return void(int64, UniTuple(int64, len(numbers))), code


def _call_with_one(typing, function, work):
    """Call the function at an address, which `address_of_function` gave, with one tuple, handed over as it is."""

    def code(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [arguments[1].type])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1]])
        return context.get_dummy_value()

    return void(int64, work), code


call_with_one: Any = intrinsic(_call_with_one)


@cache
def address_of_function(function: Callable, example: tuple) -> int:
    """Compile a function of one tuple, of the types of this one, and return its address, for `call_with_one`.

    A function that many call is then compiled once, not within each of them. In plain Python it has no address.
    """
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return 0
    return _made_at(function, typeof(example))


@cache
def address_of_kernel(function: Callable) -> int:
    """Compile a function of six whole numbers and return its address, for `call`."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        _kept.append(ctypes.CFUNCTYPE(None, *6 * [ctypes.c_int64])(function))
        return ctypes.cast(_kept[-1], ctypes.c_void_p).value or 0
    return _made_at(function, *6 * [int64])


def _made_at(function: Callable, *types: Any) -> int:
    made: Any = CFunc(function, (types, void), {}, OPTIONS, pipeline_class=CompilesWholes)
    with suppress(RuntimeError):
        made.enable_caching()
        _stamp(made)
    made.compile()
    _kept.append(made)
    return made.address


_kept: list[Any] = []  # the code is there for as long as these are
