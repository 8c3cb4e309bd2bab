"""pf.refine: the fit, when it stops, what it says; and steps_per_interval="auto"."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.errors import InitialisationError
from pathfold.inference.refine import Refinement, fitted, surely

TIMES = 0.8 * np.arange(1, 61)
pytestmark = pytest.mark.filterwarnings("ignore:(.*) has (not converged|few effective draws)")


@cache
def model(scheme: Any = None) -> pf.DiffusionModel:
    """Ornstein and Uhlenbeck's; one step of Euler and Maruyama's scheme between observations is far too few."""
    return pf.DiffusionModel(
        drift=lambda x, z: -1.2 * x,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={"sigma": dist.LogNormal(0.0, 0.5)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.Noiseless(lambda x, z: x),
        scheme=scheme,
    )


@cache
def data() -> pf.Observations:
    return pf.simulate(model(), {"sigma": 0.7}, TIMES, steps_per_interval=400, seed=4)


@cache
def found() -> Refinement:
    return pf.refine(model(), data(), steps_per_interval=1, draws=600, seed=1, progress=False)


def exact_mean(steps: float) -> float:
    """Of sigma given the data: increments are normal, with variances known but for sigma, on a grid of its values."""
    sigma = np.linspace(0.3, 2.0, 4001)
    x = np.append(0.0, data().values[:, 0])
    if np.isinf(steps):
        decay, variance = np.exp(-1.2 * 0.8), (1 - np.exp(-2 * 1.2 * 0.8)) / 2.4
    else:
        a = 1 - 1.2 * 0.8 / steps
        decay, variance = a**steps, 0.8 / steps * np.sum(a ** (2 * np.arange(steps)))
    residuals = x[2:] - decay * x[1:-1]
    log_density = -0.5 * np.sum(residuals**2) / (sigma**2 * variance) - len(residuals) * np.log(sigma)
    start = sigma**2 * variance + decay**2  # of the first value, whose initial state has variance 1
    log_density += -0.5 * x[1] ** 2 / start - 0.5 * np.log(start)
    log_density += -0.5 * (np.log(sigma) / 0.5) ** 2 - np.log(sigma)
    weights = np.exp(log_density - log_density.max())
    return float(np.sum(weights * sigma) / np.sum(weights))


def test_the_fit_finds_the_limit():
    steps = np.array([4.0, 8.0, 16.0])
    for order in (1.0, 2.0):
        limit, remains, error = fitted(3.0 + 2.0 * steps**-order, np.full(3, 0.1), steps, order)
        assert limit == pytest.approx(3.0)
        assert remains == pytest.approx(2.0 * 16.0**-order)
    rng = np.random.default_rng(1)
    noisy = [fitted(3.0 + 2.0 / steps + 0.1 * rng.normal(size=3), np.full(3, 0.1), steps, 1.0) for _ in range(2000)]
    spread = np.std([fit[1] for fit in noisy])
    _, _, error = noisy[0]
    assert spread == pytest.approx(error, rel=5 * (2 * 2000) ** -0.5), "its error is what it says"


def test_every_level_has_its_exact_posterior_and_the_limit_is_extrapolated():
    table = found().table.loc["sigma"]
    for steps, row in table.iterrows():
        error = row["sd"] / np.sqrt(500)  # at least a fifth of the 2400 draws are effective
        assert abs(row["mean"] - exact_mean(int(steps))) < 4.5 * error, steps  # type: ignore[arg-type]
    last = table.iloc[-1]
    limit = exact_mean(np.inf)
    assert abs(last["extrapolated"] - limit) < 4.5 * last["sd"] * last["uncertainty"] + 0.02 * last["sd"]
    remains = abs(exact_mean(found().steps[-1]) - limit) / last["sd"]
    assert remains < found().tolerance
    assert abs(last["remains"] - remains) < 4.5 * last["uncertainty"]


def test_it_stops_by_itself_and_says_why():
    result = found()
    assert result.enough
    assert len(result.steps) >= 3
    assert result.steps == tuple(2**k for k in range(len(result.steps)))
    assert result.posterior.attrs["steps_per_interval"] == result.steps[-1]
    assert result.verdict.startswith(f"{result.steps[-1]} fine steps are enough: from")
    assert "sigma" in str(result)
    few = pf.refine(model(), data(), steps_per_interval=1, draws=300, doublings=1, progress=False)
    assert not few.enough
    assert "2 fine steps are not enough" in few.verdict
    rough = pf.refine(model(), data(), steps_per_interval=16, draws=30, tolerance=0.01, progress=False)
    assert not rough.enough
    assert "as far as these draws tell" in rough.verdict


def test_a_scheme_of_higher_order_needs_fewer_steps():
    better = pf.refine(model(pf.StrongOrder1p5()), data(), steps_per_interval=1, draws=600, seed=1, progress=False)
    assert better.order == 2.0
    assert better.enough
    assert better.steps[-1] < found().steps[-1]


def test_a_custom_scheme_has_no_known_order():
    def step(x, z, v, delta, t):
        return x - 1.2 * delta * x + jnp.sqrt(delta) * z["sigma"] * v

    custom = model(pf.CustomScheme(step, 1))
    result = pf.refine(custom, data(), steps_per_interval=8, draws=200, doublings=1, progress=False)
    assert result.order is None
    last = result.table.loc["sigma"].iloc[-1]
    assert last["remains"] == last["change"]
    assert last["extrapolated"] == last["mean"]


def test_it_begins_with_as_many_steps_as_there_are_starts_for(monkeypatch):
    module, seen = import_module("pathfold.inference.refine"), []

    def sample(model, data, *, steps_per_interval, **settings):
        seen.append(steps_per_interval)
        if steps_per_interval < 8:
            raise InitialisationError("no start")
        return pf.sample(model, data, steps_per_interval=steps_per_interval, **settings)

    monkeypatch.setattr(module, "sample", sample)
    result = pf.refine(model(), data(), draws=50, doublings=3, tolerance=10.0, progress=False)
    assert seen == [2, 4, 8, 16]
    assert result.steps == (8, 16)


def test_auto_goes_on_from_the_pilot_runs(tmp_path):
    tree = pf.sample(model(), data(), steps_per_interval="auto", draws=100, seed=2, progress=False, checkpoint=tmp_path)
    steps = tree.attrs["steps_per_interval"]
    remains = abs(exact_mean(steps) - exact_mean(np.inf)) / float(tree.posterior["sigma"].std())
    assert 4 <= steps <= 64
    assert remains < 0.4
    assert tree.attrs["start"] != "none"
    assert (tmp_path / f"steps_{steps}").is_dir()
    again = pf.sample(
        model(), data(), steps_per_interval="auto", draws=100, seed=2, progress=False, checkpoint=tmp_path
    )
    np.testing.assert_array_equal(tree.posterior["sigma"], again.posterior["sigma"])


def test_a_picture_of_it():
    figure = pf.plot_refinement(found())
    (ax,) = figure.axes
    assert ax.get_title() == "sigma"
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(steps) for steps in found().steps]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_step": 0.1}, "has no use for max_step"),
        ({"tolerance": 0.0}, "tolerance must be a positive number"),
        ({"doublings": 0}, "doublings must be a whole number of at least 1"),
        ({"steps_per_interval": "auto"}, "steps_per_interval must be a whole number"),
    ],
)
def test_settings_are_checked(settings, sentence):
    with pytest.raises(pf.SettingsError, match=sentence):
        pf.refine(model(), data(), **settings)


RATES = [0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 3.0]


@cache
def decays() -> tuple[pf.DiffusionModel, dict[str, pf.Observations]]:
    """Each series has its own rate; one step is too few for the fastest alone."""
    found = pf.DiffusionModel(
        drift=lambda x, z: -z["k"] * x,
        diffusion=lambda x, z: jnp.full((1, 1), 0.02),
        parameters={"centre": dist.Normal(0.0, 1.0), "k": pf.Varying(lambda z: dist.LogNormal(z["centre"], 1.0))},
        initial_state=[1.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.02),
    )
    times, rng = np.array([0.25, 0.5, 0.75, 1.0, 1.5, 2.0]), np.random.default_rng(2)
    return found, {f"r{r}": pf.Observations(times, np.exp(-r * times) + 0.03 * rng.normal(size=6)) for r in RATES}


def test_what_varies_decides_how_many_steps_are_enough():
    fitted_model, panel = decays()
    result = pf.refine(fitted_model, panel, steps_per_interval=2, doublings=2, draws=200, progress=False)
    assert result.steps == (2, 4, 8), "the shared parameter does not change"
    last = result.table.xs(8, level="steps")
    assert last.loc["centre", "change"] < 0.3
    assert last.loc["k[r3.0]", "change"] > 0.8
    assert "not enough: from 4 to 8 fine steps k[r3.0] changed by" in result.verdict


def test_chance_in_many_series_is_no_change(monkeypatch):
    """Of 2000 numbers some change by more than two standard errors; only more draws would tell whether they do."""
    module, rng = import_module("pathfold.inference.refine"), np.random.default_rng(1)
    seen: list[int] = []

    def sample(*_: Any, steps_per_interval: int, **__: Any) -> xr.DataTree:
        seen.append(steps_per_interval)
        effect = xr.Dataset({"effect": (("chain", "draw", "series"), rng.normal(size=(2, 100, 2000)))})
        tree = xr.DataTree.from_dict({"posterior": effect})
        tree.attrs["priors"] = '{"effect": null}'
        return tree

    monkeypatch.setattr(module, "sample", sample)
    monkeypatch.setattr(module, "warn_of_trouble", lambda *_, **__: None)
    result = pf.refine(model(), data(), progress=False)
    assert seen == [2, 4]
    assert "as far as these draws tell" in result.verdict
    assert surely(1) == pytest.approx(2.0)
    text = str(result)
    assert text.count("effect[") == 1 + 20
    assert "and 1980 more" in text
    assert len(result.worst(16)) == 16
    from pathfold.analysis.plots.many_runs_plot import plot_refinement

    assert len(plot_refinement(result).axes) == 16
