"""The modes of a posterior, where they are separate, and how probable each is: pf.modes.

Nothing is searched for: draws leave gaps between modes, and how often chains chose a mode anew tells its share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pathfold.results.convergence import apart, effective_draws, scalars
from pathfold.results.in_order import results_of
from pathfold.results.prior import kept_parameters

STRAY = 2  # draws that may be in a gap between modes ...
BESIDE = 30.0  # ... if there are so many effective ones in as much room on either side of it, by chance 1 time in 10^7
VISITS = 2  # of chains to a mode that do not stay there: one alone may be an excursion
TOLD = 2  # quantities besides that which separates the modes


def modes(posterior: xr.DataTree) -> Any:
    """Return the modes of a posterior by what tells them apart, with their shares; no rows if there is one mode.

    Modes are told apart by one quantity: a parameter or, if none does, what was recorded besides, or a state, whose
    draws leave a gap that draws of a single mode would not. The error of a share depends on how often chains chose
    their mode anew, and how long they stayed; effective draws are too many. A replica of `pf.ReplicaExchange()` chooses
    its mode at each round trip, a chain of another sampler at each move between modes. Without any, shares mean nothing
    and are NaN.

    Parameters
    ----------
    posterior
        Results of `pf.sample`.

    Returns
    -------
    pandas.DataFrame
        A row for each mode, named by what it is like: its `share` of the probability with a `standard_error`, and how
        many `draws` there are of it.
    """
    tree = results_of(posterior, "sample_stats")
    kept = kept_parameters(tree)
    states = [name for name in ("initial_state", "state") if name in tree.posterior]
    others = [str(name) for name in tree.posterior.data_vars if name not in (*kept, *states)]
    for names in (kept, others, states):
        found = [split for name in names for split in _splits(tree.posterior[name])]
        if found:
            best = max(found, key=lambda split: (split.count, split.clearness))
            return _table(tree, best, [label for name in kept for label in scalars(tree.posterior[name])])
    return pd.DataFrame({"share": [], "standard_error": [], "draws": []}, index=pd.Index([], name="mode"), dtype=float)


@dataclass(frozen=True)
class Split:
    """Draws (chain, draw) of a scalar, and of which mode each of them is, in the order of its values."""

    label: str
    x: np.ndarray
    of_mode: np.ndarray

    @property
    def count(self) -> int:
        return int(self.of_mode.max()) + 1

    @property
    def residual(self) -> np.ndarray:
        """By how much draws differ from the mean of their mode."""
        means = np.array([self.x[self.of_mode == k].mean() for k in range(self.count)])
        return self.x - means[self.of_mode]

    @property
    def clearness(self) -> float:
        """The narrowest gap between modes, in standard deviations within them."""
        edges = [(self.x[self.of_mode == k].max(), self.x[self.of_mode == k + 1].min()) for k in range(self.count - 1)]
        return float(min(high - low for low, high in edges) / max(self.residual.std(), np.finfo(float).tiny))


def _splits(values: xr.DataArray) -> Iterator[Split]:
    """Yield the scalars of a variable whose draws have gaps between modes."""
    for label, x in scalars(values):
        if np.isfinite(x).all() and (cuts := _cuts(x, BESIDE)).size:
            split = Split(label, x, np.digitize(x, cuts))
            cuts = _cuts(x, BESIDE * max(1.0, x.size / effective_draws(split.residual)))
            split = Split(label, x, np.digitize(x, cuts))
            if split.count > 1 and all(_is_mode(split.of_mode == k) for k in range(split.count)):
                yield split


def _cuts(x: np.ndarray, beside: float) -> np.ndarray:
    """Return the middles of gaps in the draws of a scalar that have so many distinct ones near them on either side.

    A density with one mode is nowhere lower than on both sides. So of the draws in the gap, and in as much room on that
    side of it which has fewer, each would be in the gap with probability one half or more; that hardly any is says that
    they are of two modes. Of gaps that overlap the widest counts.
    """
    values = np.unique(x)
    last = np.arange(1 + STRAY, values.size)  # place of the first value above each gap
    low, high = values[last - 1 - STRAY], values[last]
    below = last - STRAY - np.searchsorted(values, low - (high - low))
    above = np.searchsorted(values, high + (high - low), side="right") - last
    gaps = np.flatnonzero(np.minimum(below, above) >= beside)
    overlapping = np.split(gaps, np.flatnonzero(np.diff(gaps) > STRAY) + 1) if gaps.size else []
    widest = [group[np.argmax(high[group] - low[group])] for group in overlapping]
    return 0.5 * (low + high)[widest]


def _is_mode(inside: np.ndarray) -> bool:
    """Return whether chains came to a mode more than once, or one of them never left it."""
    visits = np.sum(inside[:, 0]) + np.sum(inside[:, 1:] & ~inside[:, :-1])
    return bool(inside.all(axis=1).any() or visits >= VISITS)


def _table(tree: xr.DataTree, split: Split, parameters: Sequence[tuple[str, np.ndarray]]) -> pd.DataFrame:
    count, of_mode, stats = split.count, split.of_mode, tree.sample_stats.to_dataset()
    draws = np.bincount(of_mode.ravel())
    if "round_trips" in stats:
        lives = (stats[name].transpose("chain", "draw").values for name in ("replica", "round_trips"))
        errors = errors_by_lives(of_mode, *lives)
    else:
        errors = errors_by_moves(of_mode)
    shares = np.where(np.isnan(errors), np.nan, draws / draws.sum())
    others = [(label, x) for label, x in parameters if label != split.label and _differs(x, split)][:TOLD]
    names = [
        ", ".join([_own_name(split, k), *(_about(label, x, split, k) for label, x in others)]) for k in range(count)
    ]
    columns = {"share": shares, "standard_error": errors, "draws": draws}
    return pd.DataFrame(columns, index=pd.Index(names, name="mode"))


def errors_by_moves(of_mode: np.ndarray) -> np.ndarray:
    """Return the standard errors of the shares p of modes, given that of each draw (chain, draw); NaN without moves.

    If modes follow each other as a Markov chain with the transition matrix P, the variance of a share in N draws is
    (2 p_k Z_kk - p_k - p_k^2) / N with Z = (I - P + 1 p^T)^{-1} (Kemeny and Snell 1960); for two modes that chains stay
    in for long it is 2 p^2 (1 - p)^2 / R, with R moves there and back. Few moves determine P badly: a stay of mean
    length in each mode, and a move from it to the others, are added.
    """
    one = np.eye(of_mode.max() + 1)
    counts = np.zeros(one.shape)
    np.add.at(counts, (of_mode[:, :-1], of_mode[:, 1:]), 1.0)
    moves = counts.sum() - np.trace(counts)
    if moves < 2:
        return np.full(len(one), np.nan)
    counts += one * of_mode.size / moves + (1.0 - one) / (len(one) - 1)
    P = counts / counts.sum(axis=1, keepdims=True)
    p = np.linalg.solve((one - P).T + 1.0, np.ones(len(one)))
    Z = np.linalg.inv(one - P + p)
    return np.sqrt((2.0 * p * np.diag(Z) - p - p**2) / of_mode.size)


def errors_by_lives(of_mode: np.ndarray, replica: np.ndarray, trips: np.ndarray) -> np.ndarray:
    """Return the standard errors of the shares of modes by replica exchange, NaN without a round trip.

    Of each draw (chain, draw) its mode is given, the replica that it is of, and how many round trips there were.

    A replica that comes back from the prior begins a life, in a mode that it chose anew. With n_i the draws of life i
    and a_i those in a mode, its share p = sum a_i / sum n_i has the variance sum (a_i - p n_i)^2 / (sum n_i)^2, if
    lives are independent (a ratio estimator). Few lives may all be in one mode: a life in the mode and one outside are
    added, whose length is the root of the mean square.
    """
    count = of_mode.max() + 1
    if np.all(trips[:, -1] == trips[:, 0]):
        return np.full(count, np.nan)
    begins = np.diff(trips, axis=1, prepend=trips[:, :1]) > 0
    number = np.zeros(replica.shape, dtype=np.int64)  # of the life among those of its replica
    for each in np.unique(replica):
        own = replica == each
        number[own] = np.cumsum(begins & own, axis=1)[own]
    chain = np.broadcast_to(np.arange(len(replica))[:, None], replica.shape)
    lives = np.unique(np.stack([chain, replica, number], axis=-1).reshape(-1, 3), axis=0, return_inverse=True)[1]
    n = np.bincount(lives.ravel()).astype(float)
    usual, errors = np.sqrt(np.mean(n**2)), []
    for k in range(count):
        a = np.bincount(lives.ravel(), weights=of_mode.ravel() == k)
        p = (a.sum() + usual) / (n.sum() + 2.0 * usual)
        squares = np.sum((a - p * n) ** 2) + usual**2 * ((1.0 - p) ** 2 + p**2)
        errors.append(np.sqrt(squares) / n.sum())
    return np.array(errors)


def _differs(x: np.ndarray, split: Split) -> bool:
    """Return whether a scalar tells two of the modes apart as well."""
    of_modes = [x[split.of_mode == k] for k in range(split.count)]
    means, spreads = np.array([part.mean() for part in of_modes]), np.array([part.std() for part in of_modes])
    return any(apart(means, spreads, means[k], spreads[k]).any() for k in range(split.count))


def _own_name(split: Split, k: int) -> str:
    """Name a mode by the scalar that separates it: by the sign, where that does."""
    if split.count == 2 and split.x[split.of_mode == 0].max() < 0.0 < split.x[split.of_mode == 1].min():
        return f"{split.label} {'<>'[k]} 0"
    return _about(split.label, split.x, split, k)


def _about(label: str, x: np.ndarray, split: Split, k: int) -> str:
    return f"{label} about {np.median(x[split.of_mode == k]):.3g}"
