"""Results of a panel made by hand, without sampling: any number of series, with draws that a test chooses."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine.status import CONVERGED
from pathfold.results.noise_group import DIMENSIONS
from pathfold.results.posterior import attributes, constant_dataset, draws_dataset, observed_dataset
from tests.once import once

SETTINGS: dict[str, Any] = {"sampler": "StaticHMC", "keep_path": "nodes", "steps_per_interval": 1, "warmup": 10}


@once
def model() -> pf.DiffusionModel:
    """A level that each subject has of its own, approached at a rate of its own; exact in one step."""
    return pf.DiffusionModel(
        drift=lambda x, z: z["rate"] * (z["level"] - x),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "typical": dist.Normal(0.0, 1.0),
            "spread": dist.LogNormal(0.0, 0.3),
            "sigma": dist.LogNormal(-1.0, 0.3),
            "rate": pf.Varying(dist.LogNormal(0.0, 0.3)),
            "level": pf.Varying(lambda z: dist.Normal(z["typical"], z["spread"])),
        },
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
        scheme=pf.ExactLinearDrift(),
        observed=("size",),
    )


def panel(series: int, times: int, *, limit: float | None = None) -> list[pf.Observations]:
    """Standard normals as data; those below the limit are known to be below it alone."""
    rng, at, panel = np.random.default_rng(3), np.arange(1.0, times + 1.0), []
    for _ in range(series):
        values = rng.standard_normal((times, 1))
        censored = None if limit is None else -1.0 * (values < limit)
        panel.append(pf.Observations(at, values if limit is None else np.maximum(values, limit), censored=censored))
    return panel


def results(data: list[pf.Observations], *, chains: int = 2, draws: int = 50, noise: bool = False) -> xr.DataTree:
    """The results of a run for this panel whose draws are independent; rates are log-normal, levels normal."""
    m, grid, rng = model(), TimeGrid.build(data, steps_per_interval=1), np.random.default_rng(4)
    series, nodes = len(grid.first), len(grid.ends)
    z = np.exp(0.3 * rng.standard_normal((chains, draws, 3)))
    x0 = rng.standard_normal((chains, draws, series, 3))
    x0[..., 0], x0[..., 1] = 0.0, np.exp(0.3 * x0[..., 1])
    states = rng.standard_normal((chains, draws, nodes, 1))
    by_draw, coordinates = ["chain", "draw"], {"chain": np.arange(chains), "draw": np.arange(draws)}
    statistics = {
        "lp": rng.standard_normal((chains, draws)),
        "status": np.full((chains, draws), CONVERGED),
        "diverging": np.zeros((chains, draws), dtype=bool),
        "step_size": np.full((chains, draws), 0.3),
    }
    groups = {
        "posterior": draws_dataset(m, grid, z, x0, states, "nodes"),
        "sample_stats": xr.Dataset({name: (by_draw, values) for name, values in statistics.items()}, coordinates),
        "observed_data": observed_dataset(m, grid),
        "constant_data": constant_dataset(grid),
    }
    if noise:
        groups["noise"] = _noise(grid, rng)
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    of_chains = {"chain_numbers": [*range(chains)], "chain_seconds": [1.0] * chains, "main_seconds": [1.0] * chains}
    tree.attrs = attributes(m, grid, SETTINGS) | of_chains | {"integration_times": [1.0] * chains, "keep": "all"}
    return tree


def _noise(grid: TimeGrid, rng: np.random.Generator) -> xr.Dataset:
    """Standard normals for four draws of two chains, as runs keep them."""
    shape, intervals, series = (2, 4), len(grid.ends), len(grid.first)
    sizes = dict(zip(DIMENSIONS, ((3,), (series, 2), (intervals, 1), (intervals, 1, 1)), strict=True))
    variables: dict[str, Any] = {
        name: (["chain", "draw", *DIMENSIONS[name]], rng.standard_normal((*shape, *size)), {"standard": [1] * size[-1]})
        for name, size in sizes.items()
    }
    variables["initial_state"] = (["chain", "draw", "series", "component"], np.zeros((*shape, series, 1)))
    variables["state"] = (["chain", "draw", "interval", "component"], rng.standard_normal((*shape, intervals, 1)))
    variables["drives"], variables["moves"] = ("path_normal", [0]), (["path_normal", "observation"], [[1]])
    variables["observed"] = (["interval", "observation"], np.asarray(grid.mask, dtype=np.int64))
    variables["observed_column"] = ("observation_normal", [0])
    coordinates = {"chain": [0, 1], "draw": np.arange(4), "component": [0], "observation": ["size"]}
    names = {"parameter_normal": ["typical", "spread", "sigma"], "initial_normal": ["rate", "level"]}
    return xr.Dataset(variables, coordinates | names | {"series": [*grid.series]})
