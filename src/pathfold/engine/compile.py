"""Compiling a model to machine code: key, trace, emit, assemble; nothing is compiled twice.

The compiled kernels of a model are kept with the model object, found again by their key when an equal model is made,
and stored in the cache of models for other processes. The key is made of all that the kernels depend on but for the
machine: the scalar programs of the model's functions and of their derivatives, the variant, the versions.
"""

from __future__ import annotations

import hashlib
import json
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from functools import cache, cached_property, reduce
from importlib import metadata
from operator import add
from pathlib import Path

import numpy as np

from pathfold.engine import model_cache
from pathfold.engine import table as at
from pathfold.engine.equations import (
    gram,
    guesses,
    guided,
    laplace,
    lebesgue,
    linear_rows,
    linearise,
    log_det,
    newton,
    relaxation,
    segments,
    tangents,
)
from pathfold.engine.model_functions import ModelFunctions, Programs, check_size
from pathfold.engine.native.common_kernels import addresses as kernels_of_no_model
from pathfold.engine.native.common_kernels import spans as spans_of_no_model
from pathfold.engine.native.run import address_of_run
from pathfold.engine.plans import PLANS, Bound, Span, bind, spans_of
from pathfold.engine.records import INSIDE, Records, SegmentedRecords, Sizes
from pathfold.errors import ModelError, PathfoldError
from pathfold.model import DiffusionModel
from pathfold.program.emit import Code, emit
from pathfold.program.kernel import Kernel, SegmentScan, Tracing
from pathfold.program.machine import Loaded, assemble, machine_name
from pathfold.program.trace import check_compilable, is_compilable

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Method:
    """A sampling method: its number in the layout table, its records and kernels, the largest depth of its trees."""

    number: int
    records: type[Records]
    kernels: tuple[Callable[[Programs, Records, Sizes], list[Kernel]], ...]
    max_depth: int
    observation_noise: bool  # whether the noise of the observations is part of the position
    segmented: bool = False  # whether series are cut into segments
    filtering: bool = False  # whether laws with heavy tails are mixtures of normals


CONSTRAINED_METHOD = Method(
    at.CONSTRAINED,
    Records,
    (linearise.kernels, gram.kernels, log_det.kernels, newton.kernels, guesses.kernels, relaxation.kernels),
    10,
    True,
)
SEGMENTED_METHOD = Method(
    at.CONSTRAINED, SegmentedRecords, (*CONSTRAINED_METHOD.kernels, segments.kernels), 10, True, segmented=True
)
UNCONSTRAINED_METHOD = Method(at.UNCONSTRAINED, lebesgue.LebesgueRecords, (lebesgue.kernels,), 20, False)
GUIDED_METHOD = Method(at.GUIDED, guided.GuidedRecords, (guided.kernels,), 0, False)
FILTER_METHOD = replace(GUIDED_METHOD, filtering=True)
LAPLACE_METHOD = Method(at.LAPLACE, laplace.LaplaceRecords, (laplace.kernels, tangents.kernels), 0, True)
INTEGRATED_METHOD = Method(at.INTEGRATED, linear_rows.IntegratedRecords, (linear_rows.kernels,), 0, True)


@dataclass(frozen=True)
class Variant:
    """The properties of the data and the settings that a model's kernels depend on."""

    method: Method
    regular: bool  # all fine steps have the same length
    complete: bool  # no entry of the observations is missing
    censored: bool  # some of them are censored
    conditioned: bool  # states of nodes can be held
    metric: bool = False  # the parameters have a metric other than the identity
    tempered: bool = False  # likelihoods are taken to a power
    lanes: int | None = None  # stride of the lanes, if it is not to follow from the size of the model
    abreast: int = 1  # series in a group


class OtherMachine(PathfoldError):
    """The object code of a model is for another processor, and its assembly is not available."""


class Program:
    """The compiled kernels of a model. Sent to another process, it is loaded there.

    A machine of another kind needs their `assembly`, unless it has kept object code of its own.
    """

    def __init__(
        self,
        key: str,
        machine: str,
        objects: Mapping[str, bytes],
        facts: Mapping[str, int | str],
        assembly: Sequence[Code] | None = None,
    ) -> None:
        self.key, self.machine, self.objects, self.facts, self.assembly = key, machine, objects, facts, assembly
        self._bound: dict[tuple, Bound] = {}

    def __reduce__(self):
        return _known_program, (self.key, self.machine, dict(self.objects), self.facts, self.assembly)

    @property
    def carried(self) -> int:
        """The scalars a lane that kernels carry, at most."""
        return int(self.facts["carried"])

    def for_any_machine(self, assembly: Sequence[Code]) -> Program:
        """Return the program with its assembly, to be sent to machines of another kind."""
        return Program(self.key, self.machine, self.objects, self.facts, assembly)

    @cached_property
    def _loaded(self) -> Loaded:
        return Loaded(self.objects if self.machine == machine_name() else kept_or_made(self.key, self._made).objects)

    def _made(self) -> model_cache.Entry:
        if self.assembly is None:
            raise OtherMachine(f"the model was compiled for {self.machine}, but this machine is {machine_name()}")
        objects = {code.name: assemble(code) for code in self.assembly}
        return model_cache.Entry(objects, dict(self.facts))

    def _plans(self, layout: np.ndarray) -> Bound:
        """Return the plans for data like these, bound to the kernels in this process once."""
        kind = bool(layout[at.APART]), tuple(each.stages for each in PLANS)
        if kind not in self._bound:
            with _loading:  # of two threads that load it, one would free what the other uses
                addresses = {**self._loaded.addresses, **kernels_of_no_model()}
            if "survey" not in addresses:
                del addresses["hand_states"]
            spans = {**json.loads(str(self.facts["sums"])), **spans_of_no_model(layout)}
            self._bound[kind] = bind(addresses, spans, apart=kind[0])
        return self._bound[kind]

    def bind(self, layout: np.ndarray) -> np.ndarray:
        """Return the layout table with plans for the kernels in this process, valid while the program lives."""
        bound = self._plans(layout).after(layout)
        bound[at.RUN] = address_of_run()
        at.write_tables(bound)
        return bound


_loading = threading.Lock()
_programs: weakref.WeakValueDictionary[str, Program] = weakref.WeakValueDictionary()


def _known_program(
    key: str,
    machine: str,
    objects: Mapping[str, bytes],
    facts: Mapping[str, int | str],
    assembly: Sequence[Code] | None = None,
) -> Program:
    with _loading:
        known = _programs.get(key)
        if known is None or (known.assembly is None and assembly is not None):
            known = _programs[key] = Program(key, machine, objects, facts, assembly)
    return known


def kept_or_made(key: str, make: Callable[[], model_cache.Entry]) -> model_cache.Entry:
    """Return object code for this machine. If several processes need it at once, one makes it for all."""
    machine = machine_name()
    name = hashlib.sha256(f"{key} {machine}".encode()).hexdigest()
    if (entry := model_cache.find(name, machine)) is not None:
        return entry
    with model_cache.alone(name):
        if (entry := model_cache.find(name, machine)) is None:
            entry = make()
            model_cache.keep(name, machine, entry)
    return entry


class CompiledModel:
    """A model with its sizes, records and compiled kernels, for one variant of data and settings."""

    def __init__(self, model: DiffusionModel, variant: Variant) -> None:
        self.model, self.variant = model, variant
        self.sizes = sizes_of(model, variant)
        check_size(self.sizes)
        self.lanes = variant.lanes or choose_lanes(self.sizes, variant.abreast)
        self.censored = model.observation_dim if variant.censored else 0
        self.records = variant.method.records(
            self.sizes, regular=variant.regular, censored=self.censored, metric=variant.metric
        )
        if variant.complete and not variant.conditioned:
            self.records.grid.known["mask"] = np.ones(self.sizes.Y)
        if not variant.tempered:
            self.records.settings.known["coldness"] = np.ones(())
        self.functions = ModelFunctions(
            model, conditioned=variant.conditioned, tempered=variant.tempered, filtering=variant.method.filtering
        )
        self.programs = self.functions.programs(self.sizes, self.censored)
        self.program = self._find_or_build()
        self.records.carry.size = self.lanes * self.program.carried

    def _find_or_build(self) -> Program:
        key = self._key()
        if (known := _programs.get(key)) is not None:
            return known
        entry = kept_or_made(key, self._build)
        return _known_program(key, machine_name(), entry.objects, entry.facts)

    def _key(self) -> str:
        """Return a hash of all that the assembly depends on. Only the model's own functions are traced for it."""
        v, digest = self.variant, hashlib.sha256()
        made_with = (_versions(), _sources())
        method = v.method.number, v.method.segmented
        what = (*method, v.regular, v.complete, v.conditioned, v.metric, self.lanes, v.abreast, self.censored)
        digest.update(repr((*made_with, *what, astuple(self.sizes))).encode())
        for text in self.programs.texts(density=not v.method.observation_noise):
            digest.update(text.encode())
        return digest.hexdigest()

    def _build(self) -> model_cache.Entry:
        """Trace, emit and assemble all kernels; LLVM works on some while the next are traced."""
        carried, pool = 0, ThreadPoolExecutor(1)
        sums: dict[str, list[Span]] = {}
        try:
            assembling: dict[str, Future[bytes]] = {}
            for code in self.assembly(sums):
                carried = max(carried, code.carried)
                assembling[code.name] = pool.submit(assemble, code)
            objects = {name: future.result() for name, future in assembling.items()}
        finally:
            pool.shutdown(cancel_futures=True)
        facts = {"carried": carried, "states": self.sizes.X, "parameters": self.sizes.U, "sums": json.dumps(sums)}
        return model_cache.Entry(objects, facts)

    def assembly(self, sums: dict[str, list[Span]] | None = None) -> Iterator[Code]:
        """Yield the assembly of all kernels, the same for every machine; one file's together, which is faster.

        What kernels do to sums is noted in `sums`.
        """
        parts = [part(self.programs, self.records, self.sizes) for part in self.variant.method.kernels]
        kernels = [kernel for kernels in parts for kernel in kernels]
        tracing = Tracing(kernels, abreast=self.variant.abreast, inside=INSIDE)
        for kernels in parts:
            if sums is not None:
                sums |= {kernel.name: found for kernel in kernels if (found := spans_of(tracing(kernel)))}
            yield reduce(add, (emit(tracing(kernel), self._lanes_of(kernel)) for kernel in kernels))

    def _lanes_of(self, kernel: Kernel) -> int:
        return self.variant.abreast if isinstance(kernel, SegmentScan) else self.lanes


def sizes_of(model: DiffusionModel, variant: Variant) -> Sizes:
    return Sizes(
        X=model.augmented_dim,
        M=model.state_dim,
        V=model.noise_dim,
        U=model.parameters.size,
        Z=model.parameters.z_size,
        Y=model.observation_dim + (model.augmented_dim if variant.conditioned else 0),
        W=model.observation_noise_dim if variant.method.observation_noise else 0,
        V0=model.start_dim,
        IN=model.known_dim,
        F=model.forcing_dim,
        C=len(model.covariates),
        L=int(variant.tempered),
    )


def choose_lanes(n: Sizes, abreast: int) -> int:
    """Return the stride of the lanes: enough to vectorise well, few if records of an interval are large (measured).

    Where series go abreast fewer are better: what a scan over nodes reads lies closer together.
    """
    lanes = 16 if n.X <= 3 else 20 if n.X <= 5 else 16 if n.X <= 8 else 8 if n.X <= 20 else 4
    return lanes if abreast == 1 else min(lanes, 12)


def compile_model(model: DiffusionModel, variant: Variant) -> CompiledModel:
    """Return the compiled model, which is kept with the model object."""
    return model.kept.get(_compiled, model, variant)


def _compiled(model: DiffusionModel, variant: Variant) -> CompiledModel:
    """Compile the model; where a function has an operation that cannot be compiled, or no derivatives, find out which.

    If it is the user's, a ModelError names it. Else it is the quantile function of a prior, in the place of which the
    model gets a bijection and a density. Looked into only when compiling fails, since it takes time.
    """
    try:
        return CompiledModel(model, variant)
    except ModelError:
        restricted = model.restricted_to(is_compilable)
        for name, (function, shapes) in restricted.user_functions().items():
            check_compilable(name, function, shapes)
        return CompiledModel(restricted, variant)


@cache
def _versions() -> tuple[str, ...]:
    return tuple(f"{name} {metadata.version(name)}" for name in ("pathfold", "jax", "llvmlite", "numpy"))


@cache
def _sources() -> str:
    """Return a hash of the source files that kernels are made by."""
    folders = (_HERE, _HERE / "equations", _HERE.parent / "program")
    files = [file for folder in folders for file in sorted(folder.glob("*.py"))]
    files += [_HERE / "native" / name for name in ("run.py", "thresholds.py")]  # what kernels and plans have of these
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
