"""Many simulated data sets as a DataTree: from given parameters or from the prior."""

from __future__ import annotations

import json
from importlib import metadata
from typing import Literal

import numpy as np
import xarray as xr

from pathfold.analysis.outlook import carried_forward, node_times, warn_of_lost
from pathfold.model import TimeGrid
from pathfold.model.ensemble import Ensemble
from pathfold.results.model_text import model_text
from pathfold.results.posterior import constant_dataset, draws_dataset, kept_states, observed_dataset
from pathfold.results.prior import priors_text


def simulated(
    ensemble: Ensemble,
    grid: TimeGrid,
    starts: np.ndarray,
    rng: np.random.Generator,
    *,
    keep_path: Literal["nodes", "all"] = "nodes",
    seen: bool = False,
) -> xr.DataTree:
    """Make the groups prior, prior_predictive and constant_data, as of one chain, from initial states (D, K, X).

    With a grid whose values were `seen`, there are observed_data, and what is missing in them is missing.
    """
    model, kept = ensemble.model, kept_states(grid, keep_path)
    fine, keep = (grid.refined(), kept.ravel()) if keep_path == "all" else (grid, kept[:, -1])
    states = carried_forward(ensemble, fine, starts, rng, keep=keep)
    warn_of_lost(states, "simulated paths")
    nodes = np.flatnonzero(grid.mask.any(axis=1))
    at_nodes = states[:, (np.cumsum(kept.sum(axis=1)) - 1)[nodes]]
    y = ensemble.observe(at_nodes, node_times(model, grid, nodes), grid.series_of_intervals[nodes], rng)
    observed = observed_dataset(model, grid)
    data = observed["y"]
    y = np.where(np.isnan(data.values), np.nan, y)
    augmented = ensemble.augmented(starts, np.arange(ensemble.series))
    drawn = draws_dataset(model, grid, ensemble.z[None], augmented[None], states[None], keep_path)
    chains = {name: drawn[name].values for name in ("chain", "draw")}
    groups = {
        "/prior": drawn,
        "/prior_predictive": xr.Dataset({"y": (["chain", "draw", *data.dims], y[None])}, {**data.coords, **chains}),
        "/constant_data": constant_dataset(grid),
    }
    tree = xr.DataTree.from_dict(groups | ({"/observed_data": observed} if seen else {}))
    tree.attrs = {
        "inference_library": "pathfold",
        "pathfold_version": metadata.version("pathfold"),
        "model": json.dumps(model_text(model)),
        "priors": priors_text(model),
        "steps_per_interval": grid.steps,
        "keep_path": keep_path,
    }
    return tree
