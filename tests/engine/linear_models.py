"""Models that are linear in their noise given the parameters, drawn at random, and the same bent in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from hypothesis import strategies as st

import pathfold as pf
from pathfold.model import DiffusionModel
from pathfold.schemes import CustomScheme, EulerMaruyama, ExactLinearDrift, StrongOrder1p5
from tests.engine.models import Case, draw_case

BENDS = {
    "drift": "step",
    "diffusion": "step",
    "effect": "step",
    "rows": "observed",
    "scale": "observed",
    "start": "initial state",
    "censored": "censored",
}


@dataclass(frozen=True)
class LinearCase(Case):
    """A case whose path and rows are linear in state, effects and noise, with any function of shared parameters as
    coefficients; `bend` names what is not."""

    bend: str = ""

    def _model(self) -> DiffusionModel:
        rng, X, B, Y, W = np.random.default_rng(self.seed), self.X, self.B, self.Y, self.W
        shared = len(self.priors) + len(self.groups) + len(self._covariates()) + 1
        A, turn, shift = 0.6 * rng.normal(size=(X, X)), 0.4 * rng.normal(size=(X, X)), rng.normal(size=(X, shared))
        noise, lean, own = rng.normal(size=(X, B)), 0.5 * rng.normal(size=(X, shared)), rng.normal(size=X)
        seen, gain, error = rng.normal(size=(Y, X)), 0.4 * rng.normal(size=(Y, shared)), rng.normal(size=(Y, W))
        if self.repeated_noise:
            noise[:, -1] = noise[:, 0]
        noise[: (X - B) // 2] = 0.0  # what noise reaches through other states alone
        if Y <= W:
            error[:, :Y] += 2.0 * np.eye(Y)
        noise, error = self.path_scale * noise, self.noise_scale * error

        def stacked(z):
            return jnp.stack(
                [jnp.asarray(value, dtype=jnp.result_type(float)) for name, value in z.items() if name[0] != "v"]
            )

        def effects(z):
            return sum((value for name, value in z.items() if name[0] == "v"), jnp.asarray(0.0))

        def bent(x, what):
            return 0.3 * jnp.sin(x) if self.bend == what else 0.0 * x

        def drift(x, z, t):
            common = jnp.tanh(shift @ stacked(z) + t)
            return (A + turn * common[:, None]) @ x + common + own * effects(z) + bent(x, "drift")

        def diffusion(x, z, t):
            tilt = lean @ stacked(z) + bent(x, "diffusion") + bent(effects(z), "effect")
            return noise * (1.0 + 0.4 * jnp.tanh(tilt))[:, None]

        def step(x, z, v, delta, t):
            return x + delta * drift(x, z, t) + jnp.sqrt(delta) * (diffusion(x, z, t) @ v)

        def exact(x, z, t):
            size = jnp.exp(gain @ stacked(z)) * (1.0 + 0.2 * jnp.cos(t))
            return size * (seen @ x) + 0.3 * effects(z) + 0.5 * size + jnp.sum(bent(x, "rows"))

        def noisy(x, z, w, t):
            return exact(x, z, t) + jnp.exp(gain @ stacked(z) + jnp.sum(bent(x, "scale"))) * (error @ w)

        def start(z):
            level = jnp.tanh(jnp.sum(stacked(z)))
            law = dist.LogNormal(0.2 * level, 0.3) if self.bend == "start" else dist.Normal(0.4 * level, jnp.exp(level))
            return [*(law for _ in self.starts), *(0.3 * level * (k + 1) for k in range(X - len(self.starts)))]

        schemes = {"taylor": StrongOrder1p5(), "custom": CustomScheme(step, B), "exact": ExactLinearDrift()}
        return DiffusionModel(
            drift=drift,
            diffusion=diffusion,
            parameters=self._parameters(),
            initial_state=start,
            observation=pf.NoisyObservation(noisy, W) if W else pf.Noiseless(exact),
            scheme=schemes.get(self.scheme, EulerMaruyama()),
            covariates=self._covariates(),
        )


def linear(case: Case, bend: str = "") -> LinearCase:
    """Return a linear model with the dimensions of a case."""
    same: dict[str, Any] = {each.name: getattr(case, each.name) for each in fields(Case)}
    kinds: dict[str, Any] = {"starts": ("normal",) * len(case.starts), "varying": ("normal given",) * len(case.varying)}
    return LinearCase(**same | kinds | {"noise": "normal", "inputs": False, "bend": bend})


def linear_cases() -> st.SearchStrategy[LinearCase]:
    return st.integers(0, 2**62).map(lambda entropy: linear(draw_case(entropy)))
