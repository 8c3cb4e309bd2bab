"""The model as the user makes it: a diffusion, its priors, how it is observed and how it is discretised."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from pathfold.data.covariates import check_model_covariates
from pathfold.data.inputs import Input, check_model_inputs
from pathfold.data.names import check_labels
from pathfold.errors import ModelError, shorter, told
from pathfold.model.conditional import ConditionalMap
from pathfold.model.discrete_model import DiscreteModel
from pathfold.model.functions import Compilable, as_float64, at_values, struct, with_time
from pathfold.model.jumps import Jumps
from pathfold.model.kept import Kept
from pathfold.model.model_checks import as_one, check_finite, check_step, checked_wiener_dim
from pathfold.model.model_text import text_of
from pathfold.model.observation import Observation
from pathfold.model.parameters import Varying, build_parameters
from pathfold.model.reactions import ReactionFunction
from pathfold.model.transform import transformed
from pathfold.schemes import SDE, EulerMaruyama, Scheme

PRINTED = 15  # names on a line, and priors


def _shortened(names: tuple[str, ...] | int) -> str:
    """Write the first few names, or how many there are without any."""
    if isinstance(names, int):
        return str(names)
    return f"{', '.join(names[:PRINTED])}{', ...' if len(names) > PRINTED else ''}"


def check_model(model: Any) -> None:
    """Raise ModelError unless this is a model."""
    if not isinstance(model, DiffusionModel):
        raise ModelError(f"model must be a pf.DiffusionModel(...), not {told(model)}")


class DiffusionModel(DiscreteModel):
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
        self.wiener_dim = checked_wiener_dim(self, self._drift, self._diffusion)
        self.noise_dim = self.scheme.noise_dim(self.wiener_dim, self.state_dim)
        check_step(self)

    def _set_observation(self, observation: Any, observed: Sequence[str] | None) -> None:
        """Take the observation of the state, and the names of the observed components."""
        self.observation = as_one(observation).given(struct(self.state_dim), self.structs(), self.time_struct())
        self.observation_dim, self.observation_noise_dim = self.observation.dim, self.observation.noise_dim
        self.observed = check_labels("observed", observed, self.observation_dim, ModelError)

    def _check_at_prior_draws(self) -> None:
        """Raise ModelError for what only numbers show, and find which components are observed exactly."""
        points = self.points()
        check_finite(points)
        times = [(z, t) for _, z, t in points]
        with at_values("the observation", "parameters drawn from their priors"):
            self.observation.check(self.structs(), self.time_struct(), times)
            self.exactly_observed = self.observation.exact(times)
        self.scheme.check(self.sde, points)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy, here or in another process, which begins with nothing kept."""
        return self.__dict__ | {"kept": Kept()}

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

    def restricted_to(self, compilable: Compilable) -> "DiffusionModel":
        """Return this model with quantile functions that cannot be compiled replaced by a bijection and a density."""
        model = copy.copy(self)
        with jax.enable_x64(True):
            model.parameters, model.varying = build_parameters(self.priors, self.covariates, compilable=compilable)
            z = self.structs()
            model.initial_state = self.initial_state.restricted_to(compilable, z)
            x = struct(self.state_dim)
            model.observation = self.observation.given(x, z, self.time_struct(), compilable=compilable)
            model.observation_noise_dim = model.observation.noise_dim
        return model

    def user_functions(self) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
        """Return each of the user's functions by name, with example shapes, so that an error can name its function."""
        x, z, t = struct(self.state_dim), self.structs(), self.time_struct()
        functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "drift": (self.sde.drift, (x, z, t)),
            "diffusion": (self.sde.diffusion, (x, z, t)),
            "initial_state": (self.initial_state.push, (z, struct(self.initial_state.size))),
            "observation": (self.observation.misfit, (x, z, struct(self.observation_noise_dim), t, self._seen())),
            "scheme": (self.state_step, (z, x, struct(self.noise_dim), struct(), t)),
        }
        for name, event in self.jumps.events.items():
            functions[f"event {name!r}"] = (event, (x, z, struct()))
        for name, prior in self.maps.items():
            given = z if name in self.varying.maps else self.parameters.structs()
            functions[f"prior of {name!r}"] = (prior.push, (given, struct(prior.size)))
        return functions
