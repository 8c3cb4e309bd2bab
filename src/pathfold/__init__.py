"""Exact, automatic Bayesian calibration of stochastic differential equation models to discrete observations."""

import sys

if sys.platform == "win32":
    raise ImportError("pathfold does not run on Windows yet: use it in the Windows Subsystem for Linux, or on Linux")

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

__version__ = version("pathfold")

if TYPE_CHECKING:
    from pathfold.public import *  # noqa: F403
    from pathfold.public import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        """Return a public name; the first imports all of them, with JAX, Numba and NumPyro, which take seconds."""
        if name == "__all__" or not name.startswith("_"):
            public = import_module("pathfold.public")
            if name == "__all__" or name in public.__all__:
                return getattr(public, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
