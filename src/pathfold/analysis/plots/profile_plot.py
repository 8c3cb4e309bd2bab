"""Pictures of profiles, of one parameter or of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.special import chdtri

from pathfold.analysis.plots.style import ALARM, POSTERIOR, new_figure
from pathfold.errors import SettingsError, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (0.5, 0.8, 0.95)  # coverage of the regions that are drawn of two parameters


def plot_profile(profile: xr.Dataset) -> Figure:
    """Draw a profile: the log density by value with its interval, or regions of two parameters.

    Parameters
    ----------
    profile
        What `pf.profile` returned.
    """
    if not isinstance(profile, xr.Dataset) or "log_density" not in profile:
        raise SettingsError(f"profile must be what pf.profile returned, not {told(profile)}")
    names = [str(name) for name in profile["log_density"].dims]
    figure = new_figure(4.6, 3.4)
    ax = figure.subplots()
    values = profile["log_density"].values
    ax.set_xlabel(names[0])
    if len(names) == 2:
        losses = [0.5 * float(chdtri(2, 1.0 - level)) for level in LEVELS]
        drop = np.where(np.isfinite(values), -values, np.inf).T
        levels = [0.0, *losses]
        axes = profile[names[0]].values, profile[names[1]].values
        ax.contourf(
            *axes, np.minimum(drop, 1e3), levels=levels, colors=[POSTERIOR.line, POSTERIOR.inner, POSTERIOR.outer]
        )
        ax.set_ylabel(names[1])
        ax.set_title(f"regions of {', '.join(f'{100 * level:.0f}' for level in LEVELS)} %", fontsize="medium")
        return figure
    ax.plot(profile[names[0]].values, values, color=POSTERIOR.line, marker="o", markersize=3)
    low, high = profile["interval"].values
    for end in (low, high):
        if np.isfinite(end):
            ax.axvline(end, color=ALARM, linewidth=1.0, linestyle=":")
    what = "log posterior" if profile.attrs.get("prior") else "log likelihood"
    ax.set_ylabel(f"{what}, less its maximum")
    told_ends = [f"{end:.3g}" if np.isfinite(end) else "no bound" for end in (low, high)]
    ax.set_title(f"{100 * profile.attrs['level']:.0f} %: {told_ends[0]} to {told_ends[1]}", fontsize="medium")
    return figure
