"""Observations by a likelihood, p(y | x, z), and several observations of one state.

L(x, z) = p(y | x, z) is written as phi(a) exp(-b) with a root a and a remainder b (see `roots`). Then the row

    a(x, z) + w = 0,  w ~ N(0, 1),

together with b in the potential has the posterior of the likelihood, exactly. Where there is no root, a = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from pathfold.data.censoring import told_value
from pathfold.data.seen import Seen
from pathfold.distributions.roots import Split, can_be_censored, is_normal, of_normals, plain, single_of, split
from pathfold.distributions.scale_mixture import Kind, has_heavy_tails, of_kind
from pathfold.distributions.tails import no_tails
from pathfold.errors import DataError, ModelError, told
from pathfold.model.functions import OfTime, struct, told_support, traced, with_time
from pathfold.model.observation import Observation


class Block(NamedTuple):
    """A distribution of some columns, each by itself or all of them jointly."""

    distribution: dist.Distribution
    columns: slice
    joint: bool


@dataclass(frozen=True)
class Likelihood(Observation):
    """The observation y ~ f(x, z): counts, shares, binary outcomes, heavy tails, or anything else with a density.

    Parameters
    ----------
    f
        A function of (x, z), (x, z, t) or (x, z, t, inputs) that returns a numpyro distribution of the observed values,
        or a list of them. A distribution with a batch of shape (Y,) is of Y independent columns, as is a list of Y
        scalar ones.
    plain
        Whether the likelihood is a factor of the density instead of a constraint. The posterior is the same, but the
        more the data say the shorter steps get. Distributions without a root are always treated so.

    Examples
    --------
    >>> import numpyro.distributions as dist
    >>> counts = pf.Likelihood(lambda x, z: dist.Poisson(z["rate"] * x[0]))
    """

    f: Callable[..., Any]
    plain: bool = False

    def given(self, x, z, t, *, compilable=None):
        return self._of_size(self._traced_blocks(x, z, t)[-1].columns.stop)

    def _traced_blocks(self, x: Any, z: Any, t: Any) -> list[Block]:
        """Return the blocks with traced parameters, which numpyro cannot validate as it would numbers."""
        blocks: list[Block] = []
        traced("the likelihood", lambda *values: blocks.extend(self._blocks(*values)), (x, z, t))
        return blocks

    def of(self, state):
        f = self._function
        return replace(self, f=OfTime(lambda x, z, t: f(state(x, z), z, t)))

    @property
    def _function(self) -> Callable[..., Any]:
        return with_time("the likelihood", self.f, ("x", "z"))

    def _blocks(self, x: Any, z: Any, t: Any) -> Iterator[Block]:
        value, begin = self._function(x, z, t), 0
        listed = value if isinstance(value, list | tuple) else [value]
        for distribution in listed:
            if not isinstance(distribution, dist.Distribution):
                given = "an array" if isinstance(distribution, jax.Array) else told(distribution)
                raise ModelError(
                    f"the likelihood gave {given}; give a numpyro distribution of the observed values, "
                    "such as dist.Poisson(jnp.exp(x[0])), or a list of them"
                )
            while isinstance(distribution, dist.Independent):
                distribution = distribution.base_dist
            shape = (*distribution.batch_shape, *distribution.event_shape)
            if len(shape) > 1 or 0 in shape:
                raise ModelError(
                    f"the likelihood gave a distribution of shape {shape}, expected () or (Y,): one value a column"
                )
            width = shape[0] if shape else 1
            yield Block(distribution, slice(begin, begin + width), bool(distribution.event_shape))
            begin += width
        if not listed:
            raise ModelError("the likelihood gave an empty list; give a distribution for each observed column")

    def middle(self, x, z, t):
        """Return the middle of each distribution: the median of a log-normal one, its location, or its mean; or NaN."""

        def of_block(block: Block) -> Array:
            d, width = block.distribution, block.columns.stop - block.columns.start
            try:
                found = jnp.exp(d.loc) if isinstance(d, dist.LogNormal) else d.loc if hasattr(d, "loc") else d.mean
            except NotImplementedError:
                found = jnp.nan
            return jnp.broadcast_to(found, (width,))

        # Compiled, since NumPyro refuses numbers outside the domain of a parameter, but no traced ones.
        return jax.jit(lambda x: jnp.concatenate([of_block(block) for block in self._blocks(x, z, t)]))(x)

    @property
    def noise_dim(self):
        return self.dim

    @property
    def unit_rows(self):
        return np.ones(self.dim, dtype=bool)

    def factors(self, x, z, t):
        as_factor = np.zeros(self.dim, dtype=bool)

        def look(x, z, t, y):
            for block in self._blocks(x, z, t):
                own = y[block.columns]
                as_factor[block.columns] = self.plain or block.joint or split(block.distribution, own) is None

        traced("the likelihood", look, (x, z, t, struct(self.dim)))
        return as_factor

    def heavy_tails(self, x, z, t):
        heavy = np.zeros(self.dim, dtype=bool)
        for block in self._traced_blocks(x, z, t):
            heavy[block.columns] = not block.joint and has_heavy_tails(block.distribution)
        return heavy

    def normal_laws(self, x, z, t):
        normal = np.zeros(self.dim, dtype=bool)
        for block in self._traced_blocks(x, z, t):
            normal[block.columns] = not (self.plain or block.joint) and is_normal(block.distribution)
        return normal

    def observe(self, x, z, w, t):
        """Return the values (Y,) that are made of normals w, where all laws are normal."""
        return jnp.concatenate([of_normals(block.distribution, w[block.columns]) for block in self._blocks(x, z, t)])

    def of_kind(self, x, z, w, t, seen, kind):
        blocks = self._blocks(x, z, t)
        parts = [self._block_of_kind(b, seen.part(b.columns), kind[b.columns]) for b in blocks]
        rows, log_shares = (jnp.concatenate(one) for one in zip(*parts, strict=True))
        return Kind(rows + w, log_shares)

    def _block_of_kind(self, block: Block, seen: Seen, kind: Array) -> Kind:
        exact = Kind(self._split_block(block, seen).root, jnp.zeros(block.columns.stop - block.columns.start))
        if block.joint or not has_heavy_tails(block.distribution):
            return exact
        found = of_kind(block.distribution, seen.value, kind)
        pick = seen.censored != 0.0 if seen.any_censored else False
        return Kind(*(jnp.where(pick, a, b) for a, b in zip(exact, found, strict=True)))

    @property
    def has_density(self):
        return True

    def split(self, x, z, t, seen):
        parts = [self._split_block(block, seen.part(block.columns)) for block in self._blocks(x, z, t)]
        return Split(*(jnp.concatenate(one) for one in zip(*parts, strict=True)))

    def _split_block(self, block: Block, seen: Seen) -> Split:
        d, nothing = block.distribution, jnp.zeros(block.columns.stop - block.columns.start)
        if block.joint:
            return Split(nothing, nothing.at[0].set(-jnp.asarray(d.log_prob(seen.value))))
        rooted = None if self.plain else split(d, seen.value)
        exact = plain(d, seen.value) if rooted is None else rooted
        return seen.split(d, Split(*(nothing + part for part in exact)), as_factor=self.plain)

    def log_density(self, x, z, t, seen):
        parts = [self._log_density_of_block(block, seen.part(block.columns)) for block in self._blocks(x, z, t)]
        return jnp.concatenate(parts)

    def _log_density_of_block(self, block: Block, seen: Seen) -> Array:
        d, nothing = block.distribution, jnp.zeros(block.columns.stop - block.columns.start)
        if block.joint:
            exact = jnp.full_like(nothing, jnp.nan).at[0].set(jnp.asarray(d.log_prob(seen.value)))
            return jnp.where(seen.mask > 0.0, exact, jnp.nan)
        factor = seen.split(d, Split(nothing, nothing + plain(d, seen.value).remainder), as_factor=True)
        return jnp.where(seen.mask > 0.0, -factor.remainder, jnp.nan)

    def log_ranks(self, x, z, uniform, t, seen):
        ranks = (self._log_ranks_of_block(block, uniform, seen) for block in self._blocks(x, z, t))
        return jnp.concatenate([*ranks], axis=1)

    def _log_ranks_of_block(self, block: Block, uniform: Array, seen: Seen) -> Array:
        try:
            return seen.part(block.columns).log_ranks(block.distribution, uniform[block.columns])
        except ModelError:  # it has no distribution function
            return jnp.full((2, block.columns.stop - block.columns.start), jnp.nan)

    def misfit(self, x, z, w, t, seen):
        return self.split(x, z, t, seen).root + w

    def excess(self, x, z, w, t, seen):
        return seen.of_observed(self.split(x, z, t, seen).remainder)

    def chance(self, z, rng, count):
        keys = jax.random.split(jax.random.key(rng.integers(2**31)), count)
        return np.asarray(jax.random.key_data(keys))

    def drawn(self, x, z, chance, t):
        blocks = list(self._blocks(x, z, t))
        keys = jax.random.split(jax.random.wrap_key_data(chance), len(blocks))
        drawn = [jnp.ravel(block.distribution.sample(key)) for block, key in zip(blocks, keys, strict=True)]
        return jnp.concatenate([values.astype(jnp.float64) for values in drawn])

    def check_values(self, data, at, kept, when):
        """Raise for a value outside the support at all points tried, and if no point gives finite likelihoods."""
        states, parameters, times = at()
        blocks = self._traced_blocks(states[0], parameters[0], jax.tree.map(lambda clock: clock[0], times))
        for block in blocks:
            self._check_block(block, data)
        nothing = np.zeros((len(data.mask), 0))
        seen = data if np.any(data.censored) else data._replace(censored=nothing, upper=nothing)
        seen = jax.tree.map(jnp.asarray, seen)
        inside, number = np.zeros(data.mask.shape, dtype=bool), False
        possible, split = kept.get(_at_each_time, self._possible), kept.get(_at_each_time, self.split)
        for x, z in zip(states, parameters, strict=True):
            inside |= np.asarray(possible(x, z, times, seen))
            parts = split(x, z, times, seen)
            number |= all(bool(np.all(np.isfinite(np.where(data.mask, part, 0.0)))) for part in parts)
        outside = np.argwhere(data.mask & ~inside)
        if outside.size:
            row, column = outside[0]
            d = next(block.distribution for block in blocks if column < block.columns.stop)
            value, upper = data.value[row, column], data.upper[row, column]
            limit = "" if value else "give the limit with censored=-1 if it was too small to be measured, "
            raise DataError(
                f"the value {told_value(value, data.censored[row, column], upper)} in row {row}, column {column}, at "
                f"time {when(row)}, cannot come from dist.{type(d).__name__}, whose values are "
                f"{told_support(d.support)}; correct it, write NaN if it is missing, {limit}or choose another "
                "distribution"
            )
        if not number:
            raise ModelError(
                "the likelihood of the data is not a number at any of the states and parameters that were drawn from "
                "the prior: keep rates and scales positive (jnp.exp), probabilities between 0 and 1 (logits=...)"
            )

    def _possible(self, x, z, t, seen):
        """Mark the values that the distributions can produce."""
        blocks = self._blocks(x, z, t)
        return jnp.concatenate([seen.part(block.columns).possible(block.distribution) for block in blocks])

    def _check_block(self, block: Block, data: Seen) -> None:
        """Raise DataError if a joint observation is missing in part, or if the distribution cannot be censored."""
        name, some = f"dist.{type(block.distribution).__name__}", np.asarray(data.mask)[:, block.columns]
        bounds = bool(np.any(data.censored[:, block.columns]))
        if block.joint and bounds:
            raise DataError(f"values of {name}, which is of several columns, cannot be censored; leave them out")
        if bounds and not can_be_censored(block.distribution):
            raise no_tails(single_of(block.distribution))
        if block.joint and np.any(some.any(axis=1) != some.all(axis=1)):
            raise DataError(
                f"of the columns of {name} some are missing (NaN) where others are not: give all or none of them at a "
                "time, or independent columns"
            )


def _at_each_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of (x, z, t, seen) for many times and what is seen then."""
    return jax.jit(jax.vmap(function, (None, None, 0, 0)))


@dataclass(frozen=True)
class Several(Observation):
    """Several observations of one state, whose columns of the data follow one another in their order."""

    observations: tuple[Observation, ...]

    def given(self, x, z, t, *, compilable=None):
        parts = tuple(part.given(x, z, t, compilable=compilable) for part in self.observations)
        return replace(self, observations=parts)._of_size(sum(part.dim for part in parts))

    def of(self, state):
        return replace(self, observations=tuple(part.of(state) for part in self.observations))

    @property
    def parts(self):
        ends = np.cumsum([0, *(part.dim for part in self.observations)])
        return [(slice(ends[i], ends[i + 1]), part) for i, part in enumerate(self.observations)]

    @property
    def noise_dim(self):
        return sum(part.noise_dim for part in self.observations)

    def _with_noise(self, w: Array) -> Iterator[tuple[slice, Observation, Array]]:
        begin = 0
        for columns, part in self.parts:
            yield columns, part, w[begin : begin + part.noise_dim]
            begin += part.noise_dim

    def misfit(self, x, z, w, t, seen):
        rows = [part.misfit(x, z, own, t, seen.part(columns)) for columns, part, own in self._with_noise(w)]
        return jnp.concatenate(rows)

    def of_kind(self, x, z, w, t, seen, kind):
        own = self._with_noise(w)
        parts = [part.of_kind(x, z, noise, t, seen.part(cols), kind[cols]) for cols, part, noise in own]
        return Kind(*(jnp.concatenate(one) for one in zip(*parts, strict=True)))

    def heavy_tails(self, x, z, t):
        return np.concatenate([part.heavy_tails(x, z, t) for part in self.observations])

    def normal_laws(self, x, z, t):
        return np.concatenate([part.normal_laws(x, z, t) for part in self.observations])

    def excess(self, x, z, w, t, seen):
        terms = (part.excess(x, z, own, t, seen.part(columns)) for columns, part, own in self._with_noise(w))
        return sum(terms, start=0.0)

    def split(self, x, z, t, seen):
        parts = [part.split(x, z, t, seen.part(columns)) for columns, part in self.parts]
        return Split(*(jnp.concatenate(one) for one in zip(*parts, strict=True)))

    def log_density(self, x, z, t, seen):
        return jnp.concatenate([part.log_density(x, z, t, seen.part(columns)) for columns, part in self.parts])

    def log_ranks(self, x, z, uniform, t, seen):
        parts = ((part, columns, seen.part(columns)) for columns, part in self.parts)
        return jnp.concatenate([part.log_ranks(x, z, uniform[own], t, some) for part, own, some in parts], axis=1)

    def chance(self, z, rng, count):
        return tuple(part.chance(z, rng, count) for part in self.observations)

    def drawn(self, x, z, chance, t):
        parts = zip(self.observations, chance, strict=True)
        return jnp.concatenate([part.drawn(x, z, own, t) for part, own in parts])

    def exact(self, draws):
        return np.concatenate([part.exact(draws) for part in self.observations])

    @property
    def unit_rows(self):
        return np.concatenate([part.unit_rows for part in self.observations])

    def factors(self, x, z, t):
        return np.concatenate([part.factors(x, z, t) for part in self.observations])

    @property
    def has_density(self):
        return all(part.has_density for part in self.observations)

    def check(self, z, t, draws):
        for part in self.observations:
            part.check(z, t, draws)

    def check_values(self, data, at, kept, when):
        for columns, part in self.parts:
            part.check_values(Seen(*(array[:, columns] for array in data)), at, kept, when)
