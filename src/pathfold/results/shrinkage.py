"""How far the values that vary between series are drawn to the population: pf.shrinkage."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from pathfold.errors import SettingsError
from pathfold.results.convergence import labels
from pathfold.results.in_order import results_of
from pathfold.results.prior import kept_parameters


class Effect(NamedTuple):
    """The draws (draw, series) of one scalar that varies between series, as they are or as their logarithms."""

    draws: np.ndarray
    logarithm: bool


def effects_of(tree: xr.DataTree) -> dict[str, Effect]:
    """Return the effects of a posterior by label; those whose draws are all positive as logarithms."""
    effects = {}
    for name in kept_parameters(tree):
        if "series" not in tree.posterior[name].dims:
            continue
        values = tree.posterior[name].transpose("chain", "draw", "series", ...)
        draws = values.values.reshape(values.shape[0] * values.shape[1], values.shape[2], -1)
        for k, label in enumerate(labels(values[:, :, 0])):
            positive = bool(np.all(draws[:, :, k] > 0.0))
            effects[label] = Effect(np.log(draws[:, :, k]) if positive else draws[:, :, k], positive)
    if not effects:
        raise SettingsError("no parameter varies between series: give one a prior by pf.Varying, and keep its draws")
    if next(iter(effects.values())).draws.shape[1] < 2:
        raise SettingsError("there is one series, and nothing to compare it with; give results of a panel")
    return effects


def shrinkage(posterior: xr.DataTree) -> Any:
    """Return by how much each effect is shrunk to what the population and the covariates of a series predict.

    The deviation of a series is the standard normal that its value is made of: (value - mean) / (standard deviation)
    under a normal prior, both given the population and the covariates. With m_i the posterior mean of the deviation of
    series i, the shrinkage is 1 - sd_i(m_i) / sd_i(deviation). It is near 0 if the data of each series determine its
    value, near 1 if they do not. This is the eta-shrinkage of pharmacometrics. Above about 0.3, do not judge effects by
    pictures of their means or draws, whose bias is in the documentation ("After the posterior", populations).

    Results hold the deviations of a few draws of each chain. The variance of m_i is estimated from these without bias;
    with 30 draws, a shrinkage of 0.9 has an error of about 0.05. Components of a multivariate normal effect have
    deviations given the components before them.

    Savic and Karlsson (2009), "Importance of shrinkage in empirical Bayes estimates for diagnostics"; Gelman and Pardoe
    (2006), "Bayesian measures of explained variance and pooling in multilevel (hierarchical) models".

    Parameters
    ----------
    posterior
        Results of `pf.sample` or `pf.fit` for a panel with `pf.Varying` parameters.

    Returns
    -------
    pandas.DataFrame
        A row for each effect: `shrinkage`; `sd` of the deviations between series, about 1 if the prior is right;
        `sd_of_means`; and whether the deviation is `standard` normal in the prior. If not (a gamma or beta prior), it
        is the logarithm or the log odds of the value, which includes what covariates predict.
    """
    tree = results_of(posterior, "noise")
    effects_of(tree)
    rows = shrunk_effects(tree)
    return pd.DataFrame([*rows.values()], index=[*rows], columns=["shrinkage", "sd", "sd_of_means", "standard"])


def shrunk_effects(tree: xr.DataTree) -> dict[str, dict[str, Any]]:
    """Return the row of each effect; none where results have no deviations, or those of one series."""
    rows: dict[str, dict[str, Any]] = {}
    if "noise" not in tree.children or "initial_noise" not in tree.noise or tree.noise.sizes.get("series", 1) < 2:
        return rows
    noise = tree.noise["initial_noise"].transpose("chain", "draw", "series", "initial_normal")
    names, standard = noise["initial_normal"].values.astype(str), np.atleast_1d(noise.attrs["standard"])
    draws = noise.values.reshape(-1, *noise.shape[2:])
    for name in [name for name in kept_parameters(tree) if name in names]:
        places = np.flatnonzero(names == name)
        shown = labels(tree.posterior[name].transpose("chain", "draw", "series", ...)[:, :, 0])
        shown = shown if len(shown) == places.size else [f"{name}[{i}]" for i in range(places.size)]
        for label, k in zip(shown, places, strict=True):
            rows[label] = {**_shrunk(draws[:, :, k]), "standard": bool(standard[k])}
    return rows


def _shrunk(deviations: np.ndarray) -> dict[str, float]:
    """Return the shrinkage of deviations (M, series), the root of their variance V between series, and that of their
    means.

    The mean over M draws varies by W / M, with W the variance between draws, more than the posterior mean does.
    """
    total = deviations.var(axis=1, ddof=1).mean()
    within = deviations.var(axis=0, ddof=1).mean() if len(deviations) > 1 else np.nan
    of_means = np.maximum(0.0, deviations.mean(axis=0).var(ddof=1) - within / len(deviations))
    sd, sd_of_means = float(np.sqrt(total)), float(np.sqrt(of_means))
    return {"shrinkage": 1.0 - sd_of_means / sd, "sd": sd, "sd_of_means": sd_of_means}
