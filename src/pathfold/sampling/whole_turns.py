"""Paths that are whole turns apart: where states are seen as angles, nothing tells how often they went round.

A search that begins elsewhere hardly finds such a mode: its basin is as narrow as the frequency is well known. But
from a path that fits the data the others are known, up to what descent corrects: at every observation the state is a
turn further ahead, or at all of them by one turn (method.md, section 22).
"""

from __future__ import annotations

import numpy as np

from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.engine.native.constrained_step import linearise

PERIODS = (1.0, np.pi, 2.0 * np.pi, 360.0)  # of turns, of axes and of angles in radians, of degrees
ASIDE = 0.37  # is none of these: what an observation does not notice is not seen
UNNOTICED = 1e-8  # change of a row, in units of its scale
MOST_ALONE = 4  # angles that are turned one by one, and not only together


def nodes_turned(engine: Engine, block: np.ndarray) -> list[np.ndarray]:
    """Return the node records of paths that are turns ahead or behind of that of a point, by states seen as angles."""
    states, periods = engine.get("point", block, "node", "x_node"), periods_of(engine, block)
    angles, found = np.flatnonzero(periods), list[np.ndarray]()
    alone = [np.where(np.arange(periods.size) == i, periods, 0.0) for i in angles]
    together = [periods] if len(angles) > 1 else []
    for ahead in [*(alone if len(angles) <= MOST_ALONE else []), *together]:
        for turns in (turns_by_observation(engine.grid), np.ones(len(states))):
            for way in (-1.0, 1.0):
                engine.set("point", block, "node", "x_node", states + way * turns[:, None] * ahead)
                found.append(engine.record("point", block, "node").copy())
    return found


def periods_of(engine: Engine, point: np.ndarray) -> np.ndarray:
    """Return for each state the least period by which it can be moved, at all nodes, so that no row notices it: 0 if
    there is none, or if no row sees the state at all."""
    moved, scratch, states = point.copy(), engine.block("scratch"), engine.get("point", point, "node", "x_node")
    scale, each = engine.get("problem", engine.problem, "grid", "row_scale"), np.eye(states.shape[1])

    def rows(by: np.ndarray) -> np.ndarray:
        engine.set("point", moved, "node", "x_node", states + by)
        linearise(engine.machine(scratch), moved)
        return np.nan_to_num(engine.get("scratch", scratch, "newton", "o") / scale, nan=np.inf)

    as_they_are = rows(0.0 * each[0])

    def notice(by: np.ndarray) -> bool:
        """Return whether a row changes, or is no number any more."""
        return not np.abs(rows(by) - as_they_are).max() < UNNOTICED

    periods = np.zeros(len(each))
    for i, state in enumerate(each):
        if notice(ASIDE * state):
            periods[i] = next((period for period in PERIODS if not notice(period * state)), 0.0)
    return periods


def turns_by_observation(grid: TimeGrid) -> np.ndarray:
    """Return how many turns ahead every node is on a path that makes one more in the usual time between observations.

    They are whole at the times of data, so that these do not notice them.
    """
    begin = np.repeat(grid.starts[grid.first], np.diff([*grid.first, len(grid.ends)]))
    between = np.diff(grid.ends[grid.rows])
    elapsed = grid.ends - begin
    turns = elapsed / np.median(between[between > 0.0]) if np.any(between > 0.0) else np.zeros(len(elapsed))
    return np.where(grid.rows, np.round(turns), turns)
