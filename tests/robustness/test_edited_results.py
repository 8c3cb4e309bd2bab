"""Results that were edited, sliced, saved, joined, or are of another model, through every function after the posterior.

What comes out is right, which is to say what the same draws give as they were made, or there is a sentence: never
anything else without a word.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, reduce
from inspect import unwrap
from itertools import product
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from tests.analysis import rich
from tests.once import once
from tests.thorough import sparing, thorough

TIMES = np.arange(1.0, 7.0)
VALUES = np.stack([1.0 + 0.1 * np.sin(TIMES), 5.0 - TIMES], axis=1)
PARTS: dict[str, Any] = {
    "drift": lambda x, z: jnp.array([x[1] - x[0], -z["k"] * x[1]]) + z["shift"],
    "diffusion": lambda x, z: jnp.diag(jnp.array([0.3, 1.0])),
    "parameters": {"k": dist.LogNormal(0.0, 0.5), "shift": dist.Normal(jnp.zeros(2), 0.3)},
    "initial_state": dist.Normal(jnp.array([0.0, 5.0]), 1.0),
    "observation": pf.GaussianNoise(lambda x, z: x, np.array([0.1, 0.2])),
    "states": ("near", "far"),
    "observed": ("gauge", "probe"),
}


@once
def model(**changes: Any) -> pf.DiffusionModel:
    return pf.DiffusionModel(**PARTS | changes)


MODEL, DATA = model(), pf.Observations(TIMES, VALUES)


def sampled(model: pf.DiffusionModel = MODEL, data: Any = DATA, **settings: Any) -> xr.DataTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pf.sample(
            model,
            data,
            **{"steps_per_interval": 2, "chains": 3, "warmup": 40, "draws": 20, "progress": False, "seed": 1}
            | settings,
        )


@cache
def single() -> xr.DataTree:
    return sampled()


Edit = Callable[[xr.Dataset], xr.Dataset]


def every(tree: xr.DataTree, edit: Edit, *groups: str) -> xr.DataTree:
    """The results with these groups, or all, edited."""
    found = {str(name): child.to_dataset() for name, child in tree.children.items()}
    edited = {f"/{name}": edit(each) if name in groups or not groups else each for name, each in found.items()}
    out = xr.DataTree.from_dict(edited)
    out.attrs = dict(tree.attrs)
    return out


def along(dim: str, places: Any) -> Edit:
    return lambda dataset: dataset.isel({dim: places}) if dim in dataset.dims else dataset


BACKWARD = slice(None, None, -1)
# Edits after which the results still say all that they said.
HARMLESS: dict[str, Callable[[xr.DataTree], xr.DataTree]] = {
    "draws before chains": lambda t: every(t, lambda d: d.transpose("draw", "chain", ...), "posterior"),
    "all dimensions backward": lambda t: every(t, lambda d: d.transpose(*reversed([*d.dims]))),
    "components backward": lambda t: every(t, along("component", BACKWARD)),
    "components of the posterior backward": lambda t: every(t, along("component", BACKWARD), "posterior"),
    "observed components backward": lambda t: every(t, along("observation", BACKWARD)),
    "times backward": lambda t: every(every(t, along("time", BACKWARD)), along("node", BACKWARD)),
    "times of the posterior shuffled": lambda t: every(t, _shuffled, "posterior"),
    "series backward": lambda t: every(t, along("series", BACKWARD)),
    "a copy": lambda t: t.copy(deep=True),
    "much at once": lambda t: reduce(lambda tree, edit: HARMLESS[edit](tree), MUCH, t),
}
MUCH = (
    "all dimensions backward",
    "components of the posterior backward",
    "observed components backward",
    "times of the posterior shuffled",
    "series backward",
)


def _shuffled(dataset: xr.Dataset) -> xr.Dataset:
    dim = "node" if "node" in dataset.dims else "time"
    return dataset.isel({dim: np.random.default_rng(3).permutation(dataset.sizes[dim])})


def saved(folder: Path, kind: str) -> Callable[[xr.DataTree], xr.DataTree]:
    def again(tree: xr.DataTree) -> xr.DataTree:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "zarr":
                tree.to_zarr(folder / "results.zarr")
                return xr.open_datatree(folder / "results.zarr", engine="zarr").load()
            tree.to_netcdf(folder / "results.nc")
            return xr.load_datatree(folder / "results.nc") if hasattr(xr, "load_datatree") else _loaded(folder)

    return again


def _loaded(folder: Path) -> xr.DataTree:
    with xr.open_datatree(folder / "results.nc") as tree:
        return tree.load()


# By name, what a function makes of results, as arrays.
AFTER: dict[str, Callable[[pf.DiffusionModel, Any, xr.DataTree], Any]] = {
    "predict": lambda m, d, t: pf.predict(m, t, [9.0, 10.0], seed=3).predictions["y"],
    "predict at a node": lambda m, d, t: pf.predict(m, t, [1.5, 2.0]).predictions["state"],
    "predict what is set": lambda m, d, t: pf.predict(m, t, [9.0], set=_doubled(t)).predictions["state"],
    "posterior_predictive": lambda m, d, t: pf.posterior_predictive(m, t).posterior_predictive["y"],
    "from parameters": lambda m, d, t: pf.posterior_predictive(m, t, given="parameters").posterior_predictive["y"],
    "log_likelihood": lambda m, d, t: pf.log_likelihood(m, d, t).log_likelihood["y"],
    "check": lambda m, d, t: pf.check(t).table["p_value"].to_numpy(),
    "start": lambda m, d, t: sampled(m, d, start=t, warmup=0, draws=2, chains=2).posterior["initial_state"],
    "plot_paths": lambda m, d, t: _drawn(pf.plot_paths(t)),
}


def _doubled(tree: xr.DataTree) -> dict[str, Any]:
    name = "k" if "k" in tree.posterior else "sigma"
    return {name: 2.0 * tree.posterior[name]}


def _drawn(figure: Any) -> np.ndarray:
    """All coordinates in a picture."""
    lines = [line.get_xydata() for ax in figure.axes for line in ax.lines]
    bands = [path.vertices for ax in figure.axes for band in ax.collections for path in band.get_paths()]
    return np.concatenate([np.asarray(each, dtype=float) for each in (*lines, *bands)])


def as_made(found: Any) -> np.ndarray:
    return found.values if isinstance(found, xr.DataArray) else np.asarray(found)


RESULTS: dict[str, Callable[[], tuple[pf.DiffusionModel, Any, xr.DataTree]]] = {
    "single": lambda: (MODEL, DATA, single()),
    "panel": lambda: (rich.model(), rich.panel(), rich.run()),
}


@cache
def expected(results: str, function: str) -> np.ndarray:
    return as_made(AFTER[function](*RESULTS[results]()))


EDITS = [*HARMLESS, "netcdf", "zarr"]
QUICK = [("single", "zarr"), ("panel", "much at once")]


@pytest.mark.parametrize(("results", "edit"), thorough(product(RESULTS, EDITS), *QUICK))
@pytest.mark.filterwarnings("ignore:.*(failed|stood still|not finite|depend on the time step|have a fine step)")
def test_results_are_read_by_name(tmp_path, results, edit):
    """The order of dimensions and coordinates, and a file between, change nothing; what is saved has much edited."""
    model, data, tree = RESULTS[results]()
    edited = HARMLESS[edit](tree) if edit in HARMLESS else saved(tmp_path, edit)(HARMLESS["much at once"](tree))
    for function, call in AFTER.items():
        found = as_made(call(model, data, edited))
        np.testing.assert_array_equal(found, expected(results, function), err_msg=function)


@pytest.mark.parametrize("picked", [{"chain": [2, 0]}, {"draw": slice(5, None, 2)}, {"draw": [11, 3]}])
def test_selected_chains_and_draws_are_those(picked):
    part = every(single(), lambda d: d.isel(picked), "posterior", "sample_stats")
    whole = pf.log_likelihood(MODEL, DATA, single()).log_likelihood["y"]
    found = pf.log_likelihood(MODEL, DATA, part).log_likelihood["y"]
    np.testing.assert_array_equal(found, whole.isel(picked))
    assert found["draw"].values.tolist() == whole.isel(picked)["draw"].values.tolist()
    at_nodes = pf.predict(MODEL, part, [2.0, 3.0]).predictions["state"]
    np.testing.assert_array_equal(at_nodes, single().posterior["state"].sel(time=[2.0, 3.0]).isel(picked))


def test_a_component_is_drawn_with_its_own_data():
    far = every(single(), along("component", [1]), "posterior")
    np.testing.assert_array_equal(_drawn(pf.plot_paths(far)), _drawn(pf.plot_paths(single(), ["far"])))


def test_a_start_takes_what_belongs_to_its_chains():
    part = every(single(), lambda d: d.isel(chain=[2]) if "chain" in d.dims else d)
    settings: dict[str, Any] = {"warmup": 0, "draws": 1, "chains": 3}
    whole, one = sampled(start=single(), **settings), sampled(start=part, **settings)
    assert one.attrs["integration_times"] == 3 * [whole.attrs["integration_times"][2]]
    assert one.sample_stats["step_size"].values[0] == whole.sample_stats["step_size"].values[2]


def test_a_start_of_chains_that_its_run_did_not_make():
    renamed = every(
        single(), lambda d: d.assign_coords(chain=["a", "b", "c"][: d.sizes["chain"]]) if "chain" in d.dims else d
    )
    with pytest.raises(pf.SettingsError, match="has a chain 'a' that its run did not make"):
        sampled(start=renamed, warmup=0, draws=1)


BROKEN: dict[str, tuple[Callable[[xr.DataTree], xr.DataTree], str]] = {
    "one chain": (lambda t: every(t, lambda d: d.isel(chain=0) if "chain" in d.dims else d), "no dimension 'chain'"),
    "one draw": (lambda t: every(t, lambda d: d.isel(draw=0) if "draw" in d.dims else d), "no dimension 'draw'"),
    "no draws": (lambda t: every(t, along("draw", slice(0, 0))), "has no draws"),
    "stacked": (
        lambda t: every(t, lambda d: d.stack(sample=("chain", "draw")), "posterior"),
        "the group 'posterior' of .* has no dimension 'chain': unstack",
    ),
    "runs joined": (
        lambda t: every(t, lambda d: xr.concat([d, d], "chain", data_vars="all") if "chain" in d.dims else d),
        "has the chain 0 twice: number what was joined anew",
    ),
    "without attributes": (lambda t: _without_attributes(t), "has no attribute 'labels'"),
    "fewer times": (lambda t: every(t, along("time", slice(0, 4)), "posterior"), "has no states at t = 5"),
    "a time twice": (lambda t: every(t, along("time", [0, 0, 1, 2, 3, 4, 5]), "posterior"), "or one of them twice"),
    "other names": (
        lambda t: every(t, lambda d: d.assign_coords(component=["near", "else"]), "posterior"),
        "has as component 'else', which model and data do not have",
    ),
}


def _without_attributes(tree: xr.DataTree) -> xr.DataTree:
    out = tree.copy()
    out.attrs = {}
    return out


@pytest.mark.parametrize("edit", BROKEN)
def test_what_is_missing_is_named(edit):
    broken, sentence = BROKEN[edit]
    # setting a parameter to what the draws are needs them before anybody looks at the results
    spared = ("predict what is set",) if edit in ("one chain", "one draw", "no draws", "stacked") else ()
    tree = broken(single())
    for function, call in AFTER.items():
        if function not in spared:
            with pytest.raises(pf.SettingsError, match=sentence):
                call(MODEL, DATA, tree)


OTHER_MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "drift": ({"drift": lambda x, z: 100.0 - z["k"] * x + z["shift"]}, "another drift"),
    "diffusion": ({"diffusion": lambda x, z: jnp.diag(jnp.array([0.3, 1.1]))}, "another diffusion"),
    "prior": ({"parameters": PARTS["parameters"] | {"k": dist.LogNormal(0.0, 0.6)}}, "another prior of 'k'"),
    "fixed": ({"parameters": PARTS["parameters"] | {"k": 7.0}}, "another prior of 'k'"),
    "varying": ({"parameters": PARTS["parameters"] | {"k": pf.Varying(dist.LogNormal())}}, "another prior of 'k'"),
    "noise": ({"observation": pf.GaussianNoise(lambda x, z: x, np.array([0.1, 9.0]))}, "another observation"),
    "initial state": ({"initial_state": dist.Normal(jnp.array([0.0, 5.0]), 2.0)}, "another initial_state"),
    "scheme": ({"scheme": pf.StrongOrder1p5()}, "another scheme"),
    "accumulators": ({"accumulators": "near"}, "another accumulators"),
    "names": ({"states": ("far", "near")}, "another names of the states"),
    "parameters": ({"parameters": PARTS["parameters"] | {"b": 1.0}}, "its parameters are k, shift, and this one's"),
}
OF_A_MODEL = ("predict", "posterior_predictive", "from parameters", "log_likelihood")


@pytest.mark.parametrize("change", OTHER_MODELS)
def test_results_of_another_model_are_refused(change):
    changes, sentence = OTHER_MODELS[change]
    other = model(**changes)
    for function in OF_A_MODEL:
        with pytest.raises(pf.SettingsError, match=f"posterior is of another model.*{sentence}"):
            AFTER[function](other, DATA, single())


def test_the_same_model_made_again_is_the_same():
    for function in OF_A_MODEL:
        np.testing.assert_array_equal(
            as_made(AFTER[function](unwrap(model)(), DATA, single())), expected("single", function)
        )


def test_results_of_other_versions_are_compared_by_text():
    older = single().copy()
    older.attrs = single().attrs | {"jax_version": "0.1", "model_key": "{}"}
    AFTER["predict"](MODEL, DATA, older)
    changes, sentence = OTHER_MODELS["drift"]
    with pytest.raises(pf.SettingsError, match=sentence):
        AFTER["predict"](model(**changes), DATA, older)


EVENTS: dict[str, Any] = {
    "inputs": {"u": pf.Input([0.0, 9.0], [0.0, 0.0])},
    "drift": lambda x, z, t, inputs: inputs["u"] - z["k"] * x + z["shift"],
    "events": {"dose": lambda x, z, amount: x + amount},
}


def series(**changes: Any) -> pf.Observations:
    given: dict[str, Any] = {
        "times": TIMES,
        "values": VALUES,
        "events": {"dose": ([2.5], 0.1)},
        "inputs": {"u": pf.Input([0.0, 9.0], [0.0, 0.0])},
        "censored": np.where(VALUES > 3.5, 1, 0),
    }
    return pf.Observations(**given | changes)


OTHER_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "values": ({"values": VALUES + np.eye(6, 2)}, "values are not the same at t = 1"),
    "missing": ({"values": np.where(np.eye(6, 2) > 0, np.nan, VALUES), "censored": None}, "values are not the same"),
    "times": ({"times": TIMES + 0.1}, "times are not the same at t = 1.1"),
    "fewer times": ({"times": TIMES[:5], "values": VALUES[:5], "censored": None}, "more or fewer times"),
    "initial time": ({"initial_time": -50.0, "inputs": {"u": pf.Input([-50.0, 9.0], [0.0, 0.0])}}, "the input 'u'"),
    "initial time alone": ({"initial_time": 0.5}, "initial_time is not the same"),
    "amounts": ({"events": {"dose": ([2.5], 0.9)}}, "events 'dose' are not the same at t = 2.5"),
    "no events": ({"events": None}, "more or fewer times"),
    "inputs": ({"inputs": {"u": pf.Input([0.0, 9.0], [0.7, 0.7])}}, "the input 'u' of series 0 is another"),
    "censoring": ({"censored": np.where(VALUES > 2.5, 1, 0)}, "censored values are not the same at t = 2"),
    "a name": ({"name": "b"}, "their series are b, and those of posterior 0"),
}


@cache
def eventful() -> tuple[pf.DiffusionModel, xr.DataTree]:
    of_events = model(**EVENTS)
    return of_events, sampled(of_events, series(), draws=5)


@pytest.mark.parametrize("change", OTHER_DATA)
def test_other_data_are_refused_by_what_differs(change):
    changes, sentence = OTHER_DATA[change]
    of_events, tree = eventful()
    assert np.isfinite(pf.log_likelihood(of_events, series(), tree).log_likelihood["y"]).all()
    calls: list[Callable[[Any], Any]] = [
        lambda data: pf.log_likelihood(of_events, data, tree),
        lambda data: pf.evidence(of_events, data, tree, draws=10, particles=2),
    ]
    for call in calls:
        with pytest.raises(pf.DataError, match=f"the data are not those that posterior is of: .*{sentence}"):
            call(series(**changes))


@cache
def closure(constant: float) -> pf.DiffusionModel:
    return model(drift=lambda x, z: constant - z["k"] * x + z["shift"])


UNJOINED: dict[str, tuple[Callable[[], xr.DataTree], str]] = {
    "another closure": (lambda: sampled(closure(3.0), seed=2), "their models have another drift"),
    "accumulators": (
        lambda: sampled(model(accumulators="near"), seed=2),
        "another .*accumulators",
    ),
    "part of itself": (lambda: every(_zero(), along("draw", slice(10, None))), "have a draw in common"),
    "thinned": (lambda: every(_zero(), along("draw", slice(1, None, 3))), "have a draw in common"),
    "other values": (lambda: sampled(closure(0.0), pf.Observations(TIMES, VALUES + 1.0), seed=2), "are of other data"),
    "a deterministic": (
        lambda: sampled(closure(0.0), seed=2, deterministics={"a": lambda z: z["k"]}),
        "not both have 'a'",
    ),
}


@pytest.mark.parametrize("other", sparing(UNJOINED, "another closure"))  # like the accumulators, of another model
@pytest.mark.filterwarnings("ignore:.*(converged|effective draws|amiss)")
def test_what_is_not_of_one_posterior_is_not_joined(other):
    make, sentence = UNJOINED[other]
    with pytest.raises(pf.SettingsError, match=sentence):
        pf.combine([_zero(), make()])


@cache
def _zero() -> xr.DataTree:
    return sampled(closure(0.0))


@pytest.mark.filterwarnings("ignore:.*(converged|effective draws|amiss)")
def test_deterministics_of_one_name_are_the_same_function():
    runs = [sampled(seed=i, draws=5, deterministics={"a": f}) for i, f in enumerate((_once, _once, _twice))]
    assert pf.combine(runs[:2]).posterior.sizes["chain"] == 6
    with pytest.raises(pf.SettingsError, match="the deterministic 'a' is another function there"):
        pf.combine([runs[0], runs[2]])


def _once(z):
    return z["k"]


def _twice(z):
    return 2.0 * z["k"]


@pytest.mark.filterwarnings("ignore:.*(converged|effective draws|amiss)")
def test_edited_runs_are_joined_by_name():
    other = sampled(seed=2)
    joined = pf.combine([single(), HARMLESS["all dimensions backward"](HARMLESS["components backward"](other))])
    np.testing.assert_array_equal(joined.posterior["state"][3:], other.posterior["state"])
    chosen = pf.combine([single(), every(other, along("chain", [2]))])
    assert chosen.attrs["integration_times"] == [
        *single().attrs["integration_times"],
        other.attrs["integration_times"][2],
    ]


def test_values_that_are_set_go_by_their_dimensions():
    tree = single()
    values = 0.2 + 0.1 * tree.posterior["chain"] + 0.001 * tree.posterior["draw"] + 0.0 * tree.posterior["k"]

    def states(value: Any) -> np.ndarray:
        return pf.predict(MODEL, tree, [9.0], set={"k": value}).predictions["state"].values

    straight = states(values.transpose("chain", "draw"))
    np.testing.assert_array_equal(states(values.transpose("draw", "chain")), straight)
    np.testing.assert_array_equal(states(values.isel(chain=[2, 0, 1], draw=BACKWARD)), straight)
    with pytest.raises(pf.ModelError, match="'k' was set for other draws than those of the posterior"):
        states(values.isel(draw=slice(0, 5)))


def test_dates_of_the_data_are_dates_of_predictions(tmp_path):
    dates = np.datetime64("2024-03-01") + np.arange(6).astype("m8[D]")
    of_dates = pf.Observations(dates, VALUES, initial_time=np.datetime64("2024-02-29"), unit="days")
    tree = saved(tmp_path, "netcdf")(sampled(data=of_dates, draws=5))
    ahead = np.array(["2024-03-10", "2024-03-12T12"], "M8[h]")
    found = pf.predict(MODEL, tree, ahead)
    assert found.predictions["time"].values.tolist() == [10.0, 12.5]
    np.testing.assert_array_equal(found.predictions["date"].values, ahead)
    np.testing.assert_array_equal(found.predictions["y"], pf.predict(MODEL, tree, [10.0, 12.5]).predictions["y"])
    new = pf.predict(MODEL, tree, ahead, new_series=True, initial_time=np.datetime64("2024-03-09"))
    np.testing.assert_array_equal(new.predictions["date"].values, ahead)
    with pytest.raises(pf.DataError, match="times are dates, but the times of the series are numbers"):
        pf.predict(MODEL, single(), ahead)


def test_arguments_that_would_be_ignored_are_refused():
    with pytest.raises(pf.SettingsError, match="initial_time is when a new series begins"):
        pf.predict(MODEL, single(), [9.0], initial_time=8.0)
    with pytest.raises(pf.SettingsError, match="series selects among those that were observed"):
        pf.predict(MODEL, single(), [9.0], new_series=True, series=0)
    for odd in (1.0, np.int64(1), "b", True, [0.0], object()):
        with pytest.raises(pf.SettingsError, match="there is no series"):
            pf.predict(MODEL, single(), [9.0], series=odd)  # pyright: ignore[reportArgumentType]


def test_one_parameter_from_a_file(tmp_path):
    """Lists of one come back as numbers from some files."""
    one = model(parameters={"k": dist.LogNormal(0.0, 0.2), "shift": np.zeros(2)})
    tree = saved(tmp_path, "netcdf")(sampled(one, chains=1))
    assert pf.check(tree).draws > 0
    assert pf.report(tree, tmp_path / "report.html").exists()
    assert np.isfinite(pf.predict(one, tree, [9.0]).predictions["y"]).all()
    sampled(one, start=tree, warmup=0, draws=1)
