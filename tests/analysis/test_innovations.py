"""The exact law of each observation given those before it, against all rows as one normal vector, by dense algebra."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions import transforms
from scipy import stats

import pathfold as pf
from pathfold.analysis.innovations import Innovations, filter_of
from pathfold.analysis.particle_filter import ParticleFilter
from pathfold.data import TimeGrid
from pathfold.engine.equations import linear_rows
from tests.by_numpy import by_numpy
from tests.dense import Dense
from tests.engine.faults import plant
from tests.engine.test_integrated import PANEL, SCHEME
from tests.once import once

TOLERANCE = 1e-9
NAN = np.nan
POSITIONS = pf.Observations([0.0, 0.4, 1.0, 1.3, 2.1], [0.1, 0.3, NAN, 0.2, 0.6])
RATES: dict[str, Any] = {"rate": dist.LogNormal(0.0, 0.5), "size": dist.LogNormal(0.0, 0.5)}


@once
def smooth(size: float | None = None) -> tuple[pf.DiffusionModel, TimeGrid]:
    """A position that noise does not reach within the only fine step, seen exactly, also at the initial time."""
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.stack([x[1], -z["rate"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [1.0]]) * z["size"],
        parameters=RATES | ({} if size is None else {"size": size}),
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.Noiseless(lambda x, z: x[:1]),
    )
    return model, TimeGrid.build(POSITIONS, steps_per_interval=1)


@once
def laws() -> tuple[pf.DiffusionModel, TimeGrid]:
    """Rows that are roots: of a normal law, a log-normal one and one that falls with its normal; and joint noise."""
    falling = [transforms.AffineTransform(0.3, -0.5), transforms.ExpTransform()]
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: z["size"] * jnp.eye(2),
        parameters=RATES,
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=[
            pf.Likelihood(
                lambda x, z: [
                    dist.Normal(x[0] + x[1], 0.3 * z["size"]),
                    dist.LogNormal(x[1], 0.2 + 0.1 * z["rate"]),
                    dist.TransformedDistribution(dist.Normal(x[0], 0.4), falling),
                ]
            ),
            pf.GaussianNoise(lambda x, z: 2.0 * x, lambda z: z["size"] * jnp.array([[0.5, 0.0], [0.3, 0.4]])),
        ],
    )
    values = [
        [0.3, 1.2, 0.9, 0.2, -0.1],
        [NAN, 0.7, 1.4, NAN, 0.3],
        [0.1, NAN, 1.1, 0.4, 0.2],
        [1.0, 2.0, NAN, 0.3, 1.0],
    ]
    return model, TimeGrid.build(pf.Observations([0.3, 0.7, 1.4, 2.0], values), steps_per_interval=2)


@once
def doses() -> tuple[pf.DiffusionModel, TimeGrid]:
    """Doses and rain into a tank, whose outflow is summed up between times; two of them, one seen exactly in part."""
    model = pf.DiffusionModel(
        drift=lambda x, z, t, inputs: jnp.stack([inputs["rain"] - z["rate"] * x[0], z["rate"] * x[0]]),
        diffusion=lambda x, z: jnp.array([[1.0], [0.2]]) * z["size"],
        parameters=RATES | {"gain": pf.Varying(lambda z: dist.Normal(z["rate"], 0.3))},
        initial_state=dist.Normal(jnp.ones(2) * jnp.array([1.0, 0.0]), jnp.array([0.5, 1e-3])),
        observation=[pf.Noiseless(lambda x, z: x[1:] + z["gain"]), pf.GaussianNoise(lambda x, z: x[:1], "size")],
        inputs=["rain"],
        events={"dose": lambda x, z, amount: x.at[0].add(amount)},
        accumulators=[1],
    )
    rain = pf.Input([0.0, 0.5, 1.0, 2.0], [0.3, 0.8, 0.1, 0.2], kind="previous")
    rest: dict[str, Any] = {"inputs": {"rain": rain}, "events": {"dose": ([0.4, 1.2], [1.0, 0.5])}}
    data = {
        "a": pf.Observations([0.5, 1.0, 2.0], [[0.9, 1.3], [NAN, 1.1], [1.2, NAN]], **rest),
        "b": pf.Observations([0.7, 1.1], [[1.0, NAN], [0.4, 1.0]], **rest),
    }
    return model, TimeGrid.build(data, steps_per_interval=2)


MODELS = {
    "panel": lambda: (PANEL.model(), PANEL.grid()),
    "exact linear drift": lambda: (SCHEME.model(), SCHEME.grid()),
    "smooth": smooth,
    "laws": laws,
    "doses": doses,
}


class Law(NamedTuple):
    log_densities: np.ndarray  # (observation,)
    scores: np.ndarray  # (observation, Y)
    expected: np.ndarray


class Rows:
    """All rows c(y), which are affine in standard normals: the law of y is theirs times |dc/dy|, by Gram and Schmidt.

    Of the columns that are logarithmic it is log y that is linear in them.
    """

    def __init__(self, model: pf.DiffusionModel, grid: TimeGrid, logarithmic: tuple[int, ...] = ()) -> None:
        self.dense, self.grid, self.logarithmic = Dense(model, grid), grid, logarithmic
        self.functions = [by_numpy(of) for of in (self._rows, jax.jacfwd(self._rows), jax.jacfwd(self._rows, 1))]

    def _rows(self, q, values):
        flat = self.dense._flat(q, values, np.zeros_like(self.dense.states))
        return flat.reshape(self.dense.N, -1)[:, : values.shape[1]]

    def law(self, u: np.ndarray) -> Law:
        dense, grid = self.dense, self.grid
        r, J, slopes = (of(np.concatenate([u, np.zeros(dense.dim - u.size)]), grid.values) for of in self.functions)
        J, found = J[..., u.size :], Law(np.full(dense.N, NAN), *np.full((2, *grid.mask.shape), NAN))
        for first, end in zip(grid.first, [*grid.first[1:], dense.N], strict=True):
            mean, factor = np.zeros(0), np.zeros((0, J.shape[-1]))
            for n in range(first, end):
                seen = np.flatnonzero(grid.mask[n])
                gain = np.linalg.pinv(factor.T) @ J[n, seen].T
                e, left = r[n, seen] - mean @ gain, J[n, seen] - gain.T @ factor
                covariance, slope = left @ left.T, slopes[n, seen, n][:, seen]
                squares = e @ np.linalg.solve(covariance, e) + np.linalg.slogdet(2 * np.pi * covariance)[1]
                found.log_densities[n] = np.linalg.slogdet(slope)[1] - 0.5 * squares
                sd, steep, y = np.sqrt(np.diag(covariance)), np.diag(slope), grid.values[n, seen]
                found.scores[n, seen] = np.sign(steep) * e / sd
                found.expected[n, seen] = y - e / steep
                for j in np.flatnonzero(np.isin(seen, self.logarithmic)):
                    steeper = steep[j] * y[j]
                    found.expected[n, seen[j]] = y[j] * np.exp(0.5 * (sd[j] / steeper) ** 2 - e[j] / steeper)
                mean, factor = np.append(mean, r[n, seen]), np.concatenate([factor, J[n, seen]])
        return Law(*(each[grid.mask.any(axis=1)] for each in found))


@once
def rows_of(name: str) -> Rows:
    return Rows(*MODELS[name](), logarithmic=(1, 2) if name == "laws" else ())


def errors(name: str) -> list[float]:
    model, grid = MODELS[name]()
    score = filter_of(model, grid, 7)
    assert isinstance(score, Innovations)
    u = 0.5 * np.random.default_rng(3).normal(size=(3, model.parameters.size))
    exact = [rows_of(name).law(each) for each in u]
    z = np.array([by_numpy(model.parameters.push)(each) for each in u])
    found = score(z, 0, threads=2), *score.residuals(z, 0, threads=2)
    pairs = [*zip(found, zip(*exact, strict=True), strict=True)]
    for mine, wanted in pairs:
        np.testing.assert_array_equal(np.isnan(mine), np.isnan(wanted))
    return [float(np.nanmax(np.abs(mine - wanted) / (1.0 + np.abs(wanted)))) for mine, wanted in pairs]


@pytest.mark.parametrize("name", MODELS)
def test_every_observation_given_those_before_it(name):
    """Its log density, the normal scores of its values, and their means."""
    assert max(errors(name)) < TOLERANCE


FILTERED = Innovations._filtered


def _without_volumes(self: Innovations, z: np.ndarray) -> Any:
    at, singular = FILTERED(self, z)
    return lambda name: at(name) * (name != "excess"), singular


FAULTS = {
    "constants": lambda patch: patch.setattr(Innovations, "_constants", 0.0),
    "volumes": lambda patch: patch.setattr(Innovations, "_filtered", _without_volumes),
    "seen once": lambda patch: plant(patch, linear_rows, "_integrate", lambda out, given: {"mean": given["mean"]}),
    "means of values": lambda patch: patch.setattr("pathfold.analysis.innovations.WEIGHTS", np.eye(40)[20]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, monkeypatch):
    FAULTS[fault](monkeypatch)
    assert max(errors("laws")) > 1e-4


@pytest.mark.parametrize("name", ["smooth", "doses"])
def test_the_state_at_the_last_observation(name):
    """Draws have the moments of the state given all rows, effects included; log p(y) is the sum of the densities."""
    model, grid = MODELS[name]()
    score, u, count = Innovations(model, grid), np.array([0.3, -0.4]), 4000
    z = np.tile(by_numpy(model.parameters.push)(u), (count, 1))
    densities, states = score.final(z, 1)
    dense = Dense(model, grid)
    q, last = np.concatenate([u, np.zeros(dense.dim - u.size)]), score.rows[-1]
    J = dense.jacobian(q)[:, u.size :]
    own = dense._call("jacobian", q).reshape(dense.N, -1, q.size)[last, grid.mask.shape[1] :, u.size :]
    gain = np.linalg.pinv(J.T) @ own.T
    mean = dense.node_states(q)[last] - dense.constraint(q) @ gain
    left = own - gain.T @ J
    np.testing.assert_allclose(densities, score(z[:1], 0).sum() - score._constants.sum(), rtol=1e-12)
    deviations = np.sqrt(np.diag(left @ left.T))
    assert np.all(np.abs(states.mean(axis=0) - mean) <= 4.0 * deviations / np.sqrt(count) + 1e-9)
    error = np.sqrt((np.outer(deviations**2, deviations**2) + (left @ left.T) ** 2) / count)
    assert np.all(np.abs(np.cov(states.T) - left @ left.T) <= 4.5 * error + 1e-9)


def test_results_say_that_they_are_exact():
    """Of exact values that the noise of a step does not reach; and the evidence, by quadrature over one parameter."""
    (model, grid), u = smooth(0.8), np.linspace(-6.0, 6.0, 61)
    rows = Rows(model, grid)
    with pytest.warns(UserWarning, match="depends on the time step"):
        posterior = pf.sample(model, POSITIONS, steps_per_interval=1, chains=2, draws=400, seed=2, progress=False)
    found = pf.log_likelihood(model, POSITIONS, posterior, ahead=True, draws=2).log_likelihood
    assert found.attrs["method"] == "exact"
    for chain, draw in [(0, 0), (1, 1)]:
        place = {"chain": found["chain"][chain], "draw": found["draw"][draw]}
        normal = float((np.log(posterior.posterior["rate"].sel(place))) / 0.5)
        expected = rows.law(np.array([normal])).log_densities
        np.testing.assert_allclose(found["y"].sel(place), expected, rtol=1e-9, atol=1e-9)
    by_quadrature = [rows.law(each[None]).log_densities.sum() + stats.norm.logpdf(each) for each in u]
    exact = np.logaddexp.reduce(by_quadrature) + np.log(u[1] - u[0])
    estimate = pf.evidence(model, POSITIONS, posterior, draws=400, seed=1)
    assert estimate.standard_error < 0.02
    assert abs(estimate.log_evidence - exact) < 3.5 * estimate.standard_error


def test_a_value_that_is_known_before_ends_in_a_sentence():
    """Where a parameter without noise leaves nothing to chance; and of a new series, whose data no sampler has seen."""
    model, grid = smooth()
    score = Innovations(model, grid)
    found = score(np.array([[1.0, 0.0], [1.0, np.nan], [1.0, 0.5]]), 0)
    assert np.isfinite(found[2]).all()
    assert (found[1, 1:] == -np.inf).all()
    assert np.isfinite(found[0, :2]).all()
    assert (found[0, 2:] == -np.inf).all()
    with pytest.raises(pf.SettingsError, match=r"zero, or not finite, at t = 1.3; leave out values that"):
        score.refuse_lost(found[0] == -np.inf)
    with pytest.raises(pf.SettingsError, match=r"zero, or not finite, at t = 1.3"):
        score.residuals(np.array([[1.0, 0.0]]), 0)


LEFT: dict[str, Any] = {
    "counts that no state enters": pf.Likelihood(lambda x, z: dist.Poisson(z["rate"])),
    "joint values": pf.Likelihood(lambda x, z: dist.MultivariateNormal(jnp.zeros(1), jnp.eye(1))),
    "a plain factor": pf.Likelihood(lambda x, z: dist.Normal(z["rate"], 1.0), plain=True),
    "what bends": pf.GaussianNoise(lambda x, z: x**2, 0.1),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_to_particles(what):
    """Laws that are no functions of normals, also where they do not depend on the state."""
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: z["size"] * jnp.eye(1),
        parameters=RATES,
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=[pf.GaussianNoise(lambda x, z: x, 0.1), LEFT[what]],
    )
    grid = TimeGrid.build(pf.Observations([0.5], [[0.1, 1.0]]), steps_per_interval=1)
    assert isinstance(filter_of(model, grid, 5), ParticleFilter)


def test_a_model_without_unknown_parameters_and_values_known_by_bounds():
    model = pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )
    data = pf.Observations([0.5, 1.0], [0.1, 1.0])
    grid = TimeGrid.build(data, steps_per_interval=2)
    score = filter_of(model, grid, 5)
    assert isinstance(score, Innovations)
    expected = Rows(model, grid).law(np.zeros(0)).log_densities
    np.testing.assert_allclose(score(np.zeros((1, 0)), 0)[0], expected, rtol=1e-12)
    with pytest.warns(UserWarning, match="few effective draws"):
        posterior = pf.sample(model, data, steps_per_interval=2, chains=1, warmup=20, draws=20, progress=False)
    np.testing.assert_allclose(pf.evidence(model, data, posterior, draws=50).log_evidence, expected.sum(), rtol=1e-12)
    censored = TimeGrid.build(pf.Observations([0.5], [0.1], censored=[-1.0]), steps_per_interval=2)
    assert isinstance(filter_of(model, censored, 5), ParticleFilter)
