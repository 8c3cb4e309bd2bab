"""The units that gaps of the path and misfits of observations are measured in, constants of model and data.

method.md, section 13.
"""

from __future__ import annotations

import numpy as np

from pathfold.engine import Engine
from pathfold.engine.native.constrained_step import linearise
from pathfold.engine.native.nodes import guess_nodes
from pathfold.engine.native.thresholds import GUESSES

DRAWS = 5  # of the prior, always the same: of the parameters from the centre to a full draw


def set_scales(engine: Engine) -> None:
    """Let the engine measure every gap in the size of its state, every misfit in that of its observations.

    A row's size is that of its data, or what the noise of an interval and of an observation moves it by, if that is
    more; rows of unit noise (likelihoods, censored values) know nothing of the unit of the data. A state's is the
    largest along a path. What depends on the path is the median of a few that begin with prior draws; first with all
    nodes at the initial state, then, in these units, with nodes moved towards the data. Without scales a tolerance
    would mean something else for a state counted in thousands than in millions.
    """
    observed, unit = engine.model.observation_dim, _unit_rows(engine)
    of_data = np.where(engine.grid.mask & ~unit[:, :observed], np.abs(engine.grid.values), 0.0).max(axis=0)
    for guesses in (0, GUESSES):
        states, rows, unit_rows = _median_sizes(engine, guesses, unit)
        rows[:observed] = np.maximum(of_data, rows[:observed])
        rows[:observed] = np.where(rows[:observed] > 0.0, rows[:observed], 1.0)  # data that are zero, and no noise
        rows[observed:] = states[: engine.sizes.Y - observed]
        engine.set("problem", engine.problem, "settings", "state_scale", states)
        engine.set("problem", engine.problem, "grid", "row_scale", np.where(unit, np.maximum(unit_rows, 1.0), rows))


def _unit_rows(engine: Engine) -> np.ndarray:
    """Return a mask (N, Y) of the rows of unit noise."""
    observed, unit = engine.model.observation_dim, np.zeros((engine.intervals, engine.sizes.Y), dtype=bool)
    unit[:, :observed] = engine.tempered | engine.model.observation.unit_rows | (engine.grid.censored != 0.0)
    return unit


def _median_sizes(engine: Engine, guesses: int, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the median sizes of states, rows, and rows of unit noise.

    Gaps count as states, since with nodes that have not moved they are what moves. Beside unit rows there is no noise
    of observations: a count of zero with noise above zero is met by no state, and its node would run off to infinity.
    """
    rng, point, scratch = np.random.default_rng(31), engine.block("point"), engine.block("scratch")
    states, rows = np.zeros((DRAWS, engine.sizes.X)), np.zeros((2, DRAWS, engine.sizes.Y))
    for draw in range(DRAWS):
        u, v0, w, v = (rng.standard_normal(part.shape) for part in engine.get_vector(point))
        spread = draw / (DRAWS - 1)  # a wide prior has draws that say nothing of the data's size; its centre may, too
        engine.set_vector(point, spread * u, v0, 0.0 * w if unit.any() else w, v)
        guess_nodes(engine.machine(scratch), point, guesses)
        linearise(engine.machine(scratch), point)
        gap = engine.get("scratch", scratch, "newton", "gap")
        nodes, H, Q, Hw = (engine.get("point", point, "node", field) for field in ("x_node", "H", "Q", "Hw"))
        with np.errstate(all="ignore"):  # of a path that explodes, which does not count
            states[draw] = np.maximum(np.abs(nodes), np.abs(gap)).max(axis=0)
            variances = np.einsum("nyx,nxk,nyk->ny", H, Q, H) + np.sum(Hw**2, axis=2)
            for k, of_kind in enumerate((~unit, unit)):
                rows[k, draw] = np.sqrt(np.where(of_kind, variances, 0.0)).max(axis=0)
    return _medians(states, otherwise=1.0), _medians(rows[0], otherwise=0.0), _medians(rows[1], otherwise=0.0)


def _medians(sizes: np.ndarray, otherwise: float) -> np.ndarray:
    """Return medians over draws that are finite and not zero, or `otherwise`: all paths may explode, or none move."""
    usable = np.where(np.isfinite(sizes) & (sizes > 0.0), sizes, np.nan)
    known, medians = ~np.all(np.isnan(usable), axis=0), np.full(sizes.shape[1], otherwise)
    medians[known] = np.nanmedian(usable[:, known], axis=0)
    return medians


def relative_spread(engine: Engine) -> float:
    """Return the mean variance of the data in units of their scales, by which a first path may be off."""
    observed, grid = engine.model.observation_dim, engine.grid
    scaled = grid.values / engine.get("problem", engine.problem, "grid", "row_scale")[:, :observed]
    counted = grid.mask & ~_unit_rows(engine)[:, :observed]
    columns = [values[of_data] for values, of_data in zip(scaled.T, counted.T, strict=True)]
    spreads = [np.var(values) for values in columns if values.size > 1]
    return float(np.mean(spreads)) if spreads and np.mean(spreads) > 0.0 else 1.0
