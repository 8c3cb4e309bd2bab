"""Pictures of profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.special import chdtri

from pathfold.analysis.plots.style import ALARM, POSTERIOR, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_profile(profile: xr.Dataset) -> Figure:
    """Draw a profile: the log density by value, with its interval.

    A horizontal line stands at the log density that is lost at the ends of the interval: 1.92, half the quantile of
    chi-squared, for 95 %.

    Parameters
    ----------
    profile
        What `pf.profile` returned.
    """
    name = str(profile["log_density"].dims[0])
    figure = new_figure(4.6, 3.4)
    ax = figure.subplots()
    ax.set_xlabel(name)
    ax.plot(profile[name].values, profile["log_density"].values, color=POSTERIOR.line, marker="o", markersize=3)
    for end in profile["parts"].values.ravel():
        if np.isfinite(end):
            ax.axvline(end, color=ALARM, linewidth=1.0, linestyle=":")
    ax.axhline(-0.5 * float(chdtri(1, 1.0 - profile.attrs["level"])), color=ALARM, linewidth=1.0, linestyle=":")
    what = "log posterior" if profile.attrs.get("prior") else "log likelihood"
    ax.set_ylabel(f"{what}, less its maximum")
    parts = " and ".join(" to ".join(map(_told_end, part)) for part in profile["parts"].values)
    ax.set_title(f"{100 * profile.attrs['level']:.0f} %: {parts}", fontsize="medium")
    return figure


def _told_end(end: float) -> str:
    return "not reached" if np.isnan(end) else f"{end:.3g}" if np.isfinite(end) else "no bound"
