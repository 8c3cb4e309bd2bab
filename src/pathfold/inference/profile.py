"""Profiles of the likelihood or of the posterior: pf.profile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.special import ndtr, ndtri

from pathfold.errors import SettingsError, told
from pathfold.inference.fit import find_modes, prepare_marginal
from pathfold.inference.posterior_mode import Mode, climb
from pathfold.model import Data, DiffusionModel, TimeGrid
from pathfold.model.check_data import check_panel
from pathfold.model.checks import positive, truth, whole
from pathfold.model.diffusion_model import check_model
from pathfold.results.fitted import normal_labels
from pathfold.sampling.execution import explained
from pathfold.sampling.marginal import Marginal, Origin

STRIDE = 0.5  # standard deviations from one value to the next
FURTHEST = 3.0  # how far out a profile goes, in roots of twice the log density that is lost
MOST = 12  # values on either side
ACROSS = 5  # values on either side of each of two parameters
REGION = 3.0  # log density that is lost at the edge of the region of two parameters that has a coverage of 95 %


def profile(
    model: DiffusionModel,
    data: Data,
    names: str | Sequence[str],
    *,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    prior: bool = False,
    level: float = 0.95,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Profile the likelihood of one parameter, or of two: its maximum over all others, and an interval.

    The likelihood is Laplace's approximation of p(y | z), with paths integrated out (`pf.fit(prior=False)`). Where it
    falls by half the quantile of chi-squared from its maximum the interval ends. A parameter that is not identified has
    a flat profile, and an interval without an end.

    Parameters
    ----------
    model
        A `pf.DiffusionModel`.
    data
        Observations, as `pf.sample` takes them.
    names
        The name of a parameter, or a pair of names; an element of an array is `name[0]`.
    steps_per_interval
        The number of fine steps between neighbouring observations. Give this or `max_step`.
    max_step
        The greatest length of a fine step.
    prior
        Whether the prior counts: then it is the posterior density of the normals that is profiled.
    level
        The coverage of the interval.
    seed
        A whole number: the same gives the same start.
    threads
        How many threads; one per core by default.
    progress
        Whether to say what is being done, if it takes longer than a second.

    Returns
    -------
    xarray.Dataset
        `log_density` by value of the parameters, less its maximum; `other`, the normals of all parameters there; of one
        parameter `interval`, its ends, infinite where there is none; and the `maximum`.

    Examples
    --------
    >>> from pathfold.example_models import EXAMPLES
    >>> example = EXAMPLES["ornstein_uhlenbeck"]
    >>> profile = pf.profile(example.model(), example.data(), "sigma", steps_per_interval=5)
    >>> bool(profile["interval"][0] < profile["maximum"] < profile["interval"][1])
    True
    """
    check_model(model)
    check_panel(model, data)
    level, seed = positive("level", level, below=1.0), whole("seed", seed, least=0)
    threads = None if threads is None else whole("threads", threads, least=1)
    grid = TimeGrid.build(data, steps_per_interval=steps_per_interval, max_step=max_step)
    labels = normal_labels(model)
    chosen = [_place(name, labels) for name in ([names] if isinstance(names, str) else [*names])]
    if len(chosen) not in (1, 2) or len({*chosen}) < len(chosen):
        raise SettingsError(f"names must be one parameter or two different ones, not {told(names)}")
    marginal = prepare_marginal(
        model, grid, threads=threads, prior=truth("prior", prior), progress=truth("progress", progress)
    )
    with explained(model, grid, seed):
        mode, _ = find_modes(marginal, 1, seed)
    for k in chosen:
        _check_own(marginal, mode.origin.u, k, labels)
    marginal.stages.begin(f"profiling {' and '.join(labels[k] for k in chosen)}")
    if len(chosen) == 1:
        return _of_one(marginal, mode, chosen[0], labels, float(ndtri(0.5 + 0.5 * level)))
    return _of_two(marginal, mode, chosen, labels)


def _place(name: str, labels: list[str]) -> int:
    if name not in labels:
        raise SettingsError(f"names has {told(name)}, which is no parameter of the model; it has {', '.join(labels)}")
    return labels.index(name)


def _check_own(marginal: Marginal, u: np.ndarray, k: int, labels: list[str]) -> None:
    """Raise SettingsError unless the parameter is a function of its own normal alone."""
    z, slopes = marginal.parameters(u)
    if z.size != u.size or np.any(np.delete(slopes[k], k)):
        raise SettingsError(
            f"the prior of {labels[k]} depends on other parameters, or is not a function of one normal, so that it "
            "cannot be held while these vary; profile another, or give it a prior of its own"
        )


def _moved(marginal: Marginal, mode: Mode, origin: Origin, target: dict[int, float]) -> Origin | None:
    """Return the maximum over the other parameters with some held at given normals, from one nearby."""
    free = mode.density.free & ~np.isin(np.arange(marginal.size), [*target])
    away = np.array([value - origin.u[k] for k, value in target.items()])
    u = origin.u.copy()
    u[[*target]] += away
    if free.any():
        held = np.flatnonzero(~free)[np.argsort(np.argsort([*target]))]
        u[free] -= np.linalg.lstsq(mode.hessian[np.ix_(free, free)], mode.hessian[np.ix_(free, held)] @ away)[0]
    reached = mode.density.reached(u, origin)
    if reached is None:
        return None
    return climb(mode.density, reached, mode.covariance, free)[0] if free.any() else reached


def _walk(marginal: Marginal, mode: Mode, k: int, lost: float) -> list[Origin]:
    """Return maxima over the other parameters along one, on both sides of the mode, until so much is lost."""
    best, sd = mode.origin, float(np.sqrt(mode.covariance[k, k]))
    found = [best]
    for sign in (-1, 1):
        for i in range(1, MOST + 1):
            nearest = found[0] if sign < 0 else found[-1]
            origin = _moved(marginal, mode, nearest, {k: best.u[k] + sign * i * STRIDE * sd})
            if origin is None:
                break
            found.insert(0, origin) if sign < 0 else found.append(origin)
            if best.log_density - origin.log_density > lost:
                break
    return found


def _of_one(marginal: Marginal, mode: Mode, k: int, labels: list[str], quantile: float) -> xr.Dataset:
    found = _walk(marginal, mode, k, 0.5 * FURTHEST**2)
    top = max(found, key=lambda each: each.log_density)
    u, drop = np.array([each.u for each in found]), np.array([each.log_density - top.log_density for each in found])
    roots = np.sign(u[:, k] - top.u[k]) * np.sqrt(-2.0 * drop)
    ends = [np.interp(each, roots, u[:, k], left=-np.inf, right=np.inf) for each in (-quantile, quantile)]
    values = np.array([_value(marginal, top.u, k, each) for each in u[:, k]])
    interval = [_value(marginal, top.u, k, end) if np.isfinite(end) else end for end in ends]
    return xr.Dataset(
        {
            "log_density": (labels[k], drop),
            "other": ((labels[k], "parameter_normal"), u),
            "interval": ("bound", np.array(interval)),
            "maximum": ((), _value(marginal, top.u, k, top.u[k])),
        },
        {labels[k]: values, "parameter_normal": labels, "bound": ["lower", "upper"]},
        {"prior": int(marginal.prior), "level": float(2.0 * ndtr(quantile) - 1.0)},
    )


def _of_two(marginal: Marginal, mode: Mode, chosen: list[int], labels: list[str]) -> xr.Dataset:
    """Go along the first parameter, and from each of its values along the second, outward from the mode.

    The profile of each by itself says how far its values reach, on either side: beyond the region of 95 %.
    """
    best, steps = mode.origin, np.arange(-ACROSS, ACROSS + 1)
    walks = [_walk(marginal, mode, k, REGION) for k in chosen]
    reach = [[best.u[k] - walk[0].u[k], walk[-1].u[k] - best.u[k]] for k, walk in zip(chosen, walks, strict=True)]
    axes = [
        best.u[k] + steps / ACROSS * np.where(steps < 0, below, above)
        for k, (below, above) in zip(chosen, reach, strict=True)
    ]
    found = np.full((len(steps), len(steps)), np.nan)
    origins: dict[tuple[int, int], Origin | None] = {(ACROSS, ACROSS): best}
    for i in sorted(range(len(steps)), key=lambda i: abs(steps[i])):
        for j in sorted(range(len(steps)), key=lambda j: abs(steps[j])):
            inner = (i, j - int(np.sign(steps[j]))) if steps[j] else (i - int(np.sign(steps[i])), j)
            origin = origins.get((i, j)) or origins.get(inner)
            if origin is not None and (i, j) not in origins:
                origin = _moved(marginal, mode, origin, {chosen[0]: axes[0][i], chosen[1]: axes[1][j]})
            origins[i, j] = origin
            found[i, j] = np.nan if origin is None else origin.log_density
    values = [
        np.array([_value(marginal, best.u, k, each) for each in axis]) for k, axis in zip(chosen, axes, strict=True)
    ]
    names = [labels[k] for k in chosen]
    return xr.Dataset(
        {"log_density": (names, found - np.nanmax(found))},
        dict(zip(names, values, strict=True)),
        {"prior": int(marginal.prior)},
    )


def _value(marginal: Marginal, u: np.ndarray, k: int, normal: float) -> float:
    moved = u.copy()
    moved[k] = normal
    return float(marginal.parameters(moved)[0][k])
