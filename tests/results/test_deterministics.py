"""Parameters of every kind, and functions of parameters and path, as they come out of pf.sample."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy import stats

import pathfold as pf
from pathfold.results.deterministics import _largest
from pathfold.results.variables import DrawnArray
from tests.sampling.comparing import mean_scores, threshold

PRIORS: dict[str, tuple[Any, Any]] = {
    "uniform": (dist.Uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    "beta": (dist.Beta(2.0, 0.8), stats.beta(2.0, 0.8)),
    "gamma": (dist.Gamma(2.0, 3.0), stats.gamma(2.0, scale=1 / 3)),
    "truncated": (dist.TruncatedNormal(0.5, 1.0, low=0.0, high=2.0), stats.truncnorm(-0.5, 1.5, loc=0.5)),
    "vector": (dist.Exponential(jnp.array([1.0, 2.0, 2.0])), None),
}
FALSE_ALARMS = 1e-3


@cache
def model() -> pf.DiffusionModel:
    """Parameters that the data say nothing about, but for `level`, in drift and observation alike."""
    return pf.DiffusionModel(
        drift=lambda x, z: z["rate"] * (z["level"] - x),
        diffusion=lambda x, z: jnp.eye(1),
        parameters={
            **{name: prior for name, (prior, _) in PRIORS.items()},
            "level": dist.Normal(0.0, 1.0),
            "rate": 0.7,
        },
        initial_state=lambda z: dist.Normal(z["level"][None], 1.0),
        observation=pf.GaussianNoise(lambda x, z: x - z["level"], 0.5),
    )


DATA = [pf.Observations([0.5, 1.5], [0.3, 0.1]), pf.Observations([0.0, 1.0], [0.2, 0.4])]


@cache
def tree():
    return pf.sample(
        model(),
        DATA,
        steps_per_interval=2,
        chains=4,
        warmup=200,
        draws=1000,
        seed=6,
        keep_path="all",
        keep_warmup=True,
        progress=False,
        deterministics={
            "half_life": lambda z: jnp.log(2.0) / z["rate"],
            "ordered": lambda z: jnp.sort(z["vector"]),
            "highest": lambda z, path: path.max(axis=0),
            "late_mean": lambda z, path, times: jnp.sum(jnp.where(times > 1.0, path[:, 0] - z["level"], 0.0)),
        },
    )


def test_what_the_data_do_not_touch_keeps_its_prior():
    scores = []
    for name, (_, law) in PRIORS.items():
        laws = [law] if law else [stats.expon(scale=scale) for scale in (1.0, 0.5, 0.5)]
        values = np.moveaxis(tree().posterior[name].values.reshape(4, 1000, -1), -1, 0)
        assert len(values) == len(laws)
        for x, each in zip(values, laws, strict=True):
            p = np.array([0.05, 0.3, 0.5, 0.7, 0.95])
            below = x <= each.ppf(p)[:, None, None]
            scores.append(mean_scores(below.astype(float), p))
    z = np.concatenate(scores)
    assert np.abs(z).max() < threshold(z.size, FALSE_ALARMS), z
    assert np.all(tree().posterior["rate"] == 0.7)


def test_deterministics_are_what_their_functions_say():
    for group in ("posterior", "warmup_posterior"):
        p = tree()[group]
        np.testing.assert_allclose(p["half_life"], np.log(2.0) / 0.7)
        np.testing.assert_allclose(p["ordered"], np.sort(p["vector"], axis=-1))
        np.testing.assert_allclose(p["highest"], p["state"].max("node"))
        late = (p["state"].isel(component=0) - p["level"]).where(p["time"] > 1.0, 0.0).sum("node")
        np.testing.assert_allclose(p["late_mean"], late, atol=1e-12)
        assert p["ordered"].dims == ("chain", "draw", "ordered_dim_0")
        assert p["highest"].dtype == np.float64


def undefined(z):
    return z["rat"]


@pytest.mark.parametrize(
    ("deterministics", "options", "words"),
    [
        ({"level": lambda z: z["rate"]}, {}, ("'level'", "another name")),
        ({"state": lambda z: z["rate"]}, {}, ("'state'", "another name")),
        ({"a": lambda z, path: path[0]}, {"keep_path": "none"}, ("'a'", "keep_path='none'", "'nodes'")),
        ({"a": undefined}, {}, ("deterministic 'a' asks for parameter 'rat'",)),
        ({"a": lambda z, path: path @ path}, {}, ("deterministic 'a' raised TypeError",)),
        ({"a": lambda z: [1.0]}, {}, ("deterministic 'a' returned a list", "jnp.array")),
        ({"a": 3.0}, {}, ("deterministic 'a' must be a function of z",)),
        ({"a": lambda z, path, times, more: z}, {}, ("deterministic 'a' takes arguments", "(z, path, times)")),
    ],
)
def test_mistakes_are_told_before_anything_is_drawn(deterministics, options, words):
    with pytest.raises(pf.ModelError) as caught:
        pf.sample(model(), DATA, steps_per_interval=2, deterministics=deterministics, progress=False, **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def short(**options: Any):
    settings: dict[str, Any] = {"chains": 2, "warmup": 10, "draws": 3, "keep_path": "all", "progress": False}
    return pf.sample(model(), DATA, steps_per_interval=2, seed=6, **settings | options)


@cache
def usual() -> xr.DataTree:
    return short()


FUNCTIONS = {
    "distances": lambda z, path: jnp.sum(jnp.abs(path - path.T), axis=1),
    "half_life": lambda z: jnp.log(2.0) / z["rate"],
    "large": lambda z: z["level"] * jnp.ones(1000),
}


def test_deterministics_are_the_same_in_pieces_of_any_size(monkeypatch):
    whole = short(deterministics=FUNCTIONS)
    monkeypatch.setattr("pathfold.results.deterministics.PIECE", 2 * 8 * 1000)
    parts = short(deterministics=FUNCTIONS)
    for name in FUNCTIONS:
        np.testing.assert_allclose(parts.posterior[name], whole.posterior[name], rtol=1e-14)


def test_pieces_have_room_for_what_is_made_on_the_way():
    def distances(path):
        return jax.jit(lambda path: jnp.sum(jnp.abs(path - path.T)))(path)

    assert _largest(jax.make_jaxpr(distances)(jnp.zeros((700, 1), dtype=jnp.float32)).jaxpr) == 4 * 700**2


def test_what_does_not_fit_into_memory_is_left_out_and_the_draws_are_there(monkeypatch):
    """Of 6 draws `large` takes 48 kB, and a piece as much again; the others take less than one."""
    monkeypatch.setattr("pathfold.results.deterministics.available_memory", lambda: 50_000)
    told = r"'large' was left out of the results .*: MemoryError: .* GiB of memory, .* the draws are all here"
    with pytest.warns(UserWarning, match=told):
        found = short(deterministics=FUNCTIONS)
    assert set(FUNCTIONS) & set(found.posterior.data_vars) == {"distances", "half_life"}
    assert found.posterior.sizes["draw"] == 3


def test_what_cannot_fit_is_refused_before_anything_is_drawn():
    """It is not tried at a point either, which would end the process."""
    with pytest.raises(pf.SettingsError, match=r"the deterministic 'a', of all draws, would take .* GiB of memory"):
        short(deterministics={"a": lambda z: z["rate"] * jnp.ones(10**14)}, draws=1, chains=1)


def fail(*_: Any, **__: Any) -> Any:
    raise ValueError("of some kind")


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("raises", [fail, interrupt])
@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("sampling.execution.noise_of", "the group noise was left out of the results"),
        ("sampling.execution.half_step_shift", "the group half_step_shift was left out of the results"),
        ("results.posterior.noise_dataset", "the group noise was left out of the results"),
        ("results.posterior.shift_dataset", "the group half_step_shift was left out of the results"),
        ("results.posterior.model_text", "the attributes were left out of the results"),
        ("results.diagnostics.troubles", "the draws could not be judged"),
    ],
)
def test_whatever_fails_after_the_draws_does_not_lose_them(monkeypatch, place, told, raises):
    expected = usual()
    monkeypatch.setattr(f"pathfold.{place}", raises)
    reason = "KeyboardInterrupt" if raises is interrupt else "ValueError: 'of some kind'"
    with pytest.warns(UserWarning, match=f"{told}.*: {reason}; the draws are all here") as caught:
        found = short()
    assert {each.filename for each in caught} == {__file__}
    xr.testing.assert_identical(found.posterior.to_dataset(), expected.posterior.to_dataset())


def test_draws_of_which_there_is_no_room_for_a_copy_are_read_where_they_are(monkeypatch):
    expected = usual()
    read, full = DrawnArray.read, [True]

    def read_later(self, key):
        if full and self.variable.name == "state":
            raise MemoryError
        return read(self, key)

    monkeypatch.setattr(DrawnArray, "read", read_later)
    found = short()
    full.clear()
    xr.testing.assert_identical(found.posterior.to_dataset().load(), expected.posterior.to_dataset())
