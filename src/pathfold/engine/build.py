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
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType

from pathfold.engine import gram, lebesgue, linearise, log_det, newton
from pathfold.engine.functions import ModelFunctions
from pathfold.engine.records import Records, Sizes
from pathfold.program.emit import Code, emit
from pathfold.program.kernel import LAYOUT_CHUNKS, LAYOUT_FIRST, LAYOUT_SERIES, LAYOUT_STEPS, Kernel
from pathfold.program.layout import Record
from pathfold.program.machine import assemble, machine_name

_HERE = Path(__file__).parent


def cache_folder() -> Path:
    """$PATHFOLD_CACHE, or a folder of the user's cache."""
    chosen = os.environ.get("PATHFOLD_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pathfold"


@dataclass(frozen=True)
class Method:
    """A way to sample: its records, its kernels (writers of fixed fields come before their readers), its native code.

    `replaces` is a folder of modules that take the place of their namesakes; modules that are `left_out` are not used.
    """

    records: type[Records]
    kernels: tuple[Callable[[ModelFunctions, Records, Sizes], list[Kernel]], ...]
    max_depth: int  # of the trees of dynamic trajectories
    replaces: str | None = None
    left_out: tuple[str, ...] = ()

    def native_files(self) -> dict[str, str]:
        folders = [_HERE / "native"] + ([_HERE / "native" / self.replaces] if self.replaces else [])
        files = {path.name: path.read_text() for folder in folders for path in sorted(folder.glob("*.py"))}
        return {name: source for name, source in files.items() if name not in self.left_out}


CONSTRAINED = Method(Records, (linearise.kernels, gram.kernels, log_det.kernels, newton.kernels), max_depth=10)
UNCONSTRAINED = Method(
    lebesgue.LebesgueRecords,
    (lebesgue.kernels,),
    max_depth=20,
    replaces="unconstrained",
    left_out=("newton.py", "initialise.py"),
)


def build(method: Method, f: ModelFunctions, r: Records, n: Sizes, *, compiled: bool) -> ModuleType:
    """The package of native functions for a model; sizes the lane buffer its kernels share."""
    kernels = [kernel for part in method.kernels for kernel in part(f, r, n)]
    codes = [emit(kernel, n.L) for kernel in kernels]
    r.carry.size = n.L * max(code.carried for code in codes)
    files = method.native_files()
    files["kernels.py"] = _kernels_source(kernels)
    files["sizes.py"] = _sizes_source(r, n, kernels, compiled) + f"MAX_DEPTH = {method.max_depth}\n"
    return _import(files, codes, keep=compiled)


def _kernels_source(kernels: list[Kernel]) -> str:
    """The kernels as callables of the package, each with its records' places."""
    lines = ["from .jit import kernel", ""]
    for kernel in kernels:
        blocks = list(dict.fromkeys(use.block for use in kernel.uses))
        parts = [f"({blocks.index(use.block)}, {use.at})" for use in kernel.uses]
        lines.append(f"{kernel.name} = kernel({', '.join([repr(kernel.name), *parts])})  # {', '.join(blocks)}")
    return "\n".join(lines) + "\n"


def _sizes_source(r: Records, n: Sizes, kernels: list[Kernel], compiled: bool) -> str:
    """Dimensions, places in the layout table, and offsets of the fields, as constants."""
    lines = [f"COMPILED = {compiled}", f"KERNELS = {tuple(kernel.name for kernel in kernels)}"]
    lines += [f"{name} = {value}" for name, value in vars(n).items()]
    lines += [
        f"STEPS = {LAYOUT_STEPS}",
        f"CHUNKS = {LAYOUT_CHUNKS}",
        f"SERIES = {LAYOUT_SERIES}",
        f"FIRST = {LAYOUT_FIRST}",
    ]
    for block, names in r.blocks.items():
        lines += [f"{block}_{name}".upper() + f" = {r.at(block, name)}" for name in names]
    for record in vars(r).values():
        if isinstance(record, Record):
            lines.append(f"{record.name.upper()}_SIZE = {record.size}")
            lines += [f"{record.name}_{field}".upper() + f" = {at}" for field, at in record.offsets.items()]
    return "\n".join(lines) + "\n"


def _import(files: dict[str, str], codes: list[Code], *, keep: bool) -> ModuleType:
    """Write the package, unless it is there, and import it (from a folder that is removed again, if not to be kept)."""
    versions = [metadata.version(package) for package in ("pathfold", "numba", "numpy")]
    parts = [*versions, machine_name(), platform.python_version(), (_HERE / "status.py").read_text()]
    parts += [f"{name}\0{source}" for name, source in sorted(files.items())]
    parts += [text for code in codes for text in (code.text, *sorted(code.declared))]
    name = "pathfold_model_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    if name in sys.modules:
        return sys.modules[name]
    if keep:
        folder = cache_folder() / name
        if not (folder / "__init__.py").exists():
            _write(folder, files, codes)
        return _load(name, folder)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / name
        _write(folder, files, codes)
        return _load(name, folder)


def _write(folder: Path, files: dict[str, str], codes: list[Code]) -> None:
    """All or nothing, so that processes building the same model at once do not meet half a package."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
    for name, source in files.items():
        (draft / name).write_text(source)
    (draft / "kernels.o").write_bytes(assemble(codes))
    try:
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft)
        if not (folder / "__init__.py").exists():
            raise


def load_package(folder: Path) -> ModuleType:
    """Import the package of a compiled model from its folder, in this or another process."""
    return sys.modules.get(folder.name) or _load(folder.name, folder)


def _load(name: str, folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import the compiled model from {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    for part in ("kernels", "point", "newton", "step", "chain", "initialise"):
        if (folder / f"{part}.py").exists():
            importlib.import_module(f"{name}.{part}")
    return module
