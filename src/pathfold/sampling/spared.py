"""Work that follows the draws, and must not lose them if it fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from pathfold.errors import told


def spared[T](failure: str, make: Callable[[], T], stacklevel: int) -> T | None:
    """Return what `make` returns; if it fails or is interrupted, warn with the reason and return None.

    `stacklevel` counts frames from the caller on, as if it gave the warning. Warnings that are errors stay errors.
    """
    try:
        return make()
    except Warning:
        raise
    except (Exception, KeyboardInterrupt) as error:
        reason = f"{type(error).__name__}: {told(str(error))}" if str(error) else type(error).__name__
        warnings.warn(f"{failure}: {reason}; the draws are all here", stacklevel=stacklevel + 1)
        return None
