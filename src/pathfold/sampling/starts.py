"""Where chains begin: modes of the posterior, found by short searches and weighted by mass (method.md, section 12).

Every search goes down from a draw of its own. They are made in rounds; when some end at the same mode, the best that
were found are shared out among the chains. What is searched for, and in which order, does not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.engine.installation import compile_sampler
from pathfold.engine.native.descent import BEFORE_STEP, OF_SERIES
from pathfold.engine.native.run import Machine
from pathfold.engine.native.start_search import (
    FROM_GUESS,
    FROM_MOVED_PATH,
    FROM_NODES,
    FROM_PARTS,
    FROM_PATH,
    seek,
)
from pathfold.engine.native.trajectory import CURRENT, STARTING_POINTS
from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError
from pathfold.model import DiffusionModel
from pathfold.sampling.held_noise import names_of_normals
from pathfold.sampling.laplace_marginal import LAPLACE, LaplaceMarginal
from pathfold.sampling.spread import Rooms, spread
from pathfold.sampling.whole_turns import nodes_turned

# The searches of the first rounds and of all others: what each begins with, and how far from the centre of the prior.
WAYS = {"path": FROM_PATH, "nodes": FROM_NODES, "moved path": FROM_MOVED_PATH, "parts": FROM_PARTS, "guess": FROM_GUESS}
FIRST = ((("path", 0.0), ("nodes", 0.3)), (("path", 1.0), ("moved path", 1.0)))
OTHERS = (("path", 0.3), ("nodes", 1.0), ("path", 1.0), ("moved path", 0.3))
ROUNDS = 9  # at most, if nothing is found
ENOUGH = 6  # rounds, if something is, though no two searches ended at the same mode
BESIDES = 2  # rounds in which other modes are sought, once two searches agree
LIGHT = 50_000  # multiplications of a pass: searches of such problems take milliseconds
SAME = 1.0  # two searches that end so near in log mass ended at the same mode
WORTH = 5.0  # modes with a log mass so far below the best are none to begin with
FAR = 3.0  # prior standard deviations: parameters that had to move further are named
EXPLODED = 1e6  # a path that misses the data by more, in units of their sizes, is as good as not finite


@dataclass(frozen=True)
class Point:
    """A position, as a vector block, and its node states, as the node record of a point: a start, or a guess of one."""

    position: np.ndarray
    nodes: np.ndarray

    @classmethod
    def of(cls, engine: Engine, block: np.ndarray) -> Point:
        """Copy position and nodes from a point block of an engine."""
        return cls(block[: engine.block_sizes["vector"]].copy(), engine.record("point", block, "node").copy())

    def block(self, engine: Engine) -> np.ndarray:
        """Make a point block of an engine with them."""
        block = engine.block("point")
        block[: self.position.size], engine.record("point", block, "node")[:] = self.position, self.nodes
        return block


@dataclass(frozen=True)
class Candidate:
    """A point that chains can begin with, the way it was found, and its potential, also by series.

    At a mode, minus the potential is the log of the mode's mass, up to a constant and to first order.
    """

    way: str
    point: Point
    potential: float
    shares: np.ndarray


class Failure(NamedTuple):
    """A search that led nowhere: why, and the largest residual where it ended, with the position and all residuals."""

    status: int
    residual: float
    position: np.ndarray
    residuals: np.ndarray


@dataclass(frozen=True)
class Starts:
    """The candidates that were found, and which of them each chain begins with."""

    candidates: list[Candidate]
    of_chains: dict[int, int] = field(default_factory=dict)

    def point(self, chain: int) -> Point:
        return self.candidates[self.of_chains[chain]].point


def find_starts(
    engine: Engine,
    chains: Sequence[int],
    *,
    seed: int,
    threads: int,
    relaxation: float,
    guesses: Mapping[int, Point] | None = None,
    again: bool = False,
    thorough: bool = False,
) -> Starts:
    """Find a start for each of the chains: from its guess if it has one, else among the modes that a search finds.

    `relaxation` is the variance of gaps and misfits that projections begin with, in units of their scales. If `again`,
    a guess that leads nowhere is given up for a mode; otherwise that is an InitialisationError, as it is if no search
    finds a start. A `thorough` search looks for other modes once two searches agree.
    """
    if not chains:
        return Starts([])
    crew = Crew(engine, threads, relaxation)
    if not guesses:
        candidates, agreed = _modes(crew, seed)
        if thorough:
            candidates += _besides(crew, seed) if agreed else []
            turned = _turned(crew, candidates)
            candidates += turned if agreed else weighted(engine, turned)
        kept = worth_beginning_with(candidates)
        return Starts(candidates, {chain: kept[chain % len(kept)] for chain in chains})
    outcomes = crew.seek([Attempt("guess", guess=guesses[chain]) for chain in chains])
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if failures and not again:
        raise none_found(engine, failures, "the projection of its guess")
    others = _modes(crew, seed)[0] if failures else []
    candidates = [outcome for outcome in outcomes if isinstance(outcome, Candidate)]
    kept, of_chains, taken = worth_beginning_with(others) if others else [], {}, 0
    for chain, outcome in zip(chains, outcomes, strict=True):
        if isinstance(outcome, Candidate):
            of_chains[chain] = taken
            taken += 1
        else:
            of_chains[chain] = len(candidates) + kept[chain % len(kept)]
    return Starts([*candidates, *others], of_chains)


def worth_beginning_with(candidates: Sequence[Candidate]) -> list[int]:
    """Return the places of candidates whose mass is not far below that of the best, those of the best mode first.

    Within a mode they keep their order: which of them is lower is a matter of rounding.
    """
    potentials, unit = np.array([candidate.potential for candidate in candidates]), _unit(len(candidates[0].shares))
    below = potentials - potentials.min()
    order = np.argsort(below // (SAME * unit), kind="stable")
    return [int(i) for i in order if below[i] < far_below(len(candidates[0].shares))]


def far_below(series: int) -> float:
    """Return how far below the best mode, in log mass, there is nothing to begin with."""
    return max(WORTH, SAME * _unit(series))


def _unit(series: int) -> float:
    """Return what log masses are compared in: one, more in large panels, where a descent ends further from its mode."""
    return max(1.0, 0.2 * np.sqrt(series))


def _modes(crew: Crew, seed: int) -> tuple[list[Candidate], bool]:
    """Search in rounds until two searches agree on the best mode; return candidates, and whether two did agree.

    Light problems have two rounds at least, so that a second mode is seen if there is one. Where no two agree, the
    candidates are weighted with the curvature of their paths. Without any there is an InitialisationError.
    """
    engine, candidates, failures = crew.engine, list[Candidate](), list[Failure]()
    least = len(FIRST) if engine.work < LIGHT else 1
    for number in range(ROUNDS):
        outcomes = crew.seek(_round(seed, number))
        candidates += [outcome for outcome in outcomes if isinstance(outcome, Candidate)]
        failures += [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        if engine.series > 1 and len(candidates) > 1 and (parts := best_parts(engine, candidates)) is not None:
            joined = crew.seek([Attempt("parts", guess=parts)])[0]
            candidates += [joined] if isinstance(joined, Candidate) else []
        potentials = sorted(candidate.potential for candidate in candidates)
        agreed = len(potentials) > 1 and potentials[1] - potentials[0] < SAME * _unit(engine.series)
        if agreed and number + 1 >= least:
            return candidates, True
        if candidates and number + 1 >= ENOUGH:
            return weighted(engine, candidates), False
    searched = sum(len(FIRST[i]) if i < len(FIRST) else len(OTHERS) for i in range(ROUNDS))
    raise none_found(engine, failures, f"{searched} searches")


def _round(seed: int, number: int) -> list[Attempt]:
    searches = FIRST[number] if number < len(FIRST) else OTHERS
    return [Attempt(way, spread, (seed, number, i)) for i, (way, spread) in enumerate(searches)]


def _besides(crew: Crew, seed: int) -> list[Candidate]:
    """Search on, in other rounds than those that starts are sought in; return what is found."""
    attempts = [attempt for number in range(ROUNDS, ROUNDS + BESIDES) for attempt in _round(seed, number)]
    return [outcome for outcome in crew.seek(attempts) if isinstance(outcome, Candidate)]


def _turned(crew: Crew, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Search from the best candidate, with states that are seen as angles a turn ahead or behind; return what comes."""
    best = min(candidates, key=lambda candidate: candidate.potential).point
    guesses = [Point(best.position, nodes) for nodes in nodes_turned(crew.engine, best.block(crew.engine))]
    outcomes = crew.seek([Attempt("parts", guess=guess) for guess in guesses])
    return [outcome for outcome in outcomes if isinstance(outcome, Candidate)]


def weighted(engine: Engine, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates with the mass that Laplace's method gives them (method.md, section 21), those that have one.

    Their potentials have the curvature of paths to first order alone, by which a path that only seems likely can be
    taken for the best.
    """
    compile_sampler(LAPLACE, announce=True)
    marginal, found = LaplaceMarginal(engine, threads=1), list[Candidate]()
    for candidate in candidates:
        start = marginal.start_at(candidate.point)
        if start is not None and np.isfinite(start.log_mass):
            found.append(replace(candidate, potential=-start.log_mass))
    return found or [*candidates]


def best_parts(engine: Engine, candidates: Sequence[Candidate]) -> Point | None:
    """Put together the best noise of every series, with the parameters of the best candidate; None if that is it.

    Given the parameters series are independent: each may have been led astray in another search.
    """
    best = min(candidates, key=lambda candidate: candidate.potential)
    shares = np.stack([candidate.shares for candidate in candidates])
    chosen = shares.argmin(axis=0)
    if np.all(best.shares <= shares.min(axis=0) + SAME):
        return None
    counts = np.diff([*engine.grid.first, engine.intervals])
    of_intervals = np.repeat(chosen, counts)
    blocks = [candidate.point.block(engine) for candidate in candidates]
    _, v0, w, v = (np.stack(part) for part in zip(*(engine.get_vector(block) for block in blocks), strict=True))
    nodes = np.stack([engine.get("point", block, "node", "x_node") for block in blocks])
    series, rows, point = np.arange(engine.series), np.arange(engine.intervals), engine.block("point")
    picked = v0[chosen, series], w[of_intervals, rows], v[of_intervals, rows]
    engine.set_vector(point, best.point.position[: engine.sizes.U], *picked)
    engine.set("point", point, "node", "x_node", nodes[of_intervals, rows])
    return Point.of(engine, point)


class Attempt(NamedTuple):
    """A search to be made: its way, how far from the prior's centre it begins and with which seed, or its guess."""

    way: str
    spread: float = 0.0
    seed: tuple[int, ...] = (0,)
    guess: Point | None = None


class Memory:
    """The blocks that one search works with."""

    def __init__(self, engine: Engine) -> None:
        self.layout, self.problem = engine.layout.copy(), engine.problem.copy()
        self.points = np.zeros((STARTING_POINTS, engine.block_sizes["point"]))
        self.momenta, self.scratch = np.zeros((1, engine.block_sizes["vector"])), engine.block("scratch")
        self.machine = Machine.of(self.layout, self.problem, self.scratch)
        self.table = np.zeros((OF_SERIES, engine.series))


class Crew:
    """Threads that search, each with a memory of its own."""

    def __init__(self, engine: Engine, threads: int, relaxation: float) -> None:
        self.engine, self.relaxation, self.threads = engine, relaxation, min(threads, len(OTHERS))
        self.memories = Rooms(lambda: Memory(engine), self.threads)

    def seek(self, attempts: Sequence[Attempt]) -> list[Candidate | Failure]:
        def sought(i: int) -> Candidate | Failure:
            with self.memories.one() as memory:
                return self._sought(attempts[i], memory)

        return spread(sought, len(attempts), self.threads)

    def _sought(self, attempt: Attempt, m: Memory) -> Candidate | Failure:
        engine, point = self.engine, m.points[CURRENT]
        m.points[:], m.scratch[:] = 0.0, 0.0
        nodes = engine.record("point", point, "node")
        size = m.momenta.shape[1]
        if attempt.guess is not None:
            point[:size], nodes[:] = attempt.guess.position, attempt.guess.nodes
        seed, *key = attempt.seed
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 3, *key)))
        given = WAYS[attempt.way], float(attempt.spread), float(self.relaxation), rng
        status, residual, potential = seek(m.machine, m.points, m.momenta, m.table, *given)
        if status == CONVERGED and np.isfinite(potential):
            return Candidate(attempt.way, Point.of(engine, point), float(potential), m.table[BEFORE_STEP].copy())
        return Failure(status, residual, point[:size].copy(), _residuals(engine, m.scratch))


def _residuals(engine: Engine, scratch: np.ndarray) -> np.ndarray:
    """Return the largest gap or misfit that the last linearisation left at each node, in units of their scales."""
    gap, o = (engine.get("scratch", scratch, "newton", name) for name in ("gap", "o"))
    states = engine.get("problem", engine.problem, "settings", "state_scale")
    rows = engine.get("problem", engine.problem, "grid", "row_scale")
    return np.abs(np.concatenate([gap / states, o / rows], axis=1)).max(axis=1)


def none_found(engine: Engine, failures: Sequence[Failure], tried: str) -> InitialisationError:
    """Return the error that no start was found, with how near the best search came and where that was."""
    grid, model = engine.grid, engine.model
    common = max({failure.status for failure in failures}, key=[failure.status for failure in failures].count)
    finite = [failure for failure in failures if failure.residual < EXPLODED]
    if not finite:
        return InitialisationError(
            f"no start was found in {tried}, since none found a path that is finite: {MEANING[common]}. Check the "
            "domain of the model's functions (logarithms and roots of negative numbers), take more steps_per_interval, "
            "or narrow the priors"
        )
    nearest = min(finite, key=lambda failure: failure.residual)
    u = nearest.position[: engine.sizes.U]
    named, _ = names_of_normals(model)
    moved = ", ".join(f"{named[i]} to {u[i]:.1f}" for i in np.argsort(-np.abs(u)) if abs(u[i]) > FAR)
    return InitialisationError(
        f"no start was found in {tried}: {MEANING[common]}; the nearest missed observations or path by "
        f"{name_worst(nearest.residuals, grid.ends, grid.first, grid.series)}, in units of their sizes"
        + (f", and had moved parameters, in prior standard deviations: {moved}" if moved else "")
        + ". Check that the model can produce the data (range of the observation function, scales of the priors, units "
        "of time), take more steps_per_interval, or widen or move priors that the data contradict",
        nearest=_nearest(model, u, grid, nearest.residuals),
    )


def _nearest(model: DiffusionModel, u: np.ndarray, grid: TimeGrid, residuals: np.ndarray) -> dict[str, Any]:
    """Return parameters by name, and the residuals with their times: where the nearest search ended."""
    with jax.enable_x64(True):
        z = model.parameters.unflatten(model.parameters.push(jnp.asarray(u)))
        values = {name: np.asarray(value) for name, value in z.items()}
    return {"parameters": values, "times": grid.ends, "residuals": residuals}


def name_worst(residuals: np.ndarray, times: np.ndarray, first: np.ndarray, names: Sequence[str | int] = ()) -> str:
    """Write out the three largest residuals of nodes, with their times; `first` is the first node of each series."""
    names = names or range(len(first))
    order = np.argsort(np.where(np.isnan(residuals), -np.inf, -residuals), kind="stable")[:3]
    series = np.searchsorted(first, order, side="right") - 1
    of_series = [f" of series {names[k]!r}" if len(first) > 1 else "" for k in series]
    return ", ".join(f"{residuals[n]:.2g} at t = {times[n]:g}{of}" for n, of in zip(order, of_series, strict=True))
