"""What comes after the posterior, on every example model (slow): names, shapes, files, pictures, warm starts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr

import pathfold as pf
from pathfold.example_models import EXAMPLES, Example


def with_predictions(example: Example, model: pf.DiffusionModel, tree: xr.DataTree) -> xr.DataTree:
    """The results with forecasts and predictive draws, all of which have the shapes and names that they should."""
    ends, observed = np.asarray(tree.constant_data["interval_end"], dtype=float), tree.observed_data
    series = tree.constant_data["first_interval"].size
    panel, last = series > 1, ends.max()
    times = np.append(ends.min(), last + np.median(np.diff(sorted(set(ends.tolist())))) * np.array([0.5, 1.0, 2.0]))
    longer = {
        name: pf.Input(
            [given.times[0] - 1.0, *given.times, 1e6 + last],
            [given.values[0], *given.values, given.values[-1]],
            given.kind,
        )
        for name, given in model.inputs.items()
        if given is not None
    }
    scenario: dict[str, Any] = {"inputs": longer, "events": {name: ([times[2]], 1.0) for name in model.jumps.events}}
    tree = pf.predict(model, tree, times, draws=10, **scenario)
    dims, rows = ("chain", "draw", "node" if panel else "time"), series * times.size
    for name, last_dim, labels in (("state", "component", tree.posterior), ("y", "observation", observed)):
        assert tree.predictions[name].dims == (*dims, last_dim)
        assert tree.predictions[name].shape == (2, 10, rows, labels[last_dim].size)
        assert tree.predictions[last_dim].equals(labels[last_dim])
        assert np.isfinite(tree.predictions[name]).all()
    assert tree.predictions["time"].values.tolist() == series * times.tolist()
    if panel:
        assert (
            tree.predictions["node_series"].values.tolist()
            == np.repeat(tree.constant_data["series"].values, 4).tolist()
        )
    new = pf.predict(model, tree, times, new_series=True, initial_time=ends.min() - 1.0, draws=5, **scenario)
    assert new.predictions["state"].shape == (2, 5, times.size, model.state_dim)

    tree = pf.posterior_predictive(model, pf.posterior_predictive(model, tree, given="parameters"))
    y = tree.posterior_predictive["y"]
    assert y.shape == (2, 20, *observed["y"].shape)
    assert np.array_equal(np.isnan(y[0, 0]), np.isnan(observed["y"]))
    assert set(y.coords) == {"chain", "draw", *observed["y"].coords}

    prior = pf.prior_predictive(model, example.data(), steps_per_interval=example.steps_per_interval, draws=20)
    assert prior.prior_predictive["y"].shape == (1, 20, *observed["y"].shape)
    assert set(prior.prior.data_vars) == set(tree.posterior.data_vars)
    return tree


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("kind", ["netcdf", "zarr"])
def test_everything_works_on_every_example(name, kind, tmp_path):
    example = EXAMPLES[name]
    model, data = example.model(), example.data()
    settings = {"steps_per_interval": example.steps_per_interval, "chains": 2, "draws": 20, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = with_predictions(example, model, pf.sample(model, data, warmup=60, **settings))
        if kind == "netcdf":
            tree.to_netcdf(tmp_path / "results.nc")
            loaded = xr.open_datatree(tmp_path / "results.nc")
        else:
            tree.to_zarr(tmp_path / "results.zarr")
            loaded = xr.open_datatree(tmp_path / "results.zarr", engine="zarr")
        for group in ("predictions", "predictions_constant_data", "posterior_predictive"):
            xr.testing.assert_equal(loaded[group].to_dataset(), tree[group].to_dataset())
        found = pf.check(loaded)
        assert found.table.equals(pf.check(tree).table)
        assert np.isfinite(found.table["p_value"]).all()
        for plot in (pf.plot_paths, pf.plot_marginals, pf.plot_check, pf.plot_predictions):
            assert plot(loaded).axes
        assert pf.report(loaded, tmp_path / "report.html").stat().st_size > 50_000
        finer: dict[str, Any] = settings | {"steps_per_interval": 2 * example.steps_per_interval, "draws": 5}
        warm = pf.sample(model, data, start=loaded, **finer)
        assert np.all(warm.starts["way"] == "guess"), "it begins where the other ended"
        assert pf.combine([tree, pf.sample(model, data, warmup=20, seed=9, **settings)]).posterior.sizes["chain"] == 4
