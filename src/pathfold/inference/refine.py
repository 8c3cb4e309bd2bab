"""Finding how many fine steps are enough, by posteriors with S, 2 S, 4 S, ..., each begun where the last one ended.

With a scheme of weak order p means and standard deviations of a posterior are m(S) = m + c S^-p up to smaller terms.
m and c are fitted to the last runs; c S^-p is what remains of the error with S steps (Richardson's extrapolation).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr, ndtri

from pathfold.data import Data
from pathfold.data.checks import positive, whole
from pathfold.errors import DrawsWarning, InitialisationError, SettingsError
from pathfold.inference.sample import sample
from pathfold.model import DiffusionModel
from pathfold.model.diffusion_model import check_model
from pathfold.results.convergence import judged
from pathfold.results.diagnostics import warn_of_trouble
from pathfold.results.prior import kept_parameters

FIRST, DOUBLINGS, TOLERANCE = 2, 7, 0.1
SURE = 2.0  # standard errors that an estimate is given
SHOWN = 20  # parameters in the text of a table
SMOOTH = 1.0  # a change of more standard deviations is no part of the fit: the law in S holds for small ones

# What `steps_per_interval="auto"` makes do with: few draws, which tell changes of a fifth of a standard deviation.
PILOT: dict[str, Any] = {"chains": 2, "draws": 200}
PILOT_TOLERANCE = 0.3


@dataclass(frozen=True)
class Refinement:
    """The outcome of `pf.refine`.

    Parameters
    ----------
    table
        A row for each parameter and number of steps: mean and sd; the `change` of mean or sd (the larger) since half as
        many steps, in units of the sd, with its Monte Carlo `error`; what `remains` to the limit of many steps, in the
        same units, with its `uncertainty`; and the mean `extrapolated` to that.
    posterior
        The results with the most steps.
    steps
        The numbers of steps that were tried.
    tolerance
        The error that was allowed to remain, in posterior standard deviations.
    order
        The order of the scheme that the extrapolation assumes, if it is known.
    enough
        Whether the last number of steps is enough.
    verdict
        The conclusion, in words.
    """

    table: pd.DataFrame
    posterior: xr.DataTree
    steps: tuple[int, ...]
    tolerance: float
    order: float | None
    enough: bool
    verdict: str

    def worst(self, most: int) -> list[str]:
        """Return the parameters with the largest remaining errors, `most` at most, in the order of the model."""
        last = self.table.xs(self.steps[-1], level="steps")
        bound = last["remains"] + SURE * last["uncertainty"]
        chosen = set(bound.nlargest(most).index)
        return [label for label in last.index if label in chosen]

    def __str__(self) -> str:
        shown, count = self.worst(SHOWN), self.table.index.get_level_values("parameter").nunique()
        others = f"\n... and {count - len(shown)} more, of which less remains" if count > len(shown) else ""
        return f"{self.verdict}\n{self.table.loc[shown].to_string(float_format=lambda x: f'{x:.4g}')}{others}"

    __repr__ = __str__


def refine(
    model: DiffusionModel,
    data: Data,
    *,
    steps_per_interval: int = FIRST,
    tolerance: float = TOLERANCE,
    doublings: int = DOUBLINGS,
    **settings: Any,
) -> Refinement:
    """Sample with more and more fine steps until the posterior does not change any more, and say how sure that is.

    It ends when, for every parameter and every series' own, what remains of the discretisation error in mean and
    standard deviation is below `tolerance` standard deviations, two Monte Carlo standard errors included; or when no
    change is seen any more, so that only more `draws` would tell; or after so many `doublings`.

    Parameters
    ----------
    model
        A `pf.DiffusionModel`.
    data
        As of `pf.sample`.
    steps_per_interval
        The number of fine steps to begin with; if there are no starting points with so few, with the first double of it
        for which there are.
    tolerance
        What may remain of the error, in posterior standard deviations.
    doublings
        How often the number of steps may be doubled.
    settings
        All others are those of `pf.sample`; each run has a folder of its own in `checkpoint`.

    Returns
    -------
    Refinement
        A table, a verdict, and the results with the most steps.
    """
    check_model(model)
    steps = whole("steps_per_interval", steps_per_interval, least=1)
    doublings, tolerance = whole("doublings", doublings, least=1), positive("tolerance", tolerance)
    if odd := {"max_step", "start", "keep_path"} & set(settings):
        raise SettingsError(f"pf.refine has no use for {min(odd)}: it sets steps and starts itself, and keeps nodes")
    order = model.scheme.weak_order
    posterior, steps = _first(model, data, steps, doublings, settings)
    levels, rows = [Level.of(posterior, steps)], []
    enough = unsure = False
    while len(levels) <= doublings and not (enough or unsure):
        steps *= 2
        posterior = _sampled(model, data, steps, settings, start=posterior)
        levels.append(Level.of(posterior, steps))
        rows = [_compared(levels, label, order) for label in levels[-1].means]
        enough = all(row["remains"] + SURE * row["uncertainty"] < tolerance for row in rows)
        unsure = all(row["change"] < surely(len(rows)) * row["error"] for row in rows) and not enough
    warn_of_trouble(posterior, list(model.priors), model.network, refined=True)
    table = [
        _compared(levels[: k + 1], label, order) if k else levels[0].row(label)
        for label in levels[-1].means
        for k in range(len(levels))
    ]
    return Refinement(
        pd.DataFrame(table).set_index(["parameter", "steps"]),
        posterior,
        tuple(level.steps for level in levels),
        tolerance,
        order,
        enough,
        _verdict(rows, levels, tolerance, enough, unsure, order),
    )


def pilot(model: DiffusionModel, data: Any, seed: int, **settings: Any) -> Refinement:
    """Choose the number of steps for pf.sample, by a cheap form of `refine`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return refine(model, data, tolerance=PILOT_TOLERANCE, seed=seed, **PILOT | settings)


def _first(
    model: DiffusionModel, data: Any, steps: int, doublings: int, settings: dict[str, Any]
) -> tuple[xr.DataTree, int]:
    """Sample with the fewest steps for which there are starting points."""
    for i in range(doublings):
        try:
            return _sampled(model, data, steps * 2**i, settings), steps * 2**i
        except InitialisationError:
            if i == doublings - 1:
                raise
    raise AssertionError


def _sampled(model: DiffusionModel, data: Any, steps: int, settings: dict[str, Any], start: Any = None) -> xr.DataTree:
    """Make one run; `refine` warns of problems with the draws of the last alone."""
    folder = settings.get("checkpoint")
    if folder is not None:
        settings = settings | {"checkpoint": Path(folder) / f"steps_{steps}"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrawsWarning)
        return sample(model, data, steps_per_interval=steps, start=start, **settings)


@dataclass(frozen=True)
class Level:
    """A posterior with some number of steps: mean, sd and effective draws of each scalar."""

    steps: int
    means: dict[str, float]
    sds: dict[str, float]
    draws: dict[str, float]

    @classmethod
    def of(cls, tree: xr.DataTree, steps: int) -> Level:
        found = cls(steps, {}, {}, {})
        for name in kept_parameters(tree):
            for label, x, sampled in judged(tree.posterior[name]):
                found.means[label], found.sds[label] = float(x.mean()), float(x.std())
                found.draws[label] = sampled.bulk
        if not found.means:
            raise SettingsError("there is nothing to compare: every parameter of the model is fixed")
        return found

    def row(self, label: str) -> dict[str, Any]:
        return {"parameter": label, "steps": self.steps, "mean": self.means[label], "sd": self.sds[label]}


def _compared(levels: list[Level], label: str, order: float | None) -> dict[str, Any]:
    """Return a row of the table, for the last of these levels."""
    before, last = levels[-2:]
    sd = last.sds[label]
    errors = np.array([level.sds[label] / np.sqrt(level.draws[label]) for level in levels]) / sd
    both = [np.array([getattr(level, name)[label] for level in levels]) / sd for name in ("means", "sds")]
    changes = [abs(values[-1] - values[-2]) for values in both]
    row = last.row(label) | {"change": max(changes), "error": float(np.hypot(*errors[-2:]))}
    if order is None:
        return row | {"remains": row["change"], "uncertainty": row["error"], "extrapolated": last.means[label]}
    smooth = len(levels) > 2 and abs(levels[-3].means[label] - before.means[label]) < SMOOTH * sd
    used = slice(-3 if smooth else -2, None)
    steps = np.array([level.steps for level in levels], dtype=float)[used]
    fits = [fitted(values[used], errors[used], steps, order) for values in both]
    worst = max(fits, key=lambda fit: abs(fit[1]))
    return row | {"remains": abs(worst[1]), "uncertainty": worst[2], "extrapolated": fits[0][0] * sd}


def fitted(values: np.ndarray, errors: np.ndarray, steps: np.ndarray, order: float) -> tuple[float, float, float]:
    """Fit values = m + c steps^-order by weighted least squares; return m, c steps^-order at the last, its error."""
    terms = np.stack([np.ones_like(steps), (steps / steps[-1]) ** -order], axis=1) / errors[:, None]
    covariance = np.linalg.inv(terms.T @ terms)
    limit, remains = covariance @ terms.T @ (values / errors)
    return float(limit), float(remains), float(np.sqrt(covariance[1, 1]))


def surely(count: int) -> float:
    """Return the standard errors that none of `count` estimates exceeds, as surely as one does not exceed SURE."""
    return float(-ndtri(ndtr(-SURE) / count))


def _verdict(
    rows: list[dict[str, Any]], levels: list[Level], tolerance: float, enough: bool, unsure: bool, order: float | None
) -> str:
    worst = max(rows, key=lambda row: row["remains"] + SURE * row["uncertainty"])
    steps, how = levels[-1].steps, "" if order is None else f" by the scheme's order {order:g}"
    found = (
        f"from {levels[-2].steps} to {steps} fine steps {worst['parameter']} changed by {worst['change']:.2g} standard "
        f"deviations, and {worst['remains']:.2g} ± {worst['uncertainty']:.2g} remain{how}"
    )
    if enough:
        return f"{steps} fine steps are enough: {found}; asked for was {tolerance:g}."
    if unsure:
        return f"{steps} fine steps are enough as far as these draws tell: {found}; run more draws to be surer."
    return f"{steps} fine steps are not enough: {found}; asked for was {tolerance:g}. Allow more doublings."
