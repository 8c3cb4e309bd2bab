"""What warm-up tunes, the step size and the integration time, and what it tunes them by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .jit import compiled


def record(**fields: type) -> np.dtype:
    """Return the type of records with these fields."""
    return np.dtype((np.record, [*fields.items()]))


STATE = record(
    iteration=int,
    first_step=float,  # of dual averaging (step_size.py), 0 until one is sought
    log_step=float,
    log_step_mean=float,
    error_mean=float,
    updates=float,
    shortened=int,  # transitions of warm-up whose steps had to be shortened
    time=float,  # the integration time (integration_time.py), 0 until one is chosen
    seen=float,  # draws of the search for it
)


class Tuning(NamedTuple):
    """All that is tuned, a row for every rung; or the rows of one rung, with an array of one state.

    A search for an integration time knows of every coordinate of u and v0 its mean, its sum of squared deviations and
    its value before the transition; and of both times the steps that were made, and every coordinate's squared jumps.
    """

    state: Any
    mean: Any
    squares: Any
    previous: Any
    steps: Any
    jumps: Any

    @classmethod
    def of(cls, rungs: int, coordinates: int) -> Tuning:
        """Return room for so many rungs and coordinates."""
        shapes = *(3 * [(coordinates,)]), (2,), (2, coordinates)
        return cls(np.zeros(rungs, STATE), *(np.zeros((rungs, *shape)) for shape in shapes))


@compiled
def of_rung(tuning, k):
    state, mean, squares, previous, steps, jumps = tuning
    return Tuning(state[k : k + 1], mean[k], squares[k], previous[k], steps[k], jumps[k])
