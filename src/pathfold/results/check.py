"""Is the model right? Tests of the noise of posterior draws (Johnson 2007, Bayesian Analysis 2(4), 719-734).

Parameters, initial states, path and observations are made of standard normals. If the model is right and the parameters
came from their prior, so are those of any one draw from the posterior, whatever the data are: each test of them has an
exact p-value. Draws are dependent in ways nobody knows, so that the p-values of a test are combined by a bound that
holds all the same: twice their median (Rueger 1978; Vovk and Wang 2020). It errs on the side of the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import bdtrc, chdtr, chdtrc, fdtr, fdtrc, ndtr

from pathfold.model.settings import positive
from pathfold.results.channels import Channel, channels, component_names, series_names
from pathfold.results.reading import check_posterior

LEVEL = 0.05
FEWEST = 8  # values that a window must have
FINEST = 16  # windows at most


@dataclass(frozen=True)
class NoiseTest:
    """Of one property of one source of noise: a statistic and a p-value for each draw, and words for what it found."""

    family: str
    noise: str
    where: str
    statistic: np.ndarray
    p_values: np.ndarray
    say: Callable[[float], str]  # a sentence, from the median of the statistic
    span: tuple[int, float, float] | None = None  # series, begin and end of a window


@dataclass(frozen=True)
class Check:
    """What `pf.check` found: a table of all tests, the smallest p-value of all, and sentences for what is amiss.

    Parameters
    ----------
    table
        For each test its `p_value`, bounded over draws, and `adjusted`, which allows for the number of tests: if the
        model is right, the smallest of these, `p_value`, is below 0.05 in at most 5 % of all data sets.
    findings
        Sentences for what is amiss.
    not_checked
        Sources of noise that could not be tested, and why.
    draws
        How many draws the tests are of.
    level
        The probability of finding anything amiss with a model that is right, at most.
    spans
        Windows of time in which the noise is amiss: its source, its series, and when.
    """

    table: pd.DataFrame
    findings: tuple[str, ...]
    not_checked: tuple[str, ...]
    draws: int
    level: float
    spans: tuple[tuple[str, int, float, float], ...]  # noise, series, begin and end of the windows that are amiss

    @property
    def p_value(self) -> float:
        return float(self.table["adjusted"].to_numpy().min())

    @property
    def passed(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        head = (
            f"{len(self.table)} tests of the noise of {self.draws} draws, smallest adjusted p-value {self.p_value:.2g}"
        )
        verdict = f"{head}: nothing speaks against the model." if self.passed else f"{head}. The model does not fit:"
        return "\n".join([verdict, *(f"- {each}" for each in (*self.findings, *self.not_checked))])

    __repr__ = __str__


def check(posterior: xr.DataTree, *, level: float = LEVEL) -> Check:
    """Test whether the noise of posterior draws is standard normal, as it is if the model is right.

    Mean, variance, tails, autocorrelation and cross-correlation of each source of noise, over all of the time and in
    windows of it, and whether it depends on the state; initial states and parameters against their priors.

    Parameters
    ----------
    posterior
        Results of `pf.sample`, also from a file.
    level
        The probability of finding anything amiss with a model that is right, at most.

    Returns
    -------
    Check
        A table of all tests, and sentences for what is amiss.
    """
    tree = check_posterior(posterior, "noise", "constant_data")
    level = positive("level", level, below=1.0)
    sources, tests = channels(tree), []
    for source in sources:
        windows = _windows(source, series_names(tree))
        tests += [*_moments(source), *windows, *_dependence(source, component_names(tree.noise))]
    for a, b in combinations(sources, 2):
        tests += _correlation(a, b)
    tests += [*_initial(tree), *_parameters(tree)]
    return _gathered(tests, level, tuple(_left_out(tree)), tree.noise.sizes["chain"] * tree.noise.sizes["draw"])


def bounded(p_values: np.ndarray) -> float:
    """A p-value from those of dependent draws: the k-th smallest of K times K / k, with k about K / 2 (Rueger 1978)."""
    k = (len(p_values) + 1) // 2
    return float(min(1.0, np.sort(p_values)[k - 1] * len(p_values) / k))


def _gathered(tests: list[NoiseTest], level: float, not_checked: tuple[str, ...], draws: int) -> Check:
    """Bonferroni's bound with the same weight for each family of tests, however many it has."""
    sizes = Counter(test.family for test in tests)
    rows = []
    for test in tests:
        p, middle = bounded(test.p_values), float(np.median(test.statistic))
        adjusted = min(1.0, p * len(sizes) * sizes[test.family])
        rows.append((test.family, test.noise, test.where, middle, p, adjusted))
    table = pd.DataFrame(rows, columns=["test", "noise", "where", "statistic", "p_value", "adjusted"])
    adjusted = table["adjusted"].to_numpy()
    amiss = [i for i in np.argsort(adjusted, kind="stable").tolist() if adjusted[i] < level]
    findings = tuple(f"{tests[i].say(rows[i][3])} (adjusted p-value {rows[i][5]:.2g})" for i in amiss)
    spans = tuple((tests[i].noise, *span) for i in amiss if (span := tests[i].span) is not None)
    return Check(table, findings, not_checked, draws, level, spans)


# Tests of standard normals e (draw, time): a statistic and its p-value for each draw.


def _normal(z: np.ndarray) -> np.ndarray:
    return 2.0 * ndtr(-np.abs(z))


def mean_test(e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean; exact."""
    return e.mean(axis=1), _normal(e.sum(axis=1) / np.sqrt(e.shape[1]))


def variance_test(e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of squares, by chi-squared; exact."""
    squares = np.sum(e**2, axis=1)
    tail = np.minimum(chdtr(e.shape[1], squares), chdtrc(e.shape[1], squares))
    return squares / e.shape[1], 2.0 * tail


def tail_test(e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest, and the number beyond 2: twice the smaller of two exact p-values."""
    largest, beyond = np.abs(e).max(axis=1), np.sum(np.abs(e) > 2.0, axis=1)
    of_largest = -np.expm1(e.shape[1] * np.log1p(-2.0 * ndtr(-largest)))
    of_number = bdtrc(beyond - 1, e.shape[1], 2.0 * ndtr(-2.0))
    return largest, np.minimum(1.0, 2.0 * np.minimum(of_largest, of_number))


def autocorrelation_test(e: np.ndarray, same: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Between neighbours, where `same` (time - 1,) says that they are: given every second value, exactly normal."""
    products = np.where(same, e[:, :-1] * e[:, 1:], 0.0)
    sums = np.zeros_like(e)  # of the neighbours of each
    sums[:, 1:] += np.where(same, e[:, :-1], 0.0)
    sums[:, :-1] += np.where(same, e[:, 1:], 0.0)
    spread = np.sum(sums[:, 1::2] ** 2, axis=1)
    correlation = products.sum(axis=1) / np.maximum(1, same.sum())
    return correlation, _normal(_divided(np.sum(e[:, 1::2] * sums[:, 1::2], axis=1), np.sqrt(spread)))


def correlation_test(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Between two: given the second, exactly normal."""
    products = np.sum(a * b, axis=1)
    return products / a.shape[1], _normal(_divided(products, np.sqrt(np.sum(b**2, axis=1))))


def shift_test(e: np.ndarray, sign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether e goes with a sign that is known before it is: e times the sign is standard normal again; exact."""
    return mean_test(e * sign)


def spread_test(e: np.ndarray, sign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether e is larger where a sign, known before it is, is positive: the ratio of mean squares, by F."""
    up = sign > 0
    n, m = up.sum(axis=1), (~up).sum(axis=1)
    few = (n < FEWEST) | (m < FEWEST)
    n, m = np.where(few, 1, n), np.where(few, 1, m)
    ratio = _divided(np.sum(np.where(up, e**2, 0.0), axis=1) / n, np.sum(np.where(up, 0.0, e**2), axis=1) / m)
    tail = np.minimum(fdtr(n, m, ratio), fdtrc(n, m, ratio))
    return np.where(few, 1.0, ratio), np.where(few, 1.0, 2.0 * tail)


def _divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0.0)


# Which tests are made.


def noise_name(source: Channel) -> str:
    """What a source of noise is called in tables and sentences."""
    return f"the noise in {source.name}" if source.kind == "path" else f"the error of {source.name}"


def _cause(source: Channel, of_path: str, of_observation: str) -> str:
    return of_path if source.kind == "path" else of_observation


def _direction(mean: float) -> str:
    return "upwards" if mean > 0 else "downwards"


def _mean(source: Channel, family: str, e: np.ndarray, where: str, span: Any = None) -> NoiseTest:
    def say(mean: float) -> str:
        cause = _cause(source, "the drift does not explain it", "the observation function does not")
        return f"{noise_name(source)} is shifted {_direction(mean)}{where}, by {abs(mean):.2g} of its size: {cause}"

    return NoiseTest(family, noise_name(source), where.strip(), *mean_test(e), say, span)


def _variance(source: Channel, family: str, e: np.ndarray, where: str, span: Any = None) -> NoiseTest:
    def say(squares: float) -> str:
        cause = _cause(source, "the diffusion, or a drift that misses something", "the scale of the errors")
        size = "large" if squares > 1.0 else "small"
        return f"{noise_name(source)} is too {size}{where}, {np.sqrt(squares):.2g} times what it should be: {cause}"

    return NoiseTest(family, noise_name(source), where.strip(), *variance_test(e), say, span)


def _moments(source: Channel) -> Iterator[NoiseTest]:
    """Over all of the time: mean, variance, tails, correlation of neighbours."""
    e, name = source.values, noise_name(source)
    yield _mean(source, "mean", e, "")
    yield _variance(source, "variance", e, "")

    def say_tails(largest: float) -> str:
        cause = _cause(source, "jumps that the diffusion does not have", "outliers, heavier tails than the errors have")
        return f"{name} has heavy tails, with values up to {largest:.2g} standard deviations: {cause}"

    yield NoiseTest("tails", name, "", *tail_test(e), say_tails)
    same = (np.diff(source.intervals) == 1) & (np.diff(source.series) == 0)
    if same.sum() >= FEWEST:

        def say_autocorrelation(r: float) -> str:
            sign = "persists" if r > 0 else "alternates"
            cause = _cause(source, "something slow is missing from the drift or the state", "the errors have a memory")
            return f"{name} {sign} from one time to the next (correlation {r:.2g}): {cause}"

        yield NoiseTest("autocorrelation", name, "", *autocorrelation_test(e, same), say_autocorrelation)


def _windows(source: Channel, names: list[str]) -> Iterator[NoiseTest]:
    """Mean and variance in the series of a panel, and in halves, quarters, ... of each."""
    several = np.ptp(source.series) > 0
    for k in np.unique(source.series):
        (mine,) = np.nonzero(source.series == k)
        of_series = f" in series {names[k]}" if several else ""
        number = 1 if several else 2
        while number <= FINEST and len(mine) >= FEWEST * number:
            for rows in np.array_split(mine, number):
                begin, end = float(source.begins[rows[0]]), float(source.ends[rows[-1]])
                where = of_series if number == 1 else f" between t = {begin:.4g} and {end:.4g}{of_series}"
                e, span = source.values[:, rows], (int(k), begin, end)
                yield _mean(source, "mean in windows", e, where, span)
                yield _variance(source, "variance in windows", e, where, span)
            number *= 2


def _dependence(source: Channel, components: list[str]) -> Iterator[NoiseTest]:
    """Whether the noise is shifted or larger where a component of the state is high or far out, or bends with it.

    High and far out are relative to what the path has been before, so that they are known before the noise is.
    """
    if source.values.shape[1] < 2 * FEWEST:
        return
    name, count = noise_name(source), np.arange(1.0, source.values.shape[1] + 1)
    for j, component in enumerate(components):
        x = source.states[:, :, j]
        away = x - np.cumsum(x, axis=1) / count
        size = np.abs(away)
        far = size - np.cumsum(size, axis=1) / count
        for place, opposite, deviation in (("high", "low", away), ("far out", "in the middle", far)):
            sign = np.where(deviation > 0.0, 1.0, -1.0)
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

        outwards = np.where(away * far > 0.0, 1.0, -1.0)
        where = f"outwards where {component} is far out"
        yield NoiseTest("shift with the state", name, where, *shift_test(source.values, outwards), say_bend)


def _correlation(a: Channel, b: Channel) -> Iterator[NoiseTest]:
    """At the same times, where there are enough of them."""
    _, i, j = np.intersect1d(a.intervals, b.intervals, return_indices=True)
    if len(i) < FEWEST:
        return

    def say(r: float) -> str:
        sign = "together" if r > 0 else "against each other"
        return f"{noise_name(a)} and {noise_name(b)} go {sign} (correlation {r:.2g}): they have a cause in common"

    both = f"{noise_name(a)}, {noise_name(b)}"
    yield NoiseTest("cross-correlation", both, "", *correlation_test(a.values[:, i], b.values[:, j]), say)


def _initial(tree: xr.DataTree) -> Iterator[NoiseTest]:
    """Initial states, and what varies between series, against their distributions: those of a panel together."""
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


def _parameters(tree: xr.DataTree) -> Iterator[NoiseTest]:
    """Every parameter against its prior."""
    if "parameter_noise" not in tree.noise:
        return
    values = tree.noise["parameter_noise"]
    known = np.atleast_1d(values.attrs["standard"])  # a file has a list of one as it is
    for i, (name, standard) in enumerate(zip(values["parameter_normal"].values, known, strict=True)):
        if standard:
            u = values.values[:, :, i].reshape(-1)

            def say(z: float, name=name) -> str:
                return (
                    f"{name} is {abs(z):.2g} standard deviations out in its prior: data and prior contradict each other"
                )

            yield NoiseTest("parameters", str(name), "", u, _normal(u), say)


def _left_out(tree: xr.DataTree) -> Iterator[str]:
    """A sentence for what cannot be tested."""
    for name, what in (("observation_noise", "the errors of observations"), ("initial_noise", "initial states")):
        if name in tree.noise and not np.all(tree.noise[name].attrs["standard"]):
            yield f"not checked: {what}, or some of them, which are not made of standard normals"
