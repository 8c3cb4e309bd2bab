"""Priors as maps of standard normals (paper, section 2: z = g_z(u) with u ~ N(0, I)).

A distribution is written as value = push(u). The map is exact when u ~ N(0, I) makes push(u) follow the distribution:
normal and multivariate normal, transforms of an exact map, and scalar distributions by their quantile function,
push(u) = F^{-1}(Phi(u)). Otherwise push is a bijection from the whole space and the density of u is kept as

    excess(u) = -log p(push(u)) - log |det d push / du| + log phi(u),

so that the density of u is phi(u) exp(-excess(u)), with phi that of standard normals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.core import Tracer
from jax.scipy.special import log_ndtr, ndtri
from scipy.special import betaincinv, logit

from pathfold.errors import ModelError, told


@dataclass(frozen=True)
class NormalMap:
    """A map value = push(u) from `size` standard normals u to a value of `shape`.

    Where the map is not exact, `excess` is the non-Gaussian part of the potential of u, and `own_draw` draws such u.
    """

    size: int
    shape: tuple[int, ...]
    push: Callable[[Array], Array]
    excess: Callable[[Array], Array] | None = None
    own_draw: Callable[[Array], Array] | None = None

    def draw(self, key: Array) -> Array:
        """Draw u such that push(u) follows the distribution."""
        return jax.random.normal(key, (self.size,)) if self.own_draw is None else self.own_draw(key)


def normal_map(distribution: dist.Distribution, *, quantiles: bool = True, standardise: bool = True) -> NormalMap:
    """Return the map for a distribution; with `quantiles=False` it uses no quantile function.

    A map that is not exact is shifted and scaled so that u is about N(0, I). A distribution that depends on z needs
    `standardise=False`: its parameters may be traced, and the map must always be the same function of z.
    """
    if not isinstance(distribution, dist.Distribution):
        raise ModelError(f"expected a numpyro distribution, not {told(distribution)}")
    if distribution.is_discrete:
        raise ModelError(f"{type(distribution).__name__} is discrete; use a continuous distribution")
    if 0 in distribution.shape():
        raise ModelError(f"{type(distribution).__name__} has shape {distribution.shape()} and no entry; leave it out")
    if standardise:
        _check_arguments(distribution)
    distribution = jax.tree.map(_as_float64, distribution)
    return _build(distribution, distribution.shape(), quantiles, standardise)


def _check_arguments(d: Any) -> None:
    """Raise ModelError if a distribution that does not depend on z has an invalid argument."""
    if isinstance(d, dist.ImproperUniform):
        raise ModelError("ImproperUniform has no draws; use a proper prior, such as a wide dist.Normal")
    base = getattr(d, "base_dist", None)
    if base is not None:
        _check_arguments(base)
    kind, bounds = type(d).__name__, [vars(d).get(name) for name in ("low", "high")]
    for name, constraint in d.arg_constraints.items():
        value = vars(d).get(name)
        if value is None or isinstance(value, Tracer) or (base is not None and name in ("low", "high")):
            continue
        if not np.all(np.isfinite(value)):
            raise ModelError(f"{kind} has {name} = {told(value)}; give finite numbers, since a prior must be proper")
        if not (dist.constraints.is_dependent(constraint) or np.all(constraint(np.asarray(value)))):
            raise ModelError(f"{kind} has {name} = {told(value)}, which must be {constraint}")
    if all(bound is not None and not isinstance(bound, Tracer) for bound in bounds) and not np.all(
        bounds[0] < bounds[1]
    ):
        raise ModelError(f"{kind} has low = {told(bounds[0])} and high = {told(bounds[1])}; low must be below high")


def fixed(value: Any) -> NormalMap:
    """Return the map to a constant, which takes no normals."""
    return NormalMap(0, jnp.shape(value), lambda u: jnp.asarray(value, jnp.float64))


def product(maps: Sequence[NormalMap]) -> NormalMap:
    """Join independent maps: their normals follow one another, their values are flattened and concatenated."""
    stops = np.cumsum([m.size for m in maps], dtype=int)
    parts = [(m, slice(stop - m.size, stop)) for m, stop in zip(maps, stops.tolist(), strict=True)]

    def push(u):
        return jnp.concatenate([jnp.zeros(0), *(jnp.ravel(m.push(u[part])) for m, part in parts)])

    excesses = [(m.excess, part) for m, part in parts if m.excess is not None]

    def excess(u):
        return jnp.sum(jnp.stack([f(u[part]) for f, part in excesses]))

    def draw(key):
        keys = jax.random.split(key, len(maps))
        return jnp.concatenate([m.draw(key) for m, key in zip(maps, keys, strict=True)])

    width = sum(prod(m.shape) for m in maps)
    size = sum(m.size for m in maps)
    return NormalMap(size, (width,), push, *((excess, draw) if excesses else ()))


def _build(d: Any, shape: tuple[int, ...], quantiles: bool, standardise: bool) -> NormalMap:
    """Return the map onto values of `shape`, to which the distribution's own shape broadcasts."""
    if isinstance(d, dist.Independent | dist.ExpandedDistribution):
        return _build(d.base_dist, shape, quantiles, standardise)
    if isinstance(d, dist.Delta):
        return fixed(jnp.broadcast_to(d.v, shape))
    if isinstance(d, dist.TransformedDistribution):
        transform: Any = dist.transforms.ComposeTransform(d.transforms)
        base = _build(d.base_dist, transform.inverse_shape(shape), quantiles, standardise)
        return NormalMap(base.size, shape, lambda u: transform(base.push(u)), base.excess, base.own_draw)
    if affine := _AFFINE.get(type(d)):
        return _elementwise(shape, lambda u: affine(d, u))
    if quantiles and (quantile := _quantile(d)) is not None:
        return _elementwise(shape, quantile)
    return _by_bijection(d, shape, standardise)


def _elementwise(shape: tuple[int, ...], push: Callable[[Array], Array]) -> NormalMap:
    return NormalMap(prod(shape), shape, lambda u: push(jnp.reshape(u, shape)))


@jax.custom_jvp
def _normal_cdf(u: Array) -> Array:
    """Return Phi(u), whose derivative exp(-u^2/2) / sqrt(2 pi) is plain arithmetic here, unlike in JAX's own rule."""
    return 0.5 * jax.lax.erfc(-(0.5**0.5) * u)


_normal_cdf.defjvps(lambda du, _, u: jnp.exp(-0.5 * u * u) * ((2 * np.pi) ** -0.5 * du))


def _quantile(d: Any) -> Callable[[Array], Array] | None:
    """Return the map u -> F^{-1}(Phi(u)), None if the distribution has no quantile function."""
    if own := _OWN_QUANTILES.get(type(d)):
        return lambda u: own(d, u)
    if d.event_shape or isinstance(d, dist.Gamma | dist.Beta | dist.StudentT):
        return None  # it has none, or one by inverse incomplete gamma or beta functions, which JAX does not have
    try:
        jax.eval_shape(d.icdf, jax.ShapeDtypeStruct(d.shape(), np.float64))
    except (ImportError, NotImplementedError):
        return None
    return lambda u: d.icdf(_normal_cdf(u))


_AFFINE: dict[type, Callable[[Any, Array], Array]] = {
    dist.Normal: lambda d, u: d.loc + d.scale * u,
    dist.MultivariateNormal: lambda d, u: d.loc + (d.scale_tril @ u[..., None])[..., 0],
}

_OWN_QUANTILES: dict[type, Callable[[Any, Array], Array]] = {
    dist.Exponential: lambda d, u: -log_ndtr(-u) / d.rate,
    dist.HalfNormal: lambda d, u: -d.scale * ndtri(0.5 * _normal_cdf(-u)),
    dist.HalfCauchy: lambda d, u: d.scale / jnp.tan(0.5 * jnp.pi * _normal_cdf(-u)),
    dist.Cauchy: lambda d, u: d.loc + d.scale * _odd(lambda u: -1 / jnp.tan(jnp.pi * _normal_cdf(u)), u),
    dist.Laplace: lambda d, u: d.loc + d.scale * _odd(lambda u: log_ndtr(u) + jnp.log(2.0), u),
    dist.Logistic: lambda d, u: d.loc + d.scale * (log_ndtr(u) - log_ndtr(-u)),
}
"""Quantile functions of Phi(u) written with the tail probability Phi(-u), exact however far out u is."""


def _odd(lower: Callable[[Array], Array], u: Array) -> Array:
    """Return the odd function that equals `lower` for negative u."""
    return jnp.where(u > 0, -lower(-u), lower(u))


def _by_bijection(d: Any, shape: tuple[int, ...], standardise: bool) -> NormalMap:
    """Return the map value = T(m + s u), with the density of u as its excess.

    T is the bijection onto the support, and m and s are such that u is about N(0, 1).
    """
    transform: Any = _StudentTransform(d.df, d.loc, d.scale) if isinstance(d, dist.StudentT) else _bijection(d)
    free_shape = transform.inverse_shape(shape)
    given = isinstance(transform, _StudentTransform) or not standardise
    location, scale = (0.0, 1.0) if given else _location_and_scale(d, transform)

    def free(u):
        return location + scale * jnp.reshape(u, free_shape)

    def excess(u):
        y = free(u)
        value = transform(y)
        log_density = jnp.sum(d.log_prob(value)) + jnp.sum(transform.log_abs_det_jacobian(y, value))
        log_density += jnp.sum(jnp.broadcast_to(jnp.log(scale), free_shape))
        return jnp.sum(dist.Normal().log_prob(u)) - log_density

    def draw(key):
        value = d.expand(shape[: len(shape) - d.event_dim]).sample(key)
        return jnp.ravel((transform.inv(value) - location) / scale)

    push = _correlations if isinstance(transform, dist.transforms.CorrCholeskyTransform) else transform
    return NormalMap(prod(free_shape), shape, lambda u: push(free(u)), excess, draw)


@jax.jit
def _correlations(y: Array) -> Array:
    """The factor of a correlation matrix, compiled once for all models: its many operations take long one by one."""
    return dist.transforms.CorrCholeskyTransform()(y)


def _bijection(d: Any) -> Any:
    name = type(d).__name__
    if d.support is None:
        raise ModelError(f"{name} does not tell its support; use another distribution")
    try:
        return dist.biject_to(d.support)
    except NotImplementedError as error:
        raise ModelError(f"{name} has a support without a bijection from the reals; use another prior") from error


@dataclass(frozen=True)
class _StudentTransform:
    """Maps normals nearly to Student's t: loc + scale c u exp(s / 2) / sqrt(1 + s / 2), s = (c u)^2 / df.

    Near zero, and up to a factor far out, it equals sqrt(df (exp(s) - 1)), the approximation of Wallace (1959) to the
    quantile at Phi(u). So u has the tails of a normal; with those of t it would wander where no observation holds it.
    """

    df: Any
    loc: Any
    scale: Any

    def _parts(self, u):
        c = (8 * self.df + 3) / (8 * self.df + 1)
        s = (c * u) ** 2 / self.df
        return s, c * jnp.exp(0.5 * s) / jnp.sqrt(1 + 0.5 * s)

    def __call__(self, u):
        return self.loc + self.scale * self._parts(u)[1] * u

    def log_abs_det_jacobian(self, u, value):
        s, slope = self._parts(u)
        return jnp.log(self.scale * slope * (1 + s - s / (2 + s)))

    def inv(self, value):
        """Invert the map by bisection: |value| grows with |u|, at least as fast as |u|."""
        size = jnp.abs(value - self.loc) / self.scale

        def halve(_, ends):
            middle = 0.5 * (ends[0] + ends[1])
            below = self._parts(middle)[1] * middle < size
            return jnp.where(below, middle, ends[0]), jnp.where(below, ends[1], middle)

        low, high = jax.lax.fori_loop(0, 100, halve, (0.0 * size, size))
        return jnp.sign(value - self.loc) * 0.5 * (low + high)

    def inverse_shape(self, shape):
        return shape


def _location_and_scale(d: Any, transform: Any) -> tuple[Any, Any]:
    """Return the median and half the central 68 % range of the unconstrained value, known or from fixed draws."""
    if isinstance(d, dist.LKJCholesky):
        return _of_partial_correlations(d)
    try:
        with jax.ensure_compile_time_eval():
            draws = np.asarray(transform.inv(d.sample(jax.random.PRNGKey(0), (4000,))), np.float64)
    except NotImplementedError as error:
        raise ModelError(f"{type(d).__name__} cannot be drawn from; use a proper prior") from error
    low, median, high = np.quantile(draws, [0.16, 0.5, 0.84], axis=0)
    return median, 0.5 * (high - low)


def _of_partial_correlations(d: dist.LKJCholesky) -> tuple[np.ndarray, np.ndarray]:
    """Return them for artanh(r), with r the partial correlations below the diagonal, row by row.

    These are independent and symmetric: (1 + r) / 2 ~ Beta(b, b) with b = concentration + (K - 2 - j) / 2 in column j
    of K (Lewandowski, Kurowicka and Joe, Journal of Multivariate Analysis 100, 2009), and artanh(r) is half its logit.
    """
    column = np.tril_indices(d.dimension, -1)[1]
    b = np.asarray(d.concentration)[..., None] + 0.5 * (d.dimension - 2 - column)
    high = betaincinv(b, b, 0.84)
    return np.zeros_like(b), 0.5 * logit(high)


def _as_float64(leaf: Any) -> Any:
    """Return a distribution's parameter in double precision, still as numpy, so that it is a constant in a trace."""
    if isinstance(leaf, Tracer):
        return leaf.astype(jnp.float64)
    return np.asarray(leaf, np.float64)
