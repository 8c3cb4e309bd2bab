"""How far a Laplace approximation can be trusted: a verdict, from numbers that are there anyway, and its reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

Verdict = Literal["good", "rough", "sample"]
SPENT = "max_seconds were spent before it was done (max_seconds=None sets no limit)"


class Sign(NamedTuple):
    """A number, the bounds below which it is fine and from which on it is bad, and what it says if it is not fine."""

    value: float
    fine: float
    bad: float
    sentence: str

    @property
    def badness(self) -> float:
        """0 where it is fine, 1 where it begins to be bad; infinite of what is no number."""
        return max(0.0, (self.value - self.fine) / (self.bad - self.fine)) if self.value == self.value else np.inf


@dataclass(frozen=True)
class Signs:
    """What a fit went through: shares of points and pairs that failed, effective share and tail of the weights, spread
    of the pairs' logs, shift of the means by the correction (in standard deviations, by parameter), number of modes.

    `paths` is what is integrated out: paths, or the effects of a model without noise in them. Was it done without an
    error (`exact`)? Was there time until all was `done`?
    """

    converged: bool
    pareto_k: float
    effective_share: float
    points_failed: float
    pairs_failed: float | None
    pair_spread: float
    shift: float
    shifted: str
    modes: int
    paths: str = "paths"
    exact: bool = False
    done: bool = True

    def listed(self) -> Iterator[Sign]:
        if not self.done:
            yield Sign(1.0, 0.0, 1.0, SPENT)
            return
        yield Sign(
            float(not self.converged),
            0.0,
            1.0,
            "the climb to the mode came to no end: the density has an edge or a ridge there",
        )
        yield Sign(
            self.modes - 1,
            0.0,
            1.0,
            f"{self.modes} modes of parameters and {self.paths} are about as probable, of which it knows one",
        )
        yield Sign(self.pareto_k, 0.6, 0.7, f"weights of parameters have a heavy tail (Pareto k {self.pareto_k:.2f})")
        yield Sign(
            -self.effective_share,
            -0.5,
            -0.25,
            f"the posterior has an odd shape: {100 * self.effective_share:.0f} % of the points are effective",
        )
        yield Sign(
            self.points_failed,
            0.02,
            0.1,
            f"at {100 * self.points_failed:.1f} % of the parameters tried no {self.paths} were found",
        )
        if self.pairs_failed is None:
            words = f"{self.paths} are the most probable ones, and were not compared with draws (pairs=False)"
            yield Sign(0.5, 0.0, 1.0, words)
        if self.exact or self.pairs_failed is None:
            return
        yield Sign(
            self.pairs_failed,
            0.1,
            0.2,
            f"{100 * self.pairs_failed:.0f} % of the {self.paths} drawn did not reach the data",
        )
        yield Sign(
            self.pair_spread,
            0.5,
            1.5,
            f"{self.paths} are far from Gaussian: the logs of their weights spread by {self.pair_spread:.2f}",
        )
        yield Sign(self.shift, 0.1, 0.5, f"{self.paths} move {self.shifted} by {self.shift:.2f} standard deviations")

    def reasons(self) -> list[str]:
        """Return the sentences of all signs that are not fine, the one that matters most first."""
        amiss = [each for each in self.listed() if each.badness > 0.0]
        return [each.sentence for each in sorted(amiss, key=lambda each: -each.badness)]

    @property
    def verdict(self) -> Verdict:
        worst = max(each.badness for each in self.listed())
        return "good" if worst == 0.0 else "rough" if worst < 1.0 else "sample"
