"""Likelihoods with heavy tails as mixtures of normals, by which the particle filter is guided (method.md, section 19).

With e = c (y - location) / scale, where c makes exp(-e^2 / 2) as sharp as the likelihood L at its mode,

    L(e) / L(0) ~ sum over k of exp(h_k - (t_k e)^2 / 2),   h_k = log L(1 / t_k) / L(0),   h_0 = 0,

with t_k = 1, 1/3, 1/9, 1/27, 0. For the last, h_k is that of 1/81.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from pathfold.distributions.roots import inverse, is_transformed, single_of

WIDTHS = 3.0 ** np.arange(5)
PRECISIONS = np.append(1.0 / WIDTHS[:-1], 0.0)  # t_k
_SHARPNESS: dict[type, Callable[[Any], Any]] = {
    dist.StudentT: lambda d: jnp.sqrt(1.0 + 1.0 / d.df),
    dist.Cauchy: lambda d: np.sqrt(2.0),
    dist.Laplace: lambda d: 1.0,
    dist.Logistic: lambda d: np.sqrt(0.5),
}


class Kind(NamedTuple):
    """One of the normals: its row t_k e, and the log of its share of the mixture at e."""

    row: Array
    log_share: Array


def has_heavy_tails(d: Any) -> bool:
    """Tell whether the distribution is a mixture of normals here."""
    single = single_of(d)
    return has_heavy_tails(single.base_dist) if is_transformed(single) else type(single) in _SHARPNESS


def of_kind(d: Any, y: Array, kind: Array) -> Kind:
    """Return the normal of this kind, a number k, for each of the values y."""
    single = single_of(d)
    if is_transformed(single):
        return of_kind(single.base_dist, inverse(single, y)[0], kind)
    c = _SHARPNESS[type(single)](single)
    e = c * (y - single.loc) / single.scale
    heights = [0.0 * e]
    for width in WIDTHS[1:]:
        heights.append(0.0 * e + single.log_prob(single.loc + single.scale * width / c) - single.log_prob(single.loc))
    terms = jnp.stack(heights) - 0.5 * (PRECISIONS[:, None] * e) ** 2
    mine = jnp.arange(len(WIDTHS))[:, None] == kind
    chosen = jnp.sum(jnp.where(mine, terms, 0.0), axis=0)
    row = jnp.sum(jnp.where(mine, PRECISIONS[:, None], 0.0), axis=0) * e
    return Kind(row, chosen - jax.scipy.special.logsumexp(terms, axis=0))
