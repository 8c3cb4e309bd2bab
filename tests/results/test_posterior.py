"""The DataTree of the contract: groups, names, coordinates, attributes; ArviZ and files; warnings."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr

import pathfold as pf
from pathfold.engine.status import MEANING, NON_REVERSIBLE, NOT_CONVERGED
from pathfold.results.diagnostics import warn_of_trouble

STATISTICS = {
    "acceptance_rate",
    "n_steps",
    "step_size",
    "energy",
    "lp",
    "diverging",
    "n_failed_steps",
    "status",
    "newton_iterations",
    "tree_depth",
}
CHAINS, WARMUP, DRAWS, STEPS = 2, 40, 60, 3


@cache
def model() -> pf.DiffusionModel:
    """Two states; a vector, a scalar and a fixed parameter."""
    return pf.DiffusionModel(
        drift=lambda x, z: -z["rates"] * (x - z["level"]),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(2),
        parameters={"rates": dist.LogNormal(jnp.zeros(2), 0.3), "level": 0.4, "sigma": dist.LogNormal(-0.5, 0.3)},
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, jnp.array([0.2, 0.3])),
    )


@cache
def series() -> pf.Observations:
    """Ten times, not regular; one value missing, and both at the fifth time."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(10, 2))
    values[1, 0] = np.nan
    values[4] = np.nan
    return pf.Observations(0.2 + np.cumsum(rng.uniform(0.2, 0.8, size=10)), values, initial_time=0.2)


@cache
def panel() -> tuple[pf.Observations, ...]:
    """The same data as two series, of six and four times."""
    s = series()
    return (
        pf.Observations(s.times[:6], s.values[:6], initial_time=0.2),
        pf.Observations(s.times[6:], s.values[6:], initial_time=float(s.times[5])),
    )


def run(data: Any, **options: Any) -> xr.DataTree:
    """Too short for a good posterior, of which it does not warn."""
    settings: dict[str, Any] = {
        "steps_per_interval": STEPS,
        "chains": CHAINS,
        "warmup": WARMUP,
        "draws": DRAWS,
        "seed": 4,
        "progress": False,
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*) has (not converged|few effective draws)")
        return pf.sample(model(), data, **settings | options)


@cache
def one_series() -> xr.DataTree:
    return run(series(), keep_warmup=True)


@cache
def on_the_manifold() -> xr.DataTree:
    return run(series(), sampler=pf.StaticHMC(integrate=False))


@cache
def two_series() -> xr.DataTree:
    return run(panel())


def test_groups():
    assert set(one_series().children) == {
        "posterior", "sample_stats", "observed_data", "constant_data", "noise", "half_step_shift", "starts",
        "log_prior", "warmup_posterior", "warmup_sample_stats",
    }  # fmt: skip
    assert set(two_series().children) == {
        "posterior",
        "sample_stats",
        "observed_data",
        "constant_data",
        "noise",
        "half_step_shift",
        "starts",
        "log_prior",
    }


def test_posterior_names_and_dimensions():
    posterior = one_series().posterior
    assert {name: posterior[name].dims for name in posterior.data_vars} == {
        "rates": ("chain", "draw", "rates_dim_0"),
        "level": ("chain", "draw"),
        "sigma": ("chain", "draw"),
        "initial_state": ("chain", "draw", "component"),
        "state": ("chain", "draw", "time", "component"),
    }
    sizes = {"chain": CHAINS, "draw": DRAWS, "time": 10, "component": 2, "rates_dim_0": 2}
    assert dict(posterior.sizes) == sizes
    assert np.array_equal(posterior["time"], series().times)
    assert np.array_equal(posterior["draw"], np.arange(DRAWS))
    assert np.array_equal(posterior["component"], [0, 1])
    assert np.all(posterior["level"] == 0.4)
    assert all(np.isfinite(posterior[name]).all() for name in posterior.data_vars)


def test_statistics():
    stats = one_series().sample_stats
    assert set(stats.data_vars) == STATISTICS
    assert all(stats[name].dims == ("chain", "draw") for name in STATISTICS)
    assert {stats[name].dtype.kind for name in ("n_steps", "status", "tree_depth")} == {"i"}
    assert stats["diverging"].dtype == bool
    assert np.all((stats["acceptance_rate"] >= 0) & (stats["acceptance_rate"] <= 1))
    steps = set(np.unique(stats["n_steps"]).tolist())
    assert steps > {0}, "draws are made by proposals, without steps, and by trajectories"
    assert all(np.ptp(stats["step_size"].values, axis=1) == 0), "the step size is fixed after warm-up"
    assert np.all(stats["newton_iterations"] == 0), "there is nothing to solve where paths are integrated out"
    assert np.all(on_the_manifold().sample_stats["newton_iterations"] > 0)
    assert np.all(on_the_manifold().sample_stats["n_steps"] >= 1)
    sentences = list(stats["status"].attrs["meaning"])
    assert sentences == [f"{code}: {text}" for code, text in MEANING.items()]


@pytest.mark.parametrize("integrated", [True, False])
def test_energy_is_that_of_the_state_left_and_lp_that_of_the_state_drawn(integrated):
    """h = l + kinetic energy > l, with l of the draw before; kinetic energy has mean half the dimension moved in."""
    stats = (one_series() if integrated else on_the_manifold()).sample_stats
    kinetic = stats["energy"].values[:, 1:] + stats["lp"].values[:, :-1]
    observed = int(np.isfinite(series().values).sum())
    unknowns = 3 + 2 + 20 + 10 * STEPS * 2  # u, v_0, w, v
    dimension = 3 if integrated else unknowns - observed
    assert kinetic.min() > 0
    error = np.sqrt(0.5 * dimension / kinetic.size)
    assert abs(kinetic.mean() - 0.5 * dimension) < 4.5 * error


def test_results_say_whether_paths_were_integrated_out():
    assert one_series().attrs["method"] == "integrated"
    assert "StaticHMC, paths integrated out" in repr(one_series())
    assert on_the_manifold().attrs["method"] == "manifold"
    assert "integrated out" not in repr(on_the_manifold())
    assert on_the_manifold().attrs["integrate"] == "False", "as a report repeats the call"
    assert "integrate" not in one_series().attrs


def test_tree_depth_is_of_dynamic_trajectories():
    stats = run(series(), sampler=pf.DynamicHMC()).sample_stats
    assert np.all(stats["tree_depth"] >= 1)
    assert np.all(stats["n_steps"] < 2 ** stats["tree_depth"])
    assert np.all(one_series().sample_stats["tree_depth"] == 0)


def test_observed_and_constant_data():
    tree, data = one_series(), series()
    y = tree.observed_data["y"]
    seen = np.isfinite(data.values).any(axis=1)
    assert y.dims == ("time", "observation")
    np.testing.assert_array_equal(y, data.values[seen])
    assert np.array_equal(y["time"], data.times[seen])
    constant = tree.constant_data
    assert np.array_equal(constant["interval_end"], data.times)
    assert np.array_equal(constant["interval_start"], np.concatenate([[0.2], data.times[:-1]]))
    np.testing.assert_allclose(STEPS * constant["fine_step"], constant["interval_end"] - constant["interval_start"])
    assert constant["first_interval"].values.tolist() == [0]


def test_attributes():
    attrs = one_series().attrs
    expected = {
        "inference_library": "pathfold",
        "chains": CHAINS,
        "warmup": WARMUP,
        "draws": DRAWS,
        "seed": 4,
        "keep": "all",
        "keep_path": "nodes",
        "thin": 1,
        "steps_per_interval": STEPS,
        "sampler": "StaticHMC",
        "target_acceptance": pf.StaticHMC().target_acceptance,
        "integration_time": "adapted",
    }
    assert {name: attrs[name] for name in expected} == expected
    for name in ("pathfold", "jax", "numba", "numpy"):
        assert attrs[f"{name}_version"]
    assert attrs["created_at"]
    for name in ("compile_seconds", "run_seconds"):
        assert attrs[name] > 0
    for name in ("chain_seconds", "integration_times"):
        assert len(attrs[name]) == CHAINS
        assert min(attrs[name]) > 0


def test_panel():
    posterior, one = two_series().posterior, series()
    assert posterior["initial_state"].dims == ("chain", "draw", "series", "component")
    assert posterior["state"].dims == ("chain", "draw", "node", "component")
    assert np.array_equal(posterior["time"], one.times)
    assert posterior["node_series"].values.tolist() == 6 * [0] + 4 * [1]
    y = two_series().observed_data["y"]
    assert y.dims == ("node", "observation")
    assert y["node_series"].values.tolist() == 5 * [0] + 4 * [1]
    assert two_series().constant_data["first_interval"].values.tolist() == [0, 6]
    spread = posterior["initial_state"].values.std(axis=(0, 1))
    assert spread.shape == (2, 2)
    assert spread.min() > 0.05


@pytest.mark.parametrize("data", [series, panel])
def test_paths(data):
    """All states: those at the nodes are the same as when only these are kept; times count the fine steps."""
    nodes, whole = (one_series() if data is series else two_series()).posterior, run(data(), keep_path="all").posterior
    assert whole["state"].sizes["time" if data is series else "node"] == 10 * STEPS
    assert np.array_equal(whole["state"].values[:, :, STEPS - 1 :: STEPS], nodes["state"].values)
    starts = np.concatenate([[0.2], series().times[:-1]])
    times = np.linspace(starts, series().times, STEPS + 1, axis=1)[:, 1:].ravel()
    np.testing.assert_allclose(whole["time"], times)
    if data is panel:
        assert whole["node_series"].values.tolist() == 6 * STEPS * [0] + 4 * STEPS * [1]
    assert np.ptp(whole["state"].values, axis=1).min() > 0, "every state moves"


def test_no_path():
    tree = run(series(), keep_path="none")
    assert "state" not in tree.posterior
    assert "time" not in tree.posterior.coords
    assert np.array_equal(tree.posterior["sigma"], one_series().posterior["sigma"])


def test_warmup_is_kept_when_asked():
    tree = one_series()
    assert tree["warmup_posterior"].sizes["draw"] == WARMUP
    assert set(tree["warmup_sample_stats"].data_vars) == STATISTICS
    assert np.ptp(tree["warmup_sample_stats/step_size"].to_numpy()) > 0


@pytest.mark.parametrize("tree", [one_series, two_series])
def test_arviz_reads_it_as_it_is(tree):
    import matplotlib as mpl

    mpl.use("Agg")
    import arviz as az
    import matplotlib.pyplot as plt

    table = az.summary(tree(), var_names=["rates", "sigma", "initial_state"])
    assert {"rates[0]", "rates[1]", "sigma"} <= set(table.index)
    assert np.isfinite(np.asarray(table, dtype=float)).all()
    az.plot_trace_dist(tree(), var_names=["rates", "sigma"])
    az.plot_energy(tree())
    plt.close("all")


@pytest.mark.parametrize("kind", ["netcdf", "zarr"])
@pytest.mark.parametrize("tree", [one_series, two_series])
def test_saved_and_loaded(tmp_path, tree, kind):
    saved = tree()
    if kind == "netcdf":
        saved.to_netcdf(tmp_path / "posterior.nc")
        loaded = xr.open_datatree(tmp_path / "posterior.nc")
    else:
        saved.to_zarr(tmp_path / "posterior.zarr", consolidated=False)
        loaded = xr.open_datatree(tmp_path / "posterior.zarr", engine="zarr", consolidated=False)
    with loaded:
        assert set(loaded.children) == set(saved.children)
        for group in saved.children:
            xr.testing.assert_equal(loaded[group].to_dataset(), saved[group].to_dataset())
            for name, variable in saved[group].data_vars.items():
                assert loaded[group][name].dtype == variable.dtype
        assert set(loaded.attrs) == set(saved.attrs)
        for name, value in saved.attrs.items():
            assert np.array_equal(np.asarray(loaded.attrs[name]), np.asarray(value)), name
        assert list(loaded.sample_stats["status"].attrs["meaning"])[1].startswith("1: ")


def altered(**changes: np.ndarray) -> xr.DataTree:
    """A good posterior, but for what is changed: independent draws, no failures."""
    rng = np.random.default_rng(0)
    shape = (4, 500)
    posterior = {
        "sigma": (("chain", "draw"), rng.normal(size=shape)),
        "rates": (("chain", "draw", "rates_dim_0"), rng.normal(size=(*shape, 2))),
        "level": (("chain", "draw"), np.full(shape, 0.4)),
        "initial_state": (("chain", "draw", "component"), rng.normal(size=(*shape, 2))),
    }
    for name in changes.keys() & posterior.keys():
        posterior[name] = (posterior[name][0], changes[name])
    status, lp = changes.get("status", np.zeros(shape, dtype=int)), changes.get("lp", rng.normal(size=shape))
    diverging = changes.get("diverging", np.zeros(shape, dtype=bool))
    solved = changes.get("newton_iterations", np.full(shape, 3.0))
    found = {"status": status, "lp": lp, "diverging": diverging, "newton_iterations": solved}
    statistics = xr.Dataset({name: (("chain", "draw"), each) for name, each in found.items()})
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(posterior), "sample_stats": statistics})
    tree.attrs["target_acceptance"] = 0.95
    return tree


NAMES = ["rates", "level", "sigma"]


def test_a_good_posterior_gives_no_warning():
    warn_of_trouble(altered(), NAMES)


def test_a_parameter_that_has_not_converged_is_named():
    rates = np.random.default_rng(1).normal(size=(4, 500, 2))
    rates[0, :, 1] += 2.0
    with pytest.warns(
        UserWarning, match=r"^rates\[1\] has not converged: R-hat is \d\.\d+, above 1\.01; run more draws"
    ):
        warn_of_trouble(altered(rates=rates), NAMES)


def test_a_parameter_with_few_effective_draws_is_named():
    sigma = np.repeat(np.random.default_rng(2).normal(size=(4, 50)), 10, axis=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_trouble(altered(sigma=sigma), NAMES)
    (text,) = [str(w.message) for w in caught]
    assert text.startswith(("sigma has few effective draws", "sigma has not converged"))


def test_chains_that_stand_still_are_named():
    sigma = np.repeat(np.arange(4.0)[:, None], 500, axis=1)
    with pytest.warns(UserWarning, match=r"^chains have found different modes") as caught:
        warn_of_trouble(altered(sigma=sigma), NAMES)
    assert "converged" not in str(caught[0].message), "to run more draws is no remedy"


@pytest.mark.parametrize("name", ["sigma", "lp"])
def test_draws_that_are_no_numbers_are_named(name):
    values = np.random.default_rng(3).normal(size=(4, 500))
    values[2, 7:] = np.nan
    with pytest.warns(UserWarning, match=f"^{name} is not finite in some of the draws: the model is not defined"):
        warn_of_trouble(altered(**{name: values}), NAMES)


def test_one_warning_names_all_that_is_amiss_the_worst_first():
    rng = np.random.default_rng(4)
    status, rates = np.zeros((4, 500), dtype=int), rng.normal(size=(4, 500, 2))
    status[:, :50] = NOT_CONVERGED
    rates[0] += 0.5
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_trouble(altered(status=status, rates=rates), NAMES)
    (text,) = [str(w.message) for w in caught]
    assert text.startswith("2 things are amiss, the worst first: (1) 10.0 % of the trajectories failed")
    assert re.search(r"\(2\) rates\[[01]\] has not converged: R-hat is .* \(so are rates\[[01]\]\); run more", text)


def test_chains_in_different_modes_are_told_apart():
    """One chain of four elsewhere, with tiny steps: which, where, and by how much."""
    rng = np.random.default_rng(5)
    sigma, steps = 5.5 + rng.normal(size=(4, 500)), np.full((4, 500), 0.3)
    sigma[2] += 6.8
    steps[2] = 0.02
    tree = altered(sigma=sigma)
    tree["sample_stats"] = tree.sample_stats.to_dataset().assign(step_size=(("chain", "draw"), steps))
    with pytest.warns(
        UserWarning,
        match=r"chains have found different modes: chain 2 has sigma about 12\.\d where others have 5\.\d+, steps of "
        r"0\.02 where others have 0\.3\. .* sample with pf\.ReplicaExchange\(\), which gives every mode its share",
    ):
        warn_of_trouble(tree, NAMES)
    for group in ("posterior", "sample_stats"):
        tree[group] = tree[group].to_dataset().assign_coords(chain=[1, 2, 5, 7])
    with pytest.warns(UserWarning, match="different modes: chain 5 has sigma"):
        warn_of_trouble(tree, NAMES)
    with pytest.warns(UserWarning, match=r"different modes.*sigma has not converged"):  # a few draws are too few anyway
        warn_of_trouble(tree.isel(draw=slice(0, 10)), NAMES)


@pytest.mark.parametrize(("step", "solved"), [(0.03, 3.0), (0.3, 3.0), (0.03, 0.0)])
def test_a_likelihood_that_keeps_steps_short_is_named(step, solved):
    """Steps on the manifold alone, which take iterations of Newton's method: others are short anyway."""
    tree = altered(newton_iterations=np.full((4, 500), solved))
    steps = (("chain", "draw"), np.full((4, 500), step))
    tree["sample_stats"] = tree.sample_stats.to_dataset().assign(step_size=steps)
    warn_of_trouble(tree, NAMES)  # of rows nothing is said
    tree.attrs["plain_factors"] = ["cases", "y[1]"]
    if step == 0.03 and solved:
        with pytest.warns(UserWarning, match=r"^steps are short \(0\.03\), and the likelihood of cases, y\[1\] enters"):
            warn_of_trouble(tree, NAMES)
    else:
        warn_of_trouble(tree, NAMES)


def test_a_single_chain_that_stands_still_is_named():
    lp = np.random.default_rng(3).normal(size=(4, 500))
    lp[2] = -3.0
    tree = altered(lp=lp)
    with pytest.warns(UserWarning, match=r"^chain 2 stood still: 0\.0 % of its draws differ"):
        warn_of_trouble(tree, NAMES)
    for group in ("posterior", "sample_stats"):
        tree[group] = tree[group].to_dataset().assign_coords(chain=[1, 2, 5, 7])
    with pytest.warns(UserWarning, match=r"^chain 5 stood still"):
        warn_of_trouble(tree, NAMES)


def test_moves_that_cannot_be_made_are_named():
    tree = altered(status=np.tile([0, 4], (4, 250)))
    del tree.attrs["target_acceptance"]
    sentence = r"^50\.0 % of the draws had no move that could be made, .* not finite: take more steps_per_interval$"
    with pytest.warns(UserWarning, match=sentence):
        warn_of_trouble(tree, NAMES)


def test_the_commonest_cause_of_failures_is_named():
    status = np.zeros((4, 500), dtype=int)
    status[:, :20], status[:, 20:25] = NON_REVERSIBLE, NOT_CONVERGED
    with pytest.warns(
        UserWarning, match=f"^5.0 % of the trajectories failed, most often because {MEANING[NON_REVERSIBLE]}"
    ):
        warn_of_trouble(altered(status=status), NAMES)
    status[:, 5:] = 0
    warn_of_trouble(altered(status=status), NAMES)  # one per cent is no cause for alarm


@pytest.mark.parametrize(("turned", "solved"), [(300, 3.0), (200, 3.0), (300, 0.0)])
def test_walls_that_most_trajectories_meet_are_named(turned, solved):
    tree = altered(newton_iterations=np.full((4, 500), solved))
    failed = np.tile(2 * (np.arange(500) < turned), (4, 1))
    tree["sample_stats"] = tree.sample_stats.to_dataset().assign(n_failed_steps=(("chain", "draw"), failed))
    if turned == 300 and solved:
        with pytest.warns(UserWarning, match=r"^60 % of the trajectories met a wall and turned back: .*logarithm"):
            warn_of_trouble(tree, NAMES)
    else:
        warn_of_trouble(tree, NAMES)


def test_many_divergences_are_told():
    diverging = np.zeros((4, 500), dtype=bool)
    diverging[1, :100] = True
    with pytest.warns(UserWarning, match=r"^5\.0 % of the trajectories diverged"):
        warn_of_trouble(altered(diverging=diverging), NAMES)


def test_a_short_run_warns_at_the_caller():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pf.sample(model(), series(), steps_per_interval=STEPS, chains=2, warmup=20, draws=30, seed=1, progress=False)
    (text,) = [str(w.message) for w in caught]
    assert "rates[0]" in text
    assert all(w.filename == __file__ for w in caught)


def test_names_of_columns_and_an_observed_start_in_the_results():
    s = series()
    frame = pd.DataFrame(s.values, index=s.times, columns=["prey", "hunters"])
    data = [pf.Observations(frame, initial_time=float(s.times[0])), panel()[1]]
    tree = run(data, keep_path="all", draws=5)
    assert tree.observed_data["observation"].values.tolist() == ["prey", "hunters"]
    times, owner = tree.posterior["time"].values, tree.posterior["node_series"].values
    assert np.sum(times[owner == 0] == s.times[0]) == 1  # once, not after each of the steps that do not move
    assert np.all(np.diff(times[owner == 0]) > 0.0)
    assert np.sum(owner == 0) == 1 + 9 * STEPS
    assert np.sum(owner == 1) == 4 * STEPS
    start = tree.posterior["initial_state"].isel(series=0)
    np.testing.assert_allclose(tree.posterior["state"].isel(node=0), start, atol=1e-8)
