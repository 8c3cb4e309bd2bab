"""The projection's tolerances and limits are settings that reach the native code."""

from __future__ import annotations

import numpy as np
import pytest

import pathfold as pf
from tests.sampling.small_run import model_and_data, small_run


def test_a_looser_solver_makes_fewer_iterations():
    usual, loose = (
        small_run(pf.StaticHMC(integrate=False, solver=solver), chains=1, warmup=30, draws=30)
        for solver in (pf.Solver(), pf.Solver(constraint_tolerance=1e-5, position_tolerance=1e-3))
    )
    iterations = [float(tree.sample_stats["newton_iterations"].mean()) for tree in (usual, loose)]
    assert iterations[1] < iterations[0] - 0.5, iterations
    assert usual.attrs["constraint_tolerance"] == 1e-9
    assert loose.attrs["constraint_tolerance"] == 1e-5


def test_too_few_iterations_leave_no_start():
    model, data = model_and_data()
    with pytest.warns(UserWarning, match="stood still|failed"):
        tree = pf.sample(
            model,
            data,
            steps_per_interval=4,
            chains=1,
            warmup=5,
            draws=20,
            progress=False,
            sampler=pf.StaticHMC(integrate=False, solver=pf.Solver(max_iterations=1)),
        )
    assert np.all(tree.sample_stats["status"] != 0), "no step converges in one iteration"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"constraint_tolerance": 0.0}, "constraint_tolerance"),
        ({"position_tolerance": 2.0}, "position_tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
    ],
)
def test_tolerances_that_cannot_be(settings, name):
    with pytest.raises(pf.SettingsError, match=name):
        pf.Solver(**settings)
