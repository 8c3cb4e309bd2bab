"""The exact law of each observation given those before it, where paths are integrated out (method.md, section 25)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.analysis.ahead import Ahead, Estimates
from pathfold.analysis.particle_filter import ParticleFilter
from pathfold.data import TimeGrid
from pathfold.engine import IntegratedEngine
from pathfold.engine.affine import why_not_affine
from pathfold.engine.equations.gram import SINGULAR
from pathfold.engine.native.integrated_paths import innovate
from pathfold.model import DiffusionModel, Likelihood
from pathfold.sampling.spread import spread

NORMALS, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)  # for the mean of a function of a normal
ROUNDING = 1e-15  # the share of the variance at the observation before that rounding may leave of it

type Fields = Callable[[str], np.ndarray]  # of the nodes with observations, by name


def filter_of(model: DiffusionModel, grid: TimeGrid, particles: int) -> Ahead:
    """Return the exact filter if all that is seen is made of normals, linearly or value by value; else particles."""
    if why_not_affine(model, censored=bool(grid.censored.any())) or not model.normal_laws().all():
        return ParticleFilter(model, grid, particles)
    return Innovations(model, grid)


class Innovations(Ahead[IntegratedEngine]):
    """Rows of an observation are normal given those before it: their means are innovations e, their covariance Sig."""

    method, told = "exact", "the exact filter"
    lost = "the density of what was observed is zero, or not finite,"
    remedy = "leave out values that others determine exactly"

    def __init__(self, model: DiffusionModel, grid: TimeGrid) -> None:
        super().__init__(IntegratedEngine(model, grid), grid)
        seen, series = grid.mask[self.rows], grid.series_of_intervals[self.rows]
        self.exact = seen & model.exactly_observed
        self.before = np.arange(len(series)) - (np.diff(series, prepend=-1) == 0)  # itself, if it is the first

    def residuals(self, z: np.ndarray, seed: int, *, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        by_draw = spread(lambda draw: self._residuals(z[draw]), len(z), threads)
        scores, expected = (np.stack(part) for part in zip(*by_draw, strict=True))
        self.refuse_lost((self.known & ~np.isfinite(scores)).any(axis=(0, 2)))
        return np.where(self.known, scores, np.nan), np.where(self.known, expected, np.nan)

    def judged(self, z: np.ndarray, seed: int, *, threads: int = 1) -> Estimates:
        return Estimates()

    def _densities(self, z: np.ndarray, seed: int | list[int], draw: int) -> np.ndarray:
        return self._log_densities(*self._filtered(z))

    def _last(self, z: np.ndarray, seed: int, draw: int) -> tuple[float, np.ndarray]:
        at, singular = self._filtered(z)
        m, M, K, e, H = (at(name)[-1] for name in ("m", "M", "K", "e", "H"))
        density = float(self._log_densities(at, singular).sum())
        if density == -np.inf:
            return density, m
        sizes, directions = np.linalg.eigh(M - K @ (H @ M))
        normals = np.random.default_rng([seed, draw]).standard_normal(m.size)
        return density, m - K @ e + directions @ (np.sqrt(np.maximum(sizes, 0.0)) * normals)

    def _filtered(self, z: np.ndarray) -> tuple[Fields, np.ndarray]:
        """Return what the filter knows of the observations, and which of these have a singular covariance."""
        e = self.engine
        point = e.block("point")
        e.set("point", point, "theta", "z", z)
        value = innovate(e.machine(), point)

        def at(name: str) -> np.ndarray:
            return e.get("point", point, "node", name)[self.rows]

        return at, self._singular(at, value)

    def _singular(self, at: Fields, value: float) -> np.ndarray:
        """Return which observations have values that those before, or others of their time, determine but for rounding.

        There may be some if minus the log of the density of the data, the `value`, is not finite.
        """
        if np.isfinite(value) and not self.exact.any():
            return np.zeros(len(self.rows), dtype=bool)
        with np.errstate(all="ignore"):
            variances, H = self._variances(at), at("H")
            before = np.einsum("nyi,nij,nyj->ny", H, at("M")[self.before], H)
            share = 1.0 / (variances * np.diagonal(at("Sig_inv"), axis1=1, axis2=2))
        return ~((share > SINGULAR) & ((variances > ROUNDING * before) | ~self.exact)).all(axis=1)

    def _log_densities(self, at: Fields, singular: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            squares = np.einsum("ni,nij,nj->n", at("e"), at("Sig_inv"), at("e"))
            found = 0.5 * (np.linalg.slogdet(at("Sig_inv"))[1] - squares) - at("excess")
        return np.where(np.isfinite(found) & ~singular, found, -np.inf)

    @cached_property
    def _clocks(self) -> Any:
        return self.model.clocks_at(self.grid, self.rows)

    def _residuals(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return residuals and means of the values expected (observation, Y).

        Rows are what is expected less what is seen or, of a likelihood, the normal that a value is made of.
        """
        at, singular = self._filtered(z)
        with np.errstate(all="ignore"):
            e, sd = at("e"), np.sqrt(self._variances(at))
            scores = np.where(singular[:, None], np.nan, e / sd)
        signs, expected = -np.ones_like(e), self.grid.values[self.rows] + e
        for i, (columns, part) in enumerate(self.model.observation.parts):
            if isinstance(part, Likelihood):
                with jax.enable_x64(True):
                    of_normals = self.model.kept.get(_compiled_values, self.model, i)
                    made = np.asarray(of_normals(z, at("m"), sd[:, columns], self._clocks))
                signs[:, columns] = np.sign(made[:, -1] - made[:, 0])
                expected[:, columns] = np.einsum("k,nky->ny", WEIGHTS / WEIGHTS.sum(), made)
        return signs * scores, expected

    def _variances(self, at: Fields) -> np.ndarray:
        """Return the variances (observation, Y) of the rows, one where a value is missing."""
        H, Hw = at("H"), at("Hw")
        return np.einsum("nyi,nij,nyj->ny", H, at("M"), H) + np.sum(Hw**2, axis=2) + ~self.grid.mask[self.rows]


def _compiled_values(model: DiffusionModel, i: int) -> Callable[..., Any]:
    """Return the function that makes values of normals, by a likelihood that is the i-th part of what is observed."""
    part: Any = model.observation.parts[i][1]

    def values(z, x, sd, t):
        state, named = model.in_series(model.parameters.unflatten(z), x, t)
        return jax.vmap(lambda normal: part.observe(state, named, normal * sd, t))(jnp.asarray(NORMALS))

    return jax.jit(jax.vmap(values, (None, 0, 0, 0)))
