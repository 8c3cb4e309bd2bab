"""The log density of the prior at every draw, as ArviZ reads it, to see what a posterior owes to it (`az.psense`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr

from pathfold.model import DiffusionModel, Varying


def log_prior_dataset(model: DiffusionModel, posterior: xr.Dataset) -> xr.Dataset | None:
    """Return the log prior density (chain, draw) of every parameter that series share, each given those it depends on.

    None if parameters are not kept, or all are fixed.
    """
    names = [name for name, prior in model.priors.items() if not isinstance(prior, Varying)]
    if not names or any(name not in posterior for name in names):
        return None
    values = {name: posterior[name].transpose("chain", "draw", ...).values for name in names}
    with jax.enable_x64(True):
        found = model.kept.get(_densities, model)({name: jnp.asarray(each) for name, each in values.items()})
    if not found:
        return None
    coordinates = {name: posterior[name].values for name in ("chain", "draw")}
    return xr.Dataset({name: (("chain", "draw"), np.asarray(each)) for name, each in found.items()}, coordinates)


def _densities(model: DiffusionModel) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return the compiled log densities of the parameters, as a function of their values (chain, draw, ...) by name."""

    def densities(z: Mapping[str, Any]) -> dict[str, Any]:
        drawn = {name: model.priors[name] for name in z}
        drawn = {name: prior(z) if _is_function(prior) else prior for name, prior in drawn.items()}
        return {name: _log_density(prior, z[name]) for name, prior in drawn.items() if _is_random(prior)}

    return jax.jit(jax.vmap(jax.vmap(densities)))


def _is_function(prior: Any) -> bool:
    return callable(prior) and not isinstance(prior, dist.Distribution)


def _is_random(prior: Any) -> bool:
    return isinstance(prior, dist.Distribution) or (isinstance(prior, Sequence) and any(map(_is_random, prior)))


def _log_density(prior: Any, value: Any) -> Any:
    """Return the log density of a value under a distribution, or of its entries under a list of them."""
    if isinstance(prior, dist.Distribution):
        return jnp.sum(prior.log_prob(value))
    if isinstance(prior, Sequence):
        return sum(_log_density(each, value[i]) for i, each in enumerate(prior))
    return 0.0
