"""Draws of the samplers against posteriors that are known exactly, for the same discretisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import xarray as xr

import pathfold as pf
from pathfold.engine.model_functions import Programs
from tests.engine.faults import build_anew
from tests.sampling.comparing import scores, threshold
from tests.sampling.linear_gaussian import Exact, Moments, Process, integrated_ornstein_uhlenbeck, ornstein_uhlenbeck
from tests.thorough import thorough

FALSE_ALARMS = 1e-3  # for everything in this file together, slow tests included

PROCESSES = {
    "noisy": lambda: ornstein_uhlenbeck(noisy=True),
    "noiseless": lambda: ornstein_uhlenbeck(noisy=False),
    "integrated": integrated_ornstein_uhlenbeck,
}
STEPS = {"noisy": 4, "noiseless": 6, "integrated": 4}
SAMPLERS = {
    "static": partial(pf.StaticHMC, integrate=False),
    "integrated": pf.StaticHMC,
    "dynamic": pf.DynamicHMC,
    "stormer-verlet": partial(pf.DynamicHMC, splitting="stormer-verlet"),
}
ALL_SAMPLERS = SAMPLERS | {
    "unconstrained": pf.UnconstrainedHMC,
    "path": lambda: pf.GuidedProposals("path"),
    "endpoint": lambda: pf.GuidedProposals("endpoint"),
}


@dataclass(frozen=True)
class Case:
    """`plain` data are complete, at regular times; others are neither."""

    process: str
    known: bool
    plain: bool

    def __str__(self) -> str:
        words = ("known" if self.known else "unknown", "plain" if self.plain else "gaps")
        return "-".join((self.process, *words))


ALL = [Case(process, known, plain) for process in PROCESSES for known in (True, False) for plain in (True, False)]
RUNS = [*product(ALL, SAMPLERS)]
QUICK = [
    (Case("noisy", known=True, plain=True), "static"),
    (Case("noiseless", known=False, plain=True), "static"),
    (Case("noiseless", known=False, plain=False), "integrated"),
    (Case("integrated", known=False, plain=True), "integrated"),
    (Case("integrated", known=False, plain=False), "stormer-verlet"),
]
BLOCKED = [
    (Case("noisy", known=False, plain=False), 2),
    (Case("integrated", known=False, plain=True), 3),
    (Case("integrated", known=False, plain=False), 5),
    (Case("integrated", known=True, plain=True), 10),
]
UNCONSTRAINED = [
    (Case("noisy", known=True, plain=False), "gaussian"),
    (Case("noisy", known=False, plain=True), "stormer-verlet"),
    (Case("noisy", known=False, plain=False), "gaussian"),
]
CORRELATED = [[2.0, -1.5], [-1.5, 6.0]]  # a metric of the two unknown parameters
METRICS = [
    (Case("noiseless", known=False, plain=True), "dynamic", CORRELATED, None),
    (Case("noiseless", known=False, plain=True), "stormer-verlet", CORRELATED, None),
    (Case("noiseless", known=False, plain=True), "dynamic", "adapted", None),
    (Case("noisy", known=False, plain=False), "dynamic", {"sigma": 0.3, "tau": 4.0}, None),
    (Case("noisy", known=False, plain=False), "stormer-verlet", "adapted", None),
    (Case("integrated", known=False, plain=True), "dynamic", CORRELATED, 3),
    (Case("integrated", known=False, plain=True), "dynamic", "adapted", 2),
]
GUIDED = [
    (Case("noisy", known=False, plain=False), "path"),
    (Case("noisy", known=False, plain=True), "endpoint"),
    (Case("noisy", known=True, plain=False), "path"),
]
SETTINGS = sum(map(len, (RUNS, BLOCKED, UNCONSTRAINED, METRICS, GUIDED)))


def observations(model: pf.DiffusionModel, process: Process, *, plain: bool) -> pf.Observations:
    """Data of the true parameters, simulated finely."""
    rng = np.random.default_rng(5)
    times = 0.5 * np.arange(1, 11) if plain else 0.3 + np.cumsum(rng.uniform(0.2, 0.9, size=10))
    truth = {name: process.values[name] for name in process.free}
    initial_time = 0.0 if plain else 0.3
    data = pf.simulate(model, truth, times, steps_per_interval=50, initial_time=initial_time, seed=8)
    values = data.values.copy()
    if not plain:
        values[[2, 5, 6]] = np.nan
    return pf.Observations(times, values, initial_time=initial_time)


@cache
def build(case: Case) -> tuple[pf.DiffusionModel, pf.Observations, Exact, Moments]:
    process = PROCESSES[case.process]()
    model = process.model(known=case.known)
    data = observations(model, process, plain=case.plain)
    exact = Exact(process, data, STEPS[case.process])
    return model, data, exact, exact.known if case.known else exact.unknown


@cache
def constrained(case: Case, sampler: str) -> xr.DataTree:
    return draw(case, sampler)


def draw(case: Case, sampler: str, **of_sampler: Any) -> xr.DataTree:
    model, data, exact, _ = build(case)
    return pf.sample(
        model,
        data,
        steps_per_interval=exact.steps,
        chains=4,
        warmup=300,
        draws=3000 if sampler == "unconstrained" else 2000,
        seed=11,
        sampler=ALL_SAMPLERS[sampler](**of_sampler),
        progress=False,
    )


@pytest.mark.parametrize(("case", "sampler"), thorough(RUNS, *QUICK), ids=str)
def test_posterior_is_the_exact_one(case, sampler):
    compare(case, constrained(case, sampler), sampler)


@pytest.mark.parametrize(("case", "R"), thorough(BLOCKED, BLOCKED[0]), ids=str)
def test_blocks_do_not_change_the_posterior(case, R):
    compare(case, draw(case, "dynamic", observations_per_block=R), f"blocks of {R}")


@pytest.mark.parametrize(("case", "splitting"), thorough(UNCONSTRAINED, UNCONSTRAINED[1]), ids=str)
def test_the_baseline_has_the_same_posterior(case, splitting):
    compare(case, draw(case, "unconstrained", splitting=splitting), f"unconstrained {splitting}")


@pytest.mark.parametrize(("case", "sampler", "metric", "R"), thorough(METRICS))
def test_a_metric_does_not_change_the_posterior(case, sampler, metric, R):
    tree = draw(case, sampler, observations_per_block=R, metric=metric)
    compare(case, tree, f"{sampler}, metric {metric}, blocks of {R}")


@pytest.mark.slow
def test_a_metric_without_its_excess_is_noticed(monkeypatch):
    """The prior in the coordinates of a metric is not standard normal; a sampler that took it for that is seen."""
    sound = Programs.in_coordinates

    def faulty(f, q, centre, factor):
        excess = f.parameter_excess(centre + factor @ q)
        gradient = factor.T @ excess.jacobian(0)
        return sound(f, q, centre, factor)._replace(excess=excess.value(), excess_gradient=gradient)

    monkeypatch.setattr(Programs, "in_coordinates", faulty)
    build_anew(monkeypatch)
    case, sampler, metric, _ = METRICS[0]
    found = scores(draw(case, sampler, metric=metric), build(case)[-1])
    comparisons = sum(z.size for z in found.values())
    assert max(np.abs(z).max() for z in found.values()) > threshold(comparisons, FALSE_ALARMS / SETTINGS)


@pytest.mark.parametrize(("case", "reference"), thorough(GUIDED, GUIDED[0]), ids=str)
def test_guided_proposals_have_the_same_posterior(case, reference):
    """Their guide is exact here: every move of the path is accepted, and parameters move as if it were not there."""
    tree = draw(case, reference)
    assert np.all(tree.sample_stats["path_acceptance"].values > 1.0 - 1e-9)
    compare(case, tree, f"guided {reference}")


def compare(case: Case, tree: xr.DataTree, setting: str) -> None:
    assert np.mean(tree.sample_stats["status"].values != 0) < 0.01
    found = scores(tree, build(case)[-1])
    comparisons = sum(z.size for z in found.values())
    worst = {name: round(float(np.abs(z).max()), 2) for name, z in found.items()}
    print(case, setting, worst)
    assert max(worst.values()) < threshold(comparisons, FALSE_ALARMS / SETTINGS), worst


@pytest.mark.parametrize("fault", ["sigma", "spread"])
def test_a_wrong_target_is_noticed(fault):
    """The comparison is sharp: a volatility one tenth off, or a prior spread one fifth off, would not pass."""
    case = Case("noisy", known=True, plain=True) if fault == "sigma" else Case("noiseless", known=False, plain=True)
    _, data, exact, _ = build(case)
    process = exact.process
    if fault == "sigma":
        wrong = Exact(
            replace(process, values=process.values | {"sigma": 1.1 * process.values["sigma"]}), data, exact.steps
        )
        moments = wrong.known
    else:
        moments = Exact(replace(process, spread=1.2 * process.spread), data, exact.steps).unknown
    found = scores(constrained(case, "static"), moments)
    comparisons = sum(z.size for z in found.values())
    assert max(np.abs(z).max() for z in found.values()) > threshold(comparisons, FALSE_ALARMS / SETTINGS)
