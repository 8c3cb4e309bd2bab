"""Jumps of the state at known times: accumulators that begin anew, and events such as doses.

Both belong to a fine step: accumulators are set to zero before the first step after an observation time, an event is
applied after the step that ends at its time. So a step with its jumps is one smooth map, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pathfold.data.names import check_name
from pathfold.data.time_grid import TimeGrid
from pathfold.errors import ModelError, told
from pathfold.model.functions import apart, as_float64, listed, result_shape, struct, try_twice

type Map = Callable[..., Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moment:
    """The time of a step (or its clock) with the jumps that belong to it.

    `keep` is 1 if accumulators are kept and 0 if they begin anew; `events` has by name whether an event happens at the
    end of the step, and its amount.
    """

    time: Any
    keep: Any
    events: dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Jumps:
    """Accumulators, as indices of the state with the map that sets them to zero, and events by name.

    `reset` is a function of (x, z), an event a function of (x, z, amount); both return the state after the jump.
    """

    accumulators: tuple[int, ...] = ()
    reset: Map | None = None
    events: dict[str, Map] = field(default_factory=dict)

    @classmethod
    def build(cls, accumulators: Any, events: Any, states: Sequence[str] | None, state_dim: int) -> Jumps:
        """Build the jumps from the user's names or indices of states, and functions by name.

        Those of a model that is transformed come as `Jumps` in the place of events, and stay as they are.
        """
        if isinstance(events, Jumps):
            return events
        indices = _indices(accumulators, states, state_dim)
        if not isinstance(events, Mapping):
            raise ModelError(f"events must be a dict of name -> function of (x, z, amount), not {told(events)}")
        for name in events:
            check_name("event", name, ModelError)
        kept = np.ones(state_dim)
        kept[list(indices)] = 0.0
        reset = (lambda x, z: x * kept) if indices else None
        return cls(indices, reset, {name: as_float64(apart(event)) for name, event in events.items()})

    def check(self, state_dim: int, z: dict[str, Any]) -> None:
        """Raise ModelError unless every event returns a state."""
        for name, event in self.events.items():
            examples = (struct(state_dim), z, struct())
            if (shape := result_shape(f"the event {name!r}", event, examples)) != (state_dim,):
                raise ModelError(
                    f"the event {name!r} returned shape {shape}, expected ({state_dim},), the whole state after it: "
                    "write x.at[0].add(amount)"
                )
            try_twice(f"the event {name!r}", event, examples)

    def __bool__(self) -> bool:
        return self.reset is not None or bool(self.events)

    @property
    def size(self) -> int:
        """The number of marks that a step has."""
        return (self.reset is not None) + 2 * len(self.events)

    def of(self, to: Map, back: Map) -> Jumps:
        """Return the same jumps in another state, y = to(x, z), x = back(y, z)."""

        def moved(jump: Map) -> Map:
            return lambda y, z, *amount: to(jump(back(y, z), z, *amount), z)

        reset = None if self.reset is None else moved(self.reset)
        return Jumps(self.accumulators, reset, {name: moved(event) for name, event in self.events.items()})

    def marks(self, grid: TimeGrid, after_data: np.ndarray | None = None) -> np.ndarray:
        """Return the marks of every fine step, (N, S, size): `keep`, then whether each event happens, and its amount.

        Series (K,) that begin right `after_data` begin with empty accumulators, as after any time of the data.
        """
        shape = (len(grid.starts), grid.steps)
        columns = []
        if self.reset is not None:
            keep = np.ones(shape)
            keep[1:, 0] = ~grid.rows[:-1]
            keep[grid.first, 0] = 1.0 if after_data is None else ~after_data
            columns.append(keep)
        for name in self.events:
            happens, amounts = np.zeros((2, *shape))
            at_node = grid.events.get(name, np.full(shape[0], np.nan))
            happens[:, -1], amounts[:, -1] = ~np.isnan(at_node), np.nan_to_num(at_node)
            columns += [happens, amounts]
        return np.stack(columns, axis=-1) if columns else np.zeros((*shape, 0))

    def moment(self, time: Any, marks: Any) -> Moment:
        """Return the moment of a step from its time and its marks (..., size)."""
        begin = int(self.reset is not None)
        pairs = {name: (marks[..., begin + 2 * i], marks[..., begin + 2 * i + 1]) for i, name in enumerate(self.events)}
        return Moment(time, marks[..., 0] if begin else None, pairs)

    def before(self, x: Array, z: dict[str, Any], moment: Moment) -> Array:
        """Return the state that a step begins with, its accumulators set to zero where they begin anew."""
        return x if self.reset is None else jnp.where(moment.keep > 0.0, x, self.reset(x, z))

    def after(self, x: Array, z: dict[str, Any], moment: Moment) -> Array:
        """Apply the events at the end of a step, in the order in which the model names them."""
        for name, event in self.events.items():
            happens, amount = moment.events[name]
            x = jnp.where(happens > 0.0, event(x, z, amount), x)
        return x


def _indices(given: Any, states: Sequence[str] | None, state_dim: int) -> tuple[int, ...]:
    if isinstance(given, str | int | np.integer):
        given = (given,)
    indices = []
    for state in given:
        if isinstance(state, str):
            if state not in (states or ()):
                known = f"has {listed(states)}" if states else "has no names of states: give states=(...)"
                raise ModelError(f"accumulators name the state {state!r}; the model {known}")
            state = list(states or ()).index(state)
        if isinstance(state, bool) or not isinstance(state, int | np.integer) or not -state_dim <= state < state_dim:
            raise ModelError(f"accumulators have {told(state)}; the model has states 0 to {state_dim - 1}")
        indices.append(int(state) % state_dim)
    if len(set(indices)) < len(indices):
        raise ModelError(f"accumulators name a state twice: {told(given)}")
    return tuple(indices)
