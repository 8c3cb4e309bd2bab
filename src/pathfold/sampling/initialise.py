"""Starting points on the manifold."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError

ATTEMPTS = 30
# Half of the attempts go by before a start is taken that a chain would be long in coming away from:
FAR = 4.0  # a parameter is further out than this, in prior standard deviations
STIFF = 0.01  # a step must be shorter than this to be accepted (the path has an outlandish jump somewhere)


@dataclass(frozen=True)
class Guess:
    """A first position, as a vector block, and its node states, as the node record of a point."""

    position: np.ndarray
    nodes: np.ndarray


@dataclass(frozen=True)
class Start:
    """How a start is sought: from a guess, or else from prior draws; or a position that was found before.

    `relaxation` is the scale of gaps and misfits (their variance) that the projection begins with.
    """

    relaxation: float = 1.0
    guess: Guess | None = None
    position: np.ndarray | None = None


def find_start(
    native: ModuleType,
    layout: np.ndarray,
    problem: np.ndarray,
    points: np.ndarray,
    q0: np.ndarray,
    scratch: np.ndarray,
    rng: np.random.Generator,
    start: Start,
) -> int:
    """Project the guess, or prior draws until one can be, onto the manifold; returns the number of attempts.

    The point is left in the first row of `points`, prepared for a step; q0 and the other rows are there to work with.
    """
    problems, smallest, worst, fallback = [], np.inf, "", None
    point, sizes, guess = points[native.trajectory.CURRENT], native.sizes, start.guess
    if start.position is not None:
        point[: q0.size] = start.position
        status = native.step.prepare(layout, problem, point, scratch)
        if status != CONVERGED:
            raise InitialisationError(f"the sampler cannot start where a projection ended: {MEANING[status]}")
        return 1
    attempts = ATTEMPTS if guess is None else 1
    for attempt in range(1, attempts + 1):
        if guess is None:
            native.momentum.draw_normals(layout, q0, rng)
            point[: q0.size] = q0
            native.initialise.guess_nodes(layout, problem, point, scratch)
        else:
            q0[:] = point[: q0.size] = guess.position
            point[layout[sizes.POINT_NODE] : layout[sizes.POINT_NODE + 1]] = guess.nodes
        status, residual, _ = native.initialise.project_start(layout, problem, points, q0, start.relaxation, scratch)
        if not worst or residual < smallest:
            smallest, worst = residual, _worst_residuals(native, layout, problem, scratch)
        if status == CONVERGED:
            status = native.step.prepare(layout, problem, point, scratch)
        if status == CONVERGED:
            counts = np.zeros(2, dtype=np.int64)
            step = native.step_size.first_step_size(layout, problem, points, q0[None], rng, scratch, counts)
            if np.all(np.abs(point[: sizes.U]) < FAR) and step > STIFF:
                return attempt
            fallback = point.copy()
        else:
            problems.append(status)
        if fallback is not None and attempt >= attempts // 2:
            point[:] = fallback
            return attempt
    common = max(set(problems), key=problems.count)
    tried = f"{attempts} projections of prior draws" if guess is None else "the projection of its guess"
    raise InitialisationError(
        f"no start on the manifold was found in {tried}: {MEANING[common]}; the smallest residuals of observations and "
        f"path were {worst}. Check that the model can produce the data (range of the observation function, scales of "
        "the priors, units of time), take more steps_per_interval, narrow the priors, or choose other initial_states"
    )


def name_worst(residuals: np.ndarray, times: np.ndarray, first: np.ndarray) -> str:
    """The three largest of the residuals of the nodes, with their times; `first` is the first node of each series."""
    order = np.argsort(np.where(np.isnan(residuals), -np.inf, -residuals), kind="stable")[:3]
    series = np.searchsorted(first, order, side="right") - 1
    of_series = [f" of series {k}" if len(first) > 1 else "" for k in series]
    return ", ".join(f"{residuals[n]:.2g} at t = {times[n]:g}{of}" for n, of in zip(order, of_series, strict=True))


def _worst_residuals(native: ModuleType, layout: np.ndarray, problem: np.ndarray, scratch: np.ndarray) -> str:
    """The largest of the gaps and misfits that the last linearisation left."""
    s = native.sizes
    *first, end = layout[layout[s.FIRST] :]
    newton = scratch[layout[s.SCRATCH_NEWTON] : layout[s.SCRATCH_NEWTON + 1]].reshape(-1, s.NEWTON_SIZE, s.L)
    grid = problem[layout[s.PROBLEM_GRID] : layout[s.PROBLEM_GRID + 1]].reshape(-1, s.GRID_SIZE, s.L)
    rows = [*range(s.NEWTON_GAP, s.NEWTON_GAP + s.X), *range(s.NEWTON_O, s.NEWTON_O + s.Y)]
    residuals, times = np.abs(newton[:, rows]).max(axis=1), grid[:, s.GRID_T_END]
    return name_worst(residuals.ravel()[:end], times.ravel()[:end], np.array(first))
