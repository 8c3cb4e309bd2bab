"""Checking that results belong to a model; an error says what is not the same.

A model is known by hashes of its parts as they were traced (`pathfold.model.identity`). These depend on the versions of
what traces; results of other versions are compared by the text of the model, as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata

import xarray as xr

from pathfold.errors import SettingsError
from pathfold.model import DiffusionModel
from pathfold.model.diffusion_model import check_model
from pathfold.model.identity import identity
from pathfold.model.model_text import model_text
from pathfold.results.prior import parameter_names

TRACED_BY = ("pathfold", "jax", "numpyro")


def refuse_other_model(tree: xr.DataTree, model: DiffusionModel) -> None:
    """Raise SettingsError if results are not of this model."""
    check_model(model)
    there, here = parameter_names(tree), [*model.priors]
    if there != here:
        raise SettingsError(
            f"posterior is of another model: its parameters are {', '.join(there)}, and this one's {', '.join(here)}"
        )
    for what, theirs, own in (
        ("states", len(json.loads(tree.attrs["labels"])["component"]), model.state_dim),
        ("observed values per time", len(json.loads(tree.attrs["labels"])["observation"]), model.observation_dim),
    ):
        if theirs != own:
            raise SettingsError(f"posterior is of another model: it has {theirs} {what}, and this one {own}")
    same_versions = all(tree.attrs.get(f"{package}_version") == metadata.version(package) for package in TRACED_BY)
    key, own = ("model_key", identity(model)) if same_versions else ("model", model_text(model))
    if odd := differing(json.loads(tree.attrs.get(key, "{}")), own):
        raise SettingsError(
            f"posterior is of another model, with another {', another '.join(odd)}. Give the model that was sampled; "
            "pf.predict has arguments for what is to be other than it was (set, inputs, events)"
        )


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that two models do not have in common."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]
