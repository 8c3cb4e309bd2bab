"""The metric of the parameters: checking what the user gives, and finding coordinates in which it is the identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pathfold.data.checks import choice
from pathfold.data.real_arrays import real_array
from pathfold.engine.native.thresholds import TRIALS_BEGIN
from pathfold.errors import SettingsError, told
from pathfold.model.functions import listed
from pathfold.model.parameters import Parameters

Metric = str | Sequence[Any] | np.ndarray | Mapping[str, Any]
NAMES = ("identity", "adapted")
FLATTEST = 1e-12  # the smallest eigenvalue of a metric, of the largest
BEGIN, END = 0.1, TRIALS_BEGIN  # of warm-up: between are the draws that a metric is adapted by, before other things are


@dataclass(frozen=True)
class Coordinates:
    """Coordinates q with u = centre + factor q and a lower triangular factor: the metric is (factor factor^T)^{-1}."""

    centre: np.ndarray
    factor: np.ndarray

    @property
    def numbers(self) -> np.ndarray:
        """Both in one array, as a problem holds them."""
        return np.concatenate([self.centre, self.factor.ravel()])


class Window:
    """The part of warm-up that a metric is adapted in: mean and covariance of u, and the mean mass of the parameters.

    `numbers` holds all of it, for a checkpoint.
    """

    def __init__(self, size: int) -> None:
        self.size, self.numbers = size, np.zeros(1 + size + 2 * size**2)
        self._seen, self._mean, rest = np.split(self.numbers, [1, 1 + size])
        self._products, self._mass = rest.reshape(2, size, size)

    def add(self, u: np.ndarray, mass: np.ndarray) -> None:
        """Add a draw, whose mass is C = 1 + J_u^T (J_v J_v^T)^{-1} J_u, with the identity as the metric."""
        self._seen += 1.0
        deviation = u - self._mean
        self._mean += deviation / self._seen
        self._products += np.outer(deviation, u - self._mean)
        self._mass += (mass - self._mass) / self._seen

    def coordinates(self) -> Coordinates:
        """Return coordinates of the metric that raises the mass to the posterior precision where it is less.

        In coordinates in which the mass is 1 and the precision diagonal, f^2, the parameters turn f times as fast as
        the noise, and the metric is the identity plus (f^2 - 1)_+. Of n draws of U independent normals the covariance
        seems smaller by up to (1 - sqrt(U / n))^2 in some direction, which is taken off f^2. The centre is where prior
        and Gaussian flow balance at the posterior mean.
        """
        one, seen = np.eye(self.size), float(self._seen[0])
        chance = max(0.0, 1.0 - np.sqrt(self.size / seen)) ** 2
        root = np.linalg.cholesky(self._mass)
        slowness, directions = np.linalg.eigh(root.T @ (self._products / max(1.0, seen - 1.0)) @ root)
        added = np.array([max(0.0, chance / slow - 1.0) if slow > 0.0 else 0.0 for slow in slowness])
        columns = root @ directions
        inverse = np.linalg.inv(one + (columns * added) @ columns.T)
        return Coordinates((one - inverse) @ self._mean, np.linalg.cholesky(inverse))


def checked_metric(given: Any) -> Any:
    """Check the metric given, and return its name, or a matrix, its diagonal, or a dict of that, as plain numbers."""
    if isinstance(given, str):
        return choice("metric", given, NAMES)
    if isinstance(given, Mapping):
        return {name: _positive(f"metric[{name!r}]", value).tolist() for name, value in given.items()}
    array = real_array("metric", given, error=SettingsError).astype(float)
    if array.ndim == 1:
        return _positive("metric", array).tolist()
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise SettingsError(
            "metric must be 'identity', 'adapted', a square matrix, its diagonal, or a dict of that by parameter, not "
            f"{told(given)}"
        )
    largest = np.abs(array).max(initial=0.0)
    if not np.all(np.isfinite(array)) or np.abs(array - array.T).max(initial=0.0) > 1e-9 * largest:
        raise SettingsError("metric must be a symmetric matrix of finite numbers; give (A + A.T) / 2 of a matrix A")
    eigenvalues = np.linalg.eigvalsh(array)
    if eigenvalues.min(initial=np.inf) <= FLATTEST * eigenvalues.max(initial=0.0):
        raise SettingsError(
            f"metric must be positive definite, and its eigenvalues lie between {eigenvalues[0]:.3g} and "
            f"{eigenvalues[-1]:.3g}; give the inverse of a covariance, for example"
        )
    return array.tolist()


def _positive(name: str, given: Any) -> np.ndarray:
    values = real_array(name, given, error=SettingsError).astype(float)
    if not (np.all(values > 0.0) and np.all(values < np.inf)):
        raise SettingsError(f"{name} must be positive, not {told(given)}")
    return values


def coordinates_of(metric: Any, parameters: Parameters) -> Coordinates | None:
    """Return the coordinates in which a given metric is the identity; None if it has a name instead of numbers."""
    if isinstance(metric, str):
        return None
    size = parameters.size
    if isinstance(metric, Mapping):
        matrix = np.diag(_by_parameter(metric, parameters))
    else:
        matrix = np.diag(metric) if np.ndim(metric) == 1 else np.array(metric)
        if len(matrix) != size:
            sizes = [f"{name} {m.size}" for name, m in parameters.maps.items() if m.size]
            raise SettingsError(
                f"metric is of {len(matrix)} numbers, but the parameters that series share are made of {size} standard "
                f"normals ({', '.join(sizes)}); give one row for each, in this order"
            )
    return Coordinates(np.zeros(size), np.linalg.cholesky(np.linalg.inv(matrix)))


def _by_parameter(metric: Mapping[str, Any], parameters: Parameters) -> np.ndarray:
    """Return the diagonal of a metric given by parameter: 1 for parameters that it does not name."""
    with_normals = [name for name, m in parameters.maps.items() if m.size]
    if unknown := [name for name in metric if name not in with_normals]:
        raise SettingsError(
            f"metric names {listed(unknown)}; the parameters that series share and that are not fixed are "
            f"{listed(with_normals)}"
        )
    parts = []
    for name in with_normals:
        size, values = parameters.maps[name].size, np.asarray(metric.get(name, 1.0))
        if values.ndim and values.shape != (size,):
            raise SettingsError(
                f"metric[{name!r}] has shape {values.shape}, but the parameter is made of {size} standard normals; "
                "give one number, or one for each"
            )
        parts.append(np.broadcast_to(values, size))
    return np.concatenate([np.zeros(0), *parts])
