"""Warm starts and chains that are joined."""

from __future__ import annotations

import tracemalloc
import warnings
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.results.convergence import convergence
from pathfold.sampling.warm_start import carried_over, same_times
from tests.thorough import thorough

TIMES = 0.4 * np.arange(1, 41)


@cache
def model() -> pf.DiffusionModel:
    """An oscillator of which the position is seen with noise."""
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.array([x[1], -z["pull"] * jnp.sin(x[0]) - 0.3 * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={"pull": dist.LogNormal(0.5, 0.5), "sigma": dist.LogNormal(-0.5, 0.5)},
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x[:1], 0.1),
        scheme=pf.StrongOrder1p5(),
    )


@cache
def data() -> pf.Observations:
    truth = {"pull": 1.5, "sigma": 0.5}
    return pf.simulate(model(), truth, TIMES, initial_state=[0.5, 0.0], steps_per_interval=50, seed=2)


def run(observations: Any, **options: Any) -> xr.DataTree:
    settings: dict[str, Any] = {"steps_per_interval": 3, "chains": 2, "draws": 300, "seed": 3, "progress": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*) has (not converged|few effective draws)")
        return pf.sample(model(), observations, **settings | options)


@cache
def earlier() -> xr.DataTree:
    return run(data())


def test_noise_on_a_finer_grid_is_noise_and_the_same_process():
    rng, edges = np.random.default_rng(1), np.linspace(0.0, 3.0, 7)
    finer = np.linspace(0.0, 3.0, 19)
    v = rng.normal(size=(6, 2))
    np.testing.assert_allclose(carried_over(v, edges, rng.normal(size=(6, 2)), edges), v, atol=1e-12)
    fine = carried_over(v, edges, rng.normal(size=(18, 2)), finer)
    np.testing.assert_allclose(fine.reshape(6, 3, 2).sum(axis=1) / np.sqrt(3), v, atol=1e-12)
    # as a linear map of (v, fresh) its rows are orthonormal, which is what keeps normals standard
    rows = np.stack([carried_over(e[:6], edges, e[6:], finer)[:, 0] for e in np.eye(24)[:, :, None]], axis=1)
    np.testing.assert_allclose(rows @ rows.T, np.eye(18), atol=1e-12)
    longer = carried_over(v, edges, fresh := rng.normal(size=(8, 2)), np.linspace(0.0, 4.0, 9))
    np.testing.assert_allclose(longer[:6], v, atol=1e-12)
    np.testing.assert_allclose(longer[6:], fresh[6:], atol=1e-12)


def test_times_that_both_grids_have_take_memory_in_proportion_to_them():
    rng = np.random.default_rng(0)
    old, new = np.sort(rng.random(200)), np.sort(rng.random(100))
    new[::3] = old[10:78:2] * (1.0 + 1e-12)
    for a, b in ((old, np.sort(new)), (old[:1], new), (np.sort(new), old)):
        pairs = [
            (i, j) for j, each in enumerate(b) for i in [abs(a - each).argmin()] if np.isclose(a[i], each, 1e-9, 1e-12)
        ]
        np.testing.assert_array_equal(np.stack(same_times(a, b), axis=1).reshape(-1, 2), np.reshape(pairs, (-1, 2)))
    tracemalloc.start()
    same_times(np.arange(20_000.0), np.arange(20_000.0) + 0.1)
    assert tracemalloc.get_traced_memory()[1] < 20 * 8 * 20_000
    tracemalloc.stop()


def test_the_same_call_begins_where_the_other_ended():
    again = run(data(), start=earlier(), warmup=0, draws=1, keep_warmup=True)
    # one trajectory away from the last draws: with the step sizes and integration times of these
    assert np.array_equal(
        again.sample_stats["step_size"].values[:, 0], earlier().sample_stats["step_size"].values[:, -1]
    )
    assert again.attrs["integration_times"] == earlier().attrs["integration_times"]
    assert np.all(again.starts["way"] == "guess")
    kinetic = again.sample_stats["energy"].values[:, 0] + earlier().sample_stats["lp"].values[:, -1]
    unknowns = 2 + 2 + 40 + 40 * 3 * 2 - 40
    assert np.all(np.abs(kinetic - 0.5 * unknowns) < 6 * np.sqrt(0.5 * unknowns)), "the energy is that of the last draw"


CHANGED: dict[str, Any] = {
    "finer": lambda: (data(), {"steps_per_interval": 6}),
    "other values": lambda: (pf.Observations(TIMES, data().values + 0.05), {}),
    "fewer times": lambda: (pf.Observations(TIMES[:30], data().values[:30]), {}),
    "another sampler, more chains": lambda: (data(), {"sampler": pf.DynamicHMC(), "chains": 3}),
}


@pytest.mark.parametrize("changed", thorough(CHANGED, "finer"))
def test_a_short_warm_up_gives_the_posterior_of_a_long_one(changed):
    observations, options = CHANGED[changed]()
    warm, cold = run(observations, start=earlier(), **options), run(observations, **options)
    assert (warm.attrs["warmup"], cold.attrs["warmup"]) == (50, 250)
    assert np.all(warm.starts["way"] == "guess")
    for name in ("pull", "sigma"):
        x, y = warm.posterior[name].values, cold.posterior[name].values
        error = np.hypot(x.std() / np.sqrt(convergence(x).bulk), y.std() / np.sqrt(convergence(y).bulk))
        assert abs(x.mean() - y.mean()) < 4.5 * error, name
    assert warm.sample_stats["acceptance_rate"].mean() > 0.7


def test_data_that_grow_are_followed():
    first = run(pf.Observations(TIMES[:25], data().values[:25]))
    whole, cold = run(data(), start=first), earlier()
    assert np.all(whole.starts["way"] == "guess")
    for name in ("pull", "sigma"):
        x, y = whole.posterior[name].values, cold.posterior[name].values
        error = np.hypot(x.std() / np.sqrt(convergence(x).bulk), y.std() / np.sqrt(convergence(y).bulk))
        assert abs(x.mean() - y.mean()) < 4.5 * error, name


def test_a_warm_start_from_a_file_a_panel_and_a_checkpoint(tmp_path):
    panel = [data(), pf.Observations(TIMES[:20], data().values[20:])]
    first = run(panel, draws=40)
    first.to_netcdf(tmp_path / "first.nc")
    settings: dict[str, Any] = {"draws": 20, "warmup": 20, "steps_per_interval": 4}
    with xr.open_datatree(tmp_path / "first.nc") as loaded:
        from_file = run(panel, start=loaded, **settings)
    direct = run(panel, start=first, **settings)
    run(panel, start=first, **settings | {"draws": 10}, checkpoint=tmp_path / "checkpoint")
    resumed = run(panel, start=first, **settings, checkpoint=tmp_path / "checkpoint")
    for other in (from_file, resumed):
        np.testing.assert_array_equal(other.posterior["state"], direct.posterior["state"])
    with pytest.raises(pf.SettingsError, match=r"not the same: start\)"):
        run(panel, **settings, checkpoint=tmp_path / "checkpoint")


def test_a_start_that_does_not_fit_is_refused():
    other = pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(2),
        parameters={"pull": dist.LogNormal(0.0, 1.0), "sigma": dist.LogNormal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.Noiseless(lambda x, z: x[:1]),
    )
    with pytest.raises(pf.SettingsError, match="start is of another model: it has 1 normals of an observation where"):
        pf.sample(other, data(), steps_per_interval=3, start=earlier())
    without = pf.DiffusionModel(lambda x, z: -x, lambda x, z: jnp.eye(2), {}, jnp.zeros(2), other.observation)
    with pytest.raises(pf.SettingsError, match="it has a parameter 'pull' that this one does not have"):
        pf.sample(without, data(), steps_per_interval=3, start=earlier())
    with pytest.raises(pf.SettingsError, match="and the data lie outside of that"):
        run(pf.Observations(TIMES + 50.0, data().values, initial_time=50.0), start=earlier())
    with pytest.raises(pf.SettingsError, match=r"start must be what pf\.sample returned"):
        run(data(), start="results.nc")


def test_a_panel_whose_parameters_vary(tmp_path):
    """With names of series and states: a warm start with one series more, the check, files."""
    mixed = pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "mean": dist.Normal(0.0, 0.5),
            "rate": pf.Varying(lambda z: dist.LogNormal(z["mean"], 0.3)),
            "sigma": dist.LogNormal(-0.5, 0.3),
        },
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
        states=["drug"],
    )
    panel = {name: pf.simulate(mixed, {"mean": 0.2, "sigma": 0.5}, TIMES[:12], steps_per_interval=4, seed=k)
             for k, name in enumerate(("Ann", "Bob", "Cyd"))}  # fmt: skip
    settings: dict[str, Any] = {"steps_per_interval": 2, "chains": 2, "warmup": 60, "draws": 30, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = pf.sample(mixed, {name: panel[name] for name in ("Ann", "Bob")}, **settings)
        first.to_netcdf(tmp_path / "first.nc")
        with xr.open_datatree(tmp_path / "first.nc") as loaded:
            second = pf.sample(mixed, panel, start=loaded, **settings)
    assert np.all(second.starts["way"] == "guess")
    assert second.posterior["rate"].sizes["series"] == 3
    table = pf.check(second).table
    assert {"the noise in drug", "the error of y[0]", "rate", "initial_state", "mean"} <= set(table["noise"])
    assert {"in series Ann", "in series Cyd"} <= set(table["where"])
    figure = pf.plot_paths(second, "drug", series=["Bob", "Cyd"])
    assert [ax.get_title() for ax in figure.axes] == ["Bob", "Cyd"]
    assert pf.plot_marginals(second, "rate").axes[2].get_xlabel() == "rate[Cyd]"
    assert pf.report(second, tmp_path / "report.html").stat().st_size > 100_000


# Chains that are joined.


@pytest.mark.filterwarnings("ignore:(.*) has (not converged|few effective draws)")
def test_chains_of_several_runs_are_joined(tmp_path):
    one, two = earlier(), run(data(), seed=4, draws=250, chains=1)
    two.to_netcdf(tmp_path / "two.nc")
    with xr.open_datatree(tmp_path / "two.nc") as loaded:
        both = pf.combine([one, loaded])
    assert both.posterior.sizes["chain"] == 3
    assert both.posterior["chain"].values.tolist() == [0, 1, 2]
    for group in ("posterior", "sample_stats"):
        joined, first, second = (tree[group].to_dataset() for tree in (both, one, two))
        for name in first.data_vars:
            np.testing.assert_array_equal(joined[name][:2], first[name][:, :250])
            np.testing.assert_array_equal(joined[name][2:], second[name])
    held = sorted(set(one.noise["draw"].values) & set(two.noise["draw"].values))
    assert held
    assert both.noise["draw"].values.tolist() == held
    assert both.attrs["seed"] == [3, 4]
    assert len(both.attrs["chain_seconds"]) == 3
    assert both.observed_data.to_dataset().equals(one.observed_data.to_dataset())
    assert pf.check(both).draws == 3 * len(held)
    assert run(data(), start=both, draws=5, chains=3).posterior.sizes["chain"] == 3


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        (lambda: earlier().copy(), "chain 0 of results 1 and chain 0 of results 0 have a draw in common"),
        (lambda: run(pf.Observations(TIMES, data().values + 1.0), draws=5), "results 1 .* are of other data"),
        (lambda: run(data(), steps_per_interval=4, draws=5, seed=9), "they have another steps_per_interval"),
        (
            lambda: run(data(), draws=5, seed=9, deterministics={"twice": lambda z: 2.0 * z["pull"]}),
            "not both have 'twice'",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(others, sentence):
    with pytest.raises(pf.SettingsError, match=sentence):
        pf.combine([earlier(), others()])
    with pytest.raises(pf.SettingsError, match="combine takes a list"):
        pf.combine(earlier())  # type: ignore[arg-type]
