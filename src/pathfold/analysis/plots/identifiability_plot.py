"""A picture of what the posterior determines: principal directions of the curvature at the mode of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from pathfold.analysis.plots.style import ALARM, POSTERIOR, new_figure
from pathfold.errors import SettingsError
from pathfold.results.reading import is_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 12  # directions, those that are known least; more would be too small to read


def plot_identifiability(fit: xr.DataTree) -> Figure:
    """Draw how well the posterior determines each combination of parameters, and which parameters it is made of.

    Each row is a principal direction of the posterior, the best known first. Its bar is its standard deviation in units
    of the prior's: where that is one, the data add nothing to the prior. The squares beside it are the weights of the
    parameters, purple for one sign and orange for the other: two parameters with opposite signs in a row that is well
    known are known by their difference (of logarithms: by their ratio).

    Parameters
    ----------
    fit
        What `pf.fit` returned.
    """
    if not is_fit(fit):
        raise SettingsError(
            "these are not results of pf.fit, which alone have the curvature at the mode: draw "
            "pf.plot_identifiability(pf.fit(model, data, ...))"
        )
    of_mode = fit.laplace
    labels = [str(label) for label in of_mode["parameter_normal"].values]
    if not labels:
        raise SettingsError("the model of this fit has no parameters, so there is nothing to identify")
    values, vectors = of_mode["eigenvalue"].values, of_mode["eigenvector"].transpose("direction", ...).values
    values = values if fit.attrs["prior"] else values + 1.0  # as if the prior counted
    order = np.argsort(-values)[-SHOWN:]
    known, weights = 1.0 / np.sqrt(np.maximum(values[order], 1e-12)), vectors[order]
    figure = new_figure(2.6 + 0.55 * len(labels) + 2.4, 1.5 + 0.42 * len(order))
    bars, squares = figure.subplots(1, 2, width_ratios=(2.4, 0.55 * len(labels) + 1.0))
    rows = np.arange(len(order))
    bars.barh(rows, np.minimum(known, 2.0), color=POSTERIOR.inner)
    for row, each in zip(rows, known, strict=True):
        bars.text(min(each, 2.0) + 0.02, row, f"{each:.2g}", va="center")
    bars.axvline(1.0, color=ALARM, linewidth=1.0, linestyle=":")
    bars.set_title("1: the data say nothing", fontsize="small", color=ALARM)
    bars.set_xlim(0.0, max(1.2, min(2.0, known.max()) + 0.3))
    bars.set_ylim(len(order) - 0.5, -0.5)
    bars.set_yticks([])
    bars.set_xlabel("posterior / prior sd")
    bars.set_ylabel("the best known first")
    signed = weights * np.sign(weights[rows, np.abs(weights).argmax(axis=1)])[:, None]
    squares.imshow(signed, cmap="PuOr", vmin=-1.0, vmax=1.0, aspect="auto")
    squares.set_xticks(range(len(labels)), labels, rotation=45, ha="right")
    squares.set_yticks([])
    squares.set_title("made of (purple +, orange -)", fontsize="medium")
    return figure
