"""The discretised model: what it makes of standard normals, as functions that the layers above trace.

The sampler uses the discretised model (method.md, section 1):

    z = g_z(u),  x_0 = g_x0(z, v_0),  x' = step(z, x, v, delta, t),  0 = misfit(z, x, w, t, y)

with all of u, v_0, v, w standard normal, of sizes U, V0, V, W. Here z are the parameters that all series share, and x
is the augmented state: the state followed by the parameters that vary between series (`pf.Varying`), which v_0 draws
and no step changes. The user's functions take the state alone, and find the varying parameters in z like the others,
with the covariates of the series, and of what varies between groups of series the value of its own.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pathfold.data.covariates import Covariate, chosen
from pathfold.data.inputs import Input
from pathfold.data.names import dimensions
from pathfold.data.seen import Seen
from pathfold.data.time_grid import TimeGrid, clocks
from pathfold.distributions.roots import Split
from pathfold.distributions.scale_mixture import Kind
from pathfold.errors import DataError
from pathfold.model.conditional import ConditionalMap
from pathfold.model.functions import struct
from pathfold.model.gaussian_noise import GaussianNoise
from pathfold.model.jumps import Jumps, Moment
from pathfold.model.likelihood import Likelihood
from pathfold.model.observation import Noiseless, Observation
from pathfold.model.parameters import Parameters, Varying
from pathfold.model.reactions import Reactions
from pathfold.program.trace import computed
from pathfold.schemes import SDE, Scheme
from pathfold.schemes.ito import Clock


class DiscreteModel:
    """The functions of a model with its scheme; `pf.DiffusionModel` says how it is made, and checks it."""

    inputs: dict[str, Input | None]
    covariates: dict[str, Covariate]
    scheme: Scheme
    sde: SDE
    network: Reactions | None
    priors: dict[str, Any]
    parameters: Parameters
    varying: Parameters
    initial_state: ConditionalMap
    states: tuple[str, ...] | None
    jumps: Jumps
    observation: Observation
    observed: tuple[str, ...] | None
    state_dim: int
    augmented_dim: int
    wiener_dim: int
    noise_dim: int
    observation_dim: int
    observation_noise_dim: int
    exactly_observed: np.ndarray

    @property
    def noise_everywhere(self) -> bool:
        """Whether all that is observed has noise, so that there is a likelihood of parameters and path."""
        return self.observation.has_density and not self.exactly_observed.any()

    @property
    def start_dim(self) -> int:
        """V0, the number of normals of the varying parameters and of the initial state."""
        return self.varying.size + self.initial_state.size

    @property
    def maps(self) -> dict[str, ConditionalMap]:
        """The maps of all parameters by name, those that vary included."""
        maps = self.parameters.maps | self.varying.maps
        return {name: maps[name] for name in self.priors}

    @property
    def groups(self) -> dict[str, str]:
        """The covariate by which a parameter varies, by the name of the parameter."""
        return {name: prior.by for name, prior in self.priors.items() if isinstance(prior, Varying) and prior.by}

    def dims(self, name: str) -> list[str]:
        """Return what the results call the dimensions of a parameter, besides that of the series."""
        count = len(self.maps[name].shape)
        return [self.groups[name], *dimensions(name, count - 1)] if name in self.groups else dimensions(name, count)

    def structs(self) -> dict[str, Any]:
        """Return the structs of all parameters and covariates by name, as the user's functions take them."""
        shared = self.parameters.structs() | {name: struct(*self.parameters.shapes[name][1:]) for name in self.groups}
        return self._in_order(shared | self.varying.structs() | {name: struct() for name in self.covariates})

    def _in_order(self, z: dict[str, Any]) -> dict[str, Any]:
        return {name: z[name] for name in (*self.priors, *self.covariates)}

    def of_series(self, z: dict[str, Any], covariates: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the parameters that are shared are to a series with these covariates, and these, by name."""
        own = {name: chosen(z[name], covariates[by]) for name, by in self.groups.items()}
        return {**z, **own, **covariates}

    def named(self, z: dict[str, Any], varying: Any) -> dict[str, Any]:
        """Return all that functions find in z, by name, from what `of_series` gives and the vector of what varies."""
        return self._in_order(z | self.varying.unflatten(varying))

    def in_series(self, z: dict[str, Any], x: Any, t: Any) -> tuple[Any, dict[str, Any]]:
        """Return the state, and z as the user's functions take it, at an augmented state and a time."""
        clock = t.time if isinstance(t, Moment) else t
        z = self.of_series(z, clock.covariates) if self.covariates else z
        return x[: self.state_dim], self.named(z, x[self.state_dim :])

    def own_of(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Return what varies between series by name, (..., *shape), from augmented states (..., X)."""
        own, begin = {}, self.state_dim
        for name, shape in self.varying.shapes.items():
            end = begin + int(np.prod(shape, dtype=int))
            own[name], begin = x[..., begin:end].reshape(*x.shape[:-1], *shape), end
        return own

    def state_of(self, given: Any) -> Any:
        """The state that the user gives: an array, or the amounts of a network by species."""
        with jax.enable_x64(True):
            return given if self.network is None else self.network.states(given)

    def augmented(self, x: Array, varying: Array) -> Array:
        """Return the augmented state: the state followed by the varying parameters."""
        return jnp.concatenate([x, varying]) if self.varying.z_size else x

    def start(self, z: dict[str, Array], v0: Array) -> Array:
        """Return the augmented initial state x_0 from V0 standard normals, and from what z is to the series."""
        varying = self.varying.push(v0[: self.varying.size], z)
        return self.augmented(self.initial_state.push(self.named(z, varying), v0[self.varying.size :]), varying)

    def start_excess(self, z: dict[str, Array], v0: Array) -> Any:
        """Return the non-Gaussian term of the potential of v_0."""
        apart, total = v0[: self.varying.size], 0.0
        if self.varying.excess is not None:
            total += self.varying.excess(apart, z)
        if self.initial_state.excess is not None:
            named = self.named(z, self.varying.push(apart, z))
            total += self.initial_state.excess(named, v0[self.varying.size :])
        return total

    def step(self, z: dict[str, Array], x: Array, v: Array, delta: Any, t: Any) -> Array:
        """Return x(t + delta) from x(t) = x and v ~ N(0, I_V), with the jumps of the step."""
        state, named, time = self.before_step(z, x, t)
        state = self.state_step(named, state, v, delta, time)
        state = self.jumps.after(state, dict(named), t) if isinstance(t, Moment) else state
        return self.augmented(state, x[self.state_dim :])

    def before_step(self, z: dict[str, Array], x: Array, t: Any) -> tuple[Any, dict[str, Any], Any]:
        """Return state, parameters and time as the scheme takes them, after the jumps before the step."""
        state, named = self.in_series(z, x, t)
        return (self.jumps.before(state, dict(named), t), named, t.time) if isinstance(t, Moment) else (state, named, t)

    def misfit(self, z: dict[str, Array], x: Array, w: Array, t: Any, seen: Seen) -> Array:
        """Return the rows (Y,) of the constraint at one node."""
        state, named = self.in_series(z, x, t)
        return self.observation.misfit(state, named, w, t, seen)

    def node_excess(self, z: dict[str, Array], x: Array, w: Array, t: Any, seen: Seen) -> Any:
        """Return the terms of the potential at one node besides 1/2 w.w."""
        state, named = self.in_series(z, x, t)
        return self.observation.excess(state, named, w, t, seen)

    def split(self, z: dict[str, Array], x: Array, t: Any, seen: Seen) -> Split:
        """Return the roots and remainders (Y,) of the likelihood at one node."""
        state, named = self.in_series(z, x, t)
        return self.observation.split(state, named, t, seen)

    def plain_factors(self) -> np.ndarray:
        """Mark the observed values (Y,) whose likelihood enters as a plain factor."""
        with jax.enable_x64(True):
            return self.observation.factors(struct(self.state_dim), self.structs(), self.time_struct())

    def heavy_tails(self) -> np.ndarray:
        """Mark the observed values (Y,) whose law the particle filter takes for a mixture of normals."""
        with jax.enable_x64(True):
            return self.observation.heavy_tails(struct(self.state_dim), self.structs(), self.time_struct())

    def normal_laws(self) -> np.ndarray:
        """Mark the observed values (Y,) whose law is normal, or a function of one that is, wherever rows are linear."""
        with jax.enable_x64(True):
            return self.observation.normal_laws(struct(self.state_dim), self.structs(), self.time_struct())

    def of_kind(self, z: dict[str, Array], x: Array, w: Array, t: Any, seen: Seen, kind: Array) -> Kind:
        """Return the rows (Y,) at one node and the logs of their shares, by normals of some kinds (Y,)."""
        state, named = self.in_series(z, x, t)
        return self.observation.of_kind(state, named, w, t, seen, kind)

    def state_step(self, z: dict[str, Array], x: Array, v: Array, delta: Any, t: Any) -> Array:
        """Return the scheme's step of the state alone, with all parameters in z."""
        return self.scheme.step(self.sde, dict(z), x, v, delta, t)

    def time_struct(self) -> Any:
        """Return the structs of what the user's functions take for the time."""
        inputs, covariates = ({name: struct() for name in known} for known in (self.inputs, self.covariates))
        return Clock(struct(), inputs, inputs, covariates) if inputs or covariates else struct()

    def _seen(self) -> Seen:
        """Return the structs of what is observed at one time, with nothing censored."""
        return Seen(struct(self.observation_dim), struct(self.observation_dim), struct(0), struct(0))

    @property
    def known_dim(self) -> int:
        """The count of numbers that `node_clock` takes besides the time: inputs and covariates."""
        return len(self.inputs) + len(self.covariates)

    @property
    def forcing_dim(self) -> int:
        """The count of numbers that `clock` takes for a step besides the time: also slopes and marks of jumps."""
        return self.known_dim + len(self.inputs) + self.jumps.size

    def clock(self, t: Any, forcing: Any) -> Any:
        """Return what the functions take for the time t of a step, made of t and its forcing (..., forcing_dim)."""
        known, end = self.known_dim, self.known_dim + len(self.inputs)
        time = self.node_clock(t, forcing[..., :known], forcing[..., known:end])
        return self.jumps.moment(time, forcing[..., end:]) if self.jumps else time

    def node_clock(self, t: Any, known: Any, slopes: Any = None) -> Any:
        """Return what the functions take for the time t, with inputs and then covariates (..., known_dim) in order.

        At nodes no slopes of inputs are given, since nothing uses them there.
        """
        if not self.known_dim:
            return t
        count = len(self.inputs)
        inputs, covariates = known[..., :count], known[..., count:]
        slopes = jnp.zeros_like(inputs) if slopes is None else slopes
        parts = ((self.inputs, inputs), (self.inputs, slopes), (self.covariates, covariates))
        return Clock(t, *({name: array[..., i] for i, name in enumerate(names)} for names, array in parts))

    def some_clock(self) -> Any:
        """Return what the functions may take for a time, to look at them: inputs of one, typical covariates."""
        return self.node_clock(0.0, jnp.array([1.0] * len(self.inputs) + [*self.typical(0).values()]))

    def typical(self, i: int) -> dict[str, np.ndarray]:
        """Return numbers of the covariates by name at which the model is tried, with other levels for another i."""
        return {name: np.asarray(covariate.example(i)) for name, covariate in self.covariates.items()}

    def numbers(self, covariates: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers by name that functions see of the covariates of a series; raise DataError if one lacks."""
        if missing := [name for name in self.covariates if name not in covariates]:
            raise DataError(
                f"the series has no covariate {missing[0]!r}, which the model uses: give it as in "
                f"pf.Observations(..., covariates={{{missing[0]!r}: ...}})"
            )
        return {name: covariate.number(name, covariates[name]) for name, covariate in self.covariates.items()}

    def covariates_of(self, grid: TimeGrid) -> dict[str, np.ndarray]:
        """Return the numbers (K,) by name that functions see of the covariates of all series."""
        of_series = [self.numbers(own) for own in grid.covariates] if self.covariates else []
        return {name: np.array([own[name] for own in of_series]) for name in self.covariates}

    def forcing(self, grid: TimeGrid, after_data: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the forcing of every fine step (N, S, forcing_dim), and what is known at the nodes (N, known_dim).

        Series (K,) that begin right `after_data` begin with empty accumulators.
        """
        starts, ends = clocks(self.inputs, self.covariates_of(grid), grid)
        marks = self.jumps.marks(grid, after_data)
        if not self.known_dim:
            return marks, np.zeros((len(grid.starts), 0))
        parts = [*starts.inputs.values(), *starts.covariates.values(), *starts.slopes.values()]
        known = np.stack([*ends.inputs.values(), *ends.covariates.values()], axis=-1)
        return np.concatenate([np.stack(parts, axis=-1), marks], axis=-1), known

    def clocks(self, grid: TimeGrid) -> tuple[Any, Any]:
        """Return what the functions take for the times of the fine steps (N, S) and of the nodes (N,)."""
        starts, ends = clocks(self.inputs, self.covariates_of(grid), grid)
        return self.jumps.moment(starts, self.jumps.marks(grid)) if self.jumps else starts, ends

    def clocks_at(self, grid: TimeGrid, rows: np.ndarray) -> Any:
        """Return what the functions take for the times of some of the nodes."""
        return jax.tree.map(lambda array: array[rows], self.clocks(grid)[1])

    def components_shown(self) -> np.ndarray:
        """Return the component of the state that is the middle of each observed value's law; -1 if none is."""
        shown = np.full(self.observation_dim, -1)
        with jax.enable_x64(True):
            shared, t = (
                self.parameters.unflatten(self.parameters.push(jnp.zeros(self.parameters.size))),
                self.some_clock(),
            )
            start = self.start(self.of_series(shared, self.typical(0)), jnp.zeros(self.start_dim))
            _, z = self.in_series(shared, start, t)
            x = np.random.default_rng(0).uniform(1.0, 2.0, self.state_dim)
            for columns, part in self.observation.parts:
                if isinstance(part, Noiseless | GaussianNoise | Likelihood):
                    middle = np.asarray(part.middle(jnp.asarray(x), z, t))[:, None]
                    same = np.isclose(middle, x, rtol=1e-12, atol=0.0)
                    shown[columns] = np.where(same.any(axis=1), np.argmax(same, axis=1), -1)
        return shown

    def _drawn(self, u: Array, v0: Array, t: Any, covariates: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the initial state and the parameters that normals are mapped to."""
        z = self.parameters.unflatten(self.parameters.push(u))
        return self.in_series(z, self.start(self.of_series(z, covariates), v0), t)

    def points(self) -> list[tuple[np.ndarray, dict[str, Any], Any]]:
        """Return points (x, z, t) at which requirements are checked: prior draws, x at and around initial states."""
        rng, points = np.random.default_rng(20), []
        for i, t in enumerate((0.0, 0.7, 2.3, 5.1)):
            if self.known_dim:
                inputs = {name: series.example(i) if series else 1.0 for name, series in self.inputs.items()}
                t = Clock(t, inputs, dict.fromkeys(inputs, 0.0), self.typical(i))
            u, v0 = rng.standard_normal(self.parameters.size), rng.standard_normal(self.start_dim)
            x, z = computed(self._drawn, u, v0, t, self.typical(i))
            with np.errstate(invalid="ignore"):  # what is not finite is told of by whoever asked
                near = x + 0.3 * (1 + np.abs(x)) * rng.standard_normal(self.state_dim)
            points += [(x, z, t), (near, z, t), (np.abs(near), z, t)]
        return points
