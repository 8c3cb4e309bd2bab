"""Which combinations of parameters the data determine, and how well, in words: from the curvature at the mode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pathfold.sampling.marginal import Marginal

NAMED = 0.25  # parameters with less than this share of the largest weight are not named
OPEN = 1.5  # curvature, in units of the prior's, below which the data say next to nothing


def sentences(marginal: Marginal, u: np.ndarray, free: np.ndarray, hessian: np.ndarray, labels: list[str]) -> list[str]:
    """Return a sentence for every principal direction of the curvature, by `free` normals, the best known first.

    Parameters that are logarithmically normal combine to products, which are known to a percentage; others to sums in
    prior standard deviations. The curvature has that of the prior, 1, in it.
    """
    scales = _logarithmic(marginal, u)[free]
    values, vectors = np.linalg.eigh(hessian)
    return [*_said(values[::-1], vectors.T[::-1], scales, labels)]


def _said(values: np.ndarray, vectors: np.ndarray, scales: np.ndarray, labels: list[str]) -> Iterator[str]:
    for value, vector in zip(values, vectors, strict=True):
        named = np.flatnonzero(np.abs(vector) >= NAMED * np.abs(vector).max())
        if value < OPEN:
            yield f"the data say next to nothing of {_sum(vector, named, labels)} (in prior standard deviations)"
        elif np.all(scales[named] > 0.0):
            powers = vector[named] / scales[named]
            largest = powers[np.argmax(np.abs(powers))]
            error = np.expm1(1.0 / np.sqrt(value) / abs(largest))
            yield f"the data know {_product(powers / largest, [labels[i] for i in named])} to {100 * error:.2g} %"
        else:
            known = 1.0 / np.sqrt(value)
            yield f"the data know {_sum(vector, named, labels)} to {known:.2g} of its prior standard deviation"


def _product(powers: np.ndarray, labels: list[str]) -> str:
    order = np.argsort(-np.abs(powers), kind="stable")
    factors = [labels[i] if abs(powers[i] - 1.0) < 0.05 else f"{labels[i]}^{powers[i]:.1f}" for i in order]
    return " * ".join(factors)


def _sum(vector: np.ndarray, named: np.ndarray, labels: list[str]) -> str:
    order = named[np.argsort(-np.abs(vector[named]), kind="stable")]
    others = [vector[i] / vector[order[0]] for i in order[1:]]
    terms = [
        f"{'-' if each < 0.0 else '+'} {abs(each):.1f} {labels[i]}" for each, i in zip(others, order[1:], strict=True)
    ]
    return " ".join([labels[order[0]], *terms])


def _logarithmic(marginal: Marginal, u: np.ndarray) -> np.ndarray:
    """Return for each normal the standard deviation of the logarithm of its parameter, 0 where that is not normal."""
    scales = np.zeros(u.size)
    (z, slopes), more, less = marginal.parameters(u), *(marginal.parameters(u + step)[0] for step in (0.5, -0.5))
    if z.size != u.size or np.any(slopes[~np.eye(u.size, dtype=bool)]):
        return scales
    with np.errstate(all="ignore"):
        up, down = np.log(more / z), np.log(z / less)
    normal = (z > 0.0) & np.isclose(up, down, rtol=1e-9)
    scales[normal] = 2.0 * up[normal]
    return scales
