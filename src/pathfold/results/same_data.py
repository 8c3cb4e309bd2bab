"""Results together with the model and the data that they are of: the time grid, and the parameters of draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pathfold.errors import DataError, SettingsError
from pathfold.model import Data, DiffusionModel, TimeGrid, panel_of
from pathfold.model.diffusion_model import check_model
from pathfold.results.channels import check_posterior
from pathfold.results.prior import parameter_names


def checked(model: DiffusionModel, data: Data, posterior: Any) -> tuple[xr.DataTree, TimeGrid]:
    """The results, and the grid that they were made on; an error if they are of another model or other data."""
    check_model(model)
    tree = check_posterior(posterior, "observed_data", "constant_data")
    if parameter_names(tree) != [*model.priors]:
        raise SettingsError(
            f"posterior is of another model: its parameters are {parameter_names(tree)}, those of this one "
            f"{[*model.priors]}; give the results of this model"
        )
    for observations in panel_of(data).values():
        model.check_data(observations)
    return tree, _grid_of(tree, data)


def _grid_of(tree: xr.DataTree, data: Data) -> TimeGrid:
    """By the number of steps; or by the longest of them, which cuts intervals as `max_step` did."""
    constant, steps = tree.constant_data, int(tree.attrs["steps_per_interval"])
    grid = TimeGrid.build(data, steps_per_interval=steps)
    if len(grid.ends) < constant["interval_end"].size:
        grid = TimeGrid.build(data, max_step=float(constant["fine_step"].values.max()))
    ends, seen = constant["interval_end"].values, tree.observed_data["y"].values
    values = np.where(grid.mask, grid.values, np.nan)[grid.mask.any(axis=1)]
    same = ends.shape == grid.ends.shape and np.allclose(ends, grid.ends, rtol=1e-9) and seen.shape == values.shape
    if not (same and np.array_equal(seen, values, equal_nan=True)):
        raise DataError("the data are not those that posterior is of; give the same data to both")
    return grid


def chosen_draws(tree: xr.DataTree, count: int | None) -> np.ndarray:
    """Numbers of so many draws of every chain, evenly spread; of all if there are no more."""
    draws = tree.posterior["draw"].values
    if count is None or count >= draws.size:
        return draws
    return draws[np.linspace(0, draws.size - 1, count).round().astype(int)]


def flat_parameters(model: DiffusionModel, tree: xr.DataTree, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of these draws of all chains the shared parameters (draw, Z), and what varies (draw, series, values)."""
    chosen, series = tree.posterior.sel(draw=draws), tree.constant_data["first_interval"].size
    count = chosen.sizes["chain"] * chosen.sizes["draw"]

    def flat(names: Any, *of: int) -> np.ndarray:
        parts = [chosen[name].values.reshape(count, *of, -1) for name in names]
        return np.concatenate([np.zeros((count, *of, 0)), *parts], axis=-1)

    return flat(model.parameters.names), flat(model.varying.names, series)
