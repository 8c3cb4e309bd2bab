"""Draws of the parameters from their priors, as the group `prior` of the results: to be seen beside the posterior."""

from __future__ import annotations

import jax
import numpy as np
import numpyro.distributions as dist
import xarray as xr

from pathfold.model import DiffusionModel
from pathfold.model.names import dimensions

DRAWS = 1000


def prior_dataset(model: DiffusionModel) -> xr.Dataset:
    """Of every parameter that has a prior; always the same for a model, with which it is kept."""
    if "prior" not in model.kept:
        model.kept["prior"] = _drawn(model)
    return model.kept["prior"].copy()


def _drawn(model: DiffusionModel) -> xr.Dataset:
    random = {name: prior for name, prior in model.parameters.priors.items() if isinstance(prior, dist.Distribution)}
    keys = jax.random.split(jax.random.key(0), max(1, len(random)))
    variables = {}
    with jax.enable_x64(True):
        for key, (name, prior) in zip(keys, random.items(), strict=False):
            values = np.asarray(prior.sample(key, (1, DRAWS)), dtype=float)
            variables[name] = (["chain", "draw", *dimensions(name, values.ndim - 2)], values)
    return xr.Dataset(variables, {"chain": [0], "draw": np.arange(DRAWS)})
