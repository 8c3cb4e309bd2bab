"""Control flow as plain Python, kernels called through their addresses: slow to run, quick to build."""

from __future__ import annotations

import ctypes
from pathlib import Path

from pathfold.program.machine import load

from .sizes import KERNELS

_ADDRESSES = load((Path(__file__).parent / "kernels.o").read_bytes(), KERNELS)


def compiled(function):
    return function


def once(result, *arguments):
    return compiled


def kernel(name, *parts):
    """A kernel as a function of (index, layout, blocks); see the compiled twin."""
    pointers = [ctypes.c_void_p] * (1 + len(parts))
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, *pointers)(_ADDRESSES[name])

    def call(index, layout, *blocks):
        records = (blocks[block].ctypes.data + 8 * int(layout[at]) for block, at in parts)
        function(index, layout.ctypes.data, *records)

    return call
