"""The values that were observed at one time, and the likelihood of censored ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from pathfold.data.censoring import ABOVE, BETWEEN
from pathfold.distributions.roots import Split, can_be_censored, can_lie_within, censored, log_ranks


class Seen(NamedTuple):
    """The observation at one time, by component (Y,).

    `value` is the value, or a bound if it is censored; `mask` is 1 where there is a value. If any value of the data is
    censored, `censored` has the kinds (see `censoring`) and `upper` the upper bounds; otherwise these are empty.
    """

    value: Any
    mask: Any
    censored: Any
    upper: Any

    def part(self, columns: slice) -> Seen:
        """Return the part that belongs to some of the components."""
        return Seen(*(field[columns] if field.shape[0] else field for field in self))

    @property
    def any_censored(self) -> bool:
        return self.censored.shape[0] > 0

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The bounds that censored values lie between; for the others they mean nothing."""
        above, between = self.censored == ABOVE, self.censored == BETWEEN
        low = jnp.where(above | between, self.value, -jnp.inf)
        return low, jnp.where(above, jnp.inf, jnp.where(between, self.upper, self.value))

    def possible(self, d: Any) -> Array:
        """Mark the values that are possible: in the support or, if censored, with support between their bounds."""
        exact = jnp.broadcast_to(d.support(self.value), self.value.shape)
        if not self._by_bounds(d):
            return exact
        return jnp.where(self.censored != 0.0, can_lie_within(d, *self.bounds), exact)

    def log_ranks(self, d: Any, uniform: Array) -> Array:
        """Return the logs of u and 1 - u (2, Y), with u uniform a priori: the distribution function at the value.

        A jump of it, or the interval that a censored value lies in, is passed in part, as `uniform` (Y,) has it.
        """
        low, high = self.value, self.value
        if self.any_censored:
            low, high = (jnp.where(self.censored != 0.0, bound, self.value) for bound in self.bounds)
        return log_ranks(d, low, high, uniform)

    def _by_bounds(self, d: Any) -> bool:
        """Tell whether values may be known by bounds, which the distribution must be able to use."""
        return self.any_censored and can_be_censored(d)

    def split(self, d: Any, exact: Split, *, as_factor: bool = False) -> Split:
        """Return the root and remainder of the likelihood of exact values, or of the mass between the bounds.

        With `as_factor` a censored value has no root: its likelihood is all remainder.
        """
        if not self._by_bounds(d):
            return exact
        bounds = censored(d, *self.bounds)
        if as_factor:
            bounds = Split(jnp.zeros_like(bounds.root), 0.5 * bounds.root**2 + bounds.remainder)
        pick = self.censored != 0.0
        return Split(*(jnp.where(pick, a, b) for a, b in zip(bounds, exact, strict=True)))

    def of_observed(self, terms: Array) -> Array:
        """Sum the terms of those components that were observed."""
        return jnp.sum(jnp.where(self.mask > 0.0, terms, 0.0))
