"""Candidate models beside each other: pf.compare."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pathfold.data import Data
from pathfold.errors import InitialisationError, SettingsError, told
from pathfold.inference.fit import fit
from pathfold.model import DiffusionModel


def compare(
    models: Mapping[str, DiffusionModel],
    data: Data,
    *,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = True,
) -> Any:
    """Compare candidate models of the same data by their evidence, in seconds: one fit for each.

    The evidence is that of `pf.fit`, corrected by pairs of paths; where the verdict of a fit is "sample", so is that of
    its row, and `pf.evidence` says more.

    Parameters
    ----------
    models
        Models by name.
    data
        Observations, as `pf.sample` takes them.
    steps_per_interval
        The number of fine steps between neighbouring observations. Give this or `max_step`.
    max_step
        The greatest length of a fine step.
    seed
        A whole number: the same gives the same table.
    threads
        How many threads; one per core by default.
    progress
        Whether to say what is being done, if a fit takes longer than a second.

    Returns
    -------
    pandas.DataFrame
        By model, the most probable first: `log_evidence`, the `difference` from the best, its posterior `probability`
        if all were equally likely before, the number of `parameters`, and the `verdict` of the fit. Of a model that has
        no start, NaN. The reasons for the verdicts, sentences by model, are in `table.attrs["reasons"]`.
    """
    if not isinstance(models, Mapping) or not models:
        raise SettingsError(f"models must be a dict of models by name, not {told(models)}")
    rows, reasons, steps = {}, {}, {"steps_per_interval": steps_per_interval, "max_step": max_step}
    for name, model in models.items():
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="this fit should not be relied on")
                tree = fit(model, data, **steps, seed=seed, threads=threads, progress=progress, max_seconds=None)
        except InitialisationError as error:
            rows[name] = {
                "log_evidence": np.nan,
                "parameters": model.parameters.size,
                "verdict": "none",
            }
            reasons[name] = [str(error)]
            continue
        rows[name] = {
            "log_evidence": float(tree.laplace["log_evidence"]),
            "parameters": tree.laplace.sizes["parameter_normal"],
            "verdict": tree.attrs["verdict"],
        }
        reasons[name] = [*tree.attrs["reasons"]]
    table = pd.DataFrame.from_dict(rows, orient="index").sort_values("log_evidence", ascending=False)
    logs = table["log_evidence"].to_numpy()
    table.insert(1, "difference", logs - np.nanmax(logs) if np.isfinite(logs).any() else logs)
    odds = np.exp(np.nan_to_num(table["difference"].to_numpy(), nan=-np.inf))
    table.insert(2, "probability", odds / odds.sum() if odds.sum() > 0.0 else odds)
    table.attrs["reasons"] = reasons
    return table
