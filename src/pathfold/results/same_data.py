"""Results together with the model and the data that they are of, on the same time grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pathfold.errors import DataError
from pathfold.model import Data, DiffusionModel, TimeGrid, panel_of
from pathfold.model.check_data import check_data
from pathfold.model.diffusion_model import check_model
from pathfold.results.outlook import results_of


def checked(model: DiffusionModel, data: Data, posterior: Any) -> tuple[xr.DataTree, TimeGrid]:
    """The results, and the grid that they were made on; an error if they are of another model or other data."""
    check_model(model)
    tree = results_of(posterior, model)
    for observations in panel_of(data).values():
        check_data(model, observations)
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
