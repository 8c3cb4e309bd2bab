"""Covariates, groups and occasions within subjects: posteriors and predictions against exact ones.

Series are occasions. An occasion's rate is around the sum of its subject's rate, that of the subject's sex and a slope
times the weight; given the spread between subjects all is linear and Gaussian, and over the spread there is quadrature.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr

import pathfold as pf
from pathfold.analysis.individual import Filtering
from pathfold.analysis.innovations import Innovations, filter_of
from pathfold.analysis.particle_filter import ParticleFilter
from tests.once import once
from tests.sampling.comparing import array_stats, mean_scores, threshold
from tests.thorough import thorough

FALSE_ALARMS = 1e-3  # for everything in this file together
TESTS = 8
SUBJECTS, SEXES = ("anna", "ben", "clara", "dora"), ("F", "M")
LEVEL, SIGMA, TAU, BETWEEN_SEXES, BETWEEN_OCCASIONS = 1.0, 0.3, 0.2, 0.7, 0.4
LOG_SPREAD, WIDTH = -0.7, 0.6  # of the prior of the spread between subjects
SHARED = 2 + len(SEXES) + len(SUBJECTS)  # unknowns of the population: mean, slope, of the sexes, of the subjects


@once
def model(spread: Any = None) -> pf.DiffusionModel:
    """Covariates stand in drift, diffusion, initial state, observation and priors; the spread may be known."""

    def rate(z):
        return dist.Normal(z["of_subject"] + z["of_sex"] + z["slope"] * z["weight"], BETWEEN_OCCASIONS)

    return pf.DiffusionModel(
        drift=lambda x, z: (z["rate"] + 0.5 * z["weight"])[None],
        diffusion=lambda x, z: (SIGMA * (1.0 + 0.3 * z["weight"]))[None, None],
        parameters={
            "rate": pf.Varying(rate),
            "of_subject": pf.Varying(lambda z: dist.Normal(0.0, z["spread"]), by="subject"),
            "of_sex": pf.Varying(lambda z: dist.Normal(z["mean"], BETWEEN_SEXES), by="sex"),
            "mean": dist.Normal(0.0, 1.0),
            "slope": dist.Normal(0.0, 1.0),
            "spread": spread or dist.LogNormal(LOG_SPREAD, WIDTH),
        },
        initial_state=lambda z: [LEVEL + 0.5 * z["weight"]],
        observation=pf.GaussianNoise(lambda x, z: x + 0.2 * z["weight"], lambda z: TAU * (1.0 + 0.5 * z["weight"])),
        covariates={"weight": 0.5, "sex": SEXES, "subject": SUBJECTS},
    )


def table() -> pd.DataFrame:
    """Four subjects on two to three occasions each, in any order."""
    rng, rows = np.random.default_rng(7), []
    for k in range(10):
        subject = k % 4
        weight, times = rng.uniform(0.0, 1.0), np.cumsum(rng.uniform(0.2, 0.6, size=3))
        rate = 0.8 * subject - 0.7 - 0.6 * weight + 0.5 * (subject % 2) + BETWEEN_OCCASIONS * rng.normal()
        y = LEVEL + 0.7 * weight + (rate + 0.5 * weight) * times + 0.3 * rng.normal(size=3)
        known = {"weight": weight, "sex": SEXES[subject % 2], "subject": SUBJECTS[subject]}
        rows += [{"id": f"occasion {k}", "t": t, "y": value, **known} for t, value in zip(times, y, strict=True)]
    return pd.DataFrame(rows).sample(frac=1.0, random_state=1)


def panel() -> dict[str, pf.Observations]:
    names = ["weight", "sex", "subject"]
    return pf.Observations.from_frame(table(), series="id", time="t", values="y", covariates=names)


@dataclass(frozen=True)
class Exact:
    """The posterior of the log spread, on nodes with weights, and given it means and covariances of all unknowns.

    These are mean, slope, rates of sexes and of subjects, rates of occasions, and the states at the ends of `ahead`,
    pairs of an occasion and a time after its last observation. A subject that is none of the others is one more.
    """

    nodes: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @classmethod
    def of(
        cls, data: list[pf.Observations], ahead: tuple[tuple[int, float], ...] = (), known_spread: float | None = None
    ) -> Exact:
        subjects = [*SUBJECTS, *{str(each.covariates["subject"]) for each in data} - {*SUBJECTS}]
        K, first = len(data), 2 + len(SEXES) + len(subjects)
        rows = [(k, t) for k, each in enumerate(data) for t in each.times]
        y = np.concatenate([each.values[:, 0] for each in data])
        weight = np.array([float(each.covariates["weight"]) for each in data])
        nodes, gauss = np.polynomial.hermite_e.hermegauss(60)
        if known_spread is not None:
            nodes, gauss = np.array([(np.log(known_spread) - LOG_SPREAD) / WIDTH]), np.ones(1)
        logs, means, covariances = [], [], []
        for node in nodes:
            spread = np.exp(LOG_SPREAD + WIDTH * node)
            # The unknowns as a linear function of standard normals, then of the noise of paths at all times.
            make = np.zeros((first + K, first + K))
            make[0, 0] = make[1, 1] = 1.0
            for i in range(len(SEXES)):
                make[2 + i, [0, 2 + i]] = 1.0, BETWEEN_SEXES
            for i in range(len(subjects)):
                make[2 + len(SEXES) + i, 2 + len(SEXES) + i] = spread
            for k, each in enumerate(data):
                sex, subject = SEXES.index(each.covariates["sex"]), subjects.index(str(each.covariates["subject"]))
                make[first + k] = make[2 + sex] + make[2 + len(SEXES) + subject] + weight[k] * make[1]
                make[first + k, first + k] = BETWEEN_OCCASIONS
            prior = make @ make.T
            places = [*rows, *ahead]
            start = np.array([LEVEL + 0.5 * weight[k] * (1.0 + t) for k, t in places])
            slope = np.zeros((len(places), first + K))
            slope[np.arange(len(places)), [first + k for k, _ in places]] = [t for _, t in places]
            walk = np.array([[_walk(weight[k], s, t) if k == j else 0.0 for k, s in places] for j, t in places])
            both = np.block([[prior, prior @ slope.T], [slope @ prior, slope @ prior @ slope.T + walk]])
            centre = np.concatenate([np.zeros(first + K), start])
            seen = slice(first + K, first + K + len(rows))
            noise = np.diag([(TAU * (1.0 + 0.5 * weight[k])) ** 2 for k, _ in rows])
            gram = both[seen, seen] + noise
            misfit = y - centre[seen] - np.array([0.2 * weight[k] for k, _ in rows])
            gain = np.linalg.solve(gram, both[seen]).T
            kept = [*range(first + K), *range(first + K + len(rows), len(centre))]
            logs.append(-0.5 * (misfit @ np.linalg.solve(gram, misfit) + np.linalg.slogdet(gram)[1]))
            means.append((centre + gain @ misfit)[kept])
            covariances.append((both - gain @ both[seen])[np.ix_(kept, kept)])
        weights = gauss * np.exp(np.array(logs) - max(logs))
        return cls(LOG_SPREAD + WIDTH * nodes, weights / weights.sum(), np.array(means), np.array(covariances))

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of (log spread, all others)."""
        means = np.column_stack([self.nodes, self.means])
        mean = self.weights @ means
        within = np.pad(np.einsum("g,gij->ij", self.weights, self.covariances), (1, 0))
        return mean, within + (self.weights[:, None] * (means - mean)).T @ (means - mean)


def _walk(weight: Any, s: float, t: float) -> float:
    """The covariance of the path's noise at two times."""
    return (SIGMA * (1.0 + 0.3 * weight)) ** 2 * min(s, t)


def unknowns(draws: Any) -> np.ndarray:
    """Log spread, mean, slope, sexes, subjects and occasions: (quantities, chains, draws)."""
    parts = [np.log(draws["spread"].values), draws["mean"].values, draws["slope"].values]
    several = [draws[name].values for name in ("of_sex", "of_subject", "rate")]
    return np.stack([*parts, *(each for values in several for each in np.moveaxis(values, -1, 0))])


def assert_moments(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    i, j = np.tril_indices(len(mean))
    away = x - mean[:, None, None]
    scores = np.concatenate([mean_scores(x, mean), mean_scores(away[i] * away[j], covariance[i, j])])
    assert np.abs(scores).max() < threshold(scores.size, FALSE_ALARMS / TESTS), np.round(scores, 1)


@pytest.mark.parametrize(
    "sampler", thorough([pf.StaticHMC(), pf.UnconstrainedHMC(), pf.GuidedProposals()], pf.StaticHMC())
)
def test_two_levels_against_the_exact_posterior(sampler):
    settings: dict[str, Any] = {"steps_per_interval": 2, "warmup": 300, "draws": 1200, "seed": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few effective draws: their number is in the z-scores
        tree = pf.sample(model(), panel(), sampler=sampler, keep_path="none", progress=False, **settings)
    draws = tree.posterior
    assert draws["of_subject"].dims == ("chain", "draw", "subject")
    assert draws["subject"].values.tolist() == [*SUBJECTS]
    assert tree.constant_data["sex"].sel(series="occasion 3").item() == "M"
    assert_moments(unknowns(draws), *Exact.of([*panel().values()]).moments)


def test_a_fit_of_two_levels():
    """All is Gaussian where the spread is known: the mode is the mean, and its standard errors are exact."""
    tree = pf.fit(model(spread=0.5), panel(), steps_per_interval=2, draws=100, points=64, progress=False, threads=1)
    mean, covariance = Exact.of([*panel().values()], known_spread=0.5).moments
    at_mode = [tree.laplace[f"{name}_at_mode"] for name in ("mean", "slope", "of_sex", "of_subject")]
    assert at_mode[3].dims == ("statistic", "subject")
    mode, errors = np.concatenate([each.values.reshape(2, -1) for each in at_mode], axis=1)
    np.testing.assert_allclose(mode, mean[1 : 1 + SHARED], atol=1e-6)
    np.testing.assert_allclose(errors, np.sqrt(np.diag(covariance)[1 : 1 + SHARED]), rtol=1e-6)
    assert tree.posterior["of_sex"].sel(sex="M").dims == ("chain", "draw")


APART = 10.0  # the time between the beginnings of occasions of a subject, in one series


def model_of_subjects() -> pf.DiffusionModel:
    """The same with a series for each subject: a vector of effects of its occasions, of which an input chooses one."""

    def rate(z, inputs):
        occasion = jnp.where(jnp.arange(3) == inputs["occasion"], 1.0, 0.0) @ z["of_occasion"]
        return z["of_subject"] + z["of_sex"] + z["slope"] * inputs["weight"] + occasion

    return pf.DiffusionModel(
        drift=lambda x, z, t, inputs: (rate(z, inputs) + 0.5 * inputs["weight"])[None],
        diffusion=lambda x, z, t, inputs: (SIGMA * (1.0 + 0.3 * inputs["weight"]))[None, None],
        parameters=model(spread=0.5).priors
        | {
            "rate": 0.0,
            "of_subject": pf.Varying(lambda z: dist.Normal(0.0, z["spread"])),
            "of_occasion": pf.Varying(dist.Normal(jnp.zeros(3), BETWEEN_OCCASIONS)),
        },
        initial_state=[0.0],
        events={"begin": lambda x, z, amount: jnp.array([LEVEL + 0.5 * amount])},
        observation=pf.GaussianNoise(
            lambda x, z, t, inputs: x + 0.2 * inputs["weight"],
            lambda z, t, inputs: TAU * (1.0 + 0.5 * inputs["weight"]),
        ),
        inputs={name: pf.Input([0.0], [0.0], kind="previous") for name in ("weight", "occasion")},
        covariates={"sex": SEXES},
    )


def subjects() -> dict[str, pf.Observations]:
    """The panel with a series for each subject: its occasions follow one another, and each begins anew."""
    series = {}
    for subject in SUBJECTS:
        own = [each for each in panel().values() if each.covariates["subject"] == subject]
        begins, weights = APART * np.arange(len(own)), np.array([float(each.covariates["weight"]) for each in own])
        series[subject] = pf.Observations(
            np.concatenate([begin + each.times for begin, each in zip(begins, own, strict=True)]),
            np.concatenate([each.values for each in own]),
            events={"begin": (begins, weights)},
            inputs={
                "weight": pf.Input(begins, weights, kind="hold"),
                "occasion": pf.Input(begins, np.arange(len(own)), kind="hold"),
            },
            covariates={"sex": own[0].covariates["sex"]},
        )
    return series


@pytest.mark.slow
def test_occasions_may_follow_one_another_in_one_series():
    """The same posterior, at a cost that does not grow with the number of subjects times that of series."""
    settings: dict[str, Any] = {"steps_per_interval": 2, "draws": 100, "points": 64, "progress": False, "threads": 1}
    fits = [pf.fit(model(spread=0.5), panel(), **settings), pf.fit(model_of_subjects(), subjects(), **settings)]
    for name in ("mean", "slope", "of_sex"):
        np.testing.assert_allclose(*(fit.laplace[f"{name}_at_mode"] for fit in fits), rtol=1e-5, atol=1e-6)


# Predictions: draws of the population that are exact and independent, in the place of those of a chain.


@pytest.fixture(scope="module")
def population() -> xr.DataTree:
    """Results whose draws of all that the prediction of a new series uses are exact."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings: dict[str, Any] = {"steps_per_interval": 2, "chains": 1, "warmup": 20, "draws": 4000}
        tree = pf.sample(model(), panel(), progress=False, **settings)
    exact, rng, count = Exact.of([*panel().values()]), np.random.default_rng(5), 4000
    places = rng.choice(len(exact.nodes), size=count, p=exact.weights)
    roots = np.linalg.cholesky(exact.covariances[:, :SHARED, :SHARED] + 1e-14 * np.eye(SHARED))
    z = exact.means[places, :SHARED] + np.einsum("dij,dj->di", roots[places], rng.normal(size=(count, SHARED)))
    values = {"mean": z[:, 0], "slope": z[:, 1], "of_sex": z[:, 2:4], "of_subject": z[:, 4:]}
    for name, value in {**values, "spread": np.exp(exact.nodes[places])}.items():
        tree.posterior[name].values[0] = value
    return tree


def scores_of(found: Mapping[str, np.ndarray], expected: Mapping[str, tuple[Any, Any]], size: float) -> np.ndarray:
    """z-scores of means and variances by name; `size` independent draws are what the found ones are worth."""
    scores = []
    for name, (mean, variance) in expected.items():
        x = found[name].ravel()
        for each, exact in ((x, mean), ((x - mean) ** 2, variance)):
            scores.append((each.mean() - exact) / (each.std() / np.sqrt(size)))
    return np.array(scores)


def scores_of_new_series(population: xr.DataTree, subject: str) -> tuple[np.ndarray, float]:
    """Effects, population and the state after the last observation, against their posterior given all data.

    The draws are equal in weight, and as many as were weighted: their error is that of both.
    """
    known = {"weight": 0.9, "sex": "M"}
    data = pf.Observations([0.4, 0.9], [3.4, 5.6], covariates=known | {"subject": subject})
    given = data.with_covariates(known | ({} if subject == "someone else" else {"subject": subject}))
    covariates = {"subject": None} if subject == "someone else" else None
    forecast = pf.predict(
        model(), population, [0.9, 1.5], new_series=given, covariates=covariates, particles=50, threads=1
    ).predictions
    mean, covariance = Exact.of([*panel().values(), data], ((10, 0.9), (10, 1.5))).moments
    index = {"mean": 1, "slope": 2, "of_sex": 4, "of_subject": 3 + len(SEXES) + (3 if subject == "dora" else 4)}
    index |= {"rate": len(mean) - 3, "now": len(mean) - 2, "later": len(mean) - 1}
    states = forecast["state"].values[..., 0]
    found = {name: forecast[name].values for name in ("mean", "slope", "of_sex", "of_subject", "rate")}
    found |= {"now": states[..., 0], "later": states[..., 1]}
    effective = forecast.attrs["effective_draws"]
    size = 1.0 / (1.0 / effective + 1.0 / 4000)
    return scores_of(found, {name: (mean[i], covariance[i, i]) for name, i in index.items()}, size), effective


@pytest.mark.parametrize(
    ("subject", "filtering"), [("dora", filter_of), ("dora", ParticleFilter), ("someone else", filter_of)]
)
def test_a_new_series_with_a_few_observations(population, subject, filtering, monkeypatch):
    """As if all had been sampled together."""
    monkeypatch.setattr("pathfold.analysis.individual.filter_of", filtering)
    scores, effective = scores_of_new_series(population, subject)
    assert 100 < effective < 3900
    assert np.abs(scores).max() < threshold(scores.size, FALSE_ALARMS / TESTS), np.round(scores, 1)


def test_faults_in_the_weights_are_found(population, monkeypatch):
    """Draws of the population without weights; states before the last value is seen; particles of the least weight."""
    with monkeypatch.context() as patch:
        patch.setattr(Filtering, "_normalised", lambda self, log_weights: np.full(4000, 1.0 / 4000))
        scores, _ = scores_of_new_series(population, "dora")
    assert np.abs(scores[:4]).max() > 2.0 * threshold(scores.size, FALSE_ALARMS / TESTS)
    with monkeypatch.context() as patch:
        last = Innovations._last
        patch.setattr(Innovations, "_last", lambda self, z, *at: (last(self, z, *at)[0], self._filtered(z)[0]("m")[-1]))
        scores, _ = scores_of_new_series(population, "dora")
    assert np.abs(scores[8:]).max() > 2.0 * threshold(scores.size, FALSE_ALARMS / TESTS)
    with monkeypatch.context() as patch:
        patch.setattr("pathfold.analysis.individual.filter_of", ParticleFilter)
        patch.setattr(ParticleFilter, "chosen", lambda self, log_weights, rng: int(np.argmin(log_weights)))
        scores, _ = scores_of_new_series(population, "dora")
    assert np.abs(scores[8:]).max() > 2.0 * threshold(scores.size, FALSE_ALARMS / TESTS)


def test_a_new_series_with_given_covariates(population):
    known = {"weight": 0.9, "sex": "F"}
    forecast = pf.predict(
        model(), population, [0.5, 1.0], new_series=True, covariates=known | {"subject": None}
    ).predictions
    exact = Exact.of([*panel().values()])
    means, covariances = exact.means, exact.covariances
    direction = np.zeros(means.shape[1])
    direction[[1, 2]] = 0.9, 1.0  # slope times weight, and the sex's own
    of_rate = means @ direction
    variances = np.einsum("i,gij,j->g", direction, covariances, direction) + np.exp(2 * exact.nodes)
    mean = exact.weights @ of_rate
    variance = exact.weights @ (variances + BETWEEN_OCCASIONS**2 + (of_rate - mean) ** 2)
    y = (mean + 0.45) * 1.0 + LEVEL + 0.45 + 0.2 * 0.9
    of_y = variance + _walk(0.9, 1.0, 1.0) + (TAU * 1.45) ** 2
    found = {"rate": forecast["rate"].values, "y": forecast["y"].values[:, :, 1]}
    scores = scores_of(found, {"rate": (mean, variance), "y": (y, of_y)}, 4000)
    assert np.abs(scores).max() < threshold(scores.size, FALSE_ALARMS / TESTS), scores


def test_what_a_new_series_needs(population):
    data = pf.Observations([0.4, 0.9], [3.4, 5.6], covariates={"weight": 0.9, "sex": "M"})
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"new_series": True}, "no covariate 'weight'"),
        ({"new_series": data}, "no covariate 'subject'"),
        ({"new_series": data, "covariates": {"subject": "emil"}}, "'emil' as its covariate.*'subject': None"),
        ({"new_series": data, "covariates": {"subject": None, "height": 1.8}}, "'height', which the model does not"),
        ({"new_series": data, "covariates": {"subject": None}, "times": [0.5]}, "before the last observation"),
        ({"new_series": data, "covariates": {"subject": None}, "set": {"mean": 0.0}}, "leave initial_time and set"),
        ({"new_series": data, "covariates": {"subject": None}, "series": [0]}, "give one of both"),
        ({"covariates": {"weight": 0.9}}, "covariates are of a new series"),
        ({"new_series": True, "covariates": {"weight": None, "sex": "M", "subject": None}}, "finite number, not None"),
    ]
    m = model()
    for changes, words in mistakes:
        asked: dict[str, Any] = {"times": [1.5]} | changes
        with pytest.raises(pf.PathfoldError, match=words):
            pf.predict(m, population, **asked)


def test_other_functions_take_covariates_and_groups(population, tmp_path):
    m, data = model(), panel()
    with pytest.raises(pf.ModelError, match="the deterministic 'sex' needs another name: a covariate has this one"):
        pf.sample(m, data, steps_per_interval=1, deterministics={"sex": lambda z: z["mean"]}, progress=False)
    seen = pf.posterior_predictive(m, population, given="parameters", draws=50)
    assert seen.posterior_predictive["y"].sizes["node"] == 30
    expected = pf.prior_predictive(m, data, draws=20, steps_per_interval=2)
    assert expected.prior["of_sex"].dims == ("chain", "draw", "sex")
    one = pf.predict(m, population, [4.0], series="occasion 3", draws=50).predictions
    assert one["y"].shape == (1, 50, 1, 1)
    turned = population.copy()
    turned["posterior"] = turned["posterior"].to_dataset().isel(subject=[2, 0, 3, 1]).transpose(..., "draw")
    turned.to_netcdf(tmp_path / "results.nc")
    with xr.open_datatree(tmp_path / "results.nc") as tree:
        again = pf.predict(m, tree, [4.0], series="occasion 3", draws=50).predictions
        np.testing.assert_array_equal(again["y"].values, one["y"].values)
    assert pf.log_likelihood(m, data, population, draws=5).log_likelihood["y"].sizes["node"] == 30
    other = data | {"occasion 3": data["occasion 3"].with_covariates({"weight": 0.1, "sex": "M", "subject": "dora"})}
    with pytest.raises(pf.DataError, match="the covariate 'weight' of series occasion 3 is another"):
        pf.log_likelihood(m, other, population)


@pytest.mark.slow
def test_checks_and_reports_take_covariates_and_groups(population, tmp_path):
    ahead = pf.log_likelihood(model(), panel(), population, ahead=True, draws=2, threads=1)
    assert np.isfinite(pf.residuals(model(), panel(), ahead, draws=2, threads=1).residuals["y"]).all()
    assert "no sign of misfit" in str(pf.check(population))
    pf.report(population, tmp_path / "report.html")
    settings: dict[str, Any] = {"steps_per_interval": 1, "warmup": 50, "draws": 99}
    found = pf.calibrate(model(), panel(), runs=3, threads=1, **settings)
    assert "of_subject[3]" in found.ranks


def drug() -> pf.DiffusionModel:
    """Elimination at a rate that varies around a typical one, which depends on weight; doses and log-normal errors."""
    return pf.DiffusionModel(
        drift=lambda x, z: -z["k"] * x,
        diffusion=lambda x, z: 0.1 * x[:, None],
        parameters={
            "typical": dist.Normal(-1.0, 0.5),
            "spread": dist.LogNormal(-1.0, 0.5),
            "k": pf.Varying(lambda z: dist.LogNormal(z["typical"] + z["weight"], z["spread"])),
        },
        initial_state=[1.0],
        observation=pf.Likelihood(lambda x, z: dist.LogNormal(jnp.log(x[0]), 0.2)),
        events={"dose": lambda x, z, amount: x.at[0].add(amount)},
        covariates={"weight": 0.0},
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*predicted paths depend on the time step")  # both sides take the same steps
def test_a_new_patient_against_a_joint_posterior():
    """Not linear, with doses before and after the last sample: the same as if the patient had been sampled too.

    Fine steps are the same ones, since a number for each interval does not depend on other series.
    """
    m, doses = drug(), {"dose": ([0.0, 4.0], 10.0)}
    truth: dict[str, Any] = {"typical": -1.0, "spread": 0.4}
    settings: dict[str, Any] = {"steps_per_interval": 4, "events": doses}
    weights = np.random.default_rng(1).normal(0.0, 0.3, size=7)
    people = [
        pf.simulate(m, truth, [1.0, 3.0, 5.0, 7.0], seed=k, covariates={"weight": weight}, **settings)
        for k, weight in enumerate(weights)
    ]
    patient = pf.simulate(m, truth | {"k": 0.8}, [2.0, 5.0], seed=9, covariates={"weight": weights[-1]}, **settings)
    run: dict[str, Any] = {"steps_per_interval": 4, "warmup": 500, "draws": 2000, "progress": False}
    ahead: dict[str, Any] = {"times": [7.0, 9.0], "events": {"dose": ([6.0], 20.0)}, "steps_per_interval": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        population, together = pf.sample(m, people, seed=1, **run), pf.sample(m, [*people, patient], seed=2, **run)
    new = pf.predict(m, population, new_series=patient, threads=1, **ahead).predictions
    old = pf.predict(m, together, series=7, **ahead).predictions
    joint = together.posterior
    pairs = [(new["k"].values, joint["k"].values[..., 7]), *((new[n].values, joint[n].values) for n in truth)]
    pairs += [(np.log(new["y"].values[:, :, i, 0]), np.log(old["y"].values[:, :, i, 0])) for i in range(2)]
    effective, scores = new.attrs["effective_draws"], []
    assert effective > 1000
    for one, other in pairs:
        for power in (1, 2):
            x, y = (one - other.mean()) ** power, (other - other.mean()) ** power
            error = np.hypot(
                x.std() / np.sqrt(min(effective, 1000)), float(array_stats.mcse(y[None], method="mean")[0])
            )
            scores.append((x.mean() - y.mean()) / error)
    assert np.abs(scores).max() < threshold(len(scores), FALSE_ALARMS / TESTS), scores
