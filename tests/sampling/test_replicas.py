"""Replica exchange against posteriors with several modes whose shares are known: by symmetry, or by quadrature."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy.stats import norm, poisson, t, ttest_1samp

import pathfold as pf
from pathfold.engine.model_functions import ModelFunctions
from pathfold.sampling import ladder
from pathfold.sampling.replica_sampler import ReplicaChain
from tests.engine.faults import build_anew
from tests.once import once
from tests.sampling.comparing import mean_scores, scores, threshold
from tests.sampling.linear_gaussian import Exact, ornstein_uhlenbeck
from tests.thorough import thorough

FALSE_ALARMS = 1e-3  # for everything in this file together, slow tests included
COMPARISONS = 400
LIMIT = threshold(COMPARISONS, FALSE_ALARMS)
TIMES = 0.5 * np.arange(1, 9)
THETA, SIGMA, STEPS, NOISE = 0.8, 0.5, 3, 0.3


def process(observation: Any, **parameters: Any) -> pf.DiffusionModel:
    """An Ornstein-Uhlenbeck process, and an observation of it."""
    return pf.DiffusionModel(
        drift=lambda x, z: -THETA * x,
        diffusion=lambda x, z: SIGMA * jnp.ones((1, 1)),
        parameters=parameters,
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=observation,
    )


def covariance() -> np.ndarray:
    """That of the states at the observation times, of the discretised process."""
    delta = 0.5 / STEPS
    factor, variance, variances, factors = 1.0 - THETA * delta, 1.0, [], []
    for _ in TIMES:
        for _ in range(STEPS):
            variance = factor**2 * variance + SIGMA**2 * delta
        variances.append(variance)
        factors.append(factor**STEPS)
    n = np.arange(len(TIMES))
    first = np.minimum(n[:, None], n)
    return np.array(variances)[first] * factors[0] ** np.abs(n[:, None] - n)


@dataclass(frozen=True)
class Target:
    """A model with one parameter m, data, and log p(y | m) on a grid."""

    model: pf.DiffusionModel
    values: np.ndarray
    log_likelihood: Callable[[np.ndarray], np.ndarray]
    prior: Any

    @property
    def data(self) -> pf.Observations:
        return pf.Observations(TIMES, self.values, initial_time=0.0)

    def exact(self) -> tuple[float, dict[str, float]]:
        """log p(y), and the means of some functions of m, by quadrature."""
        low = 1e-9 if isinstance(self.prior, dist.Gamma) else -8.0
        m = np.linspace(low, 8.0, 20_001)
        logs = self.log_likelihood(m) + np.asarray(self.prior.log_prob(jnp.asarray(m)))
        weights = np.exp(logs - logs.max())
        log_evidence = np.log(weights.sum() * (m[1] - m[0])) + logs.max()
        return float(log_evidence), {name: float(weights @ f(m) / weights.sum()) for name, f in FUNCTIONS.items()}


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "share": lambda m: 1.0 * (m > 0.0),
    "mean": lambda m: m,
    "size": np.abs,
    "square": lambda m: m**2,
}


def gaussian(mean: Callable[[np.ndarray], np.ndarray], loading: Callable[[np.ndarray], np.ndarray], values: np.ndarray):
    """log p(y | m) of y = mean(m) + loading(m) x + noise."""
    states = covariance()

    def log_likelihood(m: np.ndarray) -> np.ndarray:
        gram = loading(m)[:, None, None] ** 2 * states + NOISE**2 * np.eye(len(values))
        misfit = values - mean(m)[:, None]
        whitened = np.linalg.solve(gram, misfit[..., None])[..., 0]
        logs = (misfit * whitened).sum(axis=1) + np.linalg.slogdet(gram)[1] + len(values) * np.log(2 * np.pi)
        return -0.5 * logs

    return log_likelihood


@cache
def target(kind: str) -> Target:
    rng = np.random.default_rng(2)
    if kind == "counts":  # whose rate does not tell the sign of m; the prior does, a little
        counts, prior = rng.poisson(np.exp(1.2**2), size=len(TIMES)), dist.Normal(0.2, 0.55)
        observation = pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(z["m"] ** 2)))
        return Target(
            process(observation, m=prior),
            counts.astype(float),
            lambda m: poisson.logpmf(counts, np.exp(m[:, None] ** 2)).sum(axis=1),
            prior,
        )
    states = rng.multivariate_normal(np.zeros(len(TIMES)), covariance())
    noise = NOISE * rng.standard_normal(len(TIMES))
    if kind == "square":  # the second column tells the signs apart, a little
        prior, sign = dist.Normal(0.0, 0.8), 0.1 + NOISE * rng.standard_normal(len(TIMES))
        values = np.stack([2.0 + 0.3 * states + noise, sign], axis=1)
        observation = pf.GaussianNoise(
            lambda x, z: jnp.array([z["m"] ** 2 + 0.3 * x[0], 0.1 * jnp.tanh(4.0 * z["m"])]), NOISE
        )
        first = gaussian(lambda m: m**2, lambda m: 0.3 + 0 * m, values[:, 0])
        return Target(
            process(observation, m=prior),
            values,
            lambda m: first(m) + norm.logpdf(sign, 0.1 * np.tanh(4.0 * m[:, None]), NOISE).sum(axis=1),
            prior,
        )
    prior = dist.Gamma(2.0, 1.5) if kind == "positive" else dist.Normal(0.0, 1.0)
    values = 1.5 * states + noise  # a loading whose sign nobody can tell, or one whose prior has an excess
    observation = pf.GaussianNoise(lambda x, z: z["m"] * x, NOISE)
    return Target(process(observation, m=prior), values, gaussian(lambda m: 0 * m, lambda m: m, values), prior)


def run(kind: str, seed: int = 1, **options: Any) -> xr.DataTree:
    settings: dict[str, Any] = {"steps_per_interval": STEPS, "draws": 600, "seed": seed, "progress": False}
    settings["sampler"] = pf.ReplicaExchange()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*)has (not converged|few effective draws)")
        return pf.sample(target(kind).model, target(kind).data, **settings | options)


def found(tree: xr.DataTree, exact: dict[str, float]) -> np.ndarray:
    m = tree.posterior["m"].values
    varying = {name: f(m) for name, f in FUNCTIONS.items() if np.ptp(f(m)) > 0.0}
    return mean_scores(np.stack([*varying.values()]), np.array([exact[name] for name in varying]))


KINDS = ("square", "sign", "counts", "positive")


@pytest.mark.parametrize("kind", thorough(KINDS, "square", "counts"))
def test_shares_and_evidence_are_those_of_quadrature(kind):
    log_evidence, exact = target(kind).exact()
    tree = run(kind)
    assert np.all(np.abs(found(tree, exact)) < LIMIT)
    assert np.all(tree.sample_stats["round_trips"].values[:, -1] > 5)
    estimate = pf.evidence(target(kind).model, target(kind).data, tree, method="replicas")
    assert abs(estimate.log_evidence - log_evidence) < LIMIT * estimate.standard_error
    assert estimate.standard_error < 0.3
    rates = tree.sample_stats["exchange_rate"].mean("draw").values
    assert np.nanmin(rates) > 0.25, "rungs are where exchanges are accepted about as often"
    if kind == "square":
        assert 0.75 < exact["share"] < 0.95


@pytest.mark.parametrize("factor", thorough((0.2, 0.5, 2.0), 0.2))
def test_a_wrong_exchange_ratio_is_noticed(monkeypatch, factor):
    """The loss enters nothing else."""
    right = ModelFunctions.loss
    monkeypatch.setattr(ModelFunctions, "loss", lambda self, *node: factor * right(self, *node))
    build_anew(monkeypatch)
    assert np.max(np.abs(found(run("square", draws=2400), target("square").exact()[1]))) > LIMIT


def test_paths_and_parameters_of_a_single_mode():
    """With missing values, an unknown scale of the noise, and what all other samplers are compared with."""
    p = ornstein_uhlenbeck(noisy=True)
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.uniform(0.2, 0.9, size=8))
    values = np.sin(times) + 0.3 * rng.standard_normal(8)
    values[[2, 5]] = np.nan
    data = pf.Observations(times, values, initial_time=0.0)
    tree = pf.sample(
        p.model(known=False), data, steps_per_interval=4, draws=600, sampler=pf.ReplicaExchange(), progress=False
    )
    for name, z in scores(tree, Exact(p, data, 4).unknown).items():
        assert np.all(np.abs(z) < LIMIT), name


@once
def well(seed: int, count: int = 20) -> tuple[pf.DiffusionModel, pf.Observations]:
    """A double well seen through its square: of every path its mirror image is as probable."""
    model = pf.DiffusionModel(
        drift=lambda x, z: 2.0 * (x - x**3),
        diffusion=lambda x, z: z["sigma"] * jnp.ones((1, 1)),
        parameters={"sigma": dist.LogNormal(np.log(0.5), 0.1)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x**2, 0.1),
    )
    times = 0.5 * np.arange(1, count + 1)
    given = {"initial_state": [1.0], "steps_per_interval": 10, "seed": seed}
    return model, pf.simulate(model, {"sigma": 0.5}, times, **given)


def share_of_sign(seed: int, **options: Any) -> tuple[np.ndarray, xr.DataTree]:
    """z-scores of the share of paths that end above zero, and the run."""
    model, data = well(seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*)(has (not converged|few effective draws)|different modes)")
        tree = pf.sample(model, data, steps_per_interval=10, seed=seed, progress=False, threads=2, **options)
    last = tree.posterior["state"].values[:, :, -1, 0]
    return mean_scores(1.0 * (last > 0.0)[None], np.array([0.5])), tree


@pytest.mark.slow
def test_a_double_well_seen_through_its_square():
    score, tree = share_of_sign(1, chains=2, draws=1000, sampler=pf.ReplicaExchange())
    assert np.all(np.abs(score) < LIMIT)
    last = tree.posterior["state"].values[:, :, -1, 0]
    assert np.all(np.sum(np.diff(np.sign(last), axis=1) != 0, axis=1) > 20)
    rates = tree.sample_stats["exchange_rate"].mean("draw").values
    assert np.nanmin(rates) > 0.25, "rungs are where exchanges are accepted about as often"


@pytest.mark.slow
def test_twenty_double_wells():
    """Judged by how much the shares of independent chains differ, which does not depend on effective draws: these are
    too many where a share hangs on a few dozen round trips."""
    trees = [share_of_sign(k, chains=2, draws=1000, sampler=pf.ReplicaExchange())[1] for k in range(20)]
    shares = np.concatenate([(tree.posterior["state"].values[:, :, -1, 0] > 0.0).mean(axis=1) for tree in trees])
    assert abs(ttest_1samp(shares, 0.5).statistic) < t.isf(0.5 * FALSE_ALARMS / COMPARISONS, shares.size - 1)
    assert shares.std() < 0.15, "of 40 trips each"


@pytest.mark.slow
def test_calibration_with_two_modes():
    """By simulation: data from the prior, of which many have two modes, in 200 runs."""
    observation = pf.GaussianNoise(
        lambda x, z: jnp.array([z["m"] ** 2 + 0.3 * x[0], 0.1 * jnp.tanh(4.0 * z["m"])]), "tau"
    )
    model = process(observation, m=dist.Normal(0.0, 1.5), tau=dist.LogNormal(np.log(NOISE), 0.3))
    settings: dict[str, Any] = {"steps_per_interval": STEPS, "warmup": 150, "draws": 495}
    assert pf.calibrate(model, TIMES, runs=200, sampler=pf.ReplicaExchange(), **settings).passed


class Oscillator:
    """An oscillator that is seen as an angle, every two seconds: half a turn a second more or less is all the same."""

    SIGMA, NOISE, EVERY = 0.3, 0.5, 2.0

    def __init__(self) -> None:
        self.model = pf.DiffusionModel(
            drift=lambda x, z: z["omega"] * jnp.ones(1),
            diffusion=lambda x, z: self.SIGMA * jnp.ones((1, 1)),
            parameters={"omega": dist.Normal(2.0, 2.0)},
            initial_state=dist.Normal(jnp.zeros(1), 1.0),
            observation=pf.GaussianNoise(lambda x, z: jnp.concatenate([jnp.cos(x), jnp.sin(x)]), self.NOISE),
        )
        times = self.EVERY * np.arange(1, 6)
        self.data = pf.simulate(self.model, {"omega": 1.8}, times, steps_per_interval=4, seed=1)

    def shares(self, edges: list[float]) -> np.ndarray:
        """Of the frequencies between these, by quadrature: a filter on the circle, its densities in Fourier series."""
        omega, angle = np.linspace(-12.0, 16.0, 2001), 2.0 * np.pi * np.arange(256) / 256
        waves = np.fft.fftfreq(256, 1.0 / 256)
        move = np.exp(-0.5 * (waves * self.SIGMA) ** 2 * self.EVERY - 1j * waves * omega[:, None] * self.EVERY)
        density, logs = np.exp(-0.5 * waves**2) + 0j * omega[:, None], norm.logpdf(omega, 2.0, 2.0)
        for cosine, sine in np.asarray(self.data.values):
            seen = norm.pdf(cosine, np.cos(angle), self.NOISE) * norm.pdf(sine, np.sin(angle), self.NOISE)
            joint = np.fft.ifft(density * move, axis=1).real * seen
            logs, density = logs + np.log(joint.sum(axis=1)), np.fft.fft(joint / joint.sum(axis=1)[:, None], axis=1)
        weights = np.exp(logs - logs.max())
        return np.histogram(omega, edges, weights=weights)[0] / weights.sum()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(.*)has (not converged|few effective draws)")
def test_turns_of_an_oscillator_have_the_shares_of_quadrature():
    """The modes are half a turn a second apart, since the oscillator is seen every two seconds."""
    known, edges = Oscillator(), [-12.0, -2.9, 0.2, 3.4, 6.5, 16.0]
    exact = known.shares(edges)
    assert exact[1:4].min() > 0.02
    exchanged = pf.ReplicaExchange()
    tree = pf.sample(known.model, known.data, steps_per_interval=4, draws=1000, sampler=exchanged, progress=False)
    found = np.digitize(tree.posterior["omega"].values, edges) - 1
    z = mean_scores(np.stack([1.0 * (found == i) for i in (1, 2, 3)]), exact[1:4])
    assert np.all(np.abs(z) < LIMIT), (z, exact)


def test_a_run_without_round_trips_says_so():
    model, data = well(1)
    with pytest.warns(
        UserWarning, match=r"no replica went from the posterior to the prior and back in chains 0 and 1: "
    ):
        tree = pf.sample(
            model, data, steps_per_interval=10, chains=2, warmup=20, draws=20, progress=False,
            sampler=pf.ReplicaExchange(rungs=3),
        )  # fmt: skip
    with pytest.warns(UserWarning, match="no round trip"):
        pf.evidence(model, data, tree, method="replicas")


def test_what_it_is_not_for():
    exact = process(pf.Noiseless(lambda x, z: x), m=dist.Normal(0.0, 1.0))
    data = pf.Observations(TIMES, 0.1 * TIMES, initial_time=0.0)
    with pytest.raises(
        pf.SettingsError, match=r"pf.ReplicaExchange\(\) needs noise in every component.* a little noise"
    ):
        pf.sample(exact, data, steps_per_interval=2, sampler=pf.ReplicaExchange())
    for rungs in (2, 49):
        with pytest.raises(pf.SettingsError, match="rungs"):
            pf.ReplicaExchange(rungs=rungs)


def test_evidence_needs_a_run_of_it():
    kind = target("counts")
    tree = run("counts", sampler=pf.StaticHMC(), chains=1, draws=20, warmup=20)
    with pytest.raises(pf.SettingsError, match="method='replicas' needs a run of replica exchange"):
        pf.evidence(kind.model, kind.data, tree, method="replicas")


@pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|and back in|stood still|round trip)")
def test_evidence_goes_by_the_labels_of_rungs_and_needs_all_and_enough_draws():
    kind, tree = target("counts"), run("counts", chains=1, warmup=60, draws=40)

    def of_rungs(rungs: Any) -> xr.DataTree:
        changed = tree.copy()
        changed["sample_stats"] = tree.sample_stats.to_dataset().isel(rung=rungs)
        return changed

    def evidence(results: xr.DataTree) -> float:
        return pf.evidence(kind.model, kind.data, results, method="replicas").log_evidence

    assert evidence(of_rungs(slice(None, None, -1))) == evidence(tree)
    for some in (slice(1, None), slice(None, -1)):
        with pytest.raises(pf.SettingsError, match="first or the last rung is missing"):
            evidence(of_rungs(some))
    with pytest.raises(pf.SettingsError, match=r"the results have 1 draws per chain.*draws=10"):
        evidence(tree.isel(draw=[-1]))


@pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|and back in|stood still)")
def test_runs_with_other_numbers_of_rungs_are_combined():
    short: dict[str, Any] = {"chains": 1, "warmup": 30, "draws": 30}
    trees = [run("counts", seed=k, sampler=pf.ReplicaExchange(rungs=3 + k), **short) for k in range(2)]
    joined = pf.combine(trees).sample_stats["power"].values
    assert joined.shape == (2, 30, 4)
    assert np.isnan(joined[0, :, 3]).all()
    assert np.array_equal(joined[1], trees[1].sample_stats["power"].values[0])


def test_steps_that_became_tiny_while_rungs_were_placed_do_not_stay_so(monkeypatch):
    """Rounds are short: where many steps fail in one of them, the next begins with steps that are sought anew."""
    look = ReplicaChain._look

    def after_failures(self: ReplicaChain) -> None:
        if self.draws.made in self.ends:
            self.tuning.state["log_step_mean"] -= 10.0
        look(self)

    monkeypatch.setattr(ReplicaChain, "_look", after_failures)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a run has not converged
        tree = run("counts", chains=1, warmup=100, draws=10)
    assert tree.sample_stats["step_size"].values[0, -1] > 0.1


def test_rungs_have_equal_barriers_between_them():
    """For a barrier that grows with the logarithm of the power, and for any number of rungs."""
    powers, rates = np.array([1.0, 0.1, 0.01, 0.0]), np.array([0.9, 0.9, 0.2])
    assert ladder.wanted(rates) == 5
    new = ladder.placed(powers, rates, 5)
    np.testing.assert_allclose(new[[0, -1]], [1.0, 0.0])
    barrier = np.interp(-np.log(new[:-1]), -np.log(powers[:-1]), [0.0, 0.9, 1.8])
    np.testing.assert_allclose(np.diff(barrier), 0.5)
    assert np.all(np.diff(ladder.placed(powers, np.zeros(3), 12)) < 0.0)
    far = ladder.placed(powers, np.array([0.5, 0.5, 1.0]), 5)
    np.testing.assert_allclose(far, [1.0, 0.1, 0.01, 0.01 * ladder.FURTHER**0.5, 0.0])
    assert ladder.nearest(powers, 0.09)[0] == 1
    assert ladder.nearest(powers, 0.0)[0] == 3
