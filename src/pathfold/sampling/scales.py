"""In what units gaps of the path and misfits of the observations are measured: a constant of the model and the data."""

from __future__ import annotations

import numpy as np

from pathfold.engine import Engine
from pathfold.engine.native.start import measure_sizes

DRAWS = 5  # of the prior, always the same


def set_scales(engine: Engine) -> None:
    """Let the engine measure every gap in the size of its state, every misfit in that of its observations.

    A row's size is that of its data. A state's is the largest along a path, the median of a few paths that begin with
    prior draws; first with all nodes at the initial state, then, in these units, with nodes moved towards the data.
    Without scales a tolerance would mean something else for a state counted in thousands than in millions.
    """
    observed, X = engine.model.observation_dim, engine.sizes.X
    of_data = np.abs(engine.grid.values).max(axis=0)
    for towards in (False, True):
        states, rows = _median_sizes(engine, towards)
        rows[:observed] = np.where(of_data > 0.0, of_data, rows[:observed])
        rows[observed:] = states[: max(0, engine.sizes.Y - observed)]
        engine.set("problem", engine.problem, "settings", "state_scale", states[:X])
        engine.set("problem", engine.problem, "settings", "row_scale", rows)


def _median_sizes(engine: Engine, towards: bool) -> tuple[np.ndarray, np.ndarray]:
    rng, point, scratch = np.random.default_rng(31), engine.block("point"), engine.block("scratch")
    found = np.zeros((DRAWS, engine.sizes.X + engine.sizes.Y))
    for sizes in found:
        states, rows = np.split(sizes, [engine.sizes.X])
        measure_sizes(engine.layout, engine.problem, point, towards, rng, scratch, states, rows)
    usable = np.where(np.isfinite(found) & (found > 0.0), found, np.nan)
    known = ~np.all(np.isnan(usable), axis=0)
    medians = np.ones(found.shape[1])  # where all paths explode, or none moves
    medians[known] = np.nanmedian(usable[:, known], axis=0)
    return medians[: engine.sizes.X], medians[engine.sizes.X :]


def relative_spread(engine: Engine) -> float:
    """The mean variance of the data in units of their scales: what a first path may be off by."""
    scales = engine.get("problem", engine.problem, "settings", "row_scale")[: engine.model.observation_dim]
    columns = [values[mask] for values, mask in zip(engine.grid.values.T, engine.grid.mask.T, strict=True)]
    spreads = [np.var(values / s) for values, s in zip(columns, scales, strict=True) if values.size > 1]
    return float(np.mean(spreads)) if spreads and np.mean(spreads) > 0.0 else 1.0
