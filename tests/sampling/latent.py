"""A latent Ornstein-Uhlenbeck process seen through any likelihood, and its posterior by quadrature on a grid.

    dx = -THETA x dt + s dW,  x(0) ~ N(0, START^2),  y_n ~ f(x_n, z)

with Euler steps, so that the discretised transition between nodes is normal and known. Parameters are s and, where the
likelihood has one, c (a scale or a dispersion), both log-normal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.stats import norm

import pathfold as pf

THETA, START, STEPS = 0.7, 0.8, 3
PRIORS = {"s": (-0.5, 0.4), "c": (0.0, 0.5)}
TRUTH = {"s": 0.7, "c": 1.2}


def model(observation: Any, *, unknown: bool = False) -> pf.DiffusionModel:
    """With c a parameter if it is unknown."""
    names = ("s", "c") if unknown else ("s",)
    return pf.DiffusionModel(
        drift=lambda x, z: -THETA * x,
        diffusion=lambda x, z: z["s"] * jnp.eye(1),
        parameters={name: dist.LogNormal(*PRIORS[name]) for name in names},
        initial_state=[dist.Normal(0.0, START)],
        observation=observation,
    )


def simulated(m: pf.DiffusionModel, count: int, seed: int = 1) -> pf.Observations:
    truth = {name: TRUTH[name] for name in m.parameters.names}
    return pf.simulate(m, truth, np.arange(1, count + 1), steps_per_interval=STEPS, seed=seed)


def exact_means(
    log_likelihood: Callable[..., Any], times: np.ndarray, *, unknown: bool, points: int = 281
) -> dict[str, Any]:
    """Posterior means of log s, (log s)^2, log c, x at the last time and its square.

    `log_likelihood(n, x, z)` is that of what was observed at time n for all x of the grid, which must be as fine as the
    likelihood is narrow.
    """
    x = np.linspace(-7.0, 7.0, points)
    grids = {name: np.linspace(m - 5 * sd, m + 5 * sd, 41) for name, (m, sd) in PRIORS.items()}
    c_values = grids["c"] if unknown else np.zeros(1)
    with jax.enable_x64(True):
        values = [
            jax.vmap(lambda c, n=n: log_likelihood(n, jnp.asarray(x), {"c": jnp.exp(c)}))(jnp.asarray(c_values))
            for n in range(len(times))
        ]
        likelihood = np.exp(np.asarray(values))
    (delta,) = set((np.diff(times, prepend=0.0) / STEPS).tolist())  # equal steps: one transition for all
    shrink = 1.0 - THETA * delta
    spread = np.sqrt(delta * np.sum(shrink ** (2 * np.arange(STEPS))))
    totals, ends = np.zeros((len(grids["s"]), len(c_values))), np.zeros((2, len(grids["s"]), len(c_values)))
    for i, log_s in enumerate(grids["s"]):
        density = np.repeat(norm.pdf(x, 0.0, START)[None], len(c_values), axis=0)
        kernel = norm.pdf(x, shrink**STEPS * x[:, None], np.exp(log_s) * spread) * (x[1] - x[0])
        for n in range(len(times)):
            density = density @ kernel * likelihood[n]
        prior = norm.pdf(log_s, *PRIORS["s"]) * (norm.pdf(c_values, *PRIORS["c"]) if unknown else 1.0)
        totals[i] = prior * density.sum(axis=1)
        ends[:, i] = prior * (density @ np.stack([x, x**2], axis=1)).T
    weights = totals / totals.sum()
    by_s = weights.sum(axis=1)
    means = {"log s": by_s @ grids["s"], "(log s)^2": by_s @ grids["s"] ** 2}
    if unknown:
        means |= {"log c": weights.sum(axis=0) @ grids["c"], "(log c)^2": weights.sum(axis=0) @ grids["c"] ** 2}
    return means | {"x": ends[0].sum() / totals.sum(), "x^2": ends[1].sum() / totals.sum()}


def drawn(tree: Any) -> dict[str, np.ndarray]:
    """The same quantities of the draws, (chain, draw)."""
    found: dict[str, np.ndarray] = {}
    for name in ("s", "c"):
        if name in tree.posterior:
            logs = np.log(tree.posterior[name].values)
            found |= {f"log {name}": logs, f"(log {name})^2": logs**2}
    last = tree.posterior["state"].values[:, :, -1, 0]
    return found | {"x": last, "x^2": last**2}
