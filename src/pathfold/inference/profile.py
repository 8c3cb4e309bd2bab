"""Profiles of the likelihood or of the posterior: pf.profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import ndtr, ndtri

from pathfold.data import Data, TimeGrid
from pathfold.data.checks import cores, positive, truth, whole
from pathfold.errors import SettingsError, told, warn
from pathfold.inference.fit.fit import prepare_marginal
from pathfold.inference.fit.mode_search import find_modes
from pathfold.inference.fit.posterior_mode import FARTHEST, LONGEST, Mode, climb
from pathfold.model import DiffusionModel
from pathfold.model.check_data import check_panel
from pathfold.model.diffusion_model import check_model
from pathfold.results.fitted import normal_labels
from pathfold.sampling.differences import Origin
from pathfold.sampling.execution import explained
from pathfold.sampling.marginal import Marginal

STRIDE = 0.5  # standard deviations from one value to the next; so many roots of twice the log density are lost
SHORTEST, LEAP = 1.0 / 64.0, 1.0  # of a stride, which is halved while the root grows by more than LEAP
FURTHEST = 3.0  # how far out a profile goes at least, in these roots, ...
BEYOND = 0.5  # ... and beyond the bound
MOST = 24  # values tried on either side
MOST_HELD = 12.0  # prior standard deviations up to which they are tried
FLAT, FAR = 0.05, 2.0  # a profile has no end if its root grows less over the outer half of so many standard deviations


def profile(
    model: DiffusionModel,
    data: Data,
    name: str,
    *,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    prior: bool = False,
    level: float = 0.95,
    starts: int = 2,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Profile the likelihood of a parameter: its maximum over all others, and an interval.

    The likelihood is Laplace's approximation of p(y | z), with paths integrated out (`pf.fit(prior=False)`). The
    interval ends where it has fallen by half the quantile of chi-squared from its maximum. An end is infinite if the
    profile becomes flat before, as that of a parameter that is not identified. It is NaN, with a warning, if the
    search failed before, so that nobody knows.

    Parameters
    ----------
    model
        A `pf.DiffusionModel`.
    data
        Observations, as `pf.sample` takes them.
    name
        The name of a parameter; an element of an array is `name[0]`.
    steps_per_interval
        The number of fine steps between neighbouring observations. Give this or `max_step`.
    max_step
        The greatest length of a fine step.
    prior
        Whether the prior counts: then it is the posterior density of the normals that is profiled.
    level
        The coverage of the interval.
    starts
        From how many starts the maximum is sought, as of `pf.fit`. The profile goes out from all maxima that are about
        as high.
    seed
        A whole number: the same gives the same start.
    threads
        How many threads; one per core by default.
    progress
        Whether to say what is being done, if it takes longer than a second.

    Returns
    -------
    xarray.Dataset
        `log_density` by value of the parameter, less its maximum; `other`, the normals of all parameters there; the
        `maximum`; and `interval`, its ends. With several maxima the region may have several `parts`, each with its
        ends; the interval then covers all of them, and a warning says so.

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
    starts = whole("starts", starts, least=1)
    threads = cores(threads)
    grid = TimeGrid.build(data, steps_per_interval=steps_per_interval, max_step=max_step)
    labels = normal_labels(model)
    if name not in labels:
        raise SettingsError(f"name is {told(name)}, which is no parameter of the model; it has {', '.join(labels)}")
    k = labels.index(name)
    marginal = prepare_marginal(
        model, grid, threads=threads, prior=truth("prior", prior), progress=truth("progress", progress)
    )
    with explained(model, grid, seed):
        mode, others = find_modes(marginal, starts, seed)
    _check_own(marginal, mode, k, labels[k])
    marginal.stages.begin(f"profiling {labels[k]}")
    return _of_modes(marginal, mode, others, k, labels, float(ndtri(0.5 + 0.5 * level)))


def _check_own(marginal: Marginal, mode: Mode, k: int, label: str) -> None:
    """Raise SettingsError unless the parameter is a function of its own normal alone, which the density depends on."""
    u = mode.origin.u
    if not mode.density.free[k]:
        raise SettingsError(
            f"{label} is integrated out with its law, as paths are, so that it has no profile; profile a parameter "
            "of the law, or take prior=True"
        )
    z, slopes = marginal.parameters(u), marginal.slopes(u)
    if z.size != u.size or np.any(np.delete(slopes[k], k)):
        raise SettingsError(
            f"the prior of {label} depends on other parameters, or is not a function of one normal, so that it "
            "cannot be held while these vary; profile another, or give it a prior of its own"
        )


def _moved(mode: Mode, origin: Origin, k: int, value: float) -> Origin | None:
    """Return the maximum over the other parameters with one held at a given normal, from one nearby.

    None if there is no path to it, or if it is at the end of where parameters are sought.
    """
    free = mode.density.free & (np.arange(origin.u.size) != k)
    u, away = origin.u.copy(), value - origin.u[k]
    u[k] += away
    u[free] -= np.linalg.lstsq(mode.hessian[np.ix_(free, free)], mode.hessian[free, k] * away)[0]
    reached = mode.density.reached(u, origin) if abs(u[k]) < MOST_HELD else None
    if reached is None or not free.any():
        return reached
    best, _ = climb(mode.density, reached, mode.covariance, free)
    return best if np.abs(best.u[free]).max() < FARTHEST - LONGEST else None


def _roots(found: Sequence[Origin], top: float) -> np.ndarray:
    """Return the roots of twice the log density that is lost from the highest."""
    return np.sqrt(np.maximum(0.0, 2.0 * (top - np.array([each.log_density for each in found]))))


@dataclass(frozen=True)
class Walk:
    """Maxima over the other parameters along one, ordered by its normal, and whether the profile is flat at the ends,
    so that it falls no more."""

    found: list[Origin]
    flat: tuple[bool, bool]


def _walk(mode: Mode, start: Origin, k: int, deep: float) -> Walk:
    """Go outward from a mode, on both sides, until the root of twice the log density that is lost comes to `deep`."""
    below, above = (_side(mode, start, k, sign, deep) for sign in (-1.0, 1.0))
    sd = float(np.sqrt(mode.covariance[k, k]))
    flat = [_is_flat(mode, [each.u[k] for each in side], side, sd) for side in (below, above)]
    return Walk([*below[:0:-1], *above], (flat[0], flat[1]))


def _side(mode: Mode, start: Origin, k: int, sign: float, deep: float) -> list[Origin]:
    """Go outward on one side. Strides are halved where the root leaps or no path is found, doubled where it hardly
    grows."""
    sd, found, top = float(np.sqrt(mode.covariance[k, k])), [start], mode.origin.log_density
    stride = STRIDE * sd
    for _ in range(MOST):
        origin = _moved(mode, found[-1], k, float(found[-1].u[k] + sign * stride))
        growth = np.inf if origin is None else float(np.subtract(*_roots([origin, found[-1]], top)))
        if growth > LEAP and stride > SHORTEST * sd:
            stride *= 0.5
            continue
        if origin is None:
            break
        found.append(origin)
        if _roots([origin], top)[0] > deep:
            break
        stride *= 2.0 if growth < 0.5 * STRIDE else 1.0
    return found


def _is_flat(mode: Mode, values: list[float], side: list[Origin], sd: float) -> bool:
    """Return whether a side goes far, and the root hardly grows over the outer half of it."""
    away, roots = np.abs(np.subtract(values, values[0])), _roots(side, mode.origin.log_density)
    return bool(away[-1] > FAR * sd and roots[-1] - np.interp(0.5 * away[-1], away, roots) < FLAT)


class End(NamedTuple):
    """An end of a part of a region, on the scale of the normals, and whether it is known that the part ends there."""

    u: float
    known: bool


def _parts(walk: Walk, k: int, roots: np.ndarray, quantile: float) -> Iterator[tuple[End, End]]:
    """Yield the parts of a walk where the root is at most the quantile, with ends by interpolation where it exceeds it.

    If the walk ends inside, the part has no end where the profile is flat; otherwise its end is not known.
    """
    u, inside = np.array([each.u[k] for each in walk.found]), np.r_[False, roots <= quantile, False]

    def end(i: int, beyond: int, flat: bool) -> End:
        if 0 <= beyond < len(u):
            share = (quantile - roots[i]) / (roots[beyond] - roots[i])
            return End(float(u[i] + share * (u[beyond] - u[i])), True)
        return End((beyond - i) * np.inf if flat else float(u[i]), flat)

    firsts, lasts = np.flatnonzero(inside[1:] > inside[:-1]).tolist(), np.flatnonzero(inside[:-1] > inside[1:]).tolist()
    for first, last in zip(firsts, lasts, strict=True):
        yield end(first, first - 1, walk.flat[0]), end(last - 1, last, walk.flat[1])


def _joined(parts: list[tuple[End, End]]) -> list[tuple[End, End]]:
    """Join parts that overlap."""
    joined: list[tuple[End, End]] = []
    for low, high in sorted(parts):
        if joined and low.u <= joined[-1][1].u:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return joined


def _of_modes(
    marginal: Marginal, mode: Mode, others: list[Origin], k: int, labels: list[str], quantile: float
) -> xr.Dataset:
    """Go outward from every mode; the region is where one of their profiles is high enough."""
    deep = max(FURTHEST, quantile + BEYOND)
    walks = [_walk(mode, start, k, deep) for start in (mode.origin, *others)]
    top = max((each for walk in walks for each in walk.found), key=lambda each: each.log_density)
    roots = [_roots(walk.found, top.log_density) for walk in walks]
    parts = _joined([part for walk, r in zip(walks, roots, strict=True) for part in _parts(walk, k, r, quantile)])
    ends = np.array([[_bound(marginal, top.u, k, end) for end in part] for part in parts])
    _warn_of_parts(labels[k], ends, [[_value(marginal, top.u, k, end.u) for end in part] for part in parts])
    found = [each for i, walk in enumerate(walks) for each in _highest(walks, roots, i, k)]
    found.sort(key=lambda each: each.u[k])
    u = np.array([each.u for each in found])
    return xr.Dataset(
        {
            "log_density": (labels[k], np.array([each.log_density - top.log_density for each in found])),
            "other": ((labels[k], "parameter_normal"), u),
            "interval": ("bound", np.array([ends[0, 0], ends[-1, 1]])),
            "parts": (("part", "bound"), ends),
            "maximum": ((), _value(marginal, top.u, k, top.u[k])),
        },
        {
            labels[k]: [_value(marginal, top.u, k, each) for each in u[:, k]],
            "parameter_normal": labels,
            "bound": ["lower", "upper"],
        },
        {"prior": int(marginal.prior), "level": float(2.0 * ndtr(quantile) - 1.0)},
    )


def _highest(walks: list[Walk], roots: list[np.ndarray], i: int, k: int) -> Iterator[Origin]:
    """Yield what a walk found where no walk before it has found as much, and no later one more."""
    for each, root in zip(walks[i].found, roots[i], strict=True):
        others = [
            np.interp(each.u[k], [at.u[k] for at in walk.found], r, left=np.inf, right=np.inf) + 1e-3 * (j > i)
            for j, (walk, r) in enumerate(zip(walks, roots, strict=True))
            if j != i
        ]
        if root < min(others, default=np.inf):
            yield each


def _bound(marginal: Marginal, u: np.ndarray, k: int, end: End) -> float:
    """Return an end as a value of the parameter, infinite where there is none, NaN where it is not known."""
    return end.u if np.isinf(end.u) else _value(marginal, u, k, end.u) if end.known else np.nan


def _warn_of_parts(label: str, ends: np.ndarray, reached: list[list[float]]) -> None:
    """Warn if the region has several parts, or an end that is not known."""
    if len(ends) > 1:
        parts = " and ".join(f"{low:.3g} to {high:.3g}" for low, high in ends)
        warn(f"the region of {label} has {len(ends)} parts, {parts}: its interval covers them all")
    for bound, end, at in (("lower", ends[0, 0], reached[0][0]), ("upper", ends[-1, 1], reached[-1][1])):
        if np.isnan(end):
            warn(
                f"the {bound} bound of {label} was not reached, and is NaN: the search came to {at:.3g} and found no "
                "maximum beyond it; take more steps_per_interval, or a wider prior if the bound lies far outside of it",
            )


def _value(marginal: Marginal, u: np.ndarray, k: int, normal: float) -> float:
    moved = u.copy()
    moved[k] = normal
    return float(marginal.parameters(moved)[k])
