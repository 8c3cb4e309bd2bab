"""How the functions of this package are compiled, and how they call a model's kernels."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import int64, njit, void
from numba.extending import intrinsic, overload

# Fast arithmetic that still respects NaN and infinity: the status tests rely on them.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "arcp", "nsz", "afn"},
    "no_cfunc_wrapper": True,
}


def compiled(function: Callable) -> Any:
    """Compile a function when it is first called; Numba keeps what it compiled for the next process.

    Where Numba finds no folder it can write to, the function is compiled anew in every process.
    """
    try:
        dispatcher = njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        return njit(**_OPTIONS)(function)
    # Numba would notice a change of the function's own file alone, not of the files whose functions it calls.
    kept = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if kept is not None:
        kept._source_stamp = _sources()
    return dispatcher


@cache
def _sources() -> str:
    """A hash of all that the compiled functions are made from."""
    here = Path(__file__).parent
    files = [*sorted(here.glob("*.py")), here.parent / "table.py", here.parent / "status.py"]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 5)


def kernel(place, index, layout, problem, point, other, scratch):
    """Call the kernel whose address the layout table has at `place`, on a chunk or a series.

    `other` is the vector, the gradient or the moving point that a kernel works on beside the point.
    """
    blocks = (layout, problem, point, other, scratch)
    _KERNEL(int(layout[place]))(index, *(block.ctypes.data for block in blocks))


@overload(kernel)
def _native_kernel(place, index, layout, problem, point, other, scratch):
    call: Any = _call

    def native(place, index, layout, problem, point, other, scratch):
        call(layout[place], index, layout, problem, point, other, scratch)

    return native


@intrinsic
def _call(typing, address, index, layout, problem, point, other, scratch):
    given = (address, index, layout, problem, point, other, scratch)

    def code(context, builder, signature, arguments):
        values = [context.cast(builder, arguments[1], index, int64)]
        for kind, block in zip(given[2:], arguments[2:], strict=True):
            values.append(context.make_array(kind)(context, builder, block).data)
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), values)
        return context.get_dummy_value()

    return void(*given), code
