"""Models for the engine's tests: drawn at random, or small and fixed; and data generated from a position q."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from hypothesis import strategies as st

import pathfold as pf
from pathfold.data import Input, Observations, TimeGrid
from pathfold.data.time_grid import MISSING
from pathfold.model import DiffusionModel, Noiseless, NoisyObservation
from pathfold.schemes import CustomScheme, EulerMaruyama, Scheme, StrongOrder1p5
from tests.dense import Dense

PRIORS: dict[str, Callable[[], Any]] = {
    "normal": lambda: dist.Normal(0.2, 0.7),
    "log-normal": lambda: dist.LogNormal(-0.5, 0.5),
    "exponential": lambda: dist.Exponential(1.5),
    "gamma": lambda: dist.Gamma(3.0, 3.0),  # with an excess
    "beta": lambda: dist.Beta(2.0, 3.0),  # with an excess
}
GIVEN: dict[str, Callable[[Any], Any]] = {
    "normal given": lambda other: dist.Normal(0.4 * jnp.tanh(other), 0.3 + 0.2 * jnp.tanh(other) ** 2),
    "gamma given": lambda other: dist.Gamma(2.0 + jnp.tanh(other), 2.0),  # with an excess that depends on the other
}
STARTS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda theta: dist.Normal(0.4 * jnp.tanh(jnp.sum(theta)), 0.8),
    "gamma": lambda theta: dist.Gamma(2.0 + 0.5 * jnp.tanh(jnp.sum(theta)), 2.0),  # with an excess that depends on z
    "log-normal": lambda theta: dist.LogNormal(-0.5, 0.4),
}
NOISES: dict[str, Callable[[int], Any]] = {
    "normal": lambda count: count,
    "student": lambda count: dist.StudentT(4.0, 0.1, 0.8).expand([count]),  # with an excess
    "given z": lambda count: lambda z: [dist.StudentT(3.0 + z["fixed"] + sum(z.values()) ** 2)] * count,
}
SCHEMES = ("euler", "additive", "taylor", "custom")


@dataclass(frozen=True)
class Case:
    """A random model: dimensions and kinds; the coefficients come from the seed."""

    seed: int
    X: int  # state
    B: int  # Wiener processes
    Y: int  # observed components
    W: int  # observation noise
    S: int  # fine steps an interval
    priors: tuple[str, ...]  # U of them; those that are given another are given the next one
    starts: tuple[str, ...]  # V0 of them, the other components are fixed
    lengths: tuple[int, ...]  # intervals of each series
    scheme: str = "euler"
    repeated_noise: bool = False  # two columns of the diffusion are the same
    missing: bool = False
    regular: bool = True
    from_start: bool = False  # the first observation is at the initial time
    lanes: int = 2
    path_scale: float = 1.0
    noise_scale: float = 1.0
    noise: str = "normal"  # of the observations
    inputs: bool = False  # which move the time that the functions see
    varying: tuple[str, ...] = ()  # between series, each given the first of the priors
    groups: tuple[str, ...] = ()  # likewise, between groups of series
    covariates: bool = False  # a number, in all functions and in the priors of what varies; always, if there are groups

    def model(self) -> DiffusionModel:
        """The same object for tests of the same case, which is compiled once."""
        return made(self)[0]

    def grid(self) -> TimeGrid:
        return made(self)[1]

    def _model(self) -> DiffusionModel:
        """Coupled linear terms with bounded non-linear ones; time, state and parameters enter every function."""
        rng = np.random.default_rng(self.seed)
        X, B, Y, W = self.X, self.B, self.Y, self.W
        Z = len(self.priors) + len(self.varying) + len(self.groups) + len(self._covariates()) + 1
        A, shift, turn = 0.6 * rng.normal(size=(X, X)), 0.5 * rng.normal(size=(X, Z)), rng.normal(size=(X, X))
        noise, sway, lean = rng.normal(size=(X, B)), 0.7 * rng.normal(size=(X, X)), 0.5 * rng.normal(size=(X, Z))
        seen, gain, bend = rng.normal(size=(Y, X)), 0.4 * rng.normal(size=(Y, Z)), 0.5 * rng.normal(size=(Y, X))
        error, cross = rng.normal(size=(Y, W)), 0.5 * rng.normal(size=(Y, X))
        if self.repeated_noise:
            noise[:, -1] = noise[:, 0]
        if Y <= W:
            error[:, :Y] += 2.0 * np.eye(Y)
        noise, error = self.path_scale * noise, self.noise_scale * error
        additive = self.scheme in ("additive", "taylor")

        def stacked(z):
            return jnp.stack([*z.values()])

        def drift(x, z, t):
            return A @ x + shift @ stacked(z) + 0.8 * jnp.sin(turn @ x + t)

        def diffusion(x, z, t):
            tilt = lean @ stacked(z) + 0.3 * t
            return noise * (1.0 + 0.4 * jnp.tanh(tilt if additive else sway @ x + tilt))[:, None]

        def step(x, z, v, delta, t):
            bumped = v + 0.2 * jnp.sin(v + x[0])
            return x + delta * drift(x, z, t) + jnp.sqrt(delta) * (diffusion(x, z, t) @ bumped)

        def exact(x, z, t):
            return seen @ x + bend @ jnp.sin(x) + jnp.tanh(gain @ stacked(z)) * (1.0 + 0.2 * jnp.cos(t))

        def noisy(x, z, w, t):
            size = 1.0 + 0.4 * jnp.tanh(cross @ x + gain @ stacked(z))
            return exact(x, z, t) + size * (error @ (w + 0.2 * jnp.sin(w)))

        def start(z):
            parts = [STARTS[kind](stacked(z)) for kind in self.starts]
            return [*parts, *(0.3 * (k + 1) for k in range(X - len(parts)))]

        def seen_time(t, inputs):
            return t + inputs["a"] * (1.0 + 0.3 * inputs["b"])

        functions: tuple[Callable[..., Any], ...] = (drift, diffusion, exact, noisy, step)
        inputs = {}
        if self.inputs:
            functions = (
                lambda x, z, t, inputs: drift(x, z, seen_time(t, inputs)),
                lambda x, z, t, inputs: diffusion(x, z, seen_time(t, inputs)),
                lambda x, z, t, inputs: exact(x, z, seen_time(t, inputs)),
                lambda x, z, w, t, inputs: noisy(x, z, w, seen_time(t, inputs)),
                lambda x, z, v, delta, t, inputs: step(x, z, v, delta, seen_time(t, inputs)),
            )
            inputs = {
                "a": Input([0.0, 0.7, 9.0], [0.2, 1.0, -2.0]),
                "b": Input([0.0, 0.5, 1.2], [0.3, -0.7, 1.1], kind="hold"),
            }
        a, b, h, h_noisy, f = functions
        schemes: dict[str, Scheme] = {"taylor": StrongOrder1p5(), "custom": CustomScheme(f, B)}
        return DiffusionModel(
            drift=a,
            diffusion=b,
            parameters=self._parameters(),
            initial_state=start if self.starts else [0.3 * (k + 1) for k in range(X)],
            observation=NoisyObservation(h_noisy, NOISES[self.noise](W)) if W else Noiseless(h),
            scheme=schemes.get(self.scheme, EulerMaruyama()),
            inputs=inputs,
            covariates=self._covariates(),
        )

    def _covariates(self) -> dict[str, Any]:
        return {"weight": 0.5, "group": ["a", "b", "c"]} if self.covariates or self.groups else {}

    def _parameters(self) -> dict[str, Any]:
        def given(kind: str, *others: str) -> Callable[..., Any]:
            return lambda z: GIVEN[kind](sum(z[other] for other in others))

        names = [f"p{i}" for i in range(len(self.priors))]
        shared = {
            name: given(kind, other) if kind in GIVEN else PRIORS[kind]()
            for name, kind, other in zip(names, self.priors, [*names[1:], "fixed"], strict=False)
        }
        first = names[0] if names else "fixed"
        groups = {f"g{i}": pf.Varying(given(kind, first), by="group") for i, kind in enumerate(self.groups)}
        others = [first, *groups, *[name for name in self._covariates() if name == "weight"]]
        varying = {f"v{i}": pf.Varying(given(kind, *others)) for i, kind in enumerate(self.varying)}
        return {"fixed": 0.6, **varying, **groups, **shared}

    def _grid(self) -> TimeGrid:
        """Arbitrary observations at (ir)regular times, some missing, some nodes without any."""
        rng = np.random.default_rng(self.seed + 1)
        panel = []
        for k, n in enumerate(self.lengths):
            own = {"a": Input([0.0, 9.0], [-0.5, 2.0])} if self.inputs and k == 1 else None
            gaps = np.full(n, 0.5) if self.regular else rng.uniform(0.2, 0.9, size=n)
            if self.from_start:
                gaps[0] = 0.0
            values = rng.normal(size=(n, self.Y))
            if self.missing:
                hidden = rng.uniform(size=values.shape) < 0.4
                hidden[rng.integers(n)] = False
                values[hidden] = np.nan
            known = {"weight": 0.3 + 0.4 * k, "group": "cab"[k % 3]} if self._covariates() else None
            panel.append(Observations(0.1 + np.cumsum(gaps), values, initial_time=0.1, inputs=own, covariates=known))
        return TimeGrid.build(panel, steps_per_interval=self.S)


@lru_cache(maxsize=16)
def made(case: Case) -> tuple[DiffusionModel, TimeGrid]:
    return case._model(), case._grid()


def draw_case(entropy: int, *, scaled: bool = False) -> Case:
    """Every dimension and option of `Case`. Y is at most what the noise of one interval and observation can span.

    `scaled` multiplies the path noise by 10^uniform(-6, 3), and the observation noise by the same or not at all.
    """
    rng = np.random.default_rng(entropy)

    def chance() -> bool:
        return bool(rng.integers(2))

    def some(kinds, most: int) -> tuple[str, ...]:
        return tuple(str(kind) for kind in rng.choice([*kinds], size=rng.integers(most + 1)))

    scheme = str(rng.choice(SCHEMES))
    X = int(rng.integers(1, 3 if scheme == "taylor" else 5))  # its third derivatives take long to compile
    B = int(rng.integers(1, X + 1))
    repeated = B > 1 and chance()
    S, W = int(rng.integers(1, 9)), int(rng.integers(4))
    spanned = W + min(X, S * (B - repeated))
    N, series = int(rng.integers(1, 13)), int(rng.integers(1, 4))
    cuts = sorted({0, N, *rng.integers(0, N + 1, size=series - 1).tolist()})
    scale = 10.0 ** rng.uniform(-6.0, 3.0) if scaled else 1.0
    return Case(
        seed=int(rng.integers(2**31)),
        X=X,
        B=B,
        Y=int(rng.integers(1, min(3, spanned) + 1)),
        W=W,
        S=S,
        priors=some(PRIORS | GIVEN, 6),
        starts=some(STARTS, X),
        lengths=tuple(int(n) for n in np.diff(cuts)),
        scheme=scheme,
        repeated_noise=repeated,
        missing=chance(),
        regular=chance(),
        lanes=int(rng.choice([2, 4, 8])),
        path_scale=scale,
        noise_scale=scale if chance() else 1.0,
        noise=str(rng.choice([*NOISES])),
        varying=some(GIVEN, 2),
        groups=some(GIVEN, 1),
        covariates=chance(),
    )


def cases(**options: bool) -> st.SearchStrategy[Case]:
    """Random cases, each from one integer: a draw costs seconds, too much for Hypothesis's variations of draws seen."""
    return st.integers(0, 2**62).map(lambda entropy: draw_case(entropy, **options))


def with_data_from(model: DiffusionModel, grid: TimeGrid, q: np.ndarray) -> TimeGrid:
    """The grid with the observations that q generates, so that q lies on the manifold."""
    predicted = Dense(model, grid).predicted(q)
    return replace(grid, values=np.where(grid.mask, predicted, MISSING))
