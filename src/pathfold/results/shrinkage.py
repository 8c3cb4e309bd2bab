"""How far the values that vary between series are drawn together: pf.shrinkage."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from pathfold.errors import SettingsError
from pathfold.results.convergence import labels
from pathfold.results.prior import kept_parameters
from pathfold.results.reading import check_posterior


class Effect(NamedTuple):
    """The draws (draw, series) of one scalar that varies between series, as they are or as their logarithms."""

    draws: np.ndarray
    logarithm: bool

    @property
    def spread(self) -> float:
        """The standard deviation between the series, over the draws in the square mean."""
        return float(np.sqrt(self.draws.var(axis=1, ddof=1).mean()))

    @property
    def spread_of_means(self) -> float:
        return float(self.draws.mean(axis=0).std(ddof=1))

    @property
    def shrinkage(self) -> float:
        return 1.0 - self.spread_of_means / self.spread if self.spread > 0.0 else np.nan


def effects_of(tree: xr.DataTree) -> dict[str, Effect]:
    """Return the effects of a posterior by label; those whose draws are all positive as logarithms."""
    effects = {}
    for name in kept_parameters(tree):
        if "series" in tree.posterior[name].dims:
            effects |= effects_of_parameter(tree.posterior[name])
    if not effects:
        raise SettingsError("no parameter varies between series: give one a prior by pf.Varying, and keep its draws")
    if next(iter(effects.values())).draws.shape[1] < 2:
        raise SettingsError("there is one series, and nothing to compare it with; give results of a panel")
    return effects


def effects_of_parameter(values: xr.DataArray) -> dict[str, Effect]:
    """Return the effects of a parameter that varies between series, by label."""
    values = values.transpose("chain", "draw", "series", ...)
    draws, effects = values.values.reshape(values.shape[0] * values.shape[1], values.shape[2], -1), {}
    for k, label in enumerate(labels(values[:, :, 0])):
        positive = bool(np.all(draws[:, :, k] > 0.0))
        effects[label] = Effect(np.log(draws[:, :, k]) if positive else draws[:, :, k], positive)
    return effects


def shrinkage(posterior: xr.DataTree) -> Any:
    """Return how much of the differences between series the posterior means of each effect have lost.

    It is 1 - (standard deviation of the posterior means) / (standard deviation of the values), between the series: near
    0 where each series' own data say what its value is, near 1 where they say nothing and all are drawn to the
    population. Beyond about 0.3, pictures of the means against covariates or each other mislead; those of
    `pf.plot_effects` use all draws. An effect whose values are all positive is compared in logarithms.

    Savic and Karlsson (2009), "Importance of shrinkage in empirical Bayes estimates for diagnostics"; Gelman and Pardoe
    (2006), "Bayesian measures of explained variance and pooling in multilevel (hierarchical) models".

    Parameters
    ----------
    posterior
        Results of `pf.sample` for a panel with `pf.Varying` parameters.

    Returns
    -------
    pandas.DataFrame
        A row for each effect: `shrinkage`, `sd` between the series, `sd_of_means`, and whether these are of the
        `logarithm`.
    """
    rows = {
        label: {
            "shrinkage": effect.shrinkage,
            "sd": effect.spread,
            "sd_of_means": effect.spread_of_means,
            "logarithm": effect.logarithm,
        }
        for label, effect in effects_of(check_posterior(posterior)).items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")
