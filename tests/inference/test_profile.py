"""pf.profile, pf.compare, and what a fit says of identifiability."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.optimize import minimize

import pathfold as pf
from pathfold.sampling.linear_marginal import LinearMarginal
from tests.inference.test_marginal import gaussian_log_likelihood, ornstein_uhlenbeck
from tests.once import once

STEPS = 4


def simulated() -> pf.Observations:
    """Forty values of the process with theta = 1.2, mu = 0.3, sigma = 0.6 and noise of 0.2."""
    rng, x, values = np.random.default_rng(3), 0.5, []
    for _ in range(40):
        for _ in range(STEPS):
            x += 0.1 * 1.2 * (0.3 - x) + 0.6 * np.sqrt(0.1) * rng.normal()
        values.append([x + 0.2 * rng.normal()])
    return pf.Observations(0.4 * np.arange(1, 41), values, initial_time=0.0)


DATA = simulated()


@pytest.fixture(scope="module")
def model() -> pf.DiffusionModel:
    return ornstein_uhlenbeck(0.2)


def maximised(held: dict[int, float]) -> float:
    """The log likelihood with some normals held, over all others, by a simplex search on the dense covariance."""
    free = [k for k in range(3) if k not in held]

    def loss(x):
        u = np.zeros(3)
        u[[*held]], u[free] = [*held.values()], x
        return -gaussian_log_likelihood(u, DATA, STEPS, 0.2)

    found = minimize(loss, np.zeros(len(free)), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-8})
    return -float(found.fun)


def test_a_profile_is_the_maximum_over_the_others(model):
    profile = pf.profile(model, DATA, "mu", steps_per_interval=STEPS, threads=1)
    top = maximised({})
    for i in range(0, profile.sizes["mu"], 3):
        expected = maximised({1: float(profile["mu"][i])}) - top
        assert float(profile["log_density"][i]) == pytest.approx(expected, abs=2e-3)
    low, high = profile["interval"].values
    for end in (low, high):
        assert maximised({1: end}) - top == pytest.approx(-0.5 * 1.959964**2, abs=0.05)
    assert low < float(profile["maximum"]) < high
    figure = pf.plot_profile(profile)
    (ax,) = figure.axes
    assert "95 %" in ax.get_title()
    heights = [np.unique(np.asarray(line.get_ydata(), dtype=float)) for line in ax.lines]
    assert [each.tolist() for each in heights if each.size == 1] == [[pytest.approx(-1.92, abs=0.005)]]


def test_a_bound_at_a_high_level_is_reached(model):
    profile = pf.profile(model, DATA, "mu", steps_per_interval=STEPS, level=0.999, threads=1)
    for end in profile["interval"].values:
        assert maximised({1: end}) - maximised({}) == pytest.approx(-0.5 * 3.290527**2, rel=0.02)


def test_a_narrow_prior_does_not_count(model):
    """A bound is seven prior standard deviations out, and the others are maximised over there too."""
    narrow = ornstein_uhlenbeck(0.2, mu=dist.Normal(0.3, 0.04))
    wide, found = (
        pf.profile(each, DATA, "mu", steps_per_interval=STEPS, threads=1)["interval"].values for each in (model, narrow)
    )
    assert np.abs((found - 0.3) / 0.04).max() > 6.0
    np.testing.assert_allclose(found, wide, rtol=0.01)


def test_a_bound_that_is_not_reached_is_not_a_number(model, monkeypatch):
    """Beyond a value no path is found, though the likelihood falls: nobody knows where it falls far enough."""
    reach = LinearMarginal.reach

    def up_to(self, room, u, origin):
        return reach(self, room, u, origin) if u[1] < 0.5 else -np.inf

    whole = pf.profile(model, DATA, "mu", steps_per_interval=STEPS, threads=1)["interval"].values
    assert whole[1] > 0.5
    monkeypatch.setattr(LinearMarginal, "reach", up_to)
    with pytest.warns(UserWarning, match=r"upper bound of mu was not reached, .* came to 0\.4[89]\d? and found no"):
        profile = pf.profile(model, DATA, "mu", steps_per_interval=STEPS, threads=1)
    assert profile["interval"][0] == pytest.approx(whole[0], rel=0.02)
    assert np.isnan(profile["interval"][1])
    assert "not reached" in pf.plot_profile(profile).axes[0].get_title()


def test_a_region_of_two_parts():
    """The data know the square of a parameter: both of its roots are in the region, and what lies between is not."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["mu"] ** 2 - x,
        diffusion=lambda x, z: 0.6 * jnp.eye(1),
        parameters={"mu": dist.Normal(0.0, 2.0)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )
    data = pf.Observations(np.arange(1.0, 11.0), 1.0 + 0.05 * np.sin(np.arange(1.0, 11.0)))
    with pytest.warns(UserWarning, match="the region of mu has 2 parts, -1.2 to -0.79.* and 0.79.* to 1.2"):
        profile = pf.profile(model, data, "mu", steps_per_interval=2, threads=1)
    parts = profile["parts"].values
    np.testing.assert_allclose(parts[0], -parts[1, ::-1], rtol=1e-3)
    np.testing.assert_array_equal(profile["interval"], [parts[0, 0], parts[1, 1]])
    assert np.all(np.diff(profile["mu"]) > 0.0)
    assert " and " in pf.plot_profile(profile).axes[0].get_title()


def test_a_picture_of_what_the_data_know(model):
    fit = pf.fit(model, DATA, steps_per_interval=STEPS, points=16, pairs=False, threads=1)
    bars, squares = pf.plot_identifiability(fit).axes
    widths = np.array([bar.get_extents().width for bar in bars.patches]) / bars.transData.get_matrix()[0, 0]
    assert np.allclose(widths, np.sort(1.0 / np.sqrt(fit.laplace["eigenvalue"].values)))
    shown = np.asarray(squares.images[0].get_array())
    assert np.allclose(np.sort((shown**2).sum(axis=0)), 1.0)
    assert [tick.get_text() for tick in squares.get_xticklabels()] == ["theta", "mu", "sigma"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("nu", "'nu', which is no parameter"),
        (("mu", "sigma"), r"\('mu', 'sigma'\), which is no parameter of the model; it has theta, mu, sigma"),
    ],
)
def test_names_are_checked(model, names, words):
    with pytest.raises(pf.SettingsError, match=words):
        pf.profile(model, DATA, names, steps_per_interval=STEPS)


def test_a_parameter_whose_prior_depends_on_others_has_no_profile():
    model = pf.DiffusionModel(
        drift=lambda x, z: z["level"] - x,
        diffusion=lambda x, z: jnp.array([[0.5]]),
        parameters={"mean": dist.Normal(0.0, 1.0), "level": lambda z: dist.Normal(z["mean"], 1.0)},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.3),
    )
    with pytest.raises(pf.SettingsError, match="level is integrated out with its law"):
        pf.profile(model, DATA, "level", steps_per_interval=2, threads=1)
    with pytest.raises(pf.SettingsError, match="the prior of level depends on other parameters"):
        pf.profile(model, DATA, "level", steps_per_interval=2, threads=1, prior=True)


@once
def product(spread: float = 1.0) -> pf.DiffusionModel:
    """Of a and b the path knows the product alone."""
    return pf.DiffusionModel(
        drift=lambda x, z: -z["a"] * z["b"] * x,
        diffusion=lambda x, z: jnp.array([[0.1]]),
        parameters={"a": dist.LogNormal(0.0, 0.5), "b": dist.LogNormal(0.0, 0.5)},
        initial_state=[spread],
        observation=pf.GaussianNoise(lambda x, z: x, 0.05),
    )


DECAY = pf.Observations(0.25 * np.arange(1, 9), np.exp(-0.25 * np.arange(1, 9))[:, None], initial_time=0.0)


def test_identifiability_in_words():
    fit = pf.fit(product(), DECAY, steps_per_interval=3, threads=1)
    best, worst = fit.attrs["identifiability"]
    assert best.startswith(("the posterior determines a * b to", "the posterior determines b * a to"))
    assert 2.0 < float(best.split()[-2]) < 30.0
    assert worst in {
        "the posterior of a - 1.0 b is as wide as the prior (in prior standard deviations)",
        "the posterior of b - 1.0 a is as wide as the prior (in prior standard deviations)",
    }
    profile = pf.profile(product(), DECAY, "a", steps_per_interval=3, threads=1)
    assert np.isinf(profile["interval"].values).all(), "a by itself is not identified by the likelihood"


def test_models_are_compared_by_their_evidence(model):
    other = pf.DiffusionModel(
        drift=lambda x, z: 0.0 * x,
        diffusion=lambda x, z: jnp.array([[z["sigma"]]]),
        parameters={"sigma": dist.LogNormal(-1, 0.5)},
        initial_state=[dist.Normal(0.0, 0.7)],
        observation=pf.GaussianNoise(lambda x, z: x, 0.2),
    )
    table = pf.compare({"walk": other, "returning": model}, DATA, steps_per_interval=STEPS, threads=1)
    for name, each in (("walk", other), ("returning", model)):
        fit = pf.fit(each, DATA, steps_per_interval=STEPS, threads=1)
        assert table.loc[name, "log_evidence"] == float(fit.laplace["log_evidence"])
    assert table["difference"].iloc[0] == 0.0
    assert table["probability"].sum() == pytest.approx(1.0)
    assert table["parameters"].to_dict() == {"walk": 1, "returning": 3}
    fine = "paths are integrated out exactly, and there is no sign of a poor approximation"
    assert table.attrs["reasons"] == {"walk": [fine], "returning": [fine]}
    assert max(map(len, str(table).splitlines())) <= 80, "it prints without being wrapped"
    assert len(str(table).splitlines()) == 3
    with pytest.raises(pf.SettingsError, match="models must be a dict of models"):
        pf.compare([model], DATA, steps_per_interval=STEPS)  # pyright: ignore[reportArgumentType]
