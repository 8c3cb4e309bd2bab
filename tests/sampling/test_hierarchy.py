"""Panels whose parameters vary between series, through pf.sample: against exact posteriors, and as results."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from tests.once import once
from tests.sampling.comparing import mean_scores, threshold
from tests.sampling.small_run import assert_same_draws
from tests.thorough import thorough

FALSE_ALARMS = 1e-3  # for everything in this file together
SIGMA, TAU, LEVEL = 0.3, 0.2, (1.0, 0.5)
TIMES = [np.array([0.5, 1.0, 1.5, 2.0]), np.array([0.4, 2.0]), np.array([1.0, 1.2, 1.4, 1.6, 1.8])]


@once
def growth(**changes: Any) -> pf.DiffusionModel:
    """dx = rate dt + sigma dW from a level, both of the series' own: Gaussian given the spread of the rates."""
    parts: dict[str, Any] = {
        "drift": lambda x, z: z["rate"][None],
        "diffusion": lambda x, z: jnp.array([[SIGMA]]),
        "parameters": {
            "rate": pf.Varying(lambda z: dist.Normal(z["mean"], z["spread"])),
            "spread": lambda z: dist.LogNormal(z["log_spread"], 0.6),
            "level": pf.Varying(dist.Normal(*LEVEL)),
            "log_spread": -0.7,
            "mean": dist.Normal(0.0, 1.0),
        },
        "initial_state": lambda z: z["level"][None],
        "observation": pf.GaussianNoise(lambda x, z: x, TAU),
    }
    return pf.DiffusionModel(**(parts | changes))


def panel() -> dict[str, pf.Observations]:
    rng = np.random.default_rng(8)
    series = {}
    for k, times in enumerate([*TIMES, *TIMES]):
        values = rng.normal(*LEVEL) + rng.normal(0.6, 0.6) * times + rng.normal(0.0, 0.3, size=times.size)
        series[f"patient {k}"] = pf.Observations(times, values)
    return series


def exact_moments() -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of (log spread, mean, rates, levels): Gaussian conditioning, quadrature over the spread.

    With constant coefficients the Euler-Maruyama path is x(t) = level + rate t + sigma W(t) at the nodes, whatever the
    number of steps.
    """
    data = [*panel().values()]
    K, y = len(data), np.concatenate([each.values[:, 0] for each in data])
    logs = -0.7 + 0.6 * np.linspace(-7.0, 7.0, 401)
    design = np.zeros((y.size, 1 + 2 * K))  # of (mean, rates, levels)
    noise, row = np.zeros((y.size, y.size)), 0
    for k, each in enumerate(data):
        mine = slice(row, row + each.times.size)
        design[mine, 1 + k], design[mine, 1 + K + k] = each.times, 1.0
        noise[mine, mine] = SIGMA**2 * np.minimum.outer(each.times, each.times) + TAU**2 * np.eye(each.times.size)
        row += each.times.size
    centre = np.array([0.0] * (1 + K) + [LEVEL[0]] * K)
    weights, means, covariances = [], [], []
    for log in logs:
        prior = np.zeros((1 + 2 * K, 1 + 2 * K))
        prior[: 1 + K, : 1 + K] = 1.0
        prior[1 : 1 + K, 1 : 1 + K] += np.exp(2 * log) * np.eye(K)
        prior[1 + K :, 1 + K :] = LEVEL[1] ** 2 * np.eye(K)
        gram = design @ prior @ design.T + noise
        gain, misfit = np.linalg.solve(gram, design @ prior).T, y - design @ centre
        likelihood = -0.5 * (misfit @ np.linalg.solve(gram, misfit) + np.linalg.slogdet(gram)[1])
        weights.append(likelihood - 0.5 * ((log + 0.7) / 0.6) ** 2)
        means.append(np.concatenate([[log], centre + gain @ misfit]))
        covariance = np.zeros((2 + 2 * K, 2 + 2 * K))
        covariance[1:, 1:] = prior - gain @ design @ prior
        covariances.append(covariance)
    weight = np.exp(np.array(weights) - max(weights))
    weight /= weight.sum()
    mean = weight @ np.array(means)
    away = np.array(means) - mean
    return mean, np.einsum("g,gij->ij", weight, np.array(covariances)) + (weight[:, None] * away).T @ away


@pytest.mark.parametrize(
    "sampler", thorough([pf.StaticHMC(), pf.UnconstrainedHMC(), pf.GuidedProposals()], pf.StaticHMC())
)
def test_a_hierarchical_panel_against_its_exact_posterior(sampler):
    settings: dict[str, Any] = {"steps_per_interval": 2, "warmup": 300, "draws": 1200, "seed": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few effective draws: their number is in the z-scores
        tree = pf.sample(growth(), panel(), sampler=sampler, keep_path="none", progress=False, **settings)
    mean, covariance = exact_moments()
    draws = tree.posterior
    x = np.stack(
        [
            np.log(draws["spread"].values),
            draws["mean"].values,
            *np.moveaxis(draws["rate"].values, -1, 0),
            *np.moveaxis(draws["level"].values, -1, 0),
        ]
    )
    i, j = np.tril_indices(len(mean))
    away = x - mean[:, None, None]
    scores = np.concatenate([mean_scores(x, mean), mean_scores(away[i] * away[j], covariance[i, j])])
    assert np.abs(scores).max() < threshold(scores.size, FALSE_ALARMS / 6), np.round(scores, 1)


SPREADS, CONCENTRATION = np.array([0.5, 0.6]), 2.0  # of level and rate; of the prior of their correlation


def correlated() -> pf.DiffusionModel:
    """Growth whose level and rate are one vector for each series, with a correlation that all series share."""
    return growth(
        drift=lambda x, z: z["effects"][1:],
        parameters={
            "effects": pf.Varying(
                lambda z: dist.MultivariateNormal(z["means"], scale_tril=SPREADS[:, None] * z["correlation"])
            ),
            "means": dist.Normal(jnp.array([LEVEL[0], 0.0]), 1.0),
            "correlation": dist.LKJCholesky(2, CONCENTRATION),
        },
        initial_state=lambda z: z["effects"][:1],
    )


def correlated_panel() -> list[pf.Observations]:
    rng, series = np.random.default_rng(12), []
    for times in TIMES * 4:
        noise = rng.normal(size=2)
        level, rate = LEVEL[0] + 0.5 * noise[0], 0.6 + 0.6 * (0.8 * noise[0] + 0.6 * noise[1])
        series.append(pf.Observations(times, level + rate * times + rng.normal(0.0, 0.1, size=times.size)))
    return series


def exact_moments_of_correlated() -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of (correlation, means, effects by series): Gaussian given the correlation, then quadrature.

    The density of the correlation is proportional to (1 - rho^2)^(concentration - 1).
    """
    data = correlated_panel()
    K, y = len(data), np.concatenate([each.values[:, 0] for each in data])
    to_effects = np.tile(np.eye(2), (K, 1))  # from the means
    design, noise, row = np.zeros((y.size, 2 * K)), np.zeros((y.size, y.size)), 0
    for k, each in enumerate(data):
        mine = slice(row, row + each.times.size)
        design[mine, 2 * k], design[mine, 2 * k + 1] = 1.0, each.times
        noise[mine, mine] = SIGMA**2 * np.minimum.outer(each.times, each.times) + TAU**2 * np.eye(each.times.size)
        row += each.times.size
    centre, see = np.tile([LEVEL[0], 0.0], 1 + K), np.hstack([np.zeros((y.size, 2)), design])
    nodes, gauss = np.polynomial.legendre.leggauss(200)
    logs, means, covariances = [], [], []
    for rho in nodes:
        between = np.outer(SPREADS, SPREADS) * np.array([[1.0, rho], [rho, 1.0]])
        all_of = np.vstack([np.eye(2), to_effects])
        prior = all_of @ all_of.T
        prior[2:, 2:] += np.kron(np.eye(K), between)
        gram = see @ prior @ see.T + noise
        gain, misfit = np.linalg.solve(gram, see @ prior).T, y - see @ centre
        logs.append(-0.5 * (misfit @ np.linalg.solve(gram, misfit) + np.linalg.slogdet(gram)[1]))
        means.append(np.concatenate([[rho], centre + gain @ misfit]))
        covariances.append(np.pad(prior - gain @ see @ prior, (1, 0)))
    weight = gauss * (1.0 - nodes**2) ** (CONCENTRATION - 1.0) * np.exp(np.array(logs) - max(logs))
    weight /= weight.sum()
    mean = weight @ np.array(means)
    away = np.array(means) - mean
    return mean, np.einsum("g,gij->ij", weight, np.array(covariances)) + (weight[:, None] * away).T @ away


@pytest.mark.parametrize("sampler", thorough([pf.StaticHMC(), pf.UnconstrainedHMC()], pf.StaticHMC()))
def test_effects_that_are_correlated_against_their_exact_posterior(sampler):
    settings: dict[str, Any] = {"steps_per_interval": 1, "warmup": 300, "draws": 1200, "seed": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few effective draws: their number is in the z-scores
        tree = pf.sample(
            correlated(), correlated_panel(), sampler=sampler, keep_path="none", progress=False, **settings
        )
    mean, covariance = exact_moments_of_correlated()
    draws = tree.posterior
    factor = draws["correlation"].values
    pair = factor[..., 1, 0]
    np.testing.assert_allclose(factor[..., 1, 1], np.sqrt(1.0 - pair**2), atol=1e-12)
    assert draws["effects"].dims == ("chain", "draw", "series", "effects_dim_0")
    effects = draws["effects"].values.reshape(*pair.shape, -1)
    x = np.concatenate([pair[None], np.moveaxis(draws["means"].values, -1, 0), np.moveaxis(effects, -1, 0)])
    i, j = np.tril_indices(len(mean))
    away = x - mean[:, None, None]
    scores = np.concatenate([mean_scores(x, mean), mean_scores(away[i] * away[j], covariance[i, j])])
    assert np.abs(scores).max() < threshold(scores.size, FALSE_ALARMS / 6), np.round(scores, 1)
    assert mean[0] > 0.2, "the data tell something of the correlation"


@once
def vector_model() -> pf.DiffusionModel:
    """Two rates for each series, of two states with names; one column of the data is observed."""
    return growth(
        drift=lambda x, z: z["rates"] - z["pull"] * x,
        diffusion=lambda x, z: 0.3 * jnp.eye(2),
        parameters={
            "rates": pf.Varying(lambda z: dist.Normal(z["mean"] * jnp.ones(2), 0.5)),
            "pull": pf.Varying(dist.LogNormal(0.0, 0.3)),
            "mean": dist.Normal(0.0, 1.0),
        },
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x[:1] + z["pull"], 0.2),
        states=("prey", "hunters"),
        observed=("seen",),
    )


def short_run(model: pf.DiffusionModel, data: Any, **settings: Any) -> xr.DataTree:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*)(has (not converged|few effective draws)|are amiss|stood still)")
        settings = {"steps_per_interval": 2, "chains": 2, "warmup": 40, "draws": 40, "progress": False} | settings
        return pf.sample(model, data, **settings)


def test_results_have_the_names_of_series_states_and_columns(tmp_path):
    model, data = vector_model(), [*panel().values()][:2]
    named = {"first": data[0], "second": data[1]}
    tree = short_run(
        model,
        named,
        keep_warmup=True,
        deterministics={"gap": lambda z: z["rates"][:, 0] - z["mean"], "top": lambda z, path: path[:, 1].max()},
    )
    posterior = tree.posterior
    assert posterior["rates"].dims == ("chain", "draw", "series", "rates_dim_0")
    assert posterior["pull"].dims == ("chain", "draw", "series")
    assert posterior["initial_state"].dims == ("chain", "draw", "series", "component")
    assert posterior["component"].values.tolist() == ["prey", "hunters"]
    assert posterior["series"].values.tolist() == tree.constant_data["series"].values.tolist() == ["first", "second"]
    assert posterior["node_series"].values.tolist() == ["first"] * 4 + ["second"] * 2
    assert tree.observed_data["node_series"].values.tolist() == ["first"] * 4 + ["second"] * 2
    assert tree.observed_data["observation"].values.tolist() == ["seen"]
    assert list(posterior.data_vars)[:3] == ["rates", "pull", "mean"]
    expected = posterior["rates"].values[..., 0] - posterior["mean"].values[..., None]
    np.testing.assert_allclose(posterior["gap"], expected)
    np.testing.assert_allclose(posterior["top"], posterior["state"].sel(component="hunters").max("node"))
    seen = posterior["state"].sel(component="prey") + posterior["pull"].sel(series=posterior["node_series"])
    noise = (tree.observed_data["y"].values[:, 0] - seen.transpose("chain", "draw", "node").values) / 0.2
    assert np.abs(noise).max() < 6.0

    tree.to_netcdf(tmp_path / "results.nc")
    with xr.open_datatree(tmp_path / "results.nc") as again:
        assert again.posterior["series"].values.tolist() == ["first", "second"]

    assert short_run(model, data).posterior["pull"]["series"].values.tolist() == [0, 1]
    assert short_run(model, data[1]).posterior["pull"].shape == (2, 40, 1)


def test_a_checkpoint_resumes_what_varies(tmp_path):
    model, data = vector_model(), [*panel().values()][:2]
    settings = {"keep_warmup": True, "keep_path": "all"}
    whole = short_run(model, data, **settings)
    short_run(model, data, draws=10, checkpoint=tmp_path, **settings)
    assert_same_draws(short_run(model, data, checkpoint=tmp_path, **settings), whole)


def test_warnings_name_what_they_are_about():
    with pytest.warns(UserWarning, match=r"(rates|pull|initial_state)\[patient [01](, (0|1|prey|hunters))?\]"):
        pf.sample(
            vector_model(),
            dict([*panel().items()][:2]),
            steps_per_interval=2,
            chains=2,
            warmup=40,
            draws=40,
            progress=False,
        )


@pytest.mark.parametrize("initial_states", thorough(["interpolation", "adam", "adam-states"], "adam"))
def test_heuristics_start_a_panel_that_varies(initial_states):
    model = growth(diffusion=lambda x, z: jnp.array([[0.3]]), initial_state=dist.Normal(jnp.zeros(1), 1.0))
    tree = short_run(model, dict([*panel().items()][:2]), sampler=pf.DynamicHMC(initial_states=initial_states))
    assert np.isfinite(tree.posterior["rate"].values).all()


def test_blocks_are_refused():
    with pytest.raises(pf.SettingsError, match="observations_per_block cannot be used, since 'rate', 'level' var"):
        short_run(growth(), panel(), sampler=pf.DynamicHMC(observations_per_block=2))


def test_a_start_that_is_not_found_names_the_series():
    data = panel() | {"odd one": pf.Observations([1.0], [-5.0])}
    positive = pf.Noiseless(lambda x, z: jnp.exp(x))
    with pytest.raises(pf.InitialisationError, match=r"at t = [\d.]+ of series '(odd one|patient \d)'"):
        short_run(growth(observation=positive), data)


def thousand() -> list[pf.Observations]:
    """Series of which each is seen twice to five times."""
    rng, series = np.random.default_rng(9), []
    for k in range(1000):
        times = TIMES[k % 3]
        walk = np.cumsum(SIGMA * np.sqrt(np.diff(times, prepend=0.0)) * rng.normal(size=times.size))
        values = rng.normal(*LEVEL) + rng.normal(0.6, 0.5) * times + walk + TAU * rng.normal(size=times.size)
        series.append(pf.Observations(times, values))
    return series


@pytest.mark.slow
def test_a_thousand_series_with_two_effects_each():
    """Mean and spread of the rates against quadrature: given them the series are independent and Gaussian."""
    data = thousand()
    means, logs = np.meshgrid(np.linspace(0.4, 0.8, 161), np.linspace(-1.0, -0.4, 161), indexing="ij")
    density = -0.5 * means**2 - 0.5 * ((logs + 0.7) / 0.6) ** 2
    for times in TIMES:
        y = np.array([each.values[:, 0] for each in data if np.array_equal(each.times, times)]) - LEVEL[0]
        rest = SIGMA**2 * np.minimum.outer(times, times) + TAU**2 * np.eye(times.size) + LEVEL[1] ** 2
        for place in np.ndindex(means.shape):
            covariance = rest + np.exp(2 * logs[place]) * np.outer(times, times)
            misfit = y - means[place] * times
            squares = np.einsum("ki,ij,kj->", misfit, np.linalg.inv(covariance), misfit)
            density[place] -= 0.5 * (squares + len(y) * np.linalg.slogdet(covariance)[1])
    weights = np.exp(density - density.max())
    weights /= weights.sum()
    edge = np.concatenate([weights[[0, -1]].ravel(), weights[:, [0, -1]].ravel()])
    assert edge.max() < 1e-6 * weights.max(), "the grid holds the posterior"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*) has (not converged|few effective draws)")  # some of 2,000 effects
        tree = pf.sample(growth(), data, steps_per_interval=1, chains=2, warmup=300, draws=600, seed=1, progress=False)
    assert tree.posterior["rate"].sizes["series"] == 1000
    mean, log = tree.posterior["mean"].values, np.log(tree.posterior["spread"].values)
    drawn = np.stack([mean, mean**2, log, log**2])
    exact = np.array([np.sum(weights * each) for each in (means, means**2, logs, logs**2)])
    scores = mean_scores(drawn, exact)
    print(scores, tree.sample_stats["n_steps"].values.mean(), tree.attrs["chain_seconds"])
    assert np.abs(scores).max() < threshold(scores.size, FALSE_ALARMS / 6), scores
