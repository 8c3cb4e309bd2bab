"""Chains that a run cut short left out, and where they were compared with those that were kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from pathfold.results.convergence import scalars
from pathfold.sampling.draws import Draws

NAMED = 3  # parameters, those that are furthest apart

Read = Callable[[Sequence[Draws], int, int], xr.Dataset]  # the parameters of chains, draws from one to another


def where_left_out(read: Read, kept: Sequence[Draws], left_out: Sequence[Draws], warmup: int) -> list[str]:
    """Return a phrase for each chain that was left out, with the means of those parameters that are furthest from the
    draws that were kept.

    Of a chain without draws after warm-up the second half of what it has of warm-up counts.
    """
    made = min(draws.made for draws in kept)
    if not left_out or made <= warmup:
        return []
    usual = {
        label: (float(x.mean()), float(x.std()))
        for label, x in _scalars(read, kept, warmup, made).items()
        if np.ptp(x) > 0.0
    }
    return [f"chain {draws.chain} {_where(read, draws, warmup, usual)}" for draws in left_out]


def _where(read: Read, draws: Draws, warmup: int, usual: dict[str, tuple[float, float]]) -> str:
    if draws.made == 0:
        return "has no draws"
    after = draws.made - warmup
    begin, when = (warmup, f"in {after} draws") if after > 0 else (draws.made // 2, "in warm-up")
    means = {label: x.mean() for label, x in _scalars(read, [draws], begin, draws.made).items() if label in usual}

    def distance(label: str) -> float:
        middle, spread = usual[label]
        return abs(means[label] - middle) / spread

    apart = sorted(means, key=distance, reverse=True)[:NAMED]
    listed = (
        f"{label} about {means[label]:.3g} where those kept have {usual[label][0]:.3g} ({distance(label):.1f} of its "
        "standard deviations away)"
        for label in apart
    )
    return f"{when} has {', '.join(listed)}" if apart else f"has {max(0, after)} draws"


def _scalars(read: Read, chains: Sequence[Draws], begin: int, end: int) -> dict[str, np.ndarray]:
    """Return the draws (chain, draw) of every scalar by its label."""
    group = read(chains, begin, end)
    return {label: x for name in group.data_vars for label, x in scalars(group[name])}


def of_left_out(phrases: Sequence[str]) -> str:
    """Return the sentence that tells the user which chains were left out."""
    return (
        "chains that were behind the others were left out, and slow can mean in another part of the posterior, of "
        f"which what was kept says nothing: {'; '.join(phrases)}. Give them the time that they need (max_seconds; a "
        "run with a checkpoint goes on where it ended) before trusting what the others found"
    )
