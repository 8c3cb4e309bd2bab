"""Covariates and groups of series in all engines: against the dense oracle, and against series by themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine, GuidedEngine, UnconstrainedEngine
from pathfold.engine.model_functions import ModelFunctions
from pathfold.engine.status import CONVERGED
from pathfold.model import DiffusionModel
from tests.dense import Dense
from tests.engine.driving import Driven
from tests.engine.faults import build_anew
from tests.engine.test_laplace import worst
from tests.engine.test_oracle import HIERARCHY, TOLERANCE, all_errors
from tests.flat import flat
from tests.once import once
from tests.plain import compiled_native
from tests.thorough import thorough

GROUPED = replace(HIERARCHY, groups=("gamma given",), covariates=True, lengths=(2, 1, 2))


def oracle_errors(case) -> dict[str, float]:
    d = Driven(case.model(), case.grid(), lanes=2)
    q, p = 0.5 * np.random.default_rng(5).normal(size=(2, d.dense.dim))
    return all_errors(d, q, p)


@pytest.mark.parametrize("scheme", thorough(["euler", "custom"], "euler"))
def test_every_quantity_against_dense_algebra(scheme):
    found = oracle_errors(replace(GROUPED, scheme=scheme))
    assert max(found.values()) < TOLERANCE, found


def test_the_pass_of_a_fit_against_dense_algebra():
    assert worst(replace(GROUPED, starts=("gamma",), scheme="custom"), curved=True) < 1e-10


def test_a_start_that_forgets_the_covariates_is_found(monkeypatch):
    """The oracle uses the model's functions, which are right; the starts of the kernels see zeros, the first group."""
    of_series = ModelFunctions._of_series
    monkeypatch.setattr(ModelFunctions, "_of_series", lambda f, z, covariates: of_series(f, z, 0.0 * covariates))
    build_anew(monkeypatch)
    found = oracle_errors(GROUPED)
    assert found["potential"] > 1e3 * TOLERANCE
    assert found["gradient"] > 1e3 * TOLERANCE


def test_the_value_of_a_group_moves_its_series_alone():
    """Series are of the groups c, a, b in this order; the normals of each group stand together."""
    dense = Dense(GROUPED.model(), GROUPED.grid())
    q = 0.5 * np.random.default_rng(5).normal(size=dense.dim)
    names = [name for name, m in dense.model.parameters.maps.items() for _ in range(m.size)]
    for i in (i for i, name in enumerate(names) if name == "g0"):
        level = i - names.index(names[i])  # of a, b, c
        mine = {"a": slice(2, 3), "b": slice(3, 5), "c": slice(0, 2)}["abc"[level]]
        moved = dense.predicted(q + 0.5 * (np.arange(dense.dim) == i)) != dense.predicted(q)
        assert moved[mine].all()
        assert moved.sum() == moved[mine].size


def test_too_many_groups_are_refused():
    many = pf.DiffusionModel(
        drift=lambda x, z: z["g"] - x,
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={"g": pf.Varying(dist.Normal(), by="subject")},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
        covariates={"subject": range(200)},
    )
    data = pf.Observations([1.0], [0.3], covariates={"subject": 3})
    with pytest.raises(pf.ModelError, match=r"the 200 parameters make a matrix of .* fewer groups of series"):
        Engine(many, TimeGrid.build(data, steps_per_interval=1))


KNOWN = [{"weight": 1.3, "group": "y"}, {"weight": 0.4, "group": "x"}, {"weight": 0.8, "group": "y"}]
LEVELS = ("x", "y", "z")


@once
def model(series: int | None = None) -> DiffusionModel:
    """All functions and priors use covariate and group; with those of a series these are numbers in the model."""
    known = None if series is None else KNOWN[series]
    level = 0 if known is None else LEVELS.index(known["group"])
    effect, mean = (lambda z: dist.Gamma(2.0 + jnp.tanh(z["a"]), 2.0)), (lambda z: z["g"] + z["weight"] * z["a"])
    alone = {
        "all": lambda z: effect(z).expand([3]),
        "g": lambda z: z["all"][level],
        "weight": (known or {}).get("weight"),
    }
    return pf.DiffusionModel(
        drift=lambda x, z: z["effect"] * jnp.cos(x) - z["weight"] * z["g"] * x,
        diffusion=lambda x, z: (0.4 + 0.1 * z["weight"] * jnp.sin(x + z["g"]))[:, None],
        parameters={
            "a": dist.Normal(0.2, 0.6),
            **({"g": pf.Varying(effect, by="group")} if known is None else alone),
            "effect": pf.Varying(lambda z: dist.Gamma(2.0 + jnp.tanh(mean(z)), 1.0 + z["weight"])),
        },
        initial_state=lambda z: dist.Gamma(1.5 + z["weight"] * z["effect"][None], 1.0 + z["g"]),
        observation=pf.GaussianNoise(lambda x, z: x + z["weight"] * z["g"], lambda z: 0.2 + 0.1 * z["weight"]),
        covariates={"weight": 1.0, "group": LEVELS} if known is None else None,
    )


def series(k: int) -> pf.Observations:
    rng = np.random.default_rng(k)
    return pf.Observations(np.cumsum(rng.uniform(0.2, 0.5, 3)), rng.normal(size=3), covariates=KNOWN[k])


def grid_of(*panel: pf.Observations) -> TimeGrid:
    return TimeGrid.build([*panel], steps_per_interval=2)


def test_the_baseline_is_the_sum_of_series_by_themselves():
    rng = np.random.default_rng(1)
    u = 0.5 * rng.normal(size=4)
    own = [(0.5 * rng.normal(size=(1, 2)), 0.5 * rng.normal(size=(6, 1))) for _ in KNOWN]

    def evaluated(m: DiffusionModel, panel: list[pf.Observations], noise: list[Any]) -> tuple[float, list[np.ndarray]]:
        """The potential and its gradients, less what all series share: they begin with the prior of u."""
        engine = UnconstrainedEngine(m, grid_of(*panel), lanes=4)
        point, (v0, v) = engine.block("point"), (np.concatenate(each) for each in zip(*noise, strict=True))
        engine.set_vector(point, u, v0, np.zeros((engine.intervals, 0)), v)
        native, blocks = compiled_native.dynamics, (engine.machine(), point)
        assert native.prepare(*blocks) == CONVERGED
        excess_u, slope = (engine.get("point", point, "theta", name) for name in ("excess_u", "excess_u_gradient"))
        by_u, by_v0, _, by_v = engine.get_vector(engine.gradient(point))
        shared = 0.5 * u @ u + float(excess_u)
        return native.potential(engine.layout, point) - shared, [by_u - slope, by_v0, by_v]

    total, gradients = evaluated(model(), [series(k) for k in range(3)], own)
    alone = [evaluated(model(k), [series(k)], [own[k]]) for k in range(3)]
    assert total == pytest.approx(sum(each for each, _ in alone), rel=1e-12)
    np.testing.assert_allclose(gradients[0], sum(each[0] for _, each in alone), rtol=1e-10)
    for i in (1, 2):
        np.testing.assert_allclose(gradients[i], np.concatenate([each[i] for _, each in alone]), rtol=1e-10)
    assert abs(evaluated(model(0), [series(1)], [own[1]])[0] - alone[1][0]) > 0.1, "covariates matter"


def test_guided_paths_are_those_of_series_by_themselves():
    rng = np.random.default_rng(2)
    values = {"a": 0.3, "g": np.array([0.7, 1.1, 0.4])}
    reference, omega0, omega = rng.normal(size=(2, 3, 6, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 6, 1))

    def weights(m: DiffusionModel, which: list[int]) -> list[float]:
        e = GuidedEngine(m, grid_of(*(series(k) for k in which)))
        point, scratch = e.block("point"), e.block("scratch")
        given = values if m.covariates else {"a": values["a"], "all": values["g"]}
        e.set("point", point, "theta", "z", flat(e.model, given))
        for field, states in zip(("x_start", "x_node"), reference, strict=True):
            e.set("point", point, "node", field, states[which].reshape(-1, 2))
        e.set_vector(point, np.zeros(e.sizes.U), omega0[which], np.zeros((e.intervals, 0)), omega[which].reshape(-1, 1))
        native, blocks = compiled_native.guided_paths, (e.machine(scratch), point)
        for k in range(len(which)):
            native.guide_series(*blocks, k)
        return [native.follow_series(*blocks, k, False) for k in range(len(which))]

    together, alone = weights(model(), [0, 1, 2]), [weights(model(k), [k])[0] for k in range(3)]
    np.testing.assert_allclose(together, alone, rtol=1e-11)
    assert np.isfinite(together).all()
