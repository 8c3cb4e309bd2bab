"""How the functions of this package run: compiled by Numba, or as plain Python; the generated `sizes` says which."""

from __future__ import annotations

from .sizes import COMPILED

if COMPILED:
    from .compiled import compiled, kernel, once
else:
    from .plain import compiled, kernel, once

__all__ = ["compiled", "kernel", "once"]
