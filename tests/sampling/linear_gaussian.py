"""Linear-Gaussian targets whose posteriors are known: dense joint Gaussians in NumPy, quadrature over parameters.

Nothing here knows of the package's schemes: the transition matrices are written out by hand, and the posterior of the
discretised model is the conditional of one joint Gaussian of all node states and observations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.interpolate import CubicSpline

import pathfold as pf
from pathfold.schemes import Scheme
from tests.once import once

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Process:
    """x' = A x + c + B v over a fine step; y = H x + tau w; x_0 ~ N(start_mean, start_scale^2).

    `transition(z, delta)` gives (A, c, B) for arrays of parameters z, which lead; `tau` names the parameter that is the
    scale of the observation noise, or is None. `values` are the parameters in the truth; the prior of those named in
    `free` is log-normal about them, with this spread of the logarithm.
    """

    values: dict[str, float]
    free: tuple[str, ...]
    transition: Callable[[dict[str, np.ndarray], float], tuple[np.ndarray, np.ndarray, np.ndarray]]
    start_mean: np.ndarray
    start_scale: np.ndarray
    drift: Callable[..., Any]
    diffusion: Callable[..., Any]
    scheme: Scheme
    tau: str | None = None
    spread: float = 0.4

    @property
    def observed(self) -> np.ndarray:
        """H: the first component."""
        return np.eye(1, self.start_mean.size)

    @once
    def model(self, *, known: bool) -> pf.DiffusionModel:
        """The model for the package, with the free parameters unknown, or `known` to be the true ones."""
        priors: dict[str, Any] = dict(self.values)
        if not known:
            priors |= {name: dist.LogNormal(np.log(self.values[name]), self.spread) for name in self.free}
        return pf.DiffusionModel(
            drift=self.drift,
            diffusion=self.diffusion,
            parameters=priors,
            initial_state=dist.Normal(jnp.asarray(self.start_mean), jnp.asarray(self.start_scale)),
            observation=pf.GaussianNoise(lambda x, z: x[:1], self.tau)
            if self.tau
            else pf.Noiseless(lambda x, z: x[:1]),
            scheme=self.scheme,
        )


@once
def ornstein_uhlenbeck(*, noisy: bool) -> Process:
    """dx = -theta (x - mu) dt + sigma dW by Euler-Maruyama; with noise its scale is unknown, without it theta is."""

    def transition(z, delta):
        A = (1.0 - delta * z["theta"])[:, None, None]
        c = (delta * z["theta"] * z["mu"])[:, None]
        B = (np.sqrt(delta) * z["sigma"])[:, None, None]
        return A, c, B

    return Process(
        values={"theta": 0.8, "mu": 0.4, "sigma": 0.6} | ({"tau": 0.3} if noisy else {}),
        free=("sigma", "tau") if noisy else ("theta", "sigma"),
        transition=transition,
        start_mean=np.array([-0.5]),
        start_scale=np.array([1.2]),
        drift=lambda x, z: -z["theta"] * (x - z["mu"]),
        diffusion=lambda x, z: z["sigma"].reshape(1, 1),
        scheme=pf.EulerMaruyama(),
        tau="tau" if noisy else None,
    )


@once
def integrated_ornstein_uhlenbeck() -> Process:
    """dx_0 = x_1 dt, dx_1 = -theta x_1 dt + sigma dW by the strong order 1.5 scheme, x_0 seen without noise."""

    def transition(z, delta):
        theta, sigma, zero = z["theta"], z["sigma"], 0.0 * z["theta"]
        A = np.array([[1.0 + zero, delta - 0.5 * delta**2 * theta],
                      [zero, 1.0 - delta * theta + 0.5 * (delta * theta) ** 2]])  # fmt: skip
        # dW = sqrt(delta) v_1 and dZ = delta^(3/2) / 2 (v_1 + v_2 / sqrt(3)) enter x_0 by sigma dZ, x_1 by
        # sigma dW - theta sigma dZ.
        dz = 0.5 * delta**1.5 * np.array([1.0, 3**-0.5])
        B = np.array([[sigma * dz[0], sigma * dz[1]],
                      [sigma * (np.sqrt(delta) - theta * dz[0]), -theta * sigma * dz[1]]])  # fmt: skip
        return np.moveaxis(A, -1, 0), np.zeros((theta.size, 2)), np.moveaxis(B, -1, 0)

    return Process(
        values={"theta": 1.0, "sigma": 0.8},
        free=("theta", "sigma"),
        transition=transition,
        start_mean=np.array([0.2, -0.3]),
        start_scale=np.array([1.0, 0.7]),
        drift=lambda x, z: jnp.array([x[1], -z["theta"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        scheme=pf.StrongOrder1p5(),
    )


@dataclass(frozen=True)
class Moments:
    """Expectations under a posterior: of x_0 and the node states as one vector, and of each free parameter."""

    path_mean: np.ndarray
    path_cov: np.ndarray
    parameters: dict[str, tuple[float, float, np.ndarray]]  # mean, variance, quantiles


@dataclass(frozen=True)
class Exact:
    """The exact posterior of a process given observations, S fine steps between them."""

    process: Process
    data: pf.Observations
    steps: int

    def joint(self, z: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Mean (G, K, X) and factor (G, K, X, D) of x_0 and the node states as linear functions of all normals."""
        X = self.process.start_mean.size
        times = np.concatenate([[self.data.initial_time], self.data.times])
        G = next(iter(z.values())).size
        noise = self.process.transition(z, 1.0)[2].shape[-1]
        mean = np.broadcast_to(self.process.start_mean, (G, X))
        factor = np.zeros((G, X, X + noise * self.steps * self.data.times.size))
        factor[:, :, :X] = np.diag(self.process.start_scale)
        means, factors, at = [mean], [factor], X
        for length in np.diff(times):
            A, c, B = self.process.transition(z, length / self.steps)
            for _ in range(self.steps):
                mean, factor = (A @ mean[..., None])[..., 0] + c, A @ factor
                factor[:, :, at : at + noise] = B
                at += noise
            means.append(mean)
            factors.append(factor)
        return np.stack(means, axis=1), np.stack(factors, axis=1)

    def conditional(self, z: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log likelihood (G), and mean (G, K X) and covariance of the states given the observations."""
        mean, factor = self.joint(z)
        G, K, X, D = factor.shape
        rows = np.flatnonzero(~np.isnan(self.data.values[:, 0])) + 1
        H = np.zeros((rows.size, K, X))
        H[np.arange(rows.size), rows] = self.process.observed
        H = H.reshape(rows.size, K * X)
        mean, factor = mean.reshape(G, K * X), factor.reshape(G, K * X, D)
        prior = factor @ factor.swapaxes(1, 2)
        tau = z[self.process.tau] if self.process.tau else np.zeros(G)
        gram = H @ prior @ H.T + tau[:, None, None] ** 2 * np.eye(rows.size)
        misfit = self.data.values[rows - 1, 0] - mean @ H.T
        gain = np.linalg.solve(gram, H @ prior).swapaxes(1, 2)
        whitened = np.linalg.solve(gram, misfit[..., None])[..., 0]
        log_likelihood = -0.5 * ((misfit * whitened).sum(-1) + np.linalg.slogdet(gram)[1])
        centre = mean + (gain @ misfit[..., None])[..., 0]
        # Symmetric and exact: what is left of every normal, (I - gain H) factor, and of the observation noise.
        left = factor - gain @ (H @ factor)
        cov = left @ left.swapaxes(1, 2) + tau[:, None, None] ** 2 * gain @ gain.swapaxes(1, 2)
        return log_likelihood, centre, cov

    def parameters(self, u: np.ndarray) -> dict[str, np.ndarray]:
        """z of standard normals u (G, free parameters)."""
        p = self.process
        z = {name: np.full(len(u), value) for name, value in p.values.items()}
        return z | {name: p.values[name] * np.exp(p.spread * u[:, i]) for i, name in enumerate(p.free)}

    @cached_property
    def known(self) -> Moments:
        """With the true parameters given."""
        _, mean, cov = self.conditional(self.parameters(np.zeros((1, len(self.process.free)))))
        return Moments(mean[0], cov[0], {})

    def log_posterior(self, u: np.ndarray) -> np.ndarray:
        return self.conditional(self.parameters(u))[0] - 0.5 * (u**2).sum(axis=1)

    def _axes(self) -> list[np.ndarray]:
        """A grid of two parameters around where a coarse one finds posterior density, as far as 5 prior deviations."""
        coarse = np.linspace(-5.0, 5.0, 41)
        u = np.stack(np.meshgrid(coarse, coarse, indexing="ij"), axis=-1)
        log_density = np.stack([self.log_posterior(row) for row in u])
        high = log_density > log_density.max() - 20.0
        axes = []
        for i in (0, 1):
            inside = coarse[high.any(axis=1 - i)]
            axes.append(np.linspace(max(inside[0] - 0.25, -5.0), min(inside[-1] + 0.25, 5.0), 81))
        return axes

    @cached_property
    def unknown(self) -> Moments:
        """With two unknown parameters: quadrature (trapezoidal rule, spectrally accurate here) over the likelihood."""
        axes = self._axes()
        size = self.process.start_mean.size * (1 + self.data.times.size)
        total, first, second = 0.0, np.zeros(size), np.zeros((size, size))
        marginals, parts = [np.zeros(axes[0].size), np.zeros(axes[1].size)], []
        for u0 in axes[0]:
            u = np.stack([np.full_like(axes[1], u0), axes[1]], axis=1)
            log_likelihood, mean, cov = self.conditional(self.parameters(u))
            parts.append((log_likelihood - 0.5 * (u**2).sum(axis=1), mean, cov))
        top = max(part[0].max() for part in parts)
        for i, (log_density, mean, cov) in enumerate(parts):
            weight = np.exp(log_density - top)
            total += weight.sum()
            first += weight @ mean
            second += np.einsum("g,gij->ij", weight, cov) + (weight[:, None] * mean).T @ mean
            marginals[0][i] = weight.sum()
            marginals[1] += weight
        path_mean = first / total
        parameters = {}
        for name, u, density in zip(self.process.free, axes, marginals, strict=True):
            value = self.process.values[name] * np.exp(self.process.spread * u)
            mean = density @ value / density.sum()
            variance = density @ (value - mean) ** 2 / density.sum()
            cumulative = CubicSpline(u, density).antiderivative()(u)
            at = CubicSpline(u, cumulative / cumulative[-1])
            solve: Any = at.solve
            quantiles = np.array([np.ravel(solve(p, extrapolate=False))[0] for p in QUANTILES])
            parameters[name] = (mean, variance, self.process.values[name] * np.exp(self.process.spread * quantiles))
        return Moments(path_mean, second / total - np.outer(path_mean, path_mean), parameters)
