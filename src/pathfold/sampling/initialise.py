"""Starting points on the manifold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pathfold.engine import table as at
FROM_GUESS=FROM_MOVED_PATH=FROM_PATH=FROM_POSITION=FROM_PRIOR=try_start=None
from pathfold.engine.native.trajectory import COUNTS, CURRENT
from pathfold.engine.status import CONVERGED, MEANING, NON_FINITE
from pathfold.errors import InitialisationError

ATTEMPTS = 30
CANDIDATES = 4  # starts of a chain, of which the best is taken
# Half of the attempts go by before a start is taken that a chain would be long in coming away from:
FAR = 4.0  # a parameter is further out than this, in prior standard deviations
STIFF = 0.01  # a step must be shorter than this to be accepted (the path has an outlandish jump somewhere)
SHORT = 0.25  # of candidates, those that need steps shorter than this fraction of another's are passed over


@dataclass(frozen=True)
class Guess:
    """A first position, as a vector block, and its node states, as the node record of a point."""

    position: np.ndarray
    nodes: np.ndarray


@dataclass(frozen=True)
class Start:
    """Instructions for finding a start: from a guess, or else from prior draws; or a position that was found before.

    `relaxation` is the variance of gaps and misfits that the projection begins with, in units of their scales;
    `series` is what the series are called, `remark` what else to say of the model if there is no start.
    """

    relaxation: float = 1.0
    guess: Guess | None = None
    position: np.ndarray | None = None
    series: Sequence[str | int] = ()
    remark: str = ""


class Candidate(NamedTuple):
    """A point that a chain could start from: its first step size, its potential, whether no parameter is far out."""

    point: np.ndarray
    step: float
    potential: float
    near: bool

    @property
    def good(self) -> bool:
        return self.near and self.step > STIFF


def best(candidates: list[Candidate]) -> Candidate:
    """Return the densest of those that allow long steps, among the good candidates, or among all if none is good.

    A path that leaps over a barrier, or follows another branch than the data, needs tiny steps or is improbable.
    """
    some = [each for each in candidates if each.good] or candidates
    longest = max(each.step for each in some)
    return min((each for each in some if each.step >= SHORT * longest), key=lambda each: each.potential)


def find_start(
    layout: np.ndarray,
    problem: np.ndarray,
    points: np.ndarray,
    momenta: np.ndarray,
    scratch: np.ndarray,
    rng: np.random.Generator,
    start: Start,
) -> int:
    """Project the guess, or prior draws, onto the manifold, and take the best; return the number of attempts.

    The point is left in the first row of `points`, prepared for a step; the other rows, momenta and scratch are there
    to work with.
    """
    failures, smallest, worst = [], np.inf, ""
    candidates: list[Candidate] = []
    point, guess, size = points[CURRENT], start.guess, momenta.shape[1]
    counts = np.zeros(COUNTS, dtype=np.int64)
    blocks = (layout, problem, points, momenta)
    if start.position is not None:
        point[:size] = start.position
        status, *_ = try_start(*blocks, FROM_POSITION, start.relaxation, rng, scratch, counts)
        if status != CONVERGED:
            raise InitialisationError(f"the sampler cannot start where a projection ended: {MEANING[status]}")
        return 1
    attempts, source = (ATTEMPTS, FROM_PRIOR) if guess is None else (1, FROM_GUESS)
    moved = False
    for attempt in range(1, attempts + 1):
        if guess is not None:
            point[:size] = guess.position
            point[layout[at.POINT_NODE] : layout[at.POINT_NODE + at.END]] = guess.nodes
        # Two kinds of guesses for the nodes take turns: each by itself, or along a path, which keeps to one branch.
        if source == FROM_PRIOR:
            moved = not moved
        way = FROM_MOVED_PATH if source == FROM_PRIOR and moved else source
        status, residual, step, potential = try_start(*blocks, way, start.relaxation, rng, scratch, counts)
        if status == CONVERGED:
            near = bool(np.all(np.abs(point[: layout[at.U]]) < FAR))
            candidates.append(Candidate(point.copy(), step, potential, near))
        else:
            failures.append(status)
            if guess is None and status == NON_FINITE and not candidates:
                # A state near the data may be none that the model knows; a path of its own may lead further.
                source = FROM_PATH if source == FROM_PRIOR else FROM_PRIOR
            if not worst or residual < smallest:
                smallest, worst = residual, _worst_residuals(layout, problem, scratch, start.series)
        enough = sum(each.good for each in candidates) >= min(CANDIDATES, attempts)
        if enough or (candidates and attempt >= attempts // 2):
            point[:] = best(candidates).point
            return attempt
    common = max(set(failures), key=failures.count)
    tried = f"{attempts} projections of prior draws" if guess is None else "the projection of its guess"
    raise InitialisationError(
        f"no start on the manifold was found in {tried}: {MEANING[common]}; the smallest residuals of observations and "
        f"path were {worst}. Check that the model can produce the data (range of the observation function, scales of "
        "the priors, units of time), take more steps_per_interval, narrow the priors, or choose other initial_states"
        f"{start.remark}"
    )


def name_worst(residuals: np.ndarray, times: np.ndarray, first: np.ndarray, names: Sequence[str | int] = ()) -> str:
    """Write out the three largest residuals of nodes, with their times; `first` is the first node of each series."""
    names = names or range(len(first))
    order = np.argsort(np.where(np.isnan(residuals), -np.inf, -residuals), kind="stable")[:3]
    series = np.searchsorted(first, order, side="right") - 1
    of_series = [f" of series {names[k]!r}" if len(first) > 1 else "" for k in series]
    return ", ".join(f"{residuals[n]:.2g} at t = {times[n]:g}{of}" for n, of in zip(order, of_series, strict=True))


def _worst_residuals(layout: np.ndarray, problem: np.ndarray, scratch: np.ndarray, names: Sequence[str | int]) -> str:
    """Return the largest of the gaps and misfits that the last linearisation left at each node."""

    def rows(block: np.ndarray, record: int) -> np.ndarray:
        return block[layout[record] : layout[record + at.END]].reshape(-1, layout[record + at.SIZE], layout[at.LANES])

    *first, end = layout[layout[at.FIRST] :][: layout[at.SERIES] + 1]
    gap, o = layout[at.NEWTON_GAP], layout[at.NEWTON_O]
    columns = [*range(gap, gap + layout[at.X]), *range(o, o + layout[at.Y])]
    residuals = np.abs(rows(scratch, at.SCRATCH_NEWTON)[:, columns]).max(axis=1)
    times = rows(problem, at.PROBLEM_GRID)[:, layout[at.GRID_T_END]]
    return name_worst(residuals.ravel()[:end], times.ravel()[:end], np.array(first), names)
