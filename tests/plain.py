"""The native sampler as plain Python: the same files, which a test can step through, and whose parts it can replace."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numba

from pathfold.engine import native

NAME = "plain_native"


def _with_modules(package: ModuleType) -> Any:
    """The package with all its modules imported, as attributes of it."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return package


compiled_native = _with_modules(native)


@cache
def plain_native() -> Any:
    folder = Path(native.__path__[0])
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[NAME] = package = importlib.util.module_from_spec(spec)
    numba.config.DISABLE_JIT = 1  # type: ignore[attr-defined]
    try:
        spec.loader.exec_module(package)
        return _with_modules(package)
    finally:
        numba.config.DISABLE_JIT = 0  # type: ignore[attr-defined]
