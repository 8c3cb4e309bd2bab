"""What was observed at one time."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from pathfold.model.censoring import ABOVE, BETWEEN
from pathfold.model.roots import Split, can_be_censored, can_lie_within, censored


class Seen(NamedTuple):
    """By component (Y,): the value (a bound, of a censored one), 1 where there is one, and, if any value of the data is
    censored, its kind (see `censoring`) and its upper bound, else nothing."""

    value: Any
    mask: Any
    censored: Any
    upper: Any

    def part(self, columns: slice) -> Seen:
        """Of some of the components."""
        return Seen(*(each[columns] if each.shape[0] else each for each in self))

    @property
    def any_censored(self) -> bool:
        return self.censored.shape[0] > 0

    @property
    def bounds(self) -> tuple[Array, Array]:
        """What a censored value lies between; of others they mean nothing."""
        above, between = self.censored == ABOVE, self.censored == BETWEEN
        low = jnp.where(above | between, self.value, -jnp.inf)
        return low, jnp.where(above, jnp.inf, jnp.where(between, self.upper, self.value))

    def possible(self, d: Any) -> Array:
        """Whether each value can be: in the support, or a censored one between its bounds."""
        exact = jnp.broadcast_to(d.support(self.value), self.value.shape)
        if not self._by_bounds(d):
            return exact
        return jnp.where(self.censored != 0.0, can_lie_within(d, *self.bounds), exact)

    def _by_bounds(self, d: Any) -> bool:
        """Whether values may be known by bounds; those of a distribution that has no use for bounds are not."""
        return self.any_censored and can_be_censored(d)

    def split(self, d: Any, exact: Split, *, as_factor: bool = False) -> Split:
        """Root and remainder of the likelihood: that of the exact value, or of the mass between the bounds.

        `as_factor` leaves a censored value without a root, its likelihood being all remainder.
        """
        if not self._by_bounds(d):
            return exact
        bounds = censored(d, *self.bounds)
        if as_factor:
            bounds = Split(jnp.zeros_like(bounds.root), 0.5 * bounds.root**2 + bounds.remainder)
        pick = self.censored != 0.0
        return Split(*(jnp.where(pick, a, b) for a, b in zip(bounds, exact, strict=True)))

    def of_observed(self, terms: Array) -> Array:
        """The sum of the terms of those components that were observed."""
        return jnp.sum(jnp.where(self.mask > 0.0, terms, 0.0))
