"""The model: a diffusion, its priors, how it is observed, and how it is discretised. All validation starts here.

The sampler uses the discretised model (method.md, section 1):

    z = g_z(u),  x_0 = g_x0(z, v_0),  x' = step(z, x, v, delta, t),  0 = misfit(z, x, w, t, y)

with all of u, v_0, v, w standard normal, of sizes U, V0, V, W. Here z are the parameters that all series share, and x
is the augmented state: the state followed by the parameters that vary between series (`pf.Varying`), which v_0 draws
and no step changes. The user's functions take the state alone, and find the varying parameters in z like the others,
with the covariates of the series, and of what varies between groups of series the value of its own.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pathfold.data.covariates import Covariate, check_model_covariates, chosen
from pathfold.data.inputs import Input, check_model_inputs
from pathfold.data.names import check_labels, dimensions
from pathfold.data.seen import Seen
from pathfold.data.time_grid import TimeGrid, clocks
from pathfold.distributions.roots import Split
from pathfold.distributions.scale_mixture import Kind
from pathfold.errors import DataError, ModelError, shorter, told
from pathfold.model.conditional import ConditionalMap
from pathfold.model.functions import (
    Compilable,
    as_float64,
    at_values,
    result_shape,
    struct,
    try_twice,
    with_time,
)
from pathfold.model.jumps import Jumps, Moment
from pathfold.model.kept import Kept
from pathfold.model.likelihood import Likelihood, Several
from pathfold.model.model_text import text_of
from pathfold.model.observation import GaussianNoise, Noiseless, Observation
from pathfold.model.parameters import Parameters, Varying, build_parameters
from pathfold.model.reactions import ReactionFunction, Reactions
from pathfold.model.transform import transformed
from pathfold.program.trace import computed
from pathfold.schemes import SDE, CustomScheme, EulerMaruyama, Scheme
from pathfold.schemes.ito import Clock

PRINTED = 15  # names on a line, and priors


def _shortened(names: tuple[str, ...] | int) -> str:
    """Write the first few names, or how many there are without any."""
    if isinstance(names, int):
        return str(names)
    return f"{', '.join(names[:PRINTED])}{', ...' if len(names) > PRINTED else ''}"


def _as_one(observation: Any) -> Observation:
    parts = tuple(observation) if isinstance(observation, list | tuple) else (observation,)
    if not parts:
        raise ModelError("observation is an empty list; give at least one")
    for part in parts:
        if not isinstance(part, Observation):
            raise ModelError(
                "observation must be pf.Noiseless(h), pf.GaussianNoise(mean, scale), pf.Likelihood(f) or "
                f"pf.NoisyObservation(h, noise), or a list of these, not {told(part)}"
            )
    return parts[0] if len(parts) == 1 else Several(parts)


def check_model(model: Any) -> None:
    """Raise ModelError unless this is a model."""
    if not isinstance(model, DiffusionModel):
        raise ModelError(f"model must be a pf.DiffusionModel(...), not {told(model)}")


class DiffusionModel:
    """A diffusion with its priors, its initial state, how it is observed and how it is discretised::

        dx = drift(x, z, t) dt + diffusion(x, z, t) dW,   x(0) ~ initial_state(z),
        z ~ parameters,   y = observation(x, z)

    The constructor evaluates every function on shapes alone, in double precision, and the scheme's requirement at prior
    draws; anything amiss is a `pf.ModelError`.

    Parameters
    ----------
    drift
        A function of (x, z), (x, z, t) or (x, z, t, inputs) that returns an array (X,), written in `jax.numpy`: x is
        the state, z a dict of the parameters by name, inputs a dict of numbers, the values of `inputs` at time t.
    diffusion
        A function of the same arguments that returns (X, B): a row for each state, a column for each Wiener process.
    parameters
        A dict of name -> prior: any continuous numpyro distribution, or a number that fixes the parameter. A
        distribution with a shape makes a vector parameter. A function of z that returns a distribution makes the prior
        depend on other parameters; `pf.Varying` gives every series of a panel its own value.
    initial_state
        The distribution of the state at the initial time, (X,); or a fixed array; or a list of a scalar distribution or
        number for each component; or a function of z that returns one of these. For a model of `pf.Reactions` it is a
        dict of the initial amounts by species.
    observation
        `pf.Noiseless`, `pf.GaussianNoise`, `pf.Likelihood` or `pf.NoisyObservation`; or a list of these, whose columns
        of the data follow one another in its order.
    scheme
        How a fine step is made: `pf.EulerMaruyama()`, the default, `pf.Milstein()`, `pf.StrongOrder1p5()`,
        `pf.ExactLinearDrift()`, `pf.LinearlyImplicit()` or `pf.CustomScheme(...)`.
    inputs
        Known functions of time that the model's functions use: their names, such as `("rain",)`, if the data have them;
        or a dict of name -> `pf.Input`, for data without an input of this name, or None.
    covariates
        A dict of name -> typical value, or list of levels: numbers that each series has, or names of the groups that it
        may belong to. All functions find the number of the series, or the place of its level (0.0, 1.0, ...), in z
        under this name, and so do priors of what varies between series. At typical values the model is tried.
    states
        Names of the components of the state, which label the results.
    observed
        Names of the observed components, which label the results.
    accumulators
        States, by name or index, that are set to zero after every time of the data, so that they hold what has happened
        since.
    events
        A dict of name -> function of (x, z, amount) that returns the state after a dose, a harvest, a reset; the data
        say when, and how much.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpyro.distributions as dist
    >>> model = pf.DiffusionModel(
    ...     drift=lambda x, z: -z["rate"] * x,
    ...     diffusion=lambda x, z: z["sigma"].reshape(1, 1),
    ...     parameters={"rate": dist.LogNormal(), "sigma": dist.LogNormal()},
    ...     initial_state=dist.Normal(jnp.zeros(1), 1.0),
    ...     observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    ... )
    >>> model.state_dim, model.parameters.names
    (1, ('rate', 'sigma'))
    """

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

    def __init__(
        self,
        drift: Callable[..., Any],
        diffusion: Callable[..., Any],
        parameters: Mapping[str, Any],
        initial_state: Any,
        observation: Observation | Sequence[Observation],
        scheme: Scheme | None = None,
        inputs: Mapping[str, Input | None] | Sequence[str] | None = None,
        states: Sequence[str] | None = None,
        observed: Sequence[str] | None = None,
        accumulators: str | int | Sequence[str | int] = (),
        events: Mapping[str, Callable[..., Any]] | None = None,
        covariates: Mapping[str, Any] | None = None,
    ):
        self.kept = Kept()  # what this layer and those above compiled or computed for the model
        self.scheme = EulerMaruyama() if scheme is None else scheme
        self.written: dict[str, Any] = {  # the arguments as given, to be shown
            "drift": drift,
            "diffusion": diffusion,
            "initial_state": initial_state.given if isinstance(initial_state, ConditionalMap) else initial_state,
            "observation": observation,
            "scheme": self.scheme,
            **{f"event {name}": jump for name, jump in (events if isinstance(events, Mapping) else {}).items()},
        }
        self.inputs = check_model_inputs({} if inputs is None else inputs)
        self.covariates = check_model_covariates({} if covariates is None else covariates)
        if both := [name for name in self.inputs if name in self.covariates]:
            raise ModelError(f"{both[0]!r} is the name of an input and of a covariate; give one of them another")
        if not isinstance(self.scheme, Scheme):
            raise ModelError(f"scheme must be a scheme such as pf.EulerMaruyama(), not {told(scheme)}")
        self._set_equation(drift, diffusion)
        with jax.enable_x64(True):  # each step uses what those before it have set
            self.parameters, self.varying = build_parameters(parameters, self.covariates)
            self.priors = dict(parameters)
            self._set_state(initial_state, states)
            self.jumps = Jumps.build(accumulators, {} if events is None else events, self.states, self.state_dim)
            self._set_noise()
            self.jumps.check(self.state_dim, self.structs())
            self._set_observation(observation, observed)
            self._check_at_prior_draws()

    def __repr__(self) -> str:
        """Write names, scheme and priors, each on a line."""
        named: dict[str, Any] = {
            "states": self.states or self.state_dim,
            "observed": self.observed or self.observation_dim,
            "inputs": (*self.inputs,),
            "covariates": (*self.covariates,),
            "events": (*self.jumps.events,),
        }
        lines = [f"  {name}: {_shortened(those)}" for name, those in named.items() if those]
        priors = [f"    {self._prior_line(name)}" for name in [*self.priors][:PRINTED]]
        priors += [f"    and {len(self.priors) - PRINTED} more"] if len(self.priors) > PRINTED else []
        head = ["DiffusionModel", *lines, f"  scheme: {type(self.scheme).__name__}"]
        return "\n".join([*head, *(["  parameters:"] if priors else []), *priors])

    def _prior_line(self, name: str) -> str:
        prior, by = self.priors[name], ""
        if isinstance(prior, Varying):
            prior, by = prior.prior, f" (by {prior.by or 'series'})"
        return f"{name}{by} {'~' if self.maps[name].size else '='} {shorter(text_of(prior))}"

    def _set_equation(self, drift: Callable[..., Any], diffusion: Callable[..., Any]) -> None:
        """Take drift and diffusion as functions of (x, z, t), and the network of reactions if they come from one."""
        self._drift = with_time("drift", drift, ("x", "z"))
        self._diffusion = with_time("diffusion", diffusion, ("x", "z"))
        self.network = self._drift.network if isinstance(self._drift, ReactionFunction) else None
        self.sde = SDE(as_float64(self._drift), as_float64(self._diffusion))

    def _set_state(self, initial_state: Any, states: Sequence[str] | None) -> None:
        """Take the initial state, which says how large the state is, and the names of its components."""
        if not isinstance(initial_state, ConditionalMap):
            build = ConditionalMap.build if self.network is None else self.network.start
            initial_state = build("initial_state", initial_state, self.structs())
        self.initial_state = initial_state
        self.state_dim = initial_state.dim
        self.states = check_labels("states", states, self.state_dim, ModelError)
        self.augmented_dim = self.state_dim + self.varying.z_size

    def _set_noise(self) -> None:
        """Find the sizes of the noise, for which drift, diffusion and the scheme's step must have the right shapes."""
        self.wiener_dim = self._checked_wiener_dim()
        self.noise_dim = self.scheme.noise_dim(self.wiener_dim, self.state_dim)
        self._check_step()

    def _set_observation(self, observation: Any, observed: Sequence[str] | None) -> None:
        """Take the observation of the state, and the names of the observed components."""
        self.observation = _as_one(observation).given(struct(self.state_dim), self.structs(), self._time())
        self.observation_dim, self.observation_noise_dim = self.observation.dim, self.observation.noise_dim
        self.observed = check_labels("observed", observed, self.observation_dim, ModelError)

    def _check_at_prior_draws(self) -> None:
        """Raise ModelError for what only numbers show, and find which components are observed exactly."""
        points = self.points()
        self._check_finite(points)
        times = [(z, t) for _, z, t in points]
        with at_values("the observation", "parameters drawn from their priors"):
            self.observation.check(self.structs(), self._time(), times)
            self.exactly_observed = self.observation.exact(times)
        self.scheme.check(self.sde, points)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy, here or in another process, which begins with nothing kept."""
        return self.__dict__ | {"kept": Kept()}

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
        state = self._user_step(named, state, v, delta, time)
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
            return self.observation.factors(struct(self.state_dim), self.structs(), self._time())

    def heavy_tails(self) -> np.ndarray:
        """Mark the observed values (Y,) whose law the particle filter takes for a mixture of normals."""
        with jax.enable_x64(True):
            return self.observation.heavy_tails(struct(self.state_dim), self.structs(), self._time())

    def of_kind(self, z: dict[str, Array], x: Array, w: Array, t: Any, seen: Seen, kind: Array) -> Kind:
        """Return the rows (Y,) at one node and the logs of their shares, by normals of some kinds (Y,)."""
        state, named = self.in_series(z, x, t)
        return self.observation.of_kind(state, named, w, t, seen, kind)

    def user_functions(self) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
        """Return each of the user's functions by name, with example shapes, so that an error can name its function."""
        x, z, t = struct(self.state_dim), self.structs(), self._time()
        functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "drift": (self.sde.drift, (x, z, t)),
            "diffusion": (self.sde.diffusion, (x, z, t)),
            "initial_state": (self.initial_state.push, (z, struct(self.initial_state.size))),
            "observation": (self.observation.misfit, (x, z, struct(self.observation_noise_dim), t, self._seen())),
            "scheme": (self._user_step, (z, x, struct(self.noise_dim), struct(), t)),
        }
        for name, event in self.jumps.events.items():
            functions[f"event {name!r}"] = (event, (x, z, struct()))
        for name, prior in self.maps.items():
            given = z if name in self.varying.maps else self.parameters.structs()
            functions[f"prior of {name!r}"] = (prior.push, (given, struct(prior.size)))
        return functions

    def restricted_to(self, compilable: Compilable) -> "DiffusionModel":
        """Return this model with quantile functions that cannot be compiled replaced by a bijection and a density."""
        model = copy.copy(self)
        with jax.enable_x64(True):
            model.parameters, model.varying = build_parameters(self.priors, self.covariates, compilable=compilable)
            z = self.structs()
            model.initial_state = self.initial_state.restricted_to(compilable, z)
            x = struct(self.state_dim)
            model.observation = self.observation.given(x, z, self._time(), compilable=compilable)
            model.observation_noise_dim = model.observation.noise_dim
        return model

    def transform(self, forward: Callable[..., Any], inverse: Callable[..., Any]) -> "DiffusionModel":
        """Write the model in another state y = forward(x), by Ito's lemma: with L0, Lj the operators of the SDE of x::

            dy = L0 forward dt + sum_j Lj forward dW_j,   both at x = inverse(y).

        The scheme stays the same and is applied to y: the discretised models differ, their limits do not. At and around
        initial states drawn from the prior it is checked that `inverse` is the inverse of `forward`.

        Parameters
        ----------
        forward
            A function of x or (x, z) that returns the new state, of the same size.
        inverse
            A function of y or (y, z) that returns x.

        Returns
        -------
        DiffusionModel
            Its states in the results are y; observations and data stay as they are.
        """
        return transformed(self, forward, inverse)

    def _checked_wiener_dim(self) -> int:
        x, z, t = struct(self.state_dim), self.structs(), self._time()
        dim, fixed = self.state_dim, f"initial_state fixes the number of states, {self.state_dim}"
        if (shape := result_shape("drift", self._drift, (x, z, t))) != (dim,):
            raise ModelError(f"drift returned shape {shape}, expected ({dim},): {fixed}; give both the same")
        try_twice("drift", self._drift, (x, z, t))
        shape = result_shape("diffusion", self._diffusion, (x, z, t))
        if len(shape) != 2 or shape[0] != dim or shape[1] == 0:
            raise ModelError(
                f"diffusion returned shape {shape}, expected ({dim}, B), a row for each state and a column for each "
                f"Wiener process: write one column as b[:, None], independent noises as jnp.diag(b); {fixed}"
            )
        try_twice("diffusion", self._diffusion, (x, z, t))
        return shape[1]

    def _user_step(self, z: dict[str, Array], x: Array, v: Array, delta: Any, t: Any) -> Array:
        """Return the scheme's step of the state alone, with all parameters in z."""
        return self.scheme.step(self.sde, dict(z), x, v, delta, t)

    def _check_step(self) -> None:
        x, z, v = struct(self.state_dim), self.structs(), struct(self.noise_dim)
        examples = (z, x, v, struct(), self._time())
        shape = result_shape("the scheme's step", self._user_step, examples)
        if shape != (self.state_dim,):
            raise ModelError(f"the scheme's step returned shape {shape}, expected ({self.state_dim},)")
        if isinstance(self.scheme, CustomScheme):
            try_twice("the scheme's step", self._user_step, examples)

    def _check_finite(self, points: list[tuple[np.ndarray, dict[str, Any], Any]]) -> None:
        for x, z, _ in points:
            for name, value in z.items():
                if not np.all(np.isfinite(value)):
                    raise ModelError(
                        f"the prior of parameter {name!r} gave {told(np.asarray(value))} at a draw from it; use "
                        "a prior with finite values, not as wide as that"
                    )
            if not np.all(np.isfinite(x)):
                raise ModelError(
                    f"initial_state gave {told(x)} at parameters drawn from their priors; give a distribution that is "
                    "defined for all that the priors allow"
                )

    def _time(self) -> Any:
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
