"""Data and predictive draws with a variable for each observed component, for ArviZ's pictures of one variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pathfold.errors import SettingsError

PREDICTIVE = ("posterior_predictive", "prior_predictive")


def by_observation(results: xr.DataTree) -> xr.DataTree:
    """Return the results with one variable for each observed component, named after it, in place of `y`.

    Some of ArviZ's pictures (`arviz.plot_ppc_pit`, `plot_ppc_interval`, `plot_ppc_rootogram`, `plot_ppc_pava` and their
    like) take variables with a single dimension alone, whole numbers if they are counts, and nothing missing.

    Parameters
    ----------
    results
        The results of `pf.posterior_predictive` or `pf.prior_predictive`.

    Returns
    -------
    xarray.DataTree
        The results, with `posterior_predictive`, `prior_predictive` and `observed_data` so changed. Components without
        a name are called y0, y1, ... A component of which some values are missing has them left out, and a dimension of
        its own; counts are integers.

    Examples
    --------
    >>> from pathfold.example_models import EXAMPLES
    >>> example = EXAMPLES["redstart"]
    >>> expected = pf.prior_predictive(example.model(), example.data(), max_step=0.5, draws=100)
    >>> pf.by_observation(expected).prior_predictive["count"].dims
    ('chain', 'draw', 'time')
    """
    groups = results.children if isinstance(results, xr.DataTree) else ()
    if "observed_data" not in groups or not {*groups} & {*PREDICTIVE}:
        raise SettingsError(
            "results have no data and predictive draws: give what pf.posterior_predictive or pf.prior_predictive made "
            "of data"
        )
    if "y" not in results.observed_data:
        raise SettingsError(
            "results have no variable 'y': pf.by_observation has split it already; give what pf.posterior_predictive "
            "or pf.prior_predictive made"
        )
    seen = results.observed_data["y"]
    changed: dict[str, xr.Dataset] = {str(name): group.to_dataset() for name, group in results.children.items()}
    for name in {*changed} & {"observed_data", *PREDICTIVE}:
        changed[name] = changed[name].drop_vars("y").merge(_columns(changed[name]["y"], seen))
    return xr.DataTree.from_dict({"/": results.to_dataset(), **changed})


def _columns(y: xr.DataArray, seen: xr.DataArray) -> xr.Dataset:
    """Return one variable for each component, with the rows in which it was seen."""
    columns: dict[str, Any] = {}
    rows = str(seen.dims[0])
    for i, label in enumerate(seen["observation"].values):
        name = str(label) if isinstance(label, str) else f"y{i}"
        there = np.isfinite(seen.isel(observation=i).values)
        column = y.isel(observation=i, drop=True)
        if not there.all():
            own = f"{rows}_of_{name}"
            column = column.isel({rows: there}).rename({rows: own, **_own_names(column, rows, name)})
        whole = np.array_equal(seen.values[there, i], np.round(seen.values[there, i]))
        columns[name] = column.astype(int) if whole and _is_whole(column) else column
    return xr.Dataset(columns)


def _own_names(column: xr.DataArray, rows: str, name: str) -> dict[str, str]:
    """Return new names for the other coordinates of the rows, which have another length now."""
    return {str(c): f"{c}_of_{name}" for c in column.coords if column[c].dims == (rows,) and c != rows}


def _is_whole(column: xr.DataArray) -> bool:
    return bool((np.isfinite(column) & (column == np.round(column))).all())
