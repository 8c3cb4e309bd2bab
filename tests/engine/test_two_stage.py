"""The share of the kicks in a pair of steps is the one that its docstring derives."""

from __future__ import annotations

import numpy as np
import pytest

from pathfold.engine.native.two_stage import OUTER


def rho(h, b):
    """The bound of the mean energy error of a standard normal coordinate, in closed form."""
    root = 2 * b**2 * (0.5 - b) * h**2 + 4 * b**2 - 6 * b + 1
    return h**4 * root**2 / (8 * (2 - b * h**2) * (2 - (0.5 - b) * h**2) * (1 - b * (0.5 - b) * h**2))


def test_the_bound_is_that_of_a_pair_of_steps():
    for h in (0.3, 1.1, 1.9):
        for b in (0.19, OUTER, 0.25):
            drift, outer, middle = np.array([[1, h / 2], [0, 1]]), np.eye(2), np.eye(2)
            outer[1, 0], middle[1, 0] = -b * h, -(1 - 2 * b) * h
            (A, B), (C, D) = outer @ drift @ middle @ drift @ outer
            assert pytest.approx(D) == A
            assert pytest.approx(rho(h, b), rel=1e-9) == (B + C) ** 2 / (2 * (1 - A**2))


def test_the_share_at_the_ends_minimises_the_largest_bound():
    h, shares = np.linspace(0.0, 2.0, 4000, endpoint=False), np.arange(0.2110, 0.2126, 1e-5)
    largest = [rho(h, b).max() for b in shares]
    assert shares[np.argmin(largest)] == pytest.approx(OUTER, abs=2e-5)
    assert min(largest) < 0.05 * rho(h, 0.25).max()
