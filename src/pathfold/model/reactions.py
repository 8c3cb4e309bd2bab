"""Reaction networks as diffusions: the chemical Langevin equation, in coordinates without bounds.

For reactions with rates h(y) that change the amounts y by the columns of the stoichiometry S, it is (Gillespie 2000)

    dy = S h dt + S diag(sqrt(h)) dW.

With y = g(x), component by component, Ito's lemma gives

    dx = (S h / g' - 1/2 g'' S^2 h / g'^3) dt + diag(1 / g') S diag(sqrt(h)) dW,

S^2 being the squares of the elements; for g = exp this keeps amounts positive at every step of any discretisation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import factorial, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pathfold.data.names import check_labels
from pathfold.data.real_arrays import real_number
from pathfold.errors import ModelError, told
from pathfold.model.conditional import ConditionalMap, is_function
from pathfold.model.functions import OfTime, listed, traced, with_time

NEAR_ZERO = 1.0  # an amount below this is less than a single reaction makes
ENDS = (
    "a chemical Langevin equation ends where an amount comes to zero, and does not approximate counts near it: take "
    "a system with larger counts, priors and a start that keep away from zero, logarithms as the state "
    "(amounts=jnp.exp, the default), or more steps_per_interval"
)

_TERM = re.compile(r"(\d*)\s*\*?\s*([^\W\d][\w.]*)")


@dataclass(frozen=True)
class ReactionFunction(OfTime):
    """The drift or diffusion of a network, together with the network."""

    network: Reactions


@dataclass(frozen=True, init=False, eq=False)
class Reactions:
    """A network of reactions as a diffusion, the chemical Langevin equation.

    Parameters
    ----------
    network
        A dict of name -> reaction, such as {"infection": "S + I -> 2 I", "recovery": "I -> 0"}.
    rates
        A dict of name -> rate: the name of a parameter or a number, the constant k of mass action, k y_1^m_1 / m_1!
        y_2^m_2 / m_2! ... for m_1, m_2, ... of the reactants; or a function of (y, z), (y, z, t) or (y, z, t, inputs)
        that returns the rate itself, with y a dict of the amounts. A reaction left out has mass action with the
        parameter of its own name.
    species
        The order of the species in the state. By default it is that in which the network names them, and then the
        initial state of a model is given by name alone.
    amounts
        The function from states to amounts, component by component. By default states are logarithms of the amounts;
        with None they are the amounts themselves.
    inverse
        The function from amounts to states, where `amounts` is another one and the initial state is given by name.

    The initial state of a model of the network is a dict of species -> amount, each a number or a distribution, or a
    function of z that returns such a dict. With `species` it may also be an array of states in their order.

    Examples
    --------
    >>> import numpyro.distributions as dist
    >>> network = pf.Reactions({"infection": "S + I -> 2 I", "recovery": "I -> 0"})
    >>> network.species
    ('S', 'I')
    >>> model = pf.DiffusionModel(
    ...     drift=network.drift,
    ...     diffusion=network.diffusion,
    ...     parameters={
    ...         "infection": dist.LogNormal(-6.0, 1.0),
    ...         "recovery": dist.LogNormal(-1.0, 0.5),
    ...     },
    ...     initial_state={"I": dist.LogNormal(1.0, 0.5), "S": 760.0},
    ...     observation=pf.Noiseless(lambda x, z: network.amounts(x)["I"][None]),
    ...     states=network.species,
    ... )
    """

    species: tuple[str, ...]
    stoichiometry: np.ndarray  # (species, reactions): the amounts that each reaction adds
    rates: dict[str, OfTime]
    written: dict[str, Any]  # the arguments as given, to be shown
    _amounts: Callable[[Any], Any]
    _inverse: Callable[[Any], Any] | None
    _is_ordered: bool  # by the user

    def __init__(
        self,
        network: Mapping[str, str],
        rates: Mapping[str, Any] | None = None,
        *,
        species: Sequence[str] | None = None,
        amounts: Callable[[Array], Array] | None = jnp.exp,
        inverse: Callable[[Array], Array] | None = None,
    ):
        if not isinstance(network, Mapping) or not network:
            raise ModelError(f'reactions must be a dict such as {{"decay": "A -> 0"}}, not {told(network)}')
        sides = {name: _sides(name, reaction) for name, reaction in network.items()}
        named = tuple(dict.fromkeys(one for pair in sides.values() for side in pair for one in side))
        ordered = _in_order(named, species)
        changes = [[made.get(one, 0) - used.get(one, 0) for used, made in sides.values()] for one in ordered]
        rates = {} if rates is None else rates
        if not isinstance(rates, Mapping):
            raise ModelError(f"rates must be a dict of reaction -> rate, not {told(rates)}")
        if unknown := [name for name in rates if name not in network]:
            raise ModelError(f"rates has {told(unknown[0])}, which is not a reaction; there are {listed(network)}")
        object.__setattr__(self, "species", ordered)
        object.__setattr__(self, "stoichiometry", np.array(changes, dtype=float))
        object.__setattr__(self, "rates", {n: _rate(n, rates.get(n, n), used) for n, (used, _) in sides.items()})
        written = {"network": dict(network), "rates": dict(rates), "species": ordered, "amounts": amounts}
        object.__setattr__(self, "written", written)
        object.__setattr__(self, "_amounts", amounts or _same)
        object.__setattr__(self, "_inverse", inverse or {jnp.exp: jnp.log, None: _same}.get(amounts))
        object.__setattr__(self, "_is_ordered", species is not None or len(ordered) == 1)

    def amounts(self, x: Any) -> dict[str, Any]:
        """Return the amounts by species, from states (..., component)."""
        y = self._amounts(x)
        return {name: y[..., i] for i, name in enumerate(self.species)}

    def states(self, given: Any) -> Any:
        """The state, from amounts by species, or from an array where its order is known to the user."""
        if isinstance(given, Mapping):
            return self._of_amounts(jnp.stack([jnp.asarray(amount, float) for amount in self._ordered(given)], axis=-1))
        self._refuse_without_names(given)
        return given

    def start(self, name: str, given: Any, z: dict[str, Any]) -> ConditionalMap:
        """The map of the initial state, which is given as `states` takes it, with distributions of amounts besides."""
        values = [given]
        if is_function(given):
            traced(name, lambda z: values.insert(0, given(z)), (z,))
        if not isinstance(values[0], Mapping):
            self._refuse_without_names(values[0])
            return ConditionalMap.build(name, given, z)
        in_order = (lambda z: self._ordered(given(z))) if is_function(given) else self._ordered(given)
        built = ConditionalMap.build(name, in_order, z)
        return replace(built, then=lambda y, z: self._of_amounts(y))

    def _ordered(self, given: Mapping[str, Any]) -> list[Any]:
        """Amounts by species as a list."""
        if missing := [name for name in self.species if name not in given]:
            raise ModelError(f"initial_state leaves out {listed(missing)}; the species are {listed(self.species)}")
        if odd := [name for name in given if name not in self.species]:
            raise ModelError(f"initial_state has {listed(odd)}; the species are {listed(self.species)}")
        return [given[name] for name in self.species]

    def _of_amounts(self, y: Any) -> Any:
        if self._inverse is None:
            raise ModelError(
                "initial_state has amounts by species, but the network does not know the states that belong to them: "
                "give pf.Reactions(..., amounts=..., inverse=...), the function from amounts to states"
            )
        return self._inverse(y)

    def _refuse_without_names(self, given: Any) -> None:
        if not self._is_ordered:
            raise ModelError(
                f"initial_state is {told(given)}, without names, and the order of species is that in which the "
                f"reactions name them: give amounts by name, {{{', '.join(f'{one!r}: ...' for one in self.species)}}}, "
                f"or say pf.Reactions(..., species={self.species}) if that is the order meant"
            )

    @property
    def drift(self) -> OfTime:
        """The drift of x, a function of (x, z, t)."""

        def drift(x, z, t):
            S, h, (g1, g2) = self.stoichiometry, self._rates(x, z, t), jax.jvp(self._slope, (x,), (jnp.ones_like(x),))
            return (S @ h) / g1 - 0.5 * g2 * (S**2 @ h) / g1**3

        return ReactionFunction(drift, self)

    @property
    def diffusion(self) -> OfTime:
        """The diffusion of x, a function of (x, z, t), with a column for each reaction."""

        def diffusion(x, z, t):
            return self.stoichiometry * jnp.sqrt(self._rates(x, z, t)) / self._slope(x)[:, None]

        return ReactionFunction(diffusion, self)

    def _slope(self, x: Array) -> Array:
        """Return the slope g' of the amounts, each of which depends on its own component alone."""
        return jax.jvp(self._amounts, (x,), (jnp.ones_like(x),))[1]

    def _rates(self, x: Array, z: dict[str, Any], t: Any) -> Array:
        y = self.amounts(x)
        return jnp.stack([rate(y, z, t) for rate in self.rates.values()])

    def least(self, states: Any) -> tuple[str, float]:
        """Return the species with the smallest amount anywhere in these states (..., component), and that amount."""
        with jax.enable_x64(True):
            smallest = {name: float(np.nanmin(y)) for name, y in self.amounts(jnp.asarray(states)).items()}
        name = min(smallest, key=lambda one: smallest[one])
        return name, smallest[name]


def _same(x: Any) -> Any:
    return x


def _sides(name: Any, reaction: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many of each species a reaction uses, and how many it makes."""
    if not isinstance(name, str) or not isinstance(reaction, str) or reaction.count("->") != 1 or "<->" in reaction:
        raise ModelError(
            f"reaction {told(name)} is {told(reaction)}; write 'A + 2 B -> C', with one arrow, and what goes both ways "
            "as two reactions"
        )
    used, made = (_side(name, reaction, side) for side in reaction.split("->"))
    if used == made:
        raise ModelError(f"reaction {name!r}, {reaction!r}, changes no amount; leave it out")
    return used, made


def _side(name: str, reaction: str, side: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    if side.strip() in ("", "0"):
        return counts
    for term in side.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None or match[1].strip("0") == "" != match[1]:
            raise ModelError(
                f"reaction {name!r}, {reaction!r}, has the term {term.strip()!r}; write a species such as 'A', several "
                "such as '2 A', or 0 for nothing"
            )
        counts[match[2]] = counts.get(match[2], 0) + int(match[1] or 1)
    return counts


def _in_order(named: tuple[str, ...], species: Sequence[str] | None) -> tuple[str, ...]:
    wanted = check_labels("species", species, len(named), ModelError)
    if wanted is None:
        return named
    if odd := [one for one in wanted if one not in named]:
        raise ModelError(f"species has {odd[0]!r}, which no reaction names; there are {listed(named)}")
    return wanted


def _rate(name: str, given: Any, used: dict[str, int]) -> OfTime:
    """Return the rate of a reaction as a function of (y, z, t), with y by species."""
    what = f"the rate of reaction {name!r}"
    if callable(given) and not isinstance(given, type):
        rate = with_time(what, given, ("y", "z"))
    elif isinstance(given, str):
        rate = OfTime(lambda y, z, t: z[given] * _encounters(y, used))
    else:
        constant = real_number(what, given, error=ModelError)
        if constant <= 0.0:
            raise ModelError(f"{what} is {constant:g}; give a positive number, a parameter's name or a function")
        rate = OfTime(lambda y, z, t: constant * _encounters(y, used))

    def checked(y: dict[str, Any], z: dict[str, Any], t: Any) -> Any:
        try:
            value = rate(y, z, t)
        except KeyError as error:
            raise ModelError(
                f"{what} asks for {error.args[0]!r}; there are species {listed(y)} and parameters {listed(z)}"
            ) from error
        if jnp.shape(value):
            raise ModelError(f"{what} has shape {jnp.shape(value)}, expected a number")
        return value

    return OfTime(checked)


def _encounters(y: dict[str, Any], used: dict[str, int]) -> Any:
    """Return the number of ways in which the reactants can meet, for large amounts: the product of y^m / m!."""
    return prod((y[name] ** count / factorial(count) for name, count in used.items()), start=1.0)
