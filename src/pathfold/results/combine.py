"""Joining chains of one posterior that were run in several places."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import xarray as xr

from pathfold.errors import SettingsError, told
from pathfold.results.diagnostics import warn_of_trouble
from pathfold.results.grid import difference, grid_of
from pathfold.results.in_order import results_of
from pathfold.results.overview import Results
from pathfold.results.prior import kept_parameters
from pathfold.results.reading import BY_CHAIN, is_fit
from pathfold.results.same_model import differing
from pathfold.results.variables import along_chains

SAME = ("steps_per_interval", "keep_path")  # attributes that draws of one posterior have in common
AND = " and "  # between the methods of several runs


def combine(trees: Sequence[xr.DataTree]) -> xr.DataTree:
    """Join the chains of several results of pf.sample, and number them anew; model and data must be the same.

    Runs of different length are cut to the shortest. Chains with a draw in common are refused: two runs had the same
    seed, or one is part of the other.

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
        results_of(tree, "observed_data", "constant_data", "sample_stats", name=f"part {i} of combine's list")
        for i, tree in enumerate(trees)
    ]
    if fits := [i for i, tree in enumerate(parts) if is_fit(tree)]:
        raise SettingsError(f"part {fits[0]} of combine's list is a fit: combine joins chains of pf.sample")
    first = parts[0]
    for i, other in enumerate(parts[1:], start=1):
        _check_same(first, other, i)
    _check_different(parts)
    joined = {}
    for name, group in first.children.items():
        datasets = [tree[name].to_dataset() for tree in parts if name in tree.children]
        if len(datasets) < len(parts) or name == "starts":  # of which each run has candidates of its own
            continue
        joined[f"/{name}"] = _joined(datasets) if "chain" in group.dims else datasets[0]
    tree = Results.from_dict(joined)
    tree.attrs = _attributes(parts, tree.posterior.sizes["chain"])
    warn_of_trouble(tree, kept_parameters(tree))
    return tree


def _joined(datasets: list[xr.Dataset]) -> xr.Dataset:
    """Join groups along chains, with the draws that all have. What does not depend on the chain is the first one's.

    Large variables are not copied, nor read where they are on file.
    """
    common = reduce(np.intersect1d, [dataset["draw"].values for dataset in datasets])
    datasets = [dataset.sel(draw=common) for dataset in datasets]
    rungs = max(dataset.sizes.get("rung", 0) for dataset in datasets)  # of which warm-up chooses how many there are
    datasets = [d.reindex(rung=np.arange(rungs)) if "rung" in d.dims else d for d in datasets]
    joined: dict[str, Any] = {}
    for name in [str(name) for name, variable in datasets[0].data_vars.items() if "chain" in variable.dims]:
        parts = [dataset[name].variable for dataset in datasets]
        joined[name] = (parts[0].dims, along_chains(parts), parts[0].attrs)
    chains = sum(dataset.sizes["chain"] for dataset in datasets)
    return datasets[0].drop_vars([*joined, "chain"]).assign(joined).assign_coords(chain=np.arange(chains))


def _check_same(first: xr.DataTree, other: xr.DataTree, i: int) -> None:
    if odd := differing(*(json.loads(tree.attrs.get("model_key", "{}")) for tree in (first, other))):
        raise SettingsError(
            f"results {i} cannot be joined to the first: their models have another {', another '.join(odd)}; combine "
            "runs of one model"
        )
    for name in SAME:
        if str(first.attrs.get(name)) != str(other.attrs.get(name)):
            raise SettingsError(
                f"results {i} cannot be joined to the first: they have another {name}; combine runs of one model"
            )
    one, two = grid_of(first), grid_of(other)
    if odd := difference(one, two) or ("their dates are others" if one.calendars != two.calendars else ""):
        raise SettingsError(f"results {i} cannot be joined to the first: they are of other data: {odd}")
    if set(first.posterior.data_vars) != set(other.posterior.data_vars):
        odd = sorted(map(str, set(first.posterior.data_vars) ^ set(other.posterior.data_vars)))
        raise SettingsError(f"results {i} cannot be joined to the first: not both have {odd[0]!r}")
    if odd := differing(*(json.loads(tree.attrs.get("deterministics", "{}")) for tree in (first, other))):
        raise SettingsError(
            f"results {i} cannot be joined to the first: the deterministic {odd[0]!r} is another function there"
        )
    for name in first.posterior.data_vars:
        sizes, others = (dict(tree.posterior[name].isel(chain=0, draw=0).sizes) for tree in (first, other))
        if sizes != others:
            raise SettingsError(
                f"results {i} cannot be joined to the first: the sizes of {str(name)!r} are {others}, and {sizes} there"
            )


def _check_different(parts: list[xr.DataTree]) -> None:
    """Raise SettingsError if two chains are the same; no two random streams ever have the same energy."""
    seen: dict[float, tuple[int, int]] = {}
    for i, tree in enumerate(parts):
        chains = tree.sample_stats["chain"].values.tolist()
        for k, energies in zip(chains, tree.sample_stats["energy"].values, strict=True):
            for energy in np.unique(energies[np.isfinite(energies)]).tolist():
                j, m = seen.setdefault(energy, (i, k))
                if (j, m) != (i, k):
                    raise SettingsError(
                        f"chain {k} of results {i} and chain {m} of results {j} have a draw in common: runs to be "
                        "joined need different seeds, and each is joined once"
                    )


def _of_chains(tree: xr.DataTree, name: str) -> list[Any]:
    """Return an attribute of the chains that the results have, in their order."""
    values = dict(zip(tree.attrs["chain_numbers"], tree.attrs[name], strict=True))
    return [values[chain] for chain in tree.posterior["chain"].values.tolist()]


def _attributes(parts: list[xr.DataTree], chains: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {str(name): value for name, value in parts[0].attrs.items()}
    for name in BY_CHAIN:
        attributes[name] = [value for tree in parts for value in _of_chains(tree, name)]
    attributes["seed"] = [int(seed) for tree in parts for seed in np.atleast_1d(tree.attrs["seed"])]
    attributes["chains"], attributes["chain_numbers"] = chains, [*range(chains)]
    methods = [method for tree in parts for method in tree.attrs.get("method", "").split(AND) if method]
    attributes |= {"method": AND.join(dict.fromkeys(methods))} if methods else {}
    attributes.pop("iterations", None)  # of the chains of one run
    lost = [(i, phrase) for i, tree in enumerate(parts) for phrase in np.atleast_1d(tree.attrs.get("left_out", []))]
    if lost:
        attributes["left_out"] = [f"of results {i} {phrase}" for i, phrase in lost]
    attributes["draws"] = min(int(tree.attrs["draws"]) for tree in parts)
    return attributes
