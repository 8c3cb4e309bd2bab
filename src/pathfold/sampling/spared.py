"""What comes after the draws must not lose them."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from pathfold.errors import told


def spared[T](failure: str, make: Callable[[], T], stacklevel: int) -> T | None:
    """What `make` returns; where it fails, or is interrupted, None, and a warning of the failure that says why.

    `stacklevel` counts frames from the caller on, as if the warning was its own. A warning that is an error stays one.
    """
    try:
        return make()
    except Warning:
        raise
    except (Exception, KeyboardInterrupt) as error:
        reason = f"{type(error).__name__}: {told(str(error))}" if str(error) else type(error).__name__
        warnings.warn(f"{failure}: {reason}; the draws are all here", stacklevel=stacklevel + 1)
        return None
