"""Priors kept with the results as text, so that their densities can be seen beside the posterior."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpyro.distributions as dist
import xarray as xr

from pathfold.data.checks import selected
from pathfold.model import DiffusionModel, Varying


def priors_text(model: DiffusionModel) -> str:
    """Return as JSON, by parameter, the family of its prior and the arguments, if it is one of scalars."""
    return json.dumps({name: _written(prior) for name, prior in model.priors.items()})


def _written(prior: Any) -> dict[str, Any] | None:
    prior = prior.prior if isinstance(prior, Varying) else prior
    while isinstance(prior, dist.Independent | dist.ExpandedDistribution):
        prior = prior.base_dist
    family = type(prior).__name__
    if not isinstance(prior, dist.Distribution) or prior.event_dim or getattr(dist, family, None) is not type(prior):
        return None
    arguments = {name: vars(prior).get(name) for name in prior.arg_constraints}
    if any(value is None for value in arguments.values()):
        return None
    return {"family": family, "arguments": {name: np.asarray(value).tolist() for name, value in arguments.items()}}


def parameter_names(tree: xr.DataTree) -> list[str]:
    """Return the names of the model's parameters, in its order."""
    return [*json.loads(tree.attrs["priors"])]


def kept_parameters(tree: xr.DataTree) -> list[str]:
    """Return the names of the parameters that the results have draws of."""
    return [name for name in parameter_names(tree) if name in tree.posterior]


def chosen_variables(tree: xr.DataTree, names: Any) -> list[str]:
    """Return the names of the variables of the posterior that are chosen; by default those of the parameters."""
    every = [str(name) for name in tree.posterior.data_vars]
    return kept_parameters(tree) if names is None else [every[i] for i in selected("variable", names, every)]


def prior_density(tree: xr.DataTree, name: str, element: int, x: np.ndarray) -> np.ndarray | None:
    """Return the prior density of one element of a parameter, or None if it is fixed or not known."""
    written = json.loads(tree.attrs.get("priors", "{}")).get(name)
    if written is None:
        return None
    arguments = {}
    for argument, value in written["arguments"].items():
        shape = tree.posterior[name].shape[2:]
        arguments[argument] = np.broadcast_to(np.asarray(value, dtype=float), shape).reshape(-1)[element]
    with np.errstate(all="ignore"):
        density = np.exp(np.asarray(getattr(dist, written["family"])(**arguments).log_prob(x), dtype=float))
    support: Any = getattr(dist, written["family"])(**arguments).support
    return np.where(np.asarray(support(x)) & np.isfinite(density), density, 0.0)
