"""First and second derivatives of a log density of parameters by differences of its values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

ROUGHLY = 0.05  # the step of a first guess of second derivatives


@dataclass(frozen=True)
class Origin:
    """Parameters, the point of their most probable noise, and the log of the approximate density there.

    The point is empty where other parameters do not need it.
    """

    u: np.ndarray
    point: np.ndarray
    log_density: float


class ByDifferences(ABC):
    """A log density that has derivatives along coordinates s about an origin, u = m + L s."""

    difference = 1e-3  # of a coordinate, for gradients

    @abstractmethod
    def values(self, u: np.ndarray, origin: Origin) -> np.ndarray:
        """Return log densities at parameters (count, U); -inf where none was found."""

    def gradient(self, origin: Origin, L: np.ndarray) -> np.ndarray:
        """The gradient by s, by central differences, or one-sided ones where a value is missing."""
        h = self.difference
        steps = h * np.concatenate([L.T, -L.T])
        up, down = np.split(self.values(origin.u + steps, origin), 2)
        known, here = np.isfinite(up) & np.isfinite(down), origin.log_density
        one_sided = np.where(np.isfinite(up), up - here, np.where(np.isfinite(down), here - down, 0.0))
        return np.where(known, 0.5 * (up - down), one_sided) / h

    def hessian(self, origin: Origin, L: np.ndarray, step: float) -> np.ndarray:
        """Minus the second derivatives by s; unknown ones are those of the identity.

        The step is that of a coordinate whose curvature is 1.
        """
        size, here = L.shape[1], origin.log_density

        def values(steps: np.ndarray) -> np.ndarray:
            found = self.values(origin.u + steps @ L.T, origin)
            return np.where(np.isfinite(found), found - here, np.nan)

        def diagonal(h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            up, down = values(np.diag(h)), values(-np.diag(h))
            return up, down, -(up + down) / h**2

        _, _, rough = diagonal(np.full(size, ROUGHLY))
        h = step / np.sqrt(np.clip(np.where(np.isfinite(rough), rough, 1.0), 1.0, 1e4))
        up, down, own = diagonal(h)
        pairs = [(i, j) for i in range(size) for j in range(i)]
        both = np.zeros((len(pairs), size))
        for row, (i, j) in zip(both, pairs, strict=True):
            row[i], row[j] = h[i], h[j]
        forth, back = values(both), values(-both)
        hessian = np.diag(own)
        for k, (i, j) in enumerate(pairs):
            mixed = -(forth[k] + back[k] - up[i] - down[i] - up[j] - down[j]) / (2.0 * h[i] * h[j])
            hessian[i, j] = hessian[j, i] = mixed
        return where_known(hessian)


def where_known(hessian: np.ndarray) -> np.ndarray:
    """Return second derivatives, with those of the identity in the place of others than numbers."""
    return np.where(np.isfinite(hessian), hessian, np.eye(len(hessian)))
