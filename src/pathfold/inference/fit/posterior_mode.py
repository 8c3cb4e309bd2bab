"""The mode of a log density of parameters, and its curvature there: quasi-Newton in coordinates that suit it.

Coordinates s have u = m + L s, with L L^T the covariance that is expected at the start: there the posterior is round,
within a factor of two or so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pathfold.sampling.differences import Origin
from pathfold.sampling.progress import Stages

ITERATIONS = 80
SECOND_DIFFERENCE = 0.2  # of a posterior standard deviation, for second derivatives
NEGLIGIBLE = 1e-6  # curvature that rounding can make, relative to that of the posterior
SHARE = 0.05  # of a parameter's spread, along a direction without end, below which it is the error of that direction
LONGEST = 1.0  # prior standard deviations that a step may change a parameter by
FARTHEST = 6.0  # prior standard deviations beyond which a likelihood is not climbed
DECREMENT = 1e-6  # expected gain at which the mode is found
SLOPE = 1e-4  # share of the expected gain that a step must have
SHORTEST = 1.0 / 64.0


class Density(Protocol):
    """A log density at many parameters u, of which it depends on those that are `free`."""

    @property
    def prior(self) -> bool: ...  # whether it is a posterior's
    @property
    def free(self) -> np.ndarray: ...
    @property
    def stages(self) -> Stages: ...
    def values(self, u: np.ndarray, origin: Origin) -> np.ndarray: ...
    def reached(self, u: np.ndarray, origin: Origin) -> Origin | None: ...
    def gradient(self, origin: Origin, L: np.ndarray) -> np.ndarray: ...  # by s
    def hessian(self, origin: Origin, L: np.ndarray, step: float) -> np.ndarray: ...  # minus the second derivatives


@dataclass(frozen=True)
class Mode:
    """A mode of a density: its origin, and minus the second derivatives by u, the identity for those that are not free;
    whether the climb ended there."""

    density: Density
    origin: Origin
    hessian: np.ndarray
    converged: bool

    @property
    def covariance(self) -> np.ndarray:
        """The inverse of the curvature, of which directions with none are as wide as twice the prior."""
        values, vectors = np.linalg.eigh(self.hessian)
        return (vectors / np.maximum(values, 0.25)) @ vectors.T


@dataclass(frozen=True)
class Information:
    """Independent directions of the normals: `known` (U, k), a standard error long each, and those without any end."""

    known: np.ndarray
    unknown: np.ndarray

    def standard_errors(self, slope: np.ndarray) -> np.ndarray:
        """Return the standard errors of parameters with these slopes dz/du (Z, U); infinite where undetermined."""
        return np.where(self.open(slope).any(axis=1), np.inf, np.linalg.norm(slope @ self.known, axis=1))

    def open(self, slope: np.ndarray) -> np.ndarray:
        """Return which parameters with these slopes move along which of the directions without end (Z, k)."""
        known, unknown = slope @ self.known, slope @ self.unknown
        total = np.linalg.norm(np.concatenate([known, unknown], axis=1), axis=1, keepdims=True)
        return np.abs(unknown) > SHARE * total


def information(hessian: np.ndarray, change: np.ndarray, covariance: np.ndarray) -> Information:
    """Split the normals into directions with curvature and those that have no more of it than its `change` along them.

    The change is that of the curvature when the steps of its differences are halved, and so bounds their error.
    """
    root = np.linalg.cholesky(covariance)
    values, vectors = np.linalg.eigh(root.T @ hessian @ root)
    directions = root @ vectors
    known = values > np.abs(np.sum(directions * (change @ directions), axis=0)) + NEGLIGIBLE
    return Information(directions[:, known] / np.sqrt(values[known]), directions[:, ~known])


def climb(
    density: Density,
    origin: Origin,
    covariance: np.ndarray,
    free: np.ndarray | None = None,
    decrement: float = DECREMENT,
) -> tuple[Origin, bool]:
    """Go from an origin to the mode near it, by BFGS; return whether it was reached.

    It was not if the time is spent before. Those parameters move that are `free`, or that the density depends on.
    """
    L = _factor(covariance, density.free if free is None else free)
    size, g = L.shape[1], density.gradient(origin, L)
    inverse = np.eye(size)
    for _ in range(ITERATIONS):
        density.stages.update()
        p = inverse @ g
        if float(g @ p) < decrement:
            return origin, True
        if density.stages.spent:
            break
        p *= min(1.0, LONGEST / np.abs(L @ p).max())
        moved = _step(density, origin, L @ p, float(g @ p))
        if moved is None:
            if np.array_equal(inverse, np.eye(size)):
                return origin, False
            inverse = np.eye(size)
            continue
        s, y = np.linalg.lstsq(L, moved.u - origin.u)[0], -g
        origin, g = moved, density.gradient(moved, L)
        y = -(g + y)  # of minus the log density
        inverse = _updated(inverse, s, y)
    return origin, False


def _factor(covariance: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return L (U, free) with L L^T the covariance of the free parameters given the others; 0 for these."""
    if free.all():
        return np.linalg.cholesky(covariance)
    L = np.zeros((len(covariance), int(free.sum())))
    L[free] = np.linalg.cholesky(np.linalg.inv(np.linalg.inv(covariance)[np.ix_(free, free)]))
    return L


def _step(density: Density, origin: Origin, change: np.ndarray, slope: float) -> Origin | None:
    """Return the first of ever shorter steps that gains enough."""
    fraction, moving, farthest = 1.0, change != 0.0, np.inf if density.prior else FARTHEST
    while fraction >= SHORTEST:
        u = origin.u + fraction * change
        if np.abs(u[moving]).max() < farthest:
            moved = density.reached(u, origin)
            if moved is not None and moved.log_density > origin.log_density + SLOPE * fraction * slope:
                return moved
        fraction *= 0.5
    return None


def _updated(inverse: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the BFGS update of an inverse Hessian; the same where the curvature along the step is not positive."""
    along = float(s @ y)
    if along <= 1e-10 * np.linalg.norm(s) * np.linalg.norm(y):
        return inverse
    left = np.eye(len(s)) - np.outer(s, y) / along
    return left @ inverse @ left.T + np.outer(s, s) / along


def curvature(
    density: Density,
    origin: Origin,
    covariance: np.ndarray,
    free: np.ndarray | None = None,
    step: float = SECOND_DIFFERENCE,
) -> np.ndarray:
    """Minus the second derivatives of the log density by u, by differences; unknown ones are the prior's.

    Differences are taken along coordinates in which the covariance, a guess of the posterior's, is the identity.
    Parameters that are not `free` have the identity.
    """
    free = density.free if free is None else free
    L, whole = _factor(covariance, free), np.eye(len(free))
    if free.any():
        inner = np.linalg.inv(L[free])
        whole[np.ix_(free, free)] = inner.T @ density.hessian(origin, L, step) @ inner
    return whole
