"""Packing a Laplace approximation into an xarray.DataTree, with draws as pf.sample writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pathfold.data import TimeGrid
from pathfold.model import DiffusionModel
from pathfold.results.log_prior import log_prior_dataset
from pathfold.results.noise_group import noise_dataset
from pathfold.results.overview import Results
from pathfold.results.posterior import (
    attributes,
    constant_dataset,
    draws_dataset,
    kept_states,
    observed_dataset,
    of_chains,
)
from pathfold.sampling import Run
from pathfold.sampling.draws import Draws
from pathfold.sampling.held_noise import Noise, names_of_normals


@dataclass(frozen=True)
class FittedDraws:
    """Draws by chain: parameters (chain, draw, Z), initial states, states (chain, draw, interval, step, X), statistics
    (chain, draw) by name; and the noise of a few."""

    z: np.ndarray
    starts: np.ndarray
    states: np.ndarray
    statistics: dict[str, np.ndarray]
    noise: Noise


def fitted_tree(
    model: DiffusionModel, grid: TimeGrid, settings: dict[str, Any], laplace: xr.Dataset, drawn: FittedDraws | None
) -> xr.DataTree:
    """Make the groups of a fit: laplace, observed_data, constant_data, and posterior, sample_stats, noise if drawn."""
    groups, chains = {}, []
    if drawn is not None:
        chains = [_chain(k) for k in range(len(drawn.z))]
        groups = _drawn_groups(model, grid, settings, drawn, chains)
    groups |= {
        "laplace": laplace,
        "observed_data": observed_dataset(model, grid),
        "constant_data": constant_dataset(grid),
    }
    tree = Results.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = attributes(model, grid, settings) | of_chains(chains)
    return tree


def _drawn_groups(
    model: DiffusionModel, grid: TimeGrid, settings: dict[str, Any], drawn: FittedDraws, chains: list[Draws]
) -> dict[str, xr.Dataset]:
    keep_path, states = settings["keep_path"], drawn.states[..., : model.state_dim]
    kept = kept_states(grid, keep_path) if keep_path == "all" else np.ones((states.shape[2], 1), dtype=bool)
    coordinates = {name: np.arange(size) for name, size in zip(("chain", "draw"), drawn.z.shape, strict=False)}
    statistics = {name: (["chain", "draw"], values) for name, values in drawn.statistics.items()}
    groups = {
        "posterior": draws_dataset(model, grid, drawn.z, drawn.starts, states[:, :, kept], keep_path),
        "sample_stats": xr.Dataset(statistics, coordinates),
    }
    if (log_prior := log_prior_dataset(model, groups["posterior"])) is not None:
        groups["log_prior"] = log_prior
    groups["noise"] = noise_dataset(Run(model, grid, settings, chains, {}), drawn.noise)
    return groups


def _chain(number: int) -> Draws:
    """Return a chain without draws, which has a number alone."""
    none = np.zeros((0, 0))
    return Draws(none, none, none, none, none, chain=number)


def normal_labels(model: DiffusionModel) -> list[str]:
    """Return a label for each of the normals that parameters are made of: the name, with a number if it has several."""
    names, labels = names_of_normals(model)[0], []
    for i, name in enumerate(names):
        number = names[:i].count(name)
        labels.append(f"{name}[{number}]" if names.count(name) > 1 else name)
    return labels
