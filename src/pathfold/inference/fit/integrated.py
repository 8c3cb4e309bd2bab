"""The likelihood of a model with latent parameters: these are integrated out, as paths are (method.md, section 21)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pathfold.inference.fit.posterior_mode import climb, curvature
from pathfold.sampling.differences import ByDifferences, Origin
from pathfold.sampling.marginal import Marginal
from pathfold.sampling.progress import Stages

EXACT = 1e-9  # expected gain at which the mode of latent parameters is found


@dataclass(frozen=True)
class Integrated(ByDifferences):
    """log p~(y | u) by Laplace's method for the normals b (B,) of latent parameters, with H the curvature by them:

    max over b of log p~(y, b | u) + B/2 log 2 pi - 1/2 log|H|.
    """

    marginal: Marginal
    covariance: np.ndarray
    difference: float = 0.03  # gradients: that of the maximum is found to about 1e-5

    @property
    def prior(self) -> bool:
        return self.marginal.prior

    @property
    def free(self) -> np.ndarray:
        return ~self.marginal.counted

    @property
    def stages(self) -> Stages:
        return self.marginal.stages

    def reached(self, u: np.ndarray, origin: Origin) -> Origin | None:
        """Return the most probable latent normals of other parameters, as an origin, or None if none were found."""
        latent = self.marginal.counted
        start = self.marginal.reached(np.where(latent, origin.u, u), origin)
        if start is None:
            return None
        best, _ = climb(self.marginal, start, self.covariance, latent, EXACT)
        hessian = curvature(self.marginal, best, self.covariance, latent)
        sign, log_det = np.linalg.slogdet(hessian)  # the identity for all others
        value = best.log_density + 0.5 * latent.sum() * np.log(2.0 * np.pi) - 0.5 * log_det
        return replace(best, log_density=float(value)) if sign > 0.0 else None

    def values(self, u: np.ndarray, origin: Origin) -> np.ndarray:
        found = (self.reached(each, origin) for each in u)
        return np.array([-np.inf if each is None else each.log_density for each in found])
