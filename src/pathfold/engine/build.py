"""From a model to a compiled package: trace, emit, write, import.

What is specialised for a model is written as a package in a cache folder, under a name that is a hash of its content,
and imported; Numba keeps the machine code beside it. Another process with the same model finds both.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from types import ModuleType

from pathfold.engine import gram, linearise, log_det, newton
from pathfold.engine.functions import ModelFunctions
from pathfold.engine.records import Records, Sizes
from pathfold.program.emit import Kernel, emit
from pathfold.program.layout import Record

_HERE = Path(__file__).parent


def cache_folder() -> Path:
    """$PATHFOLD_CACHE, or a folder of the user's cache."""
    chosen = os.environ.get("PATHFOLD_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pathfold"


def model_kernels(f: ModelFunctions, r: Records, n: Sizes) -> list[Kernel]:
    """Every kernel of the engine; writers of fixed fields come before their readers."""
    parts = (linearise, gram, log_det, newton)
    return [kernel for part in parts for kernel in part.kernels(f, r, n)]


def build(f: ModelFunctions, r: Records, n: Sizes, *, compiled: bool) -> tuple[ModuleType, int]:
    """The package of native functions for a model, and the number of carried scalars a lane its kernels need."""
    sources, carried = [], 0
    for kernel in model_kernels(f, r, n):
        source, needed = emit(kernel, n.L)
        sources.append(source)
        carried = max(carried, needed)
    files = {path.name: path.read_text() for path in sorted((_HERE / "native").glob("*.py"))}
    files["kernels.py"] = "from .jit import compiled\nfrom .special import *\n\n\n" + "\n\n".join(sources)
    files["sizes.py"] = _sizes_source(r, n, compiled)
    return _import(files, keep=compiled), carried


def _sizes_source(r: Records, n: Sizes, compiled: bool) -> str:
    lines = [f"COMPILED = {compiled}"] + [f"{name} = {value}" for name, value in vars(n).items()]
    for record in vars(r).values():
        if isinstance(record, Record):
            lines.append(f"{record.name.upper()}_SIZE = {record.size}")
            lines += [f"{record.name}_{field}".upper() + f" = {at}" for field, at in record.offsets.items()]
    return "\n".join(lines) + "\n"


def _import(files: dict[str, str], *, keep: bool) -> ModuleType:
    """Write the package, unless it is there, and import it (from a folder that is removed again, if not to be kept)."""
    shared = [(_HERE / name).read_text() for name in ("state.py", "status.py")]
    versions = [metadata.version(package) for package in ("pathfold", "numba", "numpy")]
    machine = [platform.machine(), platform.python_version()]
    text = "\0".join([*versions, *machine, *shared, *(f"{name}\0{source}" for name, source in sorted(files.items()))])
    name = "pathfold_model_" + hashlib.sha256(text.encode()).hexdigest()[:32]
    if name in sys.modules:
        return sys.modules[name]
    if keep:
        folder = cache_folder() / name
        if not (folder / "__init__.py").exists():
            _write(folder, files)
        return _load(name, folder)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / name
        _write(folder, files)
        return _load(name, folder)


def _write(folder: Path, files: dict[str, str]) -> None:
    """All or nothing, so that processes building the same model at once do not meet half a package."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
    for name, source in files.items():
        (draft / name).write_text(source)
    try:
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft)
        if not (folder / "__init__.py").exists():
            raise


def _load(name: str, folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import the compiled model from {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    for part in ("kernels", "point", "newton", "step"):
        importlib.import_module(f"{name}.{part}")
    return module
