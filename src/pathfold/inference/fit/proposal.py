"""A distribution to draw parameters from, in the place of a posterior whose density can only be evaluated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, gammaln, ndtri

FREEDOM, WIDER = 5.0, 1.5  # degrees of freedom of the proposal; how much wider than the posterior draws it is at first
DEFENSIVE = 0.1  # of the draws, about, come from the standard normal


def log_normal(u: np.ndarray) -> np.ndarray:
    return -0.5 * (u**2).sum(axis=1) - 0.5 * u.shape[1] * np.log(2 * np.pi)


@dataclass(frozen=True)
class Proposal:
    """Student's t about `mean` with scale matrix `cov`, and a standard normal that it is mixed with."""

    mean: np.ndarray
    cov: np.ndarray

    @classmethod
    def of_draws(cls, u: np.ndarray) -> Proposal:
        """Fit a proposal to posterior draws; they are few, so shrink correlations, add what is left of the prior."""
        count, size = u.shape
        spread = np.cov(u, rowvar=False).reshape(size, size) if count > 1 else np.eye(size)
        shrunk = (count * spread + (size + 1) * np.diag(np.diag(spread))) / (count + size + 1)
        return cls(u.mean(axis=0), WIDER * shrunk + np.eye(size) / (10 * count))

    def refitted(self, u: np.ndarray, log_weights: np.ndarray) -> Proposal:
        """Return a proposal with the weighted moments of draws, as far as these are effective."""
        if not np.isfinite(log_weights.max()):
            return self
        w = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        mean, before, effective = w @ u, len(self.mean) + 1, 1.0 / (w**2).sum()
        cov = (u - mean).T @ (w[:, None] * (u - mean))
        share = effective / (effective + before)
        return Proposal(share * mean + (1 - share) * self.mean, share * cov + (1 - share) * self.cov)

    def draw(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return `count` draws and their log density: of the mixture with each stratum's share of the draws."""
        size, plain = len(self.mean), round(DEFENSIVE * count)
        normals = rng.standard_normal((count, size))
        scale = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size=(count, 1)))
        u = self.mean + scale * normals @ np.linalg.cholesky(self.cov).T
        u[:plain] = normals[:plain]
        share = plain / count
        return u, np.logaddexp(np.log1p(-share) + self.log_student(u), np.log(share) + log_normal(u))

    def of_uniforms(self, uniforms: np.ndarray) -> np.ndarray:
        """Return draws of Student's t from points (count, U + 1) of the unit cube."""
        size = len(self.mean)
        scale = np.sqrt(FREEDOM / chdtri(FREEDOM, uniforms[:, size:]))
        return self.mean + scale * ndtri(uniforms[:, :size]) @ np.linalg.cholesky(self.cov).T

    def log_student(self, u: np.ndarray) -> np.ndarray:
        """Return the log density of the Student's t part."""
        size, root = len(self.mean), np.linalg.cholesky(self.cov)
        distance = (np.linalg.solve(root, (u - self.mean).T) ** 2).sum(axis=0)
        student = gammaln(0.5 * (FREEDOM + size)) - gammaln(0.5 * FREEDOM) - 0.5 * size * np.log(np.pi * FREEDOM)
        return student - np.log(np.diag(root)).sum() - 0.5 * (FREEDOM + size) * np.log1p(distance / FREEDOM)
