"""Convergence of many scalars at once: effective draws and R-hat, as ArviZ computes them.

Vehtari, Gelman, Simpson, Carpenter and Bürkner, Rank-normalization, folding, and localization: an improved R-hat for
assessing convergence of MCMC, Bayesian Analysis 16 (2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

AT_ONCE = 2**28  # bytes of a variable
PIECE = 2**21  # draws that are judged at a time
TAILS = (0.05, 0.95)
APART = 3.0  # standard deviations between the means of chains that are in different modes


class Convergence(NamedTuple):
    bulk: float  # effective draws, of the mean
    tail: float  # of the 5 and 95 % quantiles, the worse
    rhat: float  # NaN for a single chain

    @property
    def effective(self) -> float:
        return float(np.minimum(self.bulk, self.tail))  # NaN where either is


def apart(mean: np.ndarray, spread: np.ndarray, other_mean: Any, other_spread: Any) -> np.ndarray:
    """Return whether means of chains are further from each other than the spreads about them explain."""
    return np.abs(mean - other_mean) > APART * 0.5 * (spread + other_spread)


def convergence(x: np.ndarray) -> Convergence:
    """Compute the convergence of one scalar from its draws (chain, draw)."""
    return convergences(x[..., None])[0]


def convergences(x: np.ndarray) -> list[Convergence]:
    """Compute the convergence of each scalar from draws (chain, draw, scalar): NaN where they are fewer than four or
    not finite."""
    results, count = [], max(1, PIECE // max(1, x.shape[0] * x.shape[1]))
    for i in range(0, x.shape[2], count):
        piece = np.ascontiguousarray(np.moveaxis(x[..., i : i + count], 2, 0), dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):  # of chains that stand still: R-hat is then infinite
            results += map(Convergence, *(numbers.tolist() for numbers in _of_piece(piece)))
    return results


def _of_piece(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Compute bulk and tail effective draws and R-hat from draws (scalar, chain, draw)."""
    unknown = np.isnan(x).any(axis=(1, 2)) | (x.shape[2] < 4)
    if x.shape[2] < 4:
        return (np.full(len(x), np.nan),) * 3
    halves, flat = _halves(x), x.reshape(len(x), -1)
    normal = _normal_scores(halves)
    below = [_effective(_halves(x <= q[:, None, None])) for q in np.quantile(flat, TAILS, axis=1)]
    rhat = np.full(len(x), np.nan)
    if x.shape[1] > 1:
        middle = np.median(halves, axis=(1, 2), keepdims=True)
        rhat = np.fmax(_rhat(normal), _rhat(_normal_scores(np.abs(halves - middle))))
    return tuple(np.where(unknown, np.nan, figure) for figure in (_effective(normal), np.fmin(*below), rhat))


def _halves(x: np.ndarray) -> np.ndarray:
    """Split every chain into two, its halves."""
    half = x.shape[2] // 2
    return np.concatenate([x[..., :half], x[..., -half:]], axis=1)


def _normal_scores(x: np.ndarray) -> np.ndarray:
    """Return the normal quantiles of the ranks among all chains."""
    from scipy.stats import rankdata  # which takes long to import

    ranks = rankdata(x.reshape(len(x), -1), axis=1)
    return ndtri((ranks - 3 / 8) / (ranks.shape[1] + 1 / 4)).reshape(x.shape)


def _rhat(x: np.ndarray) -> np.ndarray:
    """Return the root of the variance of all chains together over that within chains."""
    draws = x.shape[2]
    between = draws * x.mean(axis=2).var(axis=1, ddof=1)
    return np.sqrt((between / x.var(axis=2, ddof=1).mean(axis=1) + draws - 1) / draws)


def effective_draws(x: np.ndarray) -> float:
    """Return how many independent draws would tell the mean of a scalar (chain, draw) as well."""
    return float(_effective(x[None])[0])


def _effective(x: np.ndarray) -> np.ndarray:
    """Return the number of draws over tau = -1 + 2 sum_k P_k, P_k the sum of autocorrelations at lags 2k and 2k + 1.

    Geyer's initial sequence: the sum ends before the first P_k that is not positive, of which the even lag is kept if
    it is positive, and P_k is made not to increase.
    """
    draws, size = x.shape[2], x.shape[1] * x.shape[2]
    still = np.ptp(x.reshape(len(x), -1).astype(float), axis=1) < np.finfo(float).resolution
    rho = _autocorrelations(x)
    even, odd = rho[:, : draws - draws % 2 : 2], rho[:, 1::2]
    pairs = even + odd
    last = max(0, -(-(draws - 4) // 2))  # the last pair that is looked at
    ended = pairs[:, : last + 1] <= 0.0
    end = np.where(ended.any(axis=1), ended.argmax(axis=1), last)[:, None]
    summed = np.where(np.arange(pairs.shape[1]) < end, np.minimum.accumulate(pairs, axis=1), 0.0).sum(axis=1)
    then, of_pair = (np.take_along_axis(array, end, axis=1)[:, 0] for array in (even, pairs))
    tau = -1.0 + 2.0 * summed + np.where((then > 0.0) | (of_pair >= 0.0), then, 0.0)
    return np.where(still, size, size / np.maximum(tau, 1.0 / np.log10(size)))


def _autocorrelations(x: np.ndarray) -> np.ndarray:
    """Return by lag, for all chains, 1 - (W - mean covariance) / V, with V their variance and W that within chains."""
    chains, draws = x.shape[1:]
    length = next_fast_len(2 * draws, real=True)
    means = x.mean(axis=2)
    waves = rfft(x - means[..., None], length, axis=2)
    power = np.mean(waves.real**2 + waves.imag**2, axis=1)
    covariance = irfft(power, length, axis=1)[:, :draws] / draws
    within = covariance[:, :1] * draws / (draws - 1.0)
    variance = covariance[:, :1] + (means.var(axis=1, ddof=1)[:, None] if chains > 1 else 0.0)
    rho = 1.0 - (within - covariance) / variance
    rho[:, 0] = 1.0
    return rho


def judged(values: xr.DataArray) -> Iterator[tuple[str, np.ndarray, Convergence]]:
    """Yield label, draws (chain, draw) and convergence of every scalar of a variable that is not constant."""
    for names, columns in _columns(values):
        free = np.flatnonzero(np.ptp(columns, axis=(0, 1)) != 0.0)  # NaN is not constant
        for i, judgement in zip(free, convergences(columns[..., free]), strict=True):
            yield names[i], columns[..., i], judgement


def scalars(values: xr.DataArray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield label and draws (chain, draw) of every scalar of a variable."""
    for names, columns in _columns(values):
        yield from ((name, columns[..., i]) for i, name in enumerate(names))


def _columns(values: xr.DataArray) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yield labels and draws (chain, draw, scalar) of all scalars of a variable. If it is read from files, only a part
    of it is in memory at a time."""
    names, values = iter(labels(values)), values.transpose("chain", "draw", ...)
    for part in _parts(values):
        columns = part.values.reshape(*part.shape[:2], -1)
        yield [*islice(names, columns.shape[2])], columns


def _parts(values: xr.DataArray) -> Iterator[xr.DataArray]:
    """Yield a large variable (chain, draw, ...) in parts of the first axis after these, in order; else all of it."""
    if values.ndim == 2 or values.nbytes <= AT_ONCE:
        yield values
        return
    dim, size = values.dims[2], values.shape[2]
    count = max(1, int(size * AT_ONCE // values.nbytes))
    for i in range(0, size, count):
        yield values.isel({dim: slice(i, i + count)})


def labels(values: xr.DataArray) -> list[str]:
    """Return a label for each scalar of a variable: its name and, if there are several, its coordinates or numbers."""
    dims = [dim for dim in values.dims if dim not in ("chain", "draw")]
    if all(values.sizes[dim] == 1 for dim in dims):
        return [str(values.name)]
    places = [values.coords[dim].values if dim in values.coords else range(values.sizes[dim]) for dim in dims]
    return [f"{values.name}[{', '.join(map(str, place))}]" for place in product(*places)]


def by_label(tree: xr.DataTree, truth: Mapping[str, Any]) -> dict[str, float]:
    """Return the true values of variables of the posterior, by the labels of `scalars`."""
    values: dict[str, float] = {}
    for name in [name for name in truth if name in tree.posterior]:
        values |= dict(zip(labels(tree.posterior[name]), np.ravel(truth[name]).tolist(), strict=True))
    return values
