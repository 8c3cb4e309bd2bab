"""Tests of one source of noise each: of its mean, size, shape and dependence, with a sentence for what is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import ndtri

from pathfold.analysis.channels import Channel
from pathfold.analysis.noise_statistics import (
    autocorrelation_test,
    correlation_test,
    mean_test,
    normal_p_value,
    ratio_of_sums,
    ratio_test,
    shape_test,
    shift_test,
    sizes,
    spread_test,
    tail_test,
    variance_test,
)
from pathfold.data.dates import Calendar, told_time
from pathfold.sampling.contradictions import far_out

FEWEST = 8  # values that a window must have
FINEST = 16  # windows at most
MOST_NAMED = 5  # outliers


@dataclass(frozen=True)
class NoiseTest:
    """A test of one property of one source of noise: statistic and p-value for each draw, and words for the finding."""

    family: str
    noise: str
    where: str
    statistic: np.ndarray
    p_values: np.ndarray
    say: Callable[[float], str]  # a sentence, from the median of the statistic
    span: tuple[int, float, float] | None = None  # series, begin and end of a window


class When(NamedTuple):
    """The names of the series, and the calendars of those with dates."""

    names: list[str]
    calendars: list[Calendar | None]

    def told(self, series: int, t: float) -> str:
        """Write a time of a series: as a date, if it has dates."""
        calendar = self.calendars[series]
        return told_time(t, calendar) if calendar and calendar.origin is not None else f"t = {t:.4g}"

    def series(self, series: int) -> str:
        return f" of series {self.names[series]}" if len(self.names) > 1 else ""


def noise_name(source: Channel) -> str:
    """Return the name of a source of noise in tables and sentences."""
    kinds = {"observation": "the error of", "ahead": "the one-step residual of"}
    return f"{kinds.get(source.kind, 'the noise in')} {source.name}"


def _cause(source: Channel, of_path: str, of_observation: str, of_both: str = "") -> str:
    return {"path": of_path, "observation": of_observation}.get(source.kind, of_both)


def _direction(mean: float) -> str:
    return "upwards" if mean > 0 else "downwards"


def _mean(source: Channel, family: str, e: np.ndarray, where: str, span: Any = None) -> NoiseTest:
    def say(mean: float) -> str:
        cause = _cause(
            source,
            "the drift does not explain it",
            "the observation function does not",
            "the model expects other values",
        )
        return f"{noise_name(source)} is shifted {_direction(mean)}{where}, by {abs(mean):.2g} of its size: {cause}"

    return NoiseTest(family, noise_name(source), where.strip(), *mean_test(e), say, span)


def _too_large(source: Channel, squares: float, where: str, compared: str) -> str:
    """Return a sentence for noise of this mean square, or for this ratio of mean squares."""
    cause = _cause(
        source, "the diffusion, or a drift that misses something", "the scale of the errors", "diffusion or errors"
    )
    size = "large" if squares > 1.0 else "small"
    return f"{noise_name(source)} is too {size}{where}, {np.sqrt(squares):.2g} times what it {compared}: {cause}"


def moments(source: Channel) -> Iterator[NoiseTest]:
    """Test mean, variance and correlation of neighbours over all of the time."""
    e, name = source.values, noise_name(source)
    yield _mean(source, "mean", e, "")
    yield NoiseTest(
        "variance", name, "", *variance_test(e), lambda squares: _too_large(source, squares, "", "should be")
    )

    same = _neighbours(source)
    if same.sum() >= FEWEST:

        def say_autocorrelation(r: float) -> str:
            sign = "persists" if r > 0 else "alternates"
            cause = _cause(
                source,
                "something slow is missing from the drift or the state",
                "the errors have a memory",
                "drift or errors have a memory that the model does not have",
            )
            return f"{name} {sign} from one time to the next (correlation {r:.2g}): {cause}"

        yield NoiseTest("autocorrelation", name, "", *autocorrelation_test(e, same), say_autocorrelation)


def _far_out(source: Channel, when: When) -> str:
    """Return words for the times of values so far out that one in 20 series of normals has any, the worst first."""
    size = np.median(np.abs(source.values), axis=0)
    far = [i for i in np.argsort(-size).tolist() if size[i] > -ndtri(0.025 / size.size)]
    places = [(int(source.series[i]), float(source.ends[i])) for i in far[:MOST_NAMED]]
    more = f" and {len(far) - MOST_NAMED} more" if len(far) > MOST_NAMED else ""
    listed = ", ".join(f"{when.told(k, t)}{when.series(k)}" for k, t in places)
    return f" (at {listed}{more})" if listed else ""


def shape(source: Channel, when: When) -> Iterator[NoiseTest]:
    """Test the tails, and the shape whatever the scale."""
    e, name = source.values, noise_name(source)

    def say_tails(largest: float) -> str:
        cause = _cause(
            source,
            "jumps that the diffusion does not have",
            "outliers, heavier tails than the errors have",
            "outliers or jumps",
        )
        where = _far_out(source, when)
        return f"{name} has heavy tails, with values up to {largest:.2g} standard deviations{where}: {cause}"

    yield NoiseTest("tails", name, "", *tail_test(e), say_tails)
    if e.shape[1] >= FEWEST:

        def say_shape(excess: float) -> str:
            tails = "heavier" if excess > 0.0 else "lighter"
            cause = _cause(
                source,
                "jumps, or a diffusion that changes",
                "outliers, or errors whose scale changes",
                "outliers, jumps, or a scale that changes",
            )
            how = f"it has {tails} tails (kurtosis {3.0 + excess:.2g}) or is skewed"
            return f"{name} is not normal, whatever its scale: {how}{_far_out(source, when)}: {cause}"

        yield NoiseTest("shape", name, "", *shape_test(e), say_shape)


def in_windows(source: Channel, when: When) -> Iterator[NoiseTest]:
    """Test mean, and variance relative to the rest, in the series of a panel and in halves, quarters, ... of each."""
    several, squares = np.ptp(source.series) > 0, source.values**2
    total, count = squares.sum(axis=1), squares.shape[1]
    numbers, first = np.unique(source.series, return_index=True)  # series follow on
    for k, mine in zip(numbers, np.split(np.arange(count), first[1:]), strict=True):
        of_series = f" in series {when.names[k]}" if several else ""
        number = 1 if several else 2
        while number <= FINEST and len(mine) >= FEWEST * number:
            for rows in np.array_split(mine, number):
                begin, end = float(source.begins[rows[0]]), float(source.ends[rows[-1]])
                span = f" between {when.told(k, begin)} and {when.told(k, end).removeprefix('t = ')}"
                where = of_series if number == 1 else f"{span}{of_series}"
                span, inside = (int(k), begin, end), squares[:, rows].sum(axis=1)
                yield _mean(source, "mean in windows", source.values[:, rows], where, span)
                relative = ratio_of_sums(inside, len(rows), total - inside, count - len(rows))
                say = partial(_too_large, source, where=where, compared="is elsewhere")
                yield NoiseTest("variance in windows", noise_name(source), where.strip(), *relative, say, span)
            number *= 2


def over_time(source: Channel) -> Iterator[NoiseTest]:
    """Test whether noise is larger in one half of each series than in the other, and whether its size has a memory."""
    e, name = source.values, noise_name(source)
    if e.shape[1] < 2 * FEWEST:
        return
    place = np.concatenate([np.arange(n) / n for n in np.unique(source.series, return_counts=True)[1]])
    cause = _cause(source, "the diffusion changes", "the scale of the errors changes", "diffusion or errors change")
    middle = (place >= 0.25) & (place < 0.75)
    for first, here, there in (
        (place >= 0.5, "in the second half of the time", "in the first half of the time"),
        (middle, "in the middle half of the time", "at the beginning and the end"),
    ):

        def say(ratio: float, here=here, there=there) -> str:
            factor, where = (ratio, here) if ratio > 1.0 else (1.0 / ratio if ratio else np.inf, there)
            return f"{name} is larger {where}, {np.sqrt(factor):.2g} times what it is elsewhere: {cause}"

        yield NoiseTest("variance over time", name, here, *ratio_test(e, first), say)
    same = _neighbours(source)
    if same.sum() >= FEWEST:

        def say_memory(r: float) -> str:
            return f"{name} is large at some times and small at others (correlation of neighbours {r:.2g}): {cause}"

        yield NoiseTest("variance over time", name, "neighbours", *autocorrelation_test(sizes(e), same), say_memory)


def _neighbours(source: Channel) -> np.ndarray:
    """Return whether a value (time - 1,) and the one after it belong to neighbouring intervals of a series."""
    return (np.diff(source.intervals) == 1) & (np.diff(source.series) == 0)


def dependence(source: Channel, components: list[str]) -> Iterator[NoiseTest]:
    """Test whether noise is shifted or larger where a component of the state is high or far out, or bends with it.

    High and far out are relative to what the path has been before, so that they are known before the noise is.
    """
    if source.states is None or source.values.shape[1] < 2 * FEWEST:
        return
    name, count = noise_name(source), np.arange(1.0, source.values.shape[1] + 1)
    for j, component in enumerate(components):
        x = source.states[:, :, j]
        away = x - np.cumsum(x, axis=1) / count
        size = np.abs(away)
        far = size - np.cumsum(size, axis=1) / count
        for place, opposite, deviation in (("high", "low", away), ("far out", "in the middle", far)):
            sign = _sign(deviation)
            where = f"where {component} is {place}"

            def say_shift(mean: float, where=where) -> str:
                cause = _cause(source, "the drift depends on it in another way", "the observation function does")
                return f"{name} is shifted {_direction(mean)} {where}, the other way elsewhere: {cause}"

            def say_spread(ratio: float, where=where, other=f"where {component} is {opposite}") -> str:
                cause = _cause(
                    source, "the diffusion depends on it in another way", "so should the scale of the errors"
                )
                factor, place = (ratio, where) if ratio > 1.0 else (1.0 / ratio if ratio else np.inf, other)
                return f"{name} is larger {place}, {np.sqrt(factor):.2g} times what it is elsewhere: {cause}"

            yield NoiseTest("shift with the state", name, where, *shift_test(source.values, sign), say_shift)
            yield NoiseTest("spread with the state", name, where, *spread_test(source.values, sign), say_spread)

        def say_bend(mean: float, component=component) -> str:
            there, here = ("outwards", "inwards") if mean > 0 else ("inwards", "outwards")
            cause = _cause(source, "the drift bends in another way", "the observation function bends in another way")
            return f"{name} is shifted {there} where {component} is far out and {here} where it is not: {cause}"

        outwards = _sign(away * far)
        where = f"outwards where {component} is far out"
        yield NoiseTest("shift with the state", name, where, *shift_test(source.values, outwards), say_bend)


def _sign(x: np.ndarray) -> np.ndarray:
    """Return 1 where x is positive, -1 elsewhere, NaN where it is NaN."""
    return np.where(np.isnan(x), np.nan, np.where(x > 0.0, 1.0, -1.0))


def correlation(a: Channel, b: Channel) -> Iterator[NoiseTest]:
    """Test the correlation of two sources at the same times, if there are enough of them."""
    _, i, j = np.intersect1d(a.intervals, b.intervals, return_indices=True)
    if len(i) < FEWEST:
        return

    def say(r: float) -> str:
        sign = "together" if r > 0 else "against each other"
        return f"{noise_name(a)} and {noise_name(b)} go {sign} (correlation {r:.2g}): they have a cause in common"

    both = f"{noise_name(a)}, {noise_name(b)}"
    yield NoiseTest("cross-correlation", both, "", *correlation_test(a.values[:, i], b.values[:, j]), say)


def initial_states(tree: xr.DataTree) -> Iterator[NoiseTest]:
    """Test initial states, and what varies between series, against their distributions; all series together."""
    if "initial_noise" not in tree.noise:
        return
    noise = tree.noise["initial_noise"]
    v0, names = noise.values, noise["initial_normal"].values.astype(str)
    standard = np.atleast_1d(noise.attrs["standard"]) > 0
    for name in dict.fromkeys(names[standard]):
        own = v0[..., (names == name) & standard]

        def say(squares: float, name=name) -> str:
            far = "further out" if squares > 1.0 else "closer to the middle"
            what = "the initial state" if name == "initial_state" else f"{name} of the series"
            return f"{what} is {far} than its distribution has it, {np.sqrt(squares):.2g} times: widen or move that"

        yield NoiseTest("initial state", name, "", *variance_test(own.reshape(own.shape[0] * own.shape[1], -1)), say)


def parameters(tree: xr.DataTree) -> Iterator[NoiseTest]:
    """Test every parameter against its prior."""
    if "parameter_noise" not in tree.noise:
        return
    values = tree.noise["parameter_noise"]
    standards = np.atleast_1d(values.attrs["standard"])  # a file has a list of one as it is
    for i, (name, standard) in enumerate(zip(values["parameter_normal"].values, standards, strict=True)):
        if standard:
            u = values.values[:, :, i].reshape(-1)

            def say(z: float, name=name) -> str:
                return f"{far_out(name, z)}: data and prior contradict each other"

            yield NoiseTest("parameters", str(name), "", u, normal_p_value(u), say)
