"""Draws of a posterior that something is made of: all of them, or so many of each chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pathfold.data import TimeGrid
from pathfold.data.checks import whole
from pathfold.errors import SettingsError
from pathfold.model import DiffusionModel
from pathfold.model.ensemble import Ensemble


@dataclass(frozen=True)
class Chosen:
    """Draws of a posterior: the places of those chosen among the draws of every chain."""

    tree: xr.DataTree
    places: np.ndarray

    @classmethod
    def of(cls, tree: xr.DataTree, draws: int | None) -> Chosen:
        """Choose so many draws of every chain, evenly spread; all if there is no number."""
        there = tree.posterior.sizes["draw"]
        count = there if draws is None else whole("draws", draws, least=1)
        if count > there:
            raise SettingsError(f"draws = {count}, but the posterior has {there} per chain; take fewer")
        return cls(tree, np.linspace(0, there - 1, count).round().astype(int))

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of chains and of draws."""
        return self.tree.posterior.sizes["chain"], len(self.places)

    @property
    def count(self) -> int:
        """The number D of draws, of all chains."""
        return self.shape[0] * self.shape[1]

    def flat(self, values: np.ndarray) -> np.ndarray:
        """Return the draws chosen, (D, ...), from an array by chain and draw, (chain, draw, ...)."""
        return values[:, self.places].reshape(self.count, *values.shape[2:])

    def by_chain(self, values: np.ndarray) -> np.ndarray:
        """Return an array (D, ...) as (chain, draw, ...)."""
        return values.reshape(*self.shape, *values.shape[1:])

    def __getitem__(self, name: str) -> np.ndarray:
        """Read these draws of a variable of the posterior, (D, ...); raise SettingsError if it was not kept."""
        if name not in self.tree.posterior:
            raise SettingsError(
                f"the posterior has no draws of {name!r}, which keep leaves out: sample with it among those to keep"
            )
        values = self.tree.posterior[name].isel(draw=self.places).values
        return values.reshape(self.count, *values.shape[2:])

    def states(self, model: DiffusionModel, remedy: str) -> np.ndarray:
        """Return states (D, time, component); raise SettingsError, with the remedy, if not all of them were kept."""
        posterior = self.tree.posterior
        if "state" not in posterior and self.tree.attrs.get("keep", "all") == "all":
            raise SettingsError(f"the posterior has no states (keep_path='none'): {remedy}")
        if "state" not in posterior or posterior.sizes["component"] < model.state_dim:
            raise SettingsError(f"the posterior has no states, or not all components of them (keep): {remedy}")
        return self["state"]

    def dataset(
        self, variables: Mapping[str, tuple[Sequence[str], np.ndarray]], coordinates: Mapping[str, Any], **attrs: Any
    ) -> xr.Dataset:
        """Make a group of results: variables (D, ...) by name, with their dimensions after chain and draw."""
        drawn = {name: (["chain", "draw", *dims], self.by_chain(x)) for name, (dims, x) in variables.items()}
        posterior = self.tree.posterior
        chains = {"chain": posterior["chain"].values, "draw": posterior["draw"].values[self.places]}
        return xr.Dataset(drawn, {**chains, **coordinates}, attrs)

    def ensemble(self, model: DiffusionModel, grid: TimeGrid, rng: np.random.Generator, besides: Any = ()) -> Ensemble:
        """Return the draws' parameters for the series of a grid, those `besides` drawn anew."""
        known = {name: self[name] for name in model.priors if name not in besides}
        return Ensemble.build(model, known, self.count, grid.covariates, rng)
