"""Results from the draws that a checkpoint folder has so far (pf.open_checkpoint), and their description there."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from pathfold.data import TimeGrid
from pathfold.errors import SettingsError, warn
from pathfold.model import DiffusionModel
from pathfold.results.diagnostics import of_left_out, where_left_out
from pathfold.results.overview import Results
from pathfold.results.posterior import Form, attributes, constant_dataset, observed_dataset, of_chains
from pathfold.results.variables import Variable
from pathfold.sampling import Settings
from pathfold.sampling.checkpoint import ABOUT, FORMAT, Checkpoint
from pathfold.sampling.draws import Draws, Shape
from pathfold.sampling.execution import recorded_settings, shape_of_draws, worth_keeping


def described(model: DiffusionModel, grid: TimeGrid, settings: Settings) -> str:
    """Describe all that results have besides draws and noise, as text for a checkpoint folder."""
    recorded = recorded_settings(model, grid, settings)
    form = Form.of(model, grid, recorded, settings.keep, settings.sampler.statistics(model))
    about = {
        "format": FORMAT,
        "shape": asdict(shape_of_draws(model, grid, settings)),
        "keep_warmup": settings.keep_warmup,
        "variables": {group: [asdict(variable) for variable in of_group] for group, of_group in form.variables.items()},
        "coordinates": {group: xr.Dataset(coords=coords).to_dict() for group, coords in form.coordinates.items()},
        "steps": form.kept.shape[1],
        "whole_intervals": form.kept.all(axis=1).tolist(),
        "observed_data": observed_dataset(model, grid).to_dict(),
        "constant_data": constant_dataset(grid).to_dict(),
        "attributes": attributes(model, grid, recorded),
    }
    return json.dumps(about)


def open_checkpoint(folder: str | os.PathLike[str]) -> xr.DataTree:
    """Return the draws in a checkpoint folder so far, also while the run that makes them goes on.

    Chains are cut to the same length, and those left out that are far behind the others, with a warning that says where
    they were. Files are looked through for damage, as `pf.sample` does. Nothing is written to the folder, and no lock
    is needed: draws that are on file do not change.

    Parameters
    ----------
    folder
        What `pf.sample` was given as `checkpoint`.

    Returns
    -------
    xarray.DataTree
        As `pf.sample` returns it, without the groups `noise` and `half_step_shift` and without deterministics.

    Examples
    --------
    >>> import tempfile
    >>> from pathfold.example_models import EXAMPLES
    >>> example, folder = EXAMPLES["ornstein_uhlenbeck"], tempfile.mkdtemp()
    >>> posterior = pf.sample(
    ...     example.model(),
    ...     example.data(),
    ...     steps_per_interval=5,
    ...     chains=2,
    ...     checkpoint=folder,
    ...     progress=False,
    ... )
    >>> dict(pf.open_checkpoint(folder).posterior["sigma"].sizes)
    {'chain': 2, 'draw': 1000}
    """
    path = Path(folder)
    about = _about(path)
    warmup, count = about["attributes"]["warmup"], about["attributes"]["chains"]
    chains = [draws for i in range(count) if (draws := _draws(path, i, about)) is not None]
    if not chains:
        raise SettingsError(f"the checkpoint folder {path} has no draws yet; wait until a chain has saved some")
    begun = {draws.chain for draws in chains}
    (chains, left_out), form = worth_keeping(chains, warmup), _form(about)
    made = min(draws.made for draws in chains)
    phrases = where_left_out(form.parameters, chains, left_out, warmup)
    if made > warmup:
        phrases += [f"chain {i} has no draws yet" for i in sorted({*range(count)} - begun)]
    if phrases:
        warn(of_left_out(phrases))
    warmup = min(warmup, made)
    groups = {
        "/posterior": form.posterior(chains, warmup, made),
        "/sample_stats": form.statistics(chains, warmup, made),
        "/observed_data": xr.Dataset.from_dict(about["observed_data"]),
        "/constant_data": xr.Dataset.from_dict(about["constant_data"]),
    }
    if about["keep_warmup"]:
        groups["/warmup_posterior"] = form.posterior(chains, 0, warmup)
        groups["/warmup_sample_stats"] = form.statistics(chains, 0, warmup)
    tree = Results.from_dict(groups)
    tree.attrs = about["attributes"] | of_chains(chains, phrases)
    return tree


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / ABOUT).read_text())
    except (OSError, ValueError):
        about = None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise SettingsError(
            f"{folder} is no checkpoint folder of this version of pathfold: give the one that pf.sample has as "
            f"checkpoint, with the file {ABOUT}"
        )
    return about


def _draws(folder: Path, chain: int, about: dict[str, Any]) -> Draws | None:
    """Return the draws that a chain has on file, checked for damage; they are read when they are needed."""
    checkpoint = Checkpoint(folder, chain)
    draws = Draws.empty(Shape(**about["shape"]), folder, chain)
    if (state := checkpoint.load(draws)) is None:
        return None
    try:
        draws.seconds, draws.main_seconds = state["seconds"].tolist()
        draws.integration_time = float(state["integration_time"])
    except (KeyError, TypeError, ValueError):
        raise checkpoint.damaged(checkpoint.file, "it lacks something that a chain of this run needs") from None
    return draws.first(draws.made)


def _form(about: dict[str, Any]) -> Form:
    kept = np.repeat(np.array(about["whole_intervals"], dtype=bool)[:, None], about["steps"], axis=1)
    kept[:, -1] = True

    def variable(written: Any) -> Variable:
        return replace(Variable(**written), dims=tuple(written["dims"]), shape=tuple(written["shape"]))

    def coordinates(written: Any) -> dict[str, Any]:
        return {str(name): values for name, values in xr.Dataset.from_dict(written).coords.items()}

    return Form(
        {group: [variable(written) for written in of_group] for group, of_group in about["variables"].items()},
        {group: coordinates(written) for group, written in about["coordinates"].items()},
        kept,
    )
