"""Plans: names are those of kernels, the page about them is as they are, nothing is read before it is written."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pathfold.engine import plans
from pathfold.engine.native.common_kernels import KERNELS
from pathfold.engine.native.run import run
from pathfold.engine.plans import Plan
from scripts.plan_fields import NAMES, PAGE, Fields, engines, fields_of, flow, kernels_of, page

POSITION = {"u.u", "v0.v0", "w.w", "v.v"}
OF_PLANS = {kernel for plan in NAMES for stage in plan.stages for kernel in stage.kernels}


@cache
def fields(method: str) -> Fields:
    return fields_of(engines_by_name()[method])


@cache
def engines_by_name():
    return engines()


def test_names_in_plans_are_kernels_and_every_kernel_is_in_a_plan():
    """A stage whose kernels a model does not have is left out: a name that is misspelt would be, too."""
    every = {kernel.name for engine in engines_by_name().values() for kernel in kernels_of(engine)}
    assert every | KERNELS.keys() == OF_PLANS


def test_the_page_is_that_of_the_kernels():
    assert page() == PAGE.read_text(), "write it anew: python -m scripts.plan_fields"


# What happens in turn: a plan with its blocks; or fields that native code writes between plans.
HERE, THERE, MOVING = "origin", "target", "momentum"
LINEARISED = [(plans.LINEARISE_AND_FACTOR, HERE, HERE), (plans.GRADIENT, HERE, MOVING)]
SOLVED = [
    {f"{THERE}.{each}" for each in POSITION}
    | {f"{THERE}.node.x_node"},  # displaced, with the node states of the origin
    {f"{MOVING}.{each}" for each in POSITION},
    (plans.SOLVE_ON_MANIFOLD, HERE, MOVING),
    (plans.MOVE_NODES, HERE, THERE),
    *((plan, HERE, THERE) for plan in (plans.SHOOT_AFRESH, plans.CROSS_SMOOTH, plans.SHOOT, plans.CROSS_SMOOTH)),
]
STEP = [
    *LINEARISED,
    *SOLVED,
    (plans.LINEARISE_AND_FACTOR, THERE, THERE),
    (plans.PROJECT, THERE, MOVING),
    (plans.GRADIENT, THERE, MOVING),
]
GUESSES = plans.PLACE_NODES, plans.LINEARISE_AND_IMPROVE, plans.IMPROVE_NODES, plans.KEEP_BEST
SUMS = "gz", "misfit", "excesses"
RUNS = {
    "a step": ("constrained", STEP),
    "guesses": ("constrained", [{"scratch.newton_sums.change"}, *((plan, HERE, HERE) for plan in GUESSES)]),
    "a shift": ("constrained", [LINEARISED[0], {f"{MOVING}.{each}" for each in POSITION}, (plans.SHIFT, HERE, MOVING)]),
    "paths integrated out": (
        "integrated",
        [
            {*(f"{HERE}.sums.{each}" for each in SUMS), f"{HERE}.segment.x_in"},  # which is zero
            (plans.PARAMETERS, HERE, HERE),
            (plans.INTEGRATE, HERE, HERE),
            (plans.INTEGRATED_GRADIENT, HERE, MOVING),
            (plans.CONDITION, HERE, HERE),
        ],
    ),
    "without constraints": (
        "unconstrained",
        [{f"{HERE}.sums.{each}" for each in SUMS}, (plans.PATH_GRADIENT, HERE, MOVING)],
    ),
}


def unwritten(run: list, fields: Fields) -> list[tuple[str, set[str]]]:
    """Return the plans of a run that take what nobody has written, and what that is."""
    written, missing = {f"{HERE}.{each}" for each in POSITION} | {f"{HERE}.node.x_node"}, []
    for turn in run:
        if isinstance(turn, set):
            written |= turn
            continue
        plan, point, other = turn
        names = {"point": point, "other": other}
        taken, left = (
            {".".join([names.get(block, block), rest]) for block, rest in (each.split(".", 1) for each in found)}
            for found in flow(plan, fields)
        )
        if taken - written:
            missing.append((NAMES[plan], taken - written))
        written |= left
    return missing


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_read_before_it_is_written(name):
    method, run = RUNS[name]
    assert unwritten(run, fields(method)) == []


def test_a_stage_that_is_missing_is_seen(monkeypatch):
    """Each kernel of the factor that writes what others read."""
    for kernel in ("linearise", "observe", "factorise", "finish_factor", "begin_factor"):
        stages = tuple(
            stage._replace(kernels=tuple(each for each in stage.kernels if each != kernel))
            for stage in plans.LINEARISE_AND_FACTOR.stages
        )
        with monkeypatch.context() as patch:
            patch.setattr(plans.LINEARISE_AND_FACTOR, "stages", stages)
            assert unwritten(STEP, fields("constrained")) != [], kernel


@pytest.mark.parametrize(("condition", "corrections"), [(1.0, 1), (1e5, 2), (1e12, 3)])
def test_multipliers_are_corrected_until_they_are_accurate(condition, corrections):
    """With half of C^{-1} in its place every correction leaves half of the error, so that they can be counted."""
    engine = engines_by_name()["constrained"]
    m, point = engine.machine(), engine.block("point")
    rng = np.random.default_rng(0)
    point[: engine.block_sizes["vector"]] = rng.normal(size=engine.block_sizes["vector"])
    run(m, plans.LINEARISE_AND_FACTOR, point, point)
    vector = rng.normal(size=engine.block_sizes["vector"])

    def multipliers() -> np.ndarray:
        run(m, plans.SOLVE_ON_MANIFOLD, point, vector)
        return engine.get("scratch", m.scratch, "newton_sums", "a")

    exact = multipliers()
    assert np.abs(exact).max() > 0.01
    engine.set("point", point, "sums", "C_inv", 0.5 * engine.get("point", point, "sums", "C_inv"))
    engine.set("point", point, "sums", "condition", condition)
    assert multipliers() == pytest.approx((1.0 - 0.5**corrections) * exact, rel=1e-9)


def test_a_plan_is_known_by_its_number():
    assert [int(plan) for plan in plans.PLANS] == [*range(len(plans.PLANS))]
    assert all(isinstance(plan, Plan) for plan in plans.PLANS)
