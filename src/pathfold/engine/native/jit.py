"""How the functions of this package are compiled; the generated `sizes` says whether they are at all."""

from __future__ import annotations

from .sizes import COMPILED

if COMPILED:
    from numba import njit

    # Fast arithmetic that still respects NaN and infinity: the status tests rely on them.
    compiled = njit(
        cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz", "afn"}
    )
else:

    def compiled(function):
        return function
