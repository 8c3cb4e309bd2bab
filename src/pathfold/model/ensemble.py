"""Many draws of the parameters at once, from a posterior, from the prior, or from both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.model.diffusion_model import DiffusionModel
from pathfold.model.functions import at_values
from pathfold.model.parameters import Parameters

AT_A_TIME = 4096  # observations drawn at a time, always as many, so that the function is compiled once


@dataclass(frozen=True)
class Ensemble:
    """The parameters of D draws by name: `shared` (D, ...), and `own`, which vary between K series, (D, K, ...).

    `covariates` (K,) are the numbers of the series by name.
    """

    model: DiffusionModel
    count: int
    series: int
    shared: dict[str, np.ndarray]
    own: dict[str, np.ndarray]
    covariates: dict[str, np.ndarray]

    @classmethod
    def build(
        cls,
        model: DiffusionModel,
        known: Mapping[str, np.ndarray],
        count: int,
        covariates: Sequence[Mapping[str, Any]],
        rng: np.random.Generator,
    ) -> Ensemble:
        """Take the known values, in these shapes; draw the others from their priors given these, or compute them.

        There are as many series as have `covariates`.
        """
        series, of_series = len(covariates), [model.numbers(own) for own in covariates]
        numbers = {name: np.array([own[name] for own in of_series]) for name in model.covariates}
        shared = _filled_in(model.parameters, known, {}, count, rng)
        without = cls(model, count, series, shared, {}, numbers)
        flat = {name: _flat(known[name]) for name in model.varying.names if name in known}
        own = _filled_in(model.varying, flat, without._given(np.arange(series)), count * series, rng)
        by_series = {name: value.reshape(count, series, *value.shape[1:]) for name, value in own.items()}
        return replace(without, own=by_series)

    @property
    def z(self) -> np.ndarray:
        """The shared parameters as vectors (D, Z)."""
        values = [self.shared[name].reshape(self.count, -1) for name in self.model.parameters.names]
        return np.concatenate([np.zeros((self.count, 0)), *values], axis=1)

    def augmented(self, states: np.ndarray, series: np.ndarray) -> np.ndarray:
        """Append the varying parameters to states (D, R, X), whose rows belong to these series (R,)."""
        parts = [self.own[name].reshape(self.count, self.series, -1) for name in self.model.varying.names]
        return np.concatenate([states, *(part[:, series] for part in parts)], axis=2)

    def named(self, series: np.ndarray) -> dict[str, Any]:
        """Return all parameters by name, (D R, ...), for R rows of every draw that belong to these series (R,)."""
        by_name = self._given(series) | {name: _flat(value[:, series]) for name, value in self.own.items()}
        return {name: by_name[name] for name in (*self.model.priors, *self.covariates)}

    def _given(self, series: np.ndarray) -> dict[str, Any]:
        """Return what the shared parameters are to these series (R,), and their covariates, by name, (D R, ...)."""
        numbers = {name: each[series] for name, each in self.covariates.items()}
        by_name = {name: np.repeat(value, len(series), axis=0) for name, value in self.shared.items()}
        for name, by in self.model.groups.items():
            by_name[name] = _flat(self.shared[name][:, numbers[by].astype(int)])
        return by_name | {name: np.tile(each, self.count) for name, each in numbers.items()}

    def draw_starts(self, rng: np.random.Generator) -> np.ndarray:
        """Draw initial states (D, K, X)."""
        start = self.model.initial_state
        with jax.enable_x64(True), at_values("initial_state", "these parameters"):
            z = self.named(np.arange(self.series))
            x = jax.vmap(start.push)(z, jnp.asarray(start.draw(z, rng, self.count * self.series)))
        return np.asarray(x).reshape(self.count, self.series, self.model.state_dim)

    def observe(self, states: np.ndarray, times: Any, series: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw observations (D, R, Y) of states (D, R, X) at times (R,) of these series; NaN where a path is lost."""
        observation, x, count = self.model.observation, _flat(states), states.shape[0] * states.shape[1]
        drawn = np.empty((count, observation.dim))
        with jax.enable_x64(True), at_values("the observation", "these parameters"):
            compiled = self.model.kept.get(_compiled_draw, self.model)
            z, t = self.named(series), jax.tree.map(lambda clock: np.tile(clock, self.count), times)
            rows = (x, z, observation.chance(z, rng, count), t)
            for begin in range(0, count, AT_A_TIME):
                some = np.minimum(np.arange(begin, begin + AT_A_TIME), count - 1)
                values = compiled(*jax.tree.map(lambda array, some=some: array[some], rows))
                drawn[begin : begin + AT_A_TIME] = values[: count - begin]
        drawn[~np.isfinite(x).all(axis=1)] = np.nan
        return drawn.reshape(*states.shape[:2], -1)


def _compiled_draw(model: DiffusionModel) -> Callable[..., Any]:
    """Return the function that draws observations of several states, each with parameters of its own."""
    return jax.jit(jax.vmap(model.observation.drawn))


def _flat(value: np.ndarray) -> np.ndarray:
    """Merge the first two axes."""
    return value.reshape(-1, *value.shape[2:])


def _filled_in(
    parameters: Parameters, known: Mapping[str, Any], given: Mapping[str, Any], count: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return parameters by name, (count, ...) each; those that are not known are drawn given the ones before them."""
    with jax.enable_x64(True):
        by_name = {name: jnp.asarray(value) for name, value in given.items()}
        for name in parameters.sequence:
            if name in known:
                by_name[name] = jnp.asarray(known[name], float)
            else:
                m = parameters.maps[name]
                by_name[name] = jax.vmap(m.push)(by_name, jnp.asarray(m.draw(by_name, rng, count)))
        return {name: np.asarray(by_name[name]) for name in parameters.names}
