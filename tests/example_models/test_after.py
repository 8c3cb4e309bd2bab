"""What comes after the posterior, on every example model (slow): names, shapes, files, pictures, warm starts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr

import pathfold as pf
from pathfold.example_models import EXAMPLES


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("kind", ["netcdf", "zarr"])
def test_everything_works_on_every_example(name, kind, tmp_path):
    example = EXAMPLES[name]
    model, data = example.model(), example.data()
    settings = {"steps_per_interval": example.steps_per_interval, "chains": 2, "draws": 20, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = pf.sample(model, data, warmup=60, **settings)
        if kind == "netcdf":
            tree.to_netcdf(tmp_path / "results.nc")
            loaded = xr.open_datatree(tmp_path / "results.nc")
        else:
            tree.to_zarr(tmp_path / "results.zarr")
            loaded = xr.open_datatree(tmp_path / "results.zarr", engine="zarr")
        found = pf.check(loaded)
        assert found.table.equals(pf.check(tree).table)
        assert np.isfinite(found.table["p_value"]).all()
        for plot in (pf.plot_paths, pf.plot_marginals, pf.plot_check):
            assert plot(loaded).axes
        assert pf.report(loaded, tmp_path / "report.html").stat().st_size > 50_000
        finer: dict[str, Any] = settings | {"steps_per_interval": 2 * example.steps_per_interval, "draws": 5}
        warm = pf.sample(model, data, start=loaded, **finer)
        assert max(warm.attrs["start_attempts"]) == 1, "it begins where the other ended"
        assert pf.combine([tree, pf.sample(model, data, warmup=20, seed=9, **settings)]).posterior.sizes["chain"] == 4
