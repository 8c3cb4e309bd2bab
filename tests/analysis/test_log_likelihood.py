"""Log likelihoods against SciPy and a grid, in the form that ArviZ reads; marginal ones against quadrature."""

from __future__ import annotations

import warnings
from typing import Any

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy import stats

import pathfold as pf
from pathfold.analysis.ahead import Estimates
from pathfold.analysis.innovations import Innovations, filter_of
from pathfold.analysis.particle_filter import ParticleFilter
from pathfold.data import Seen
from pathfold.inference.fit.proposal import Proposal
from pathfold.sampling.progress import Counted
from tests.analysis.test_particle_filter import (
    COARSE,
    HOPS,
    LONG,
    MOVES,
    OBSERVATIONS,
    STEPS,
    TIMES,
    TRACKS,
    by_grid,
    double_well,
    exploding_by_grid,
    moving,
)
from tests.analysis.test_particle_filter import TRUTH as TRUTH_OF_WELL
from tests.once import once
from tests.sampling.linear_gaussian import Exact, Process, ornstein_uhlenbeck

TRUTH = {"rate": 0.7, "spread": 0.5}
NAN = np.nan


def counted() -> pf.DiffusionModel:
    """One state, measured with noise and counted."""
    return pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: z["spread"] * jnp.eye(1),
        parameters={"rate": dist.LogNormal(-0.5, 0.25), "spread": dist.LogNormal(-0.5, 0.25)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=[
            pf.GaussianNoise(lambda x, z: x, "spread"),
            pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(1.0 + x[0]))),
        ],
        observed=("level", "cases"),
    )


@pytest.fixture(scope="module")
def counts() -> tuple[pf.DiffusionModel, pf.Observations, xr.DataTree]:
    """With values that are missing, and a time without any."""
    model = counted()
    values = [[0.2, 3.0], [NAN, 1.0], [-0.5, 2.0], [0.1, NAN], [NAN, NAN], [0.4, 4.0]]
    data = pf.Observations(0.5 * np.arange(1, 7), values)
    settings: dict[str, Any] = {"chains": 2, "warmup": 60, "draws": 60, "seed": 1, "progress": False}
    with pytest.warns(UserWarning, match="effective draws|converged"):
        posterior = pf.sample(model, data, steps_per_interval=3, **settings)
    return model, data, posterior


def test_of_every_value_given_the_state(counts):
    model, data, posterior = counts
    found = pf.log_likelihood(model, data, posterior)
    y, draws = found.log_likelihood["y"], posterior.posterior
    assert y.dims == ("chain", "draw", "entry")
    assert y["observation"].values.tolist() == ["level", "cases", "cases", "level", "cases", "level", "level", "cases"]
    assert y["time"].values.tolist() == [0.5, 0.5, 1.0, 1.5, 1.5, 2.0, 3.0, 3.0]
    x, s = draws["state"].values[..., 0], draws["spread"].values
    rate = np.exp(1.0 + x)
    expected = [
        stats.norm.logpdf(0.2, x[:, :, 0], s),
        stats.poisson.logpmf(3, rate[:, :, 0]),
        stats.poisson.logpmf(1, rate[:, :, 1]),
        stats.norm.logpdf(-0.5, x[:, :, 2], s),
        stats.poisson.logpmf(2, rate[:, :, 2]),
        stats.norm.logpdf(0.1, x[:, :, 3], s),
        stats.norm.logpdf(0.4, x[:, :, 5], s),
        stats.poisson.logpmf(4, rate[:, :, 5]),
    ]
    np.testing.assert_allclose(y.values, np.stack(expected, axis=-1), rtol=1e-10, atol=1e-12)
    assert set(found.children) == {*posterior.children, "log_likelihood"}
    assert found.attrs == posterior.attrs
    assert np.isfinite(_loo(found).elpd)


def test_of_what_comes_next(counts):
    """By filtering on a grid at the parameters of each draw: no constant of the counts is left out."""
    model, data, posterior = counts
    found = pf.log_likelihood(model, data, posterior, ahead=True, draws=20, particles=300, seed=5)
    y = found.log_likelihood["y"]
    assert y.dims == ("chain", "draw", "time")
    assert y["time"].values.tolist() == [0.5, 1.0, 1.5, 2.0, 3.0]
    assert y.sizes["draw"] == 20
    assert set(y["draw"].values) < set(posterior.posterior["draw"].values)
    expected = [_by_grid(float(z["rate"]), float(z["spread"])) for z in _draws(posterior, y)]
    away = y.values.reshape(40, 5) - np.array(expected)
    assert np.all(np.abs(away.mean(axis=0)) < 4.0 * away.std(axis=0) / np.sqrt(40))
    assert np.all(away.std(axis=0) < 0.1)
    assert np.isfinite(_loo(found).elpd)


def _loo(tree: xr.DataTree) -> Any:
    """Of so few draws it warns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter of Pareto")
        return az.loo(tree)


def _draws(posterior: xr.DataTree, y: xr.DataArray) -> list[xr.Dataset]:
    chosen = posterior.posterior.to_dataset().sel(draw=y["draw"].values)
    return [chosen.isel(chain=c, draw=d) for c in range(2) for d in range(20)]


def _by_grid(rate: float, spread: float) -> list[float]:
    """The same by filtering on a grid of states: three steps of Euler-Maruyama between the times."""
    x, delta = np.linspace(-5.0, 5.0, 401), 0.5 / 3
    kernel = stats.norm.pdf(x[:, None], x * (1.0 - delta * rate), np.sqrt(delta) * spread) * (x[1] - x[0])
    count = np.exp(1.0 + x)
    likelihoods = [
        stats.norm.pdf(0.2, x, spread) * stats.poisson.pmf(3, count),
        stats.poisson.pmf(1, count),
        stats.norm.pdf(-0.5, x, spread) * stats.poisson.pmf(2, count),
        stats.norm.pdf(0.1, x, spread),
        None,
        stats.norm.pdf(0.4, x, spread) * stats.poisson.pmf(4, count),
    ]
    density, found = stats.norm.pdf(x), []
    for likelihood in likelihoods:
        density = kernel @ (kernel @ (kernel @ density))
        if likelihood is not None:
            total = np.sum(density * likelihood) * (x[1] - x[0])
            density = density * likelihood / total
            found.append(float(np.log(total)))
    return found


def density(observation, y, mask, censored=(), upper=()) -> np.ndarray:
    """Of two values at the state (0.1, 0.2)."""
    model = pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.eye(2),
        parameters={},
        initial_state=[0.1, 0.2],
        observation=observation,
    )
    seen = Seen(*(jnp.asarray(each, float) for each in (y, mask, censored, upper)))
    return np.asarray(jax.jit(model.observation.log_density)(jnp.array([0.1, 0.2]), {}, 0.0, seen))


def test_values_that_are_censored():
    """At most -1, at least 2, or between 2 and 5."""
    with jax.enable_x64(True):
        normal = density(pf.GaussianNoise(lambda x, z: x, 0.5), [-1.0, 0.0], [1, 1], [-1, 0], [0, 0])
        counts = pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(1.0 + x)))
        poisson = density(counts, [2.0, 2.0], [1, 1], [1, 2], [0, 5])
    expected = [stats.norm.logcdf(-1.0, 0.1, 0.5), stats.norm.logpdf(0.0, 0.2, 0.5)]
    np.testing.assert_allclose(normal, expected, rtol=1e-10)
    rate = np.exp([1.1, 1.2])
    between = np.log(stats.poisson.cdf(5, rate[1]) - stats.poisson.cdf(1, rate[1]))
    np.testing.assert_allclose(poisson, [stats.poisson.logsf(1, rate[0]), between], rtol=1e-10)


def test_bounds_of_counts_need_not_be_whole():
    """At most 2.5 is at most 2, at least 2.5 is at least 3, and between 1.2 and 3.7 is 2 or 3."""
    counts = pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(1.0 + x)))
    rate = np.exp([1.1, 1.2])
    with jax.enable_x64(True):
        sides = density(counts, [2.5, 2.5], [1, 1], [-1, 1], [0, 0])
        between = density(counts, [1.2, -0.5], [1, 1], [2, 2], [3.7, 0.5])
    np.testing.assert_allclose(sides, [stats.poisson.logcdf(2, rate[0]), stats.poisson.logsf(2, rate[1])], rtol=1e-10)
    two_or_three = np.log(stats.poisson.pmf(2, rate[0]) + stats.poisson.pmf(3, rate[0]))
    np.testing.assert_allclose(between, [two_or_three, -rate[1]], rtol=1e-10)


def test_categories_of_which_some_are_censored():
    """Ordered ones as the intervals of a logistic variable; at least 2 is 2 or 3."""
    cuts = np.array([-1.0, 0.0, 1.5])
    ordered = pf.Likelihood(lambda x, z: dist.OrderedLogistic(3.0 * x, jnp.asarray(cuts)))
    categories = pf.Likelihood(lambda x, z: dist.Categorical(logits=jnp.stack([0.0 * x, x, -2.0 * x], axis=-1)))
    with jax.enable_x64(True):
        exactly = density(ordered, [0.0, 2.0], [1, 1])
        bounded = density(ordered, [2.0, 1.0], [1, 1], [1, 2], [0, 2])
        unordered = density(categories, [2.0, 1.0], [1, 1])
    below = stats.logistic.cdf(cuts[:, None] - [0.3, 0.6])
    np.testing.assert_allclose(exactly, np.log([below[0, 0], below[2, 1] - below[1, 1]]), rtol=1e-12)
    np.testing.assert_allclose(bounded, np.log([1.0 - below[1, 0], below[2, 1] - below[0, 1]]), rtol=1e-12)
    weights = [1.0 + np.exp(0.1) + np.exp(-0.2), 1.0 + np.exp(0.2) + np.exp(-0.4)]
    np.testing.assert_allclose(unordered, [-0.2 - np.log(weights[0]), 0.2 - np.log(weights[1])], rtol=1e-12)


def test_values_that_are_seen_together():
    """With a matrix of scales, and a distribution of two columns, there is one number for all of them."""
    scale = np.array([[0.5, 0.0], [0.3, 0.4]])
    with jax.enable_x64(True):
        away = np.linalg.solve(scale, [0.9, -1.2])
        joint = -0.5 * away @ away - np.log(2 * np.pi * 0.5 * 0.4)
        for observation in (
            pf.GaussianNoise(lambda x, z: x, scale),
            pf.Likelihood(lambda x, z: dist.MultivariateNormal(x, scale_tril=scale)),
        ):
            np.testing.assert_allclose(density(observation, [1.0, -1.0], [1.0, 1.0]), [joint, NAN], rtol=1e-12)
        second = float(stats.norm.logpdf(-1.0, 0.2, 0.5))
        one = density(pf.GaussianNoise(lambda x, z: x, scale), [9.0, -1.0], [0.0, 1.0])
        np.testing.assert_allclose(one, [NAN, second], rtol=1e-12)


def test_mistakes_are_told(counts):
    model, data, posterior = counts
    without = posterior.copy()
    without["posterior"] = posterior["posterior"].to_dataset().drop_vars("state")
    exact = pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: z["spread"] * jnp.eye(1),
        parameters=model.priors,
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.Noiseless(lambda x, z: jnp.array([x[0], x[0]])),
    )
    known = pf.Observations(data.times, data.values)
    other = pf.Observations(data.times, data.values + 1.0, censored=None)
    with pytest.raises(pf.SettingsError, match=r"no states \(keep_path='none'\)"):
        pf.log_likelihood(model, data, without)
    with pytest.raises(pf.DataError, match="not those that posterior is of"):
        pf.log_likelihood(model, other, posterior)
    with pytest.raises(pf.SettingsError, match="posterior is of another model"):
        pf.evidence(ornstein_uhlenbeck(noisy=True).model(known=False), known, posterior)
    with pytest.raises(pf.ModelError, match=r"given the state; use pf.log_likelihood\(..., ahead=True\)"):
        pf.log_likelihood(exact, known, posterior)
    with pytest.raises(pf.SettingsError, match="must be what"):
        pf.log_likelihood(model, data, "results")  # type: ignore[arg-type]


def _of_data(posterior: xr.DataTree, data: pf.Observations) -> xr.DataTree:
    """The results as if they were of these values."""
    tree = posterior.copy()
    rows = ~np.isnan(data.values).all(axis=1)
    tree["observed_data"] = tree["observed_data"].to_dataset().assign(y=(["time", "observation"], data.values[rows]))
    return tree


def known_process(*, noisy: bool) -> tuple[Process, pf.Observations]:
    times = np.cumsum(np.random.default_rng(2).uniform(0.3, 0.9, size=8))
    return ornstein_uhlenbeck(noisy=noisy), pf.Observations(times, np.sin(times))


def by_quadrature(process: Process, data: pf.Observations, steps: int) -> float:
    """log p(y), with two free parameters, by the trapezoidal rule."""
    u, exact = np.linspace(-6.0, 6.0, 121), Exact(process, data, steps)
    rows = [exact.log_posterior(np.stack([np.full_like(u, first), u], axis=1)) for first in u]
    total = np.logaddexp.reduce(np.ravel(rows)) + 2 * np.log(u[1] - u[0])
    return float(total - 0.5 * np.log(2 * np.pi) * (2 + data.times.size))


def results(process: Process, data: pf.Observations) -> tuple[pf.DiffusionModel, xr.DataTree]:
    model = process.model(known=False)
    return model, pf.sample(model, data, steps_per_interval=3, draws=250, chains=4, seed=3, progress=False)


@once
def known() -> tuple[pf.DiffusionModel, xr.DataTree, pf.Observations, float]:
    process, data = known_process(noisy=True)
    return *results(process, data), data, by_quadrature(process, data, 3)


@pytest.mark.parametrize("filtering", [filter_of, ParticleFilter], ids=["exact", "particles"])
def test_evidence_with_a_density_by_quadrature(filtering, monkeypatch):
    monkeypatch.setattr("pathfold.analysis.evidence.filter_of", filtering)
    model, posterior, data, expected = known()
    found = pf.evidence(model, data, posterior, draws=400, particles=100, seed=1)
    assert found.standard_error < (0.05 if filtering is ParticleFilter else 0.02)
    assert abs(found.log_evidence - expected) < 3.5 * found.standard_error
    assert found.effective_draws > 200
    assert str(found).startswith(f"log evidence {found.log_evidence:.3f} ± ")
    monkeypatch.setattr(ParticleFilter, "judged", lambda *_, **__: Estimates(2, 3.0))
    remedy = "particles=6" if filtering is ParticleFilter else "give more draws"
    with pytest.warns(UserWarning, match=f"draws are effective, .*{remedy}"):
        pf.evidence(model, data, posterior, draws=20, particles=2)


def test_evidence_of_the_time_there_is(monkeypatch):
    """The filter takes a second for each draw: those count that there is time for."""
    now, run = [0.0], Innovations._densities
    model, posterior, data, expected = known()

    def slow(*given: Any) -> Any:
        now[0] += 1.0
        return run(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Innovations, "_densities", slow)
        patch.setattr("pathfold.analysis.ahead.time.monotonic", lambda: now[0])
        with pytest.warns(UserWarning, match="max_seconds were spent: .* of 20000"):
            found = pf.evidence(model, data, posterior, draws=20_000, max_seconds=1600.0, threads=1, progress=False)
    assert 100 < found.draws < 1600
    assert abs(found.log_evidence - expected) < 4.0 * found.standard_error
    with pytest.raises(pf.SettingsError, match="max_seconds=1e-09 is too short for 10 draws"):
        pf.evidence(model, data, posterior, max_seconds=1e-9)


def test_it_says_how_far_it_is_and_how_long_it_takes(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("pathfold.sampling.progress.time.monotonic", lambda: now[0])
    counted = Counted("draws", 100, show=True)
    for _ in range(100):
        now[0] += 1.2
        counted.advance()
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        f"pathfold: {done} of 100 draws in {s} s, {left} s left" for done, s, left in ((1, 1, 119), (10, 12, 108))
    ]
    assert len(said) == 12


@pytest.mark.parametrize("count", [10, 15, 24])
def test_weights_of_a_proposal_have_the_right_mean(count):
    """Of an integrand that is known: the mean of f / q is its integral, however many of the draws are in a stratum."""
    rng, proposal = np.random.default_rng(7), Proposal(np.array([2.0]), np.array([[0.09]]))
    found = np.empty(4000)
    for k in range(len(found)):
        u, log_density = proposal.draw(rng, count)
        found[k] = np.mean(np.exp(stats.norm.logpdf(u[:, 0], 0.0, 0.8) - log_density))
    assert abs(found.mean() - 1.0) < 3.3 * found.std() / np.sqrt(len(found))


def _covers(model: pf.DiffusionModel, data: pf.Observations, posterior: xr.DataTree, expected: float) -> None:
    """Of 60 estimates the z-scores have mean 0 and standard deviation 1, as far as 60 tell."""
    found = [pf.evidence(model, data, posterior, draws=200, particles=200, seed=k) for k in range(60)]
    z = np.array([(each.log_evidence - expected) / each.standard_error for each in found])
    print(f"mean {z.mean():.2f}, sd {z.std():.2f}, within 1.96: {np.mean(np.abs(z) < 1.96):.2f}")
    assert abs(z.mean()) < 0.4
    assert 0.6 < z.std() < 1.4


@pytest.mark.slow
@pytest.mark.parametrize("noisy", [True, False])
def test_standard_errors_of_the_evidence_cover(noisy):
    process, data = known_process(noisy=noisy)
    model, posterior = results(process, data)
    _covers(model, data, posterior, by_quadrature(process, data, 3))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|things are amiss)")
@pytest.mark.parametrize(("kind", "location"), [("noisy", 0.0), ("exact", 0.0), ("noisy", 1.3), ("exact", 1.3)])
def test_standard_errors_of_the_evidence_cover_for_a_double_well(kind, location):
    """With the larger theta explicit steps explode now and then."""
    observation, values = OBSERVATIONS[kind]
    parameters = {"theta": dist.LogNormal(location, 0.5), "sigma": TRUTH_OF_WELL["sigma"]}
    model, data = double_well(observation, parameters=parameters), pf.Observations(TIMES, values)
    posterior = pf.sample(model, data, steps_per_interval=STEPS, draws=250, seed=3, progress=False)
    u = np.linspace(-5.0, 5.0, 81)
    rows = [stats.norm.logpdf(each) + by_grid(kind, values, float(np.exp(location + 0.5 * each))).sum() for each in u]
    _covers(model, data, posterior, float(np.logaddexp.reduce(rows) + np.log(u[1] - u[0])))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|things are amiss)")
def test_standard_errors_of_the_evidence_cover_where_steps_explode():
    parameters = {"theta": dist.LogNormal(1.0, 0.4), "sigma": TRUTH_OF_WELL["sigma"]}
    model = double_well(OBSERVATIONS["noisy"][0], parameters=parameters, scheme=pf.StrongOrder1p5())
    data = pf.Observations(LONG * np.arange(1, 7), HOPS)
    posterior = pf.sample(model, data, steps_per_interval=COARSE, draws=250, seed=3, progress=False)
    u = np.linspace(-5.0, 5.0, 41)
    rows = [stats.norm.logpdf(each) + exploding_by_grid(np.exp(1.0 + 0.4 * each), parameters["sigma"]) for each in u]
    _covers(model, data, posterior, float(np.logaddexp.reduce(rows) + np.log(u[1] - u[0])))


def test_estimates_that_depend_on_the_particles_say_so():
    """With the number that would do; residuals are not judged, and the evidence has no error."""
    model, data = moving("t3"), pf.Observations(MOVES[:12], TRACKS[:12, 0])
    with warnings.catch_warnings(action="ignore"):
        posterior = pf.sample(model, data, steps_per_interval=STEPS, chains=1, warmup=50, draws=20, progress=False)
    with pytest.warns(
        UserWarning, match=r"estimates of log p\(y \| z\) by 20 particles differ .*: take particles=\d+$"
    ):
        pf.log_likelihood(model, data, posterior, ahead=True, draws=5, particles=20)
    with pytest.warns(UserWarning, match=r"take particles=\d+; pf.check does not judge these residuals"):
        few = pf.residuals(model, data, posterior, draws=2, particles=20)
    found = pf.check(few)
    assert not any("one-step residual" in name for name in found.table["noise"])
    assert f"particles={few.residuals.attrs['enough_particles']}) would do" in str(found)
    many = pf.residuals(model, data, posterior, draws=2, particles=2000)
    assert "the one-step residual of y[0]" in set(pf.check(many).table["noise"])
    with pytest.warns(
        UserWarning, match=r"of 20 draws are effective, so that there is no standard error; .* particles="
    ):
        evidence = pf.evidence(model, data, posterior, draws=20, particles=5, progress=False)
    assert "±" not in str(evidence)
    assert "with an unknown error" in str(evidence)
    assert np.isnan(evidence.standard_error)
