"""Draws carried forward in compiled code, and warnings of steps that are too long for that."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, cast

import numpy as np

from pathfold.data import TimeGrid
from pathfold.engine.forward import ABREAST_DRAWS, forward
from pathfold.errors import warn
from pathfold.model import DiffusionModel
from pathfold.model.ensemble import Ensemble
from pathfold.model.memory import check_memory
from pathfold.model.simulation import leaps
from pathfold.model.transform import BOUNDED
from pathfold.results.diagnostics import FINER, SHIFT
from pathfold.sampling.selection import component_labels

FEWEST_JUDGED, MOST_JUDGED = 10, 2 * 10**6  # draws whose steps say anything of the others; numbers in their paths
LEAPING = 0.3  # share of the paths that leap
SEED = 41  # of the noise by which steps are judged


def carried_forward(
    ensemble: Ensemble,
    grid: TimeGrid,
    starts: np.ndarray,
    rng: np.random.Generator,
    *,
    series: np.ndarray | None = None,
    after_data: np.ndarray | None = None,
    keep: np.ndarray | None = None,
) -> np.ndarray:
    """Return states (D, kept, X) at the times of the data of a grid, or at nodes to `keep`, from starts (D, K, X).

    `series` (K,) are the numbers in the ensemble of the grid's series, if they are not the same ones.
    """
    series = np.arange(len(grid.first)) if series is None else series
    nodes = grid.rows if keep is None else keep
    width = 2 * ensemble.model.augmented_dim + 2 * ensemble.model.observation_dim + ensemble.model.parameters.z_size
    check_memory("the predictions", 8 * ensemble.count * int(nodes.sum()) * width, "fewer draws or fewer times")
    begin = ensemble.augmented(starts, series)
    return forward(ensemble.model).run(grid, ensemble.z, begin, rng, keep=nodes, after_data=after_data)


def warn_of_step(
    ensemble: Ensemble,
    grid: TimeGrid,
    starts: np.ndarray,
    what: str,
    *,
    series: np.ndarray | None = None,
    after_data: np.ndarray | None = None,
) -> None:
    """Warn if states at the times of the data of a grid depend on its steps: what runs estimate of their posterior.

    Some draws are carried from their starts (D, K, X) in steps and in two halves of each, along the same Wiener paths.
    """
    model, fine = ensemble.model, grid.refined()
    count = min(ensemble.count, ABREAST_DRAWS, MOST_JUDGED // (len(fine.ends) * model.state_dim))
    if count < FEWEST_JUDGED or _halves(model, np.zeros(model.noise_dim), 0.0) is None:
        return
    some = np.linspace(0, ensemble.count - 1, count).astype(int)
    begin = ensemble.augmented(starts, np.arange(len(grid.first)) if series is None else series)[some]

    def carried(grid: TimeGrid, rng: Any) -> np.ndarray:
        kept = np.ones(len(fine.ends), dtype=bool)
        return forward(model).run(grid, ensemble.z[some], begin, rng, keep=kept, after_data=after_data)

    coarse = carried(fine, np.random.default_rng(SEED))
    with np.errstate(invalid="ignore"):  # where paths are lost
        apart, bent = (carried(replace(fine, steps=2), _Halved(model, rough)) - coarse for rough in (1.0, 0.0))
    label = component_labels(model) if model.states else [f"x[{i}]" for i in range(model.state_dim)]
    found = [
        _leap(begin[:, k], coarse[:, rows], bent[:, rows])
        for k, rows in enumerate(np.split(np.arange(len(fine.ends)), fine.first[1:]))
    ]
    if (worst := np.max(found, axis=0)).max() > LEAPING:
        i = int(np.argmax(worst))
        warn(
            f"{100 * worst[i]:.0f} % of the {what} have a fine step that changes {label[i]} by much, and two of half "
            f"the length do not: take smaller steps (steps_per_interval, max_step), or {BOUNDED}"
        )
        return
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # where no draw is finite
        apart, spread = apart[:, fine.rows], np.nanstd(coarse[:, fine.rows], axis=0)
        shift, error = np.nanmean(apart, axis=0) / spread, np.nanstd(apart, axis=0) / spread / np.sqrt(count - 1)
    chance = np.sqrt(2.0 * np.log(max(2, shift.size)))
    beyond = np.where(np.isfinite(shift), np.abs(shift) - SHIFT - chance * error, -np.inf)
    if beyond.max(initial=0.0) > 0.0:
        row, i = np.unravel_index(np.argmax(beyond), beyond.shape)
        warn(
            f"the {what} depend on the time step: with twice as many {label[i]} at t = {fine.ends[fine.rows][row]:g} "
            f"would move by about {shift[row, i]:+.1f} of its standard deviations; {FINER}"
        )


def _leap(begin: np.ndarray, states: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Return the shares (X,) of paths (D, steps, X) from `begin` with a step that half steps do not make."""
    start = begin[:, None, : states.shape[2]]
    before, nothing = np.append(start, states[:, :-1], axis=1), np.zeros_like(start)
    with np.errstate(invalid="ignore"):
        return leaps(before, states, np.diff(apart, axis=1, prepend=nothing)).any(axis=1).mean(axis=0)


def _halves(model: DiffusionModel, v: np.ndarray, fresh: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the noise of two halves of steps with noise v, None where it is not known without the states."""
    return model.scheme.halve(v, fresh * np.ones_like(v), lambda halves: cast(Any, None))


class _Halved:
    """Normals for the halves of steps whose normals come from a generator of the same seed, in the place of one.

    The path between the ends of a step is as `rough` as it is, or straight.
    """

    def __init__(self, model: DiffusionModel, rough: float) -> None:
        self.model, self.rough = model, rough
        self.rng, self.fresh = np.random.default_rng(SEED), np.random.default_rng(SEED + 1)

    def standard_normal(self, out: np.ndarray) -> None:
        """Write the normals (2, V, draws) of the halves of one step."""
        shape = self.model.noise_dim, ABREAST_DRAWS
        v, fresh = self.rng.standard_normal(shape), self.rough * self.fresh.standard_normal(shape)
        halves = _halves(self.model, v.T, fresh.T)
        assert halves is not None
        out[:] = np.stack([half.T for half in halves]).ravel()


def warn_of_lost(states: np.ndarray, what: str) -> None:
    """Warn of paths (D, R, X) that are not finite to the end."""
    if lost := int(np.sum(~np.isfinite(states).all(axis=(1, 2)))):
        warn(
            f"{lost} of {len(states)} {what} are not finite from some time on, where their observations are NaN: take "
            f"smaller steps (steps_per_interval, max_step), or {BOUNDED}"
        )
