"""Observations with Gaussian noise, of each component by itself or of all jointly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.scipy.linalg import solve_triangular

from pathfold.data.real_arrays import real_array
from pathfold.distributions.roots import Split
from pathfold.errors import DataError, ModelError, told
from pathfold.model.functions import OfTime, as_float64, listed, result_shape, try_twice, with_time
from pathfold.model.observation import StateFunction
from pathfold.program.trace import computed


@dataclass(frozen=True)
class GaussianNoise(StateFunction):
    """The observation y = mean(x, z) + scale w, with w of Y standard normals.

    Parameters
    ----------
    mean
        A function of (x, z), (x, z, t) or (x, z, t, inputs) that returns an array (Y,).
    scale
        A positive number, an array (Y,), a matrix (Y, Y) (then scale @ w), the name of a parameter, or a function of z,
        (z, t) or (z, t, inputs) that returns one of these. Zeros in an array mark components that are observed exactly.
    """

    mean: Callable[..., Any]
    scale: Any

    def of(self, state):
        mean = self.user_function
        return replace(self, mean=OfTime(lambda x, z, t: mean(state(x, z), z, t)))

    @property
    def user_function(self):
        return with_time("the observation mean", self.mean, ("x", "z"))

    @property
    def noise_dim(self):
        return self.dim

    @property
    def has_density(self):
        return True

    def observe(self, x, z, w, t):
        scale = self._scale(z, t)
        noise = scale @ w if scale.ndim == 2 else scale * w
        return self.state_function(x, z, t) + noise

    def misfit(self, x, z, w, t, seen):
        rows = super().misfit(x, z, w, t, seen)
        if not seen.any_censored:
            return rows
        return jnp.where(seen.censored != 0.0, self.censored_root(x, z, t, seen) + w, rows)

    def censored_root(self, x, z, t, seen):
        """Return the root of the likelihood of censored values; for the others it means nothing."""
        scale = self._scale(z, t)
        noise = dist.Normal(self.state_function(x, z, t), jnp.where(scale > 0.0, scale, 1.0))
        nothing = jnp.zeros(self.dim)
        return seen.split(noise, Split(nothing, nothing)).root

    def split(self, x, z, t, seen):
        """Return what rows and their volume come to in units of the noise, so that w is the same as in `misfit`."""
        mean, scale = self.state_function(x, z, t), self._scale(z, t)
        if scale.ndim == 2:
            factor = jnp.linalg.cholesky(self._joint_covariance(scale, seen))
            misfit = seen.mask * (mean - seen.value)
            return Split(solve_triangular(factor, misfit, lower=True), jnp.log(jnp.diag(factor)))
        exact = Split((mean - seen.value) / scale, jnp.log(scale) + jnp.zeros(self.dim))
        return seen.split(dist.Normal(mean, scale), exact)

    def log_density(self, x, z, t, seen):
        mean, scale = self.state_function(x, z, t), self._scale(z, t)
        if scale.ndim == 2:
            return _of_first(seen.mask, self._joint_log_density(mean, scale, seen))
        log_densities = dist.Normal(mean, scale).log_prob(seen.value)
        if seen.any_censored:
            log_densities = jnp.where(
                seen.censored != 0.0, -0.5 * self.censored_root(x, z, t, seen) ** 2, log_densities
            )
        return jnp.where(seen.mask > 0.0, log_densities, jnp.nan)

    def log_ranks(self, x, z, uniform, t, seen):
        scale = self._scale(z, t)
        if scale.ndim == 2:
            return super().log_ranks(x, z, uniform, t, seen)
        ranks = seen.log_ranks(dist.Normal(self.state_function(x, z, t), jnp.where(scale > 0.0, scale, 1.0)), uniform)
        return jnp.where(scale > 0.0, ranks, jnp.nan)

    def _joint_log_density(self, mean, scale, seen):
        """Return the joint log density of the observed components; the others count as standard normals at zero."""
        mask, covariance = seen.mask, self._joint_covariance(scale, seen)
        joint = dist.MultivariateNormal(jnp.zeros(self.dim), covariance).log_prob(mask * (seen.value - mean))
        return joint - jnp.sum(1.0 - mask) * dist.Normal().log_prob(0.0)

    def _joint_covariance(self, scale, seen):
        """Return the covariance of the observed components; the others have unit variance, apart from these."""
        mask = seen.mask
        return mask[:, None] * mask * (scale @ scale.T) + jnp.diag(1.0 - mask)

    def scale_matrix(self, z, t):
        """Return the scale as a matrix (Y, Y)."""
        scale = self._scale(z, t)
        return scale if scale.ndim == 2 else scale * jnp.eye(self.dim)

    def exact(self, draws):
        scales = [computed(self._scale, *draw) for draw in draws]
        if scales[0].ndim == 2:
            return np.zeros(self.dim, dtype=bool)
        return np.all([np.broadcast_to(scale == 0.0, self.dim) for scale in scales], axis=0)

    def check_values(self, data, at, kept, when):
        if not np.any(data.censored):
            return
        _, z, t = at()
        scale = np.asarray(self._scale(z[0], jax.tree.map(lambda clock: clock[0], t)))
        if scale.ndim == 2:
            raise DataError("censored values need independent noise, but the observation scale is a matrix; give (Y,)")
        if np.any(np.broadcast_to(scale == 0.0, self.dim) & np.any(data.censored, axis=0)):
            raise DataError("a censored value is of a component that is observed without noise; give it a scale")

    def _scale(self, z, t):
        if isinstance(self.scale, str):
            return z[self.scale]
        if callable(self.scale):
            return as_float64(with_time("the observation scale", self.scale, ("z",)))(z, t)
        return jnp.asarray(self.scale, jnp.float64)

    def check(self, z, t, draws):
        if isinstance(self.scale, str) and self.scale not in z:
            raise ModelError(f"the observation scale names parameter {self.scale!r}; the model has {listed(z)}")
        computes = callable(self.scale) and not isinstance(self.scale, dist.Distribution)
        if isinstance(self.scale, str) or computes:
            function = self._scale
            if computes:
                function = with_time("the observation scale", self.scale, ("z",))
            shape = result_shape("the observation scale", function, (z, t))
            try_twice("the observation scale", function, (z, t))
            values = [computed(self._scale, *draw) for draw in draws]
            remedy = "give it a positive prior, or take jnp.exp(...)"
        else:
            try:
                values = [real_array("the observation scale", self.scale, error=ModelError)]
            except ModelError as error:
                raise ModelError(
                    f"the observation scale is {told(self.scale)}; give a positive number, an array, a function of z "
                    "or the name of a parameter, which has its prior in parameters"
                ) from error
            shape, remedy = values[0].shape, "give a positive number, or use pf.Noiseless(h)"
        if shape not in ((), (self.dim,), (self.dim, self.dim)):
            raise ModelError(
                f"the observation scale has shape {shape}, expected (), ({self.dim},) or ({self.dim}, {self.dim})"
            )
        for value in values:
            if not np.all(np.isfinite(value)):
                raise ModelError(f"the observation scale is not finite ({told(value)}); {remedy}")
            if len(shape) < 2 and not (np.all(value >= 0) and np.any(value > 0)):
                raise ModelError(f"the observation scale is not positive ({value}); {remedy}")
            if len(shape) == 2 and not np.linalg.matrix_rank(value) == self.dim:
                raise ModelError("the observation scale is a singular matrix; give one of full rank")


def _of_first(mask: Array, value: Array) -> Array:
    """Return the value at the first component that was observed, NaN at the others."""
    first = (mask > 0.0) & (jnp.cumsum(mask) == 1.0)
    return jnp.where(first, value, jnp.nan)
