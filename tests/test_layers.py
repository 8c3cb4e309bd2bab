"""Imports between the layers go down only, and plotting libraries stay out of the way of sampling.

The check reads source with `ast`, so imports inside functions and under `TYPE_CHECKING` count as well.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import pathfold
from pathfold import public

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "pathfold"

BOTTOM_TO_TOP = [
    "errors",
    "program",
    "schemes",
    "distributions",
    "data",
    "model",
    "engine",
    "sampling",
    "paper",
    "results",
    "inference",
    "analysis",
    "doctor",
    "commands",
    "cli",
    "public",
]
MAY_IMPORT = {layer: set(BOTTOM_TO_TOP[: rank + 1]) for rank, layer in enumerate(BOTTOM_TO_TOP)}
MAY_IMPORT["public"].add("datasets")
MAY_IMPORT["datasets"] = {"datasets"}  # tables, for examples and users
MAY_IMPORT["example_models"] = {"errors", "schemes", "data", "model", "datasets", "example_models"}
for layer in ("commands", "cli"):
    MAY_IMPORT[layer].add("example_models")

PLOTTING = {"arviz", "matplotlib"}
MAY_PLOT = {"analysis", "commands"}
# xarray's guide to backends tells one to read arrays on demand with this module; there is no other way to.
PRIVATE_ALL_THE_SAME = {"xarray.core.indexing"}


def imported_modules(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of everything a file imports; `from a import b` is `a.b`."""
    parts = path.relative_to(source).with_suffix("").parts
    package = parts[:-1]  # of a module the folder it is in, of an __init__ the folder itself
    for node in ast.walk(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def _is_private(module: str) -> bool:
    """Whether a module of another package is one that it does not promise to keep."""
    parts = module.split(".")
    private = any(part.startswith("_") and not part.startswith("__") for part in parts) or parts[:2] == [
        "xarray",
        "core",
    ]
    return private and module not in PRIVATE_ALL_THE_SAME


def violations(source: Path) -> list[str]:
    """One sentence for each import that goes against the layers, in all files of `source`/pathfold."""
    found = []
    files = sorted(path for pattern in ("*.py", "*.pyi") for path in (source / PACKAGE).rglob(pattern))
    for path in files:
        parts = path.relative_to(source / PACKAGE).with_suffix("").parts
        layer = parts[0]
        if layer == "__init__":
            continue
        name = path.relative_to(source)
        if layer not in MAY_IMPORT:
            found.append(f"{name}: {layer} is no layer that tests/test_layers.py knows")
            continue
        for line, module in imported_modules(path, source):
            root, *rest = module.split(".")
            if root in PLOTTING and layer not in MAY_PLOT:
                found.append(f"{name}:{line}: {layer} imports {module}")
            if root != PACKAGE:
                if _is_private(module):
                    found.append(f"{name}:{line}: {module} is private to another package")
                continue
            # A name that is no layer is a public one, which stands above all of them.
            target = rest[0] if rest and rest[0] in MAY_IMPORT else PACKAGE
            if target not in MAY_IMPORT[layer]:
                found.append(f"{name}:{line}: {layer} imports {module}")
    return found


def test_imports_go_down_only():
    assert (SOURCE / PACKAGE / "__init__.py").is_file()
    assert violations(SOURCE) == []


PLANTED = {
    "from pathfold.model import DiffusionModel": "schemes/ito.py",
    "from ..model.sde import SDE": "schemes/ito.py",
    "from .. import engine": "model/sde.py",
    "from ...engine import gram": "program/deep/er.py",
    "def lazily():\n    from pathfold import engine": "program/trace.py",
    "import pathfold": "engine/gram.py",
    "from pathfold.sampling import sample": "engine/gram.pyi",
    "from .schemes import Scheme": "errors.py",
    "from pathfold.program import trace": "example_models/sir.py",
    "from pathfold.example_models import sir": "model/sde.py",
    "def lazily():\n    import arviz": "sampling/sample.py",
    "from jax._src.core import Jaxpr": "program/trace.py",
    "from xarray.core import dtypes": "results/variables.py",
    "from pathfold.paper import DynamicHMC": "sampling/settings.py",
    "": "attic/old.py",
}
LET_THROUGH = {
    "from pathfold.cli import main": "__init__.py",
    "from ..schemes import Scheme": "model/sde.py",
    "from .sde import SDE\nfrom . import sde": "model/__init__.py",
    "from .kernels import step\nfrom ..status import Status": "engine/native/newton.py",
    "from pathfold import datasets": "example_models/sir.py",
    "def plot():\n    import matplotlib.pyplot": "analysis/plots.py",
}


@pytest.mark.parametrize("statement", PLANTED | LET_THROUGH)
def test_a_planted_violation_is_caught_and_downward_imports_are_let_through(tmp_path, statement):
    path = tmp_path / PACKAGE / (PLANTED | LET_THROUGH)[statement]
    path.parent.mkdir(parents=True)
    path.write_text(statement)
    assert len(violations(tmp_path)) == (statement in PLANTED)


def test_file_names_are_unique():
    """A person who searches for a name finds one thing."""
    names = Counter(path.name for path in (SOURCE / PACKAGE).rglob("*.py") if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def run_python(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


HEAVY = ["jax", "numba", "numpyro", "scipy", "xarray", "pandas"]


def test_neither_import_nor_help_imports_what_takes_long():
    """Names that are used import it, but for what few need."""
    code = f"""
import contextlib, io, sys, pathfold, pathfold.cli as cli
for arguments in ["--help"], ["doctor", "--help"], ["examples"]:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:
        cli.main(arguments)
    assert len(out.getvalue().splitlines()) >= 4
print(sorted({{*{HEAVY!r}}} & set(sys.modules)))
from pathfold import *
print(sorted({PLOTTING | {"scipy.stats"}!r} & set(sys.modules)))
"""
    assert run_python(code).splitlines() == ["[]", "[]"]


def test_public_names_are_there_when_they_are_used():
    assert {*pathfold.__all__} <= {*dir(pathfold)}
    assert all(getattr(pathfold, name) is getattr(public, name) for name in public.__all__)
    with pytest.raises(AttributeError, match="module 'pathfold' has no attribute 'sampel'"):
        pathfold.sampel  # type: ignore[attr-defined]  # noqa: B018
