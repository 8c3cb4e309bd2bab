"""Starting points on the manifold."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from pathfold.engine.status import CONVERGED, MEANING
from pathfold.errors import InitialisationError

ATTEMPTS = 30
FAR = 4.0  # prior standard deviations: starts with a parameter beyond are drawn again, while there are attempts left


@dataclass(frozen=True)
class Start:
    """How a start is sought: the scale of gaps and misfits (their variance) that the search begins with."""

    relaxation: float = 1.0
    attempts: int = ATTEMPTS


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
    """Draw from the prior and project onto the manifold, until one of the draws can be; returns the number of attempts.

    The point is left in the first row of `points`, not yet prepared for a step.
    """
    problems, smallest = [], np.inf
    point, sizes = points[native.trajectory.CURRENT], native.sizes
    for attempt in range(1, start.attempts + 1):
        native.momentum.draw_normals(layout, q0, rng)
        point[: q0.size] = q0
        native.initialise.guess_nodes(layout, problem, point, scratch)
        status, residual, _ = native.initialise.project_start(layout, problem, points, q0, start.relaxation, scratch)
        near = bool(np.all(np.abs(point[: sizes.U]) < FAR)) or attempt > start.attempts // 2
        if status == CONVERGED and near:
            return attempt
        problems.append(status)
        smallest = min(smallest, residual)
    common = max(set(problems), key=problems.count)
    raise InitialisationError(
        f"no start on the manifold was found in {start.attempts} projections of prior draws: {MEANING[common]}; "
        f"the smallest residual of observations and path was {smallest:.2g}. Check that the model can produce the data "
        "(scales of the priors, units of time), take more steps_per_interval, or narrow the priors"
    )
