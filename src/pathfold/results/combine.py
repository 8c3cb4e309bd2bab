"""Chains of one posterior that were run in several places, joined."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import xarray as xr

from pathfold.errors import SettingsError, told
from pathfold.results.channels import check_posterior
from pathfold.results.diagnostics import warn_of_trouble
from pathfold.results.drawn import along_chains
from pathfold.results.prior import kept_parameters

BY_CHAIN = ("chain_seconds", "main_seconds", "start_attempts", "integration_times")
SAME = ("model", "steps_per_interval", "keep_path")  # attributes without which draws are not of one posterior


def combine(trees: Sequence[xr.DataTree]) -> xr.DataTree:
    """The chains of several results of pf.sample as one, numbered anew; the model and the data must be the same.

    Runs of different length are cut to the shortest. Chains that are copies of each other, because two runs had the
    same seed, are refused.

    Parameters
    ----------
    trees
        Results of `pf.sample`, each of some of the chains.

    Returns
    -------
    xarray.DataTree
        As one run with all chains would give.
    """
    if isinstance(trees, xr.DataTree) or not isinstance(trees, Sequence) or not trees:
        raise SettingsError(f"combine takes a list of results of pf.sample, not {told(trees)}")
    parts = [
        check_posterior(tree, "observed_data", "constant_data", "sample_stats", name=f"part {i} of combine's list")
        for i, tree in enumerate(trees)
    ]
    first = parts[0]
    for i, other in enumerate(parts[1:], start=1):
        _check_same(first, other, i)
    _check_different(parts)
    joined = {}
    for name, group in first.children.items():
        datasets = [tree[name].to_dataset() for tree in parts if name in tree.children]
        if len(datasets) < len(parts):
            continue
        joined[f"/{name}"] = _joined(datasets) if "chain" in group.dims else datasets[0]
    tree = xr.DataTree.from_dict(joined)
    tree.attrs = _attributes(parts, tree.posterior.sizes["chain"])
    warn_of_trouble(tree, kept_parameters(tree))
    return tree


def _joined(datasets: list[xr.Dataset]) -> xr.Dataset:
    """Along chains; of draws those that all have. What does not depend on the chain is the first one's.

    Large variables are not copied, nor read where they are on file.
    """
    common = reduce(np.intersect1d, [each["draw"].values for each in datasets])
    datasets = [each.sel(draw=common) for each in datasets]
    found: dict[str, Any] = {}
    for name in [str(name) for name, each in datasets[0].data_vars.items() if "chain" in each.dims]:
        parts = [each[name].variable for each in datasets]
        found[name] = (parts[0].dims, along_chains(parts), parts[0].attrs)
    chains = sum(each.sizes["chain"] for each in datasets)
    return datasets[0].drop_vars([*found, "chain"]).assign(found).assign_coords(chain=np.arange(chains))


def _check_same(first: xr.DataTree, other: xr.DataTree, i: int) -> None:
    for name in SAME:
        if str(first.attrs.get(name)) != str(other.attrs.get(name)):
            raise SettingsError(
                f"results {i} cannot be joined to the first: they have another {name}; combine runs of one model"
            )
    for group in ("observed_data", "constant_data"):
        if not first[group].to_dataset().equals(other[group].to_dataset()):
            raise SettingsError(
                f"results {i} cannot be joined to the first: they are of other data ({group} is not the same)"
            )
    if set(first.posterior.data_vars) != set(other.posterior.data_vars):
        odd = sorted(map(str, set(first.posterior.data_vars) ^ set(other.posterior.data_vars)))
        raise SettingsError(f"results {i} cannot be joined to the first: not both have {odd[0]!r}")


def _check_different(parts: list[xr.DataTree]) -> None:
    """Chains are told apart by their statistics: no two random streams have the same energies."""
    seen: dict[bytes, tuple[int, int]] = {}
    for i, tree in enumerate(parts):
        energies = tree.sample_stats["energy"]
        for k, energy in zip(energies["chain"].values.tolist(), energies.values[:, :10], strict=True):
            j, m = seen.setdefault(energy.tobytes(), (i, k))
            if (j, m) != (i, k):
                raise SettingsError(
                    f"chain {k} of results {i} is a copy of chain {m} of results {j}: runs to be joined need different "
                    "seeds"
                )


def _attributes(parts: list[xr.DataTree], chains: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {str(name): value for name, value in parts[0].attrs.items()}
    for name in BY_CHAIN:
        attributes[name] = [value for tree in parts for value in np.atleast_1d(tree.attrs[name]).tolist()]
    attributes["seed"] = [int(seed) for tree in parts for seed in np.atleast_1d(tree.attrs["seed"])]
    attributes["chains"] = chains
    attributes.pop("iterations", None)  # of the chains of one run
    lost = [(i, each) for i, tree in enumerate(parts) for each in np.atleast_1d(tree.attrs.get("left_out", []))]
    if lost:
        attributes["left_out"] = [f"of results {i} {each}" for i, each in lost]
    attributes["draws"] = min(int(tree.attrs["draws"]) for tree in parts)
    return attributes
