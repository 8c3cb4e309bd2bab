"""Conditioning on full states (paper, section 5.1): rows for the state at some nodes cut the series into blocks."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pathfold.data import TimeGrid
from tests.engine.driving import Driven
from tests.engine.models import Case, with_data_from
from tests.engine.test_oracle import TOLERANCE, all_errors
from tests.engine.test_step import TOLERANCES, step_errors
from tests.thorough import thorough

NODES = [1, 3]
CASES = {
    "noisy": Case(seed=11, X=2, B=2, Y=1, W=2, S=3, priors=("normal", "beta"), starts=("normal",), lengths=(4, 2)),
    "noiseless": Case(seed=12, X=2, B=2, Y=1, W=0, S=3, priors=("normal",) * 2, starts=("normal",) * 2, lengths=(6,)),
    "masked": Case(
        seed=13, X=3, B=2, Y=2, W=2, S=4, priors=("gamma",), starts=(), lengths=(6,), missing=True, regular=False
    ),
}


@cache
def conditioned(name: str, *, on_manifold: bool) -> tuple[Driven, np.ndarray, np.ndarray]:
    """An engine with the states at NODES given; observations without noise are implied there, and dropped."""
    case = CASES[name]
    model, grid = case.model(), case.grid()
    rng = np.random.default_rng(case.seed)
    q = 0.5 * rng.normal(size=Driven.dimension(model, grid))
    data: TimeGrid = with_data_from(model, grid, q) if on_manifold else grid
    states = np.full((len(grid.starts), case.X), np.nan)
    states[NODES] = Driven.states(model, data, q)[NODES] if on_manifold else rng.normal(size=(len(NODES), case.X))
    mask = None
    if case.W == 0:
        mask = grid.mask.copy()
        mask[NODES] = False
    d = Driven(model, data, states=states, mask=mask, lanes=4)
    return d, q, rng.normal(size=q.size)


@pytest.mark.parametrize("name", thorough(CASES, "masked"))
def test_gram_matrix_is_block_diagonal_plus_the_parameters(name):
    d, q, _ = conditioned(name, on_manifold=False)
    J = d.dense.jacobian(q)
    U = d.dense.sizes[0]
    D = J[:, U:] @ J[:, U:].T
    assert np.linalg.matrix_rank(J @ J.T - D, tol=1e-9) <= U
    nodes = np.repeat(np.arange(d.dense.N), d.dense.mask.sum(axis=1) + d.dense.given * d.dense.model.augmented_dim)
    assert len(nodes) == len(J)
    for node in NODES:
        assert np.max(np.abs(D[np.ix_(nodes <= node, nodes > node)]), initial=0.0) == 0.0
    inside = D[np.ix_(nodes == NODES[0], nodes == NODES[0])]
    assert np.linalg.matrix_rank(inside) == len(inside)


@pytest.mark.parametrize("name", thorough(CASES, "masked"))
def test_agrees_with_oracle(name):
    d, q, p = conditioned(name, on_manifold=False)
    found = all_errors(d, q, p)
    assert max(found.values()) < TOLERANCE, found


@pytest.mark.parametrize("splitting", ["gaussian", "stormer-verlet"])
@pytest.mark.parametrize("name", thorough(CASES, "masked"))
def test_steps_hold_the_states(name, splitting):
    d, q, p = conditioned(name, on_manifold=True)
    d.use_splitting(splitting)
    errors = step_errors(d, q, d.dense.project(q, p), 0.1)
    assert all(errors[key] < tolerance for key, tolerance in TOLERANCES.items()), errors
