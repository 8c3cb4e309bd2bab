"""How well the posterior determines combinations of parameters, in words: from its curvature at the mode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pathfold.sampling.marginal import Marginal

NAMED = 0.25  # parameters with less than this share of the largest weight are not named
OPEN = 1.5  # curvature, in units of the prior's, below which the posterior is hardly narrower than the prior


def sentences(
    marginal: Marginal, u: np.ndarray, slopes: np.ndarray, free: np.ndarray, hessian: np.ndarray, labels: list[str]
) -> list[str]:
    """Return a sentence for every principal direction of the curvature, by `free` normals, the best known first.

    Parameters that are logarithmically normal combine to products, with an error in percent; others to sums in prior
    standard deviations. The curvature is that of the posterior: the prior adds 1 to it.
    """
    scales = _logarithmic(marginal, u, slopes)[free]
    values, vectors = np.linalg.eigh(hessian)
    return [*_said(values[::-1], vectors.T[::-1], scales, labels)]


def _said(values: np.ndarray, vectors: np.ndarray, scales: np.ndarray, labels: list[str]) -> Iterator[str]:
    for value, vector in zip(values, vectors, strict=True):
        named = np.flatnonzero(np.abs(vector) >= NAMED * np.abs(vector).max())
        if value < OPEN:
            known = _sum(vector, named, labels)
            yield f"the posterior of {known} is as wide as the prior (in prior standard deviations)"
        elif np.all(scales[named] > 0.0):
            powers = vector[named] / scales[named]
            largest = powers[np.argmax(np.abs(powers))]
            error = np.expm1(1.0 / np.sqrt(value) / abs(largest))
            known = _product(powers / largest, [labels[i] for i in named])
            yield f"the posterior determines {known} to {100 * error:.2g} %"
        else:
            error = 1.0 / np.sqrt(value)
            yield f"the posterior determines {_sum(vector, named, labels)} to {error:.2g} prior standard deviations"


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


def _logarithmic(marginal: Marginal, u: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return for each normal the standard deviation of the logarithm of its parameter, 0 where that is not normal."""
    scales = np.zeros(u.size)
    z, more, less = (marginal.parameters(u + step) for step in (0.0, 0.5, -0.5))
    if z.size != u.size or np.any(slopes[~np.eye(u.size, dtype=bool)]):
        return scales
    with np.errstate(all="ignore"):
        up, down = np.log(more / z), np.log(z / less)
    normal = (z > 0.0) & np.isclose(up, down, rtol=1e-9)
    scales[normal] = 2.0 * up[normal]
    return scales
