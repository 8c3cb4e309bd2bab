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


BETWEEN = 8  # places between two values of a profile of two parameters, so that the edges of regions are smooth


def plot_profile(profile: xr.Dataset) -> Figure:
    """Draw a profile: the log density by value with its interval, or regions of two parameters.

    Of one parameter a horizontal line stands at the log density that is lost at the ends of the interval: 1.92, half
    the quantile of chi-squared, for 95 %.

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
        axes, drop = _between([profile[name].values for name in names], values)
        ax.contourf(*axes, drop.T, levels=[0.0, *losses], colors=[POSTERIOR.line, POSTERIOR.inner, POSTERIOR.outer])
        ax.set_ylabel(names[1])
        ax.set_title(f"regions of {', '.join(f'{100 * level:.0f}' for level in LEVELS)} %", fontsize="medium")
        return figure
    ax.plot(profile[names[0]].values, values, color=POSTERIOR.line, marker="o", markersize=3)
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


def _between(axes: list[np.ndarray], log_density: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Interpolate the log density that is lost, which keeps its slopes' signs, at values between those computed."""
    from scipy.interpolate import RegularGridInterpolator  # which takes long to import, and few need

    drop = np.minimum(np.where(np.isfinite(log_density), -log_density, np.inf), 1e3)
    fine = [np.interp(np.arange(0, axis.size - 1 + 1e-9, 1 / BETWEEN), np.arange(axis.size), axis) for axis in axes]
    between = RegularGridInterpolator(axes, drop, method="pchip")
    return fine, np.maximum(0.0, between(tuple(np.meshgrid(*fine, indexing="ij"))))
