"""The native sampler as plain Python: the same files, which a test can step through, and whose parts it can replace."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numba

from pathfold.engine import native
from pathfold.paper import native as of_the_paper

PACKAGES = native, of_the_paper


def _modules(package: ModuleType) -> dict[str, ModuleType]:
    """All modules of a package, imported, by their names in it."""
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}


compiled_native: Any = SimpleNamespace(**{k: m for package in PACKAGES for k, m in _modules(package).items()})


@cache
def plain_native() -> Any:
    """Return the modules as plain Python; those of the paper are given the plain ones of the engine."""
    found: dict[str, ModuleType] = {}
    numba.config.DISABLE_JIT = 1  # type: ignore[attr-defined]
    try:
        for package in PACKAGES:
            in_their_place = {f"{native.__name__}.{name}": module for name, module in found.items()}
            with patch.dict(sys.modules, in_their_place):
                found |= _modules(_again(package))
    finally:
        numba.config.DISABLE_JIT = 0  # type: ignore[attr-defined]
    return SimpleNamespace(**found)


def _again(package: ModuleType) -> ModuleType:
    """A package of the same files, under another name."""
    folder, name = Path(package.__path__[0]), f"plain_{package.__name__.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    return plain
