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
from numba import config, int64, void
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
    """Let Numba's cache depend on all native sources; by itself it notices changes in the function's own file alone.

    The index that an older version kept is a pickle, which cannot be read if it names a class that was moved since: it
    then counts as empty, and the function is compiled anew.
    """
    kept = dispatcher._cache._cache_file
    kept._source_stamp, load = native_sources(), kept._load_index

    def load_index() -> dict:
        with suppress(ImportError, AttributeError):
            return load()
        return {}

    kept._load_index = load_index


@cache
def native_sources() -> str:
    """Return a hash of all sources that the compiled functions are made from."""
    engine = Path(__file__).parents[1]
    files = [
        *sorted(engine.parent.glob("*/native/*.py")),
        *(engine / f"{name}.py" for name in ("table", "plans", "status")),
    ]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


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


@cache
def address_of_kernel(function: Callable) -> int:
    """Compile a function of six whole numbers and return its address, for `call`."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        _kept.append(ctypes.CFUNCTYPE(None, *6 * [ctypes.c_int64])(function))
        return ctypes.cast(_kept[-1], ctypes.c_void_p).value or 0
    made: Any = CFunc(function, (6 * (int64,), void), {}, OPTIONS, pipeline_class=CompilesWholes)
    with suppress(RuntimeError):
        made.enable_caching()
        _stamp(made)
    made.compile()
    _kept.append(made)
    return made.address


_kept: list[Any] = []  # the code is there for as long as these are
