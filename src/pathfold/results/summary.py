"""The table of a posterior that people publish: pf.summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pathfold.data.checks import positive
from pathfold.results.convergence import judged, labels
from pathfold.results.in_order import results_of
from pathfold.results.prior import chosen_variables, parameter_names
from pathfold.results.reading import is_fit
from pathfold.results.shrinkage import shrunk_effects

OF_CHAINS = ["ess_bulk", "ess_tail", "r_hat"]
ROUNDING = 1e-6  # of a norm of 1, in single precision


def summary(
    posterior: xr.DataTree,
    names: str | Sequence[str] | None = None,
    *,
    interval: float = 0.9,
    by_series: bool = False,
) -> Any:
    """Return a table of estimates, ready to publish: a row for each parameter, in four significant digits.

    A matrix of correlations, or its Cholesky factor, has a row for each pair. What is constant has none.

    Parameters
    ----------
    posterior
        Results of `pf.sample` or `pf.fit`.
    names
        The variables of the posterior, such as deterministics; by default the parameters of the model.
    interval
        The probability between the two quantiles, a number between 0 and 1.
    by_series
        Whether a parameter that varies between series has a row for each series. By default it has one row, for its
        mean over the series in each draw.

    Returns
    -------
    pandas.DataFrame
        Columns `mean`, `sd`, `median` and the two quantiles. For chains also the effective sample sizes `ess_bulk` and
        `ess_tail`, and `r_hat`. If parameters vary between series, also their `shrinkage` (see `pf.shrinkage`). For
        results of `pf.fit(..., prior=False)` `estimate` and `standard_error` alone.

    Examples
    --------
    >>> from pathfold.example_models import EXAMPLES
    >>> example = EXAMPLES["ornstein_uhlenbeck"]
    >>> fit = pf.fit(example.model(), example.data(), steps_per_interval=5)
    >>> [*pf.summary(fit).columns]
    ['mean', 'sd', 'median', '5 %', '95 %']
    """
    if isinstance(posterior, xr.DataTree) and is_fit(posterior) and "posterior" not in posterior.children:
        return _at_maximum(posterior)
    tree = results_of(posterior)
    interval = positive("interval", interval, below=1.0)
    levels = 0.5 - 0.5 * interval, 0.5 + 0.5 * interval
    rows, shrunk = dict[str, list[float]](), {label: row["shrinkage"] for label, row in shrunk_effects(tree).items()}
    for name in chosen_variables(tree, names):
        values = tree.posterior[name].transpose("chain", "draw", ...)
        if values.sizes.get("series", 1) > 1 and not by_series:
            values = values.mean("series").rename(f"mean of {name}")
        for label, x, convergence in judged(_pairs(values)):
            quantiles, own = np.quantile(x, (0.5, *levels)), shrunk.get(label.removeprefix("mean of "), np.nan)
            rows[label] = [x.mean(), x.std(), *quantiles, *convergence, own]
    bounds = [f"{100.0 * level:.4g} %" for level in levels]
    columns = ["mean", "sd", "median", *bounds, *OF_CHAINS, "shrinkage"]
    table = _rounded(pd.DataFrame.from_dict(rows, orient="index", columns=columns))
    none = [*(OF_CHAINS if is_fit(tree) else []), *(["shrinkage"] if table["shrinkage"].isna().all() else [])]
    return table.drop(columns=none)


def shortened(table: pd.DataFrame, most: int) -> tuple[pd.DataFrame, str]:
    """Return at most so many rows of a summary, in order, those with the fewest effective draws, and a note."""
    if len(table) <= most:
        return table, ""
    if "ess_bulk" not in table:
        return table.head(most), f"the first {most} of {len(table):,} rows; pf.summary has all"
    effective = table[["ess_bulk", "ess_tail"]].min(axis=1).to_numpy()
    slowest = np.sort(np.argsort(np.nan_to_num(effective, nan=-1.0), kind="stable")[:most])
    return table.iloc[slowest], f"the {most} of {len(table):,} rows with the fewest effective draws; pf.summary has all"


def written(table: pd.DataFrame) -> str:
    """Write a summary as text."""
    return table.to_string(float_format="{:g}".format, na_rep="")


def _pairs(values: xr.DataArray) -> xr.DataArray:
    """Return the correlations (chain, draw, pair) below the diagonal if these are matrices of correlations R, or their
    Cholesky factors L with L L^T = R, whose rows have norm 1; else the values."""
    x = values.values if values.ndim == 4 and 1 < values.shape[2] == values.shape[3] else None
    if x is None or not np.isfinite(x).all():
        return values
    if not np.triu(x, 1).any() and np.abs(np.linalg.norm(x, axis=-1) - 1.0).max() < ROUNDING:
        x = x @ np.swapaxes(x, -1, -2)
    elif np.abs(x - np.swapaxes(x, -1, -2)).max() + np.abs(np.diagonal(x, axis1=2, axis2=3) - 1.0).max() > ROUNDING:
        return values
    i, j = np.tril_indices(x.shape[2], -1)
    pairs = [f"{a}, {b}" for a, b in zip(i, j, strict=True)]
    return xr.DataArray(x[:, :, i, j], {"pair": pairs}, ("chain", "draw", "pair"), values.name)


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    return table.map(lambda value: float(f"{value:.4g}"))


def _at_maximum(tree: xr.DataTree) -> pd.DataFrame:
    """Return the maximum of the likelihood and standard errors of what is not fixed."""
    rows = {}
    for name in parameter_names(tree):
        both = tree.laplace[f"{name}_at_mode"].transpose("statistic", ...).rename(name)
        for label, *row in zip(labels(both[0]), *both.values.reshape(2, -1).tolist(), strict=True):
            rows[label] = row
    table = _rounded(pd.DataFrame.from_dict(rows, orient="index", columns=["estimate", "standard_error"]))
    return table[table["standard_error"] > 0.0]
