"""Carrying draws on from states of their own: from where, to which times, and with what result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pathfold.analysis.carried import carried_forward, warn_of_lost, warn_of_step
from pathfold.analysis.chosen import Chosen
from pathfold.data import Observations, TimeGrid
from pathfold.data.data import without_values
from pathfold.data.events import close
from pathfold.data.time_grid import warn_of_skipped_values
from pathfold.errors import DataError
from pathfold.model import DiffusionModel
from pathfold.model.check_data import check_inputs_and_events
from pathfold.model.ensemble import Ensemble
from pathfold.results.reading import is_panel, series_names


@dataclass(frozen=True)
class Stretch:
    """Times that all draws are carried to, from a state of each, (D, X): `rows` are their places among all times,
    `asked` says what happens in the series (a number); `after_data` says that the state is at a time of the data."""

    rows: np.ndarray
    series: int
    asked: Observations
    states: np.ndarray
    after_data: bool


class Continuation:
    """States (D, R, X) at R times, some of which are known; pieces give the others.

    For each time, `start_times` has the time that draws go on from and `fine_steps` the length of the fine steps before
    it, zero where the state is known.
    """

    def __init__(self, states: np.ndarray, start_times: np.ndarray, pieces: list[Stretch]) -> None:
        self.states, self.start_times, self.pieces = states, start_times, pieces
        self.fine_steps = np.zeros(len(start_times))

    def carry(self, ensemble: Ensemble, fine: dict[str, Any], rng: np.random.Generator) -> None:
        """Carry the draws through all pieces, in fine steps as `TimeGrid.build` takes them."""
        if not self.pieces:
            return
        for piece in self.pieces:
            check_inputs_and_events(ensemble.model, piece.asked)
        grid = TimeGrid.build([piece.asked for piece in self.pieces], **fine)
        rows = np.concatenate([piece.rows for piece in self.pieces])
        self.fine_steps[rows] = grid.delta[grid.rows]
        starts = np.stack([piece.states for piece in self.pieces], axis=1)
        begin: dict[str, Any] = {
            "series": np.array([piece.series for piece in self.pieces]),
            "after_data": np.array([piece.after_data for piece in self.pieces]),
        }
        self.states[:, rows] = carried_forward(ensemble, grid, starts, rng, **begin)
        warn_of_lost(self.states, "predicted paths")
        warn_of_skipped_values(ensemble.model.inputs, grid)
        warn_of_step(ensemble, grid, starts, "predicted paths", **begin)


def from_the_start(asked: Observations, starts: np.ndarray) -> Continuation:
    """Return the continuation of one series from initial states (D, X)."""
    count, (D, X) = asked.times.size, starts.shape
    piece = Stretch(np.arange(count), 0, asked, starts, after_data=False)
    return Continuation(np.empty((D, count, X)), np.full(count, asked.initial_time), [piece])


def from_the_last(data: Observations, asked: Observations, states: np.ndarray) -> Continuation:
    """Return the continuation of one series from states (D, X) at the last of its data, with all that `asked` has."""
    begin, count = float(data.times[-1]), asked.times.size
    _refuse_events_at(begin, asked, {name: at for name, (at, _) in data.events.items()})
    later = asked.times > begin + close(begin)
    found = np.repeat(states[:, None], count, axis=1)
    part = _part(asked, asked.times[later], begin) if later.any() else asked
    pieces = [Stretch(np.flatnonzero(later), 0, part, states, after_data=True)] if later.any() else []
    return Continuation(found, np.full(count, begin), pieces)


def along_paths(
    model: DiffusionModel, chosen: Chosen, grid: TimeGrid, numbers: Sequence[int], asked: Sequence[Observations]
) -> Continuation:
    """Return the continuation of series of the posterior, each from its last state that is kept at or before a time.

    The grid is the one that was sampled on.
    """
    posterior = chosen.tree.posterior
    states = chosen.states(model, "keep those at the 'nodes' or 'all', to go on from, with all components")
    times = posterior["time"].values
    initial = chosen["initial_state"].reshape(chosen.count, -1, states.shape[2])
    counts = [series.times.size for series in asked]
    out, start_times, pieces = np.empty((chosen.count, sum(counts), states.shape[2])), np.empty(sum(counts)), []
    for j, (k, one) in enumerate(zip(numbers, asked, strict=True)):
        mine, own = _nodes_of(chosen, k), grid.series_of_intervals == k
        node_times, data_times = np.append(one.initial_time, times[mine]), grid.ends[own & grid.rows]
        events = {name: grid.ends[own & np.isfinite(amounts)] for name, amounts in grid.events.items()}
        rows = sum(counts[:j]) + np.arange(counts[j])
        last = np.searchsorted(node_times, one.times + close(one.times), side="right") - 1
        at_node = np.abs(node_times[last] - one.times) <= close(one.times)
        start_times[rows] = node_times[last]

        def state(m: int, k: int = k, mine: np.ndarray = mine) -> np.ndarray:
            return initial[:, k] if m == 0 else states[:, mine[m - 1]]

        for row, m in zip(rows[at_node], last[at_node], strict=True):
            out[:, row] = state(m)
        for m in np.unique(last[~at_node]):
            here = (last == m) & ~at_node
            _refuse_events_at(float(node_times[m]), one, events)
            part = _part(one, one.times[here], float(node_times[m]))
            pieces.append(Stretch(rows[here], j, part, state(m), bool(m > 0 and node_times[m] in data_times)))
    return Continuation(out, start_times, pieces)


def _nodes_of(chosen: Chosen, k: int) -> np.ndarray:
    """Return the places of the states of a series among those that are kept."""
    posterior = chosen.tree.posterior
    if not is_panel(chosen.tree):
        return np.arange(posterior["time"].size)
    return np.flatnonzero(posterior["node_series"].values.astype(str) == series_names(chosen.tree)[k])


def _refuse_events_at(begin: float, asked: Observations, known: dict[str, np.ndarray]) -> None:
    """Raise DataError for an event at the time of a known state, which would not happen, unless the data have it."""
    for name, (at, _) in asked.events.items():
        now = np.abs(at - begin) <= close(begin)
        if now.any() and not np.any(np.abs(known.get(name, np.zeros(0)) - begin) <= close(begin)):
            raise DataError(
                f"the event {name!r} at t = {begin:g} is at the time of the state that draws go on from, which is "
                "known already; let it happen later, by as little as you like"
            )


def _part(asked: Observations, times: np.ndarray, begin: float) -> Observations:
    """Return the part of `asked` at some times after a state; events up to its own time have happened to it."""
    events = {
        name: (at[at > begin + close(begin)], amounts[at > begin + close(begin)])
        for name, (at, amounts) in asked.events.items()
    }
    known: dict[str, Any] = {"events": events, "covariates": asked.covariates, "unit": asked.calendar}
    return without_values(times, asked.observation_dim, begin, asked.inputs, **known)
