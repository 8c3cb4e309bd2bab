"""Paths integrated out: which models allow it; density, gradient and draws of noise against dense linear algebra.

Two twins: the rows as one Gaussian vector, with Jacobians by automatic differentiation, and a Kalman filter as in
textbooks. Gradients are JAX's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, seed, settings

from pathfold.engine import IntegratedEngine
from pathfold.engine.affine import why_not_affine
from pathfold.engine.equations import linear_rows
from pathfold.example_models import EXAMPLES
from tests.by_numpy import by_numpy
from tests.dense import Dense
from tests.engine.driving import relative
from tests.engine.faults import plant
from tests.engine.linear_models import BENDS, LinearCase, linear, linear_cases
from tests.engine.models import Case
from tests.engine.test_oracle import ROUND
from tests.plain import plain_native
from tests.thorough import thorough

TOLERANCE = 1e-9

PLAIN = linear(replace(ROUND, scheme="euler"))
PANEL = LinearCase(
    seed=5,
    X=3,
    B=2,
    Y=2,
    W=1,
    S=3,
    priors=("normal", "gamma", "log-normal"),
    starts=("normal", "normal"),
    lengths=(3, 5, 2),
    varying=("normal given",),
    groups=("gamma given",),
    missing=True,
    regular=False,
    covariates=True,
)
EXACT = LinearCase(seed=8, X=2, B=1, Y=1, W=0, S=4, priors=("normal", "beta"), starts=("normal",), lengths=(6,))
SCHEME = LinearCase(
    seed=3, X=2, B=2, Y=1, W=2, S=1, priors=("normal", "normal"), starts=(), lengths=(2, 1), scheme="exact"
)
FIXED = {"plain": PLAIN, "panel": PANEL, "exact": EXACT, "scheme": SCHEME}


class Twin:
    """Minus the log density of the rows at parameters, but for 1/2 u.u and constants, and its gradient, two ways."""

    def __init__(self, case: Case) -> None:
        self.dense = Dense(case.model(), case.grid())
        self.by_rows = by_numpy(jax.value_and_grad(self._by_rows))
        self.by_filter = by_numpy(jax.value_and_grad(self._by_filter))
        self.rows, self.jacobian = by_numpy(self._rows), by_numpy(jax.jacfwd(self._rows, argnums=1))

    def _rows(self, u, noise):
        d = self.dense
        q = jnp.concatenate([u, noise])
        return d._flat(q, d.grid.values, np.zeros_like(d.states))[d._counted]

    def excess(self, u):
        d = self.dense
        return d._excess(jnp.concatenate([u, np.zeros(d.dim - d.sizes[0])]), d.grid.values, np.zeros_like(d.states))

    def _by_rows(self, u):
        rest = np.zeros(self.dense.dim - self.dense.sizes[0])
        r, J = self._rows(u, rest), jax.jacfwd(self._rows, argnums=1)(u, rest)
        return self.excess(u) + 0.5 * jnp.linalg.slogdet(J @ J.T)[1] + 0.5 * r @ jnp.linalg.solve(J @ J.T, r)

    def _by_filter(self, u):
        d, m = self.dense, self.dense.model
        z, total = m.parameters.unflatten(m.parameters.push(u)), self.excess(u)
        times, node_times = m.clocks(d.grid)
        covariates, seen = m.covariates_of(d.grid), d.seen(d.grid.values)
        at = jax.tree.map
        for k, first in enumerate(d.grid.first):
            own = m.of_series(z, at(lambda c, k=k: c[k], covariates))
            none = jnp.zeros(m.start_dim)
            x, B = m.start(own, none), jax.jacfwd(lambda v0, own=own: m.start(own, v0))(none)
            P = B @ B.T
            for n in range(first, [*d.grid.first[1:], d.N][k]):
                for s in range(d.S):
                    given = d.grid.delta[n], at(lambda t, n=n, s=s: t[n][s], times)
                    still = jnp.zeros(m.noise_dim)

                    def step(x, v, given=given):
                        return m.step(z, x, v, *given)

                    F, S = jax.jacfwd(step, argnums=(0, 1))(x, still)
                    x, P = step(x, still), F @ P @ F.T + S @ S.T
                node = at(lambda t, n=n: t[n], (node_times, seen))
                counted = np.flatnonzero(d.mask[n])
                quiet = jnp.zeros(m.observation_noise_dim)

                def row(x, w, node=node, counted=counted):
                    return m.misfit(z, x, w, *node)[counted]

                e, (H, W) = row(x, quiet), jax.jacfwd(row, argnums=(0, 1))(x, quiet)
                covariance = H @ P @ H.T + W @ W.T
                K = jnp.linalg.solve(covariance, H @ P).T
                total += 0.5 * jnp.linalg.slogdet(covariance)[1] + 0.5 * e @ jnp.linalg.solve(covariance, e)
                x, P = x - K @ e, P - K @ covariance @ K.T
        return total

    def condition(self, u) -> float:
        rest = np.zeros(self.dense.dim - self.dense.sizes[0])
        return float(np.linalg.cond(self.jacobian(u, rest)))


@cache
def twin(case: Case) -> Twin:
    return Twin(case)


def parameters(case: Case) -> np.ndarray:
    return 0.5 * np.random.default_rng(case.seed + 4).normal(size=twin(case).dense.sizes[0])


def errors(case: Case, *, by_filter: bool = True) -> dict[str, float]:
    """Of value and gradient, in coordinates of the parameters that are their own."""
    engine, t, u = IntegratedEngine(case.model(), case.grid(), lanes=case.lanes), twin(case), parameters(case)
    point = engine.block("point")
    engine.set("point", point, "u", "u", u)
    with np.errstate(all="ignore"):
        value = plain_native().integrated_paths.integrate_with_gradient(engine.machine(), point)
    gradient = engine.get("vector", engine.gradient(point), "u", "u")
    found = {}
    for name, function in {"rows": t.by_rows, "filter": t.by_filter if by_filter else t.by_rows}.items():
        expected, slope = function(u)
        found |= {f"value by {name}": relative(value, expected, max(1.0, abs(float(expected))))}
        found |= {f"gradient by {name}": relative(gradient, slope, np.append(slope, 1.0))}
    return found


def draw_errors(case: Case) -> dict[str, float]:
    """Of a draw of the noise, and of the states that it gives, for the normals that it begins with."""
    engine, t, u = IntegratedEngine(case.model(), case.grid(), lanes=case.lanes), twin(case), parameters(case)
    point, vector, native, d = engine.block("point"), engine.block("vector"), plain_native(), t.dense
    engine.set("point", point, "u", "u", u)
    machine = engine.machine()
    with np.errstate(all="ignore"):
        native.integrated_paths.integrate(machine, point)
        native.integrated_paths.draw_noise(machine, point, np.zeros(u.size), np.random.default_rng(7))
    native.vectors.draw_normals(engine.layout, vector, np.random.default_rng(7))
    drawn = np.concatenate([part.ravel() for part in engine.get_vector(vector)[1:]])
    expected = drawn - np.linalg.pinv(t.jacobian(u, drawn)) @ t.rows(u, drawn)
    found = np.concatenate([part.ravel() for part in engine.get_vector(point)])
    nodes = engine.get("point", point, "node", "x_node")
    return {
        "parameters": relative(found[: u.size], u),
        "noise": relative(found[u.size :], expected, drawn),
        "states": relative(nodes, d.node_states(found), np.append(nodes, 1.0)),
        "rows": relative(
            t.rows(u, found[u.size :]), np.zeros(int(d.mask.sum())), np.append(d.grid.values[d.mask], 1.0)
        ),
    }


@pytest.mark.parametrize("name", FIXED)
def test_fixed_models(name):
    found = errors(FIXED[name]) | draw_errors(FIXED[name])
    assert max(found.values()) < TOLERANCE, found


FAULTS = {
    "gradient of the log-determinant": ("_mean_weights", lambda out, given: {"Om": 0.0 * out["Om"]}),
    "sign of the multipliers": ("_mean_weights", lambda out, given: {"wo": -out["wo"]}),
    "mean along an interval": ("_interval_slopes", lambda out, given: {"Lam": given["Lam"]}),
    "states in a draw": ("_condition", lambda out, given: {"x_node": given["c"]}),
    "seen once": ("_predict", lambda out, given: {"running": given["c"] if "c" in given else out["c"]}),
}


@pytest.mark.parametrize("fault", thorough(FAULTS, "gradient of the log-determinant", "sign of the multipliers"))
def test_a_planted_fault_is_found(monkeypatch, fault):
    plant(monkeypatch, linear_rows, *FAULTS[fault])
    assert max((errors(PANEL, by_filter=False) | draw_errors(PANEL)).values()) > 1e-6


@settings(max_examples=2)
@given(linear_cases())
def test_random_models(case):
    check_random(case)


@pytest.mark.slow
@settings(max_examples=60)
@seed(2)
@given(linear_cases())
def test_many_random_models(case):
    check_random(case)


def check_random(case: LinearCase) -> None:
    assume(case.model().parameters.size)
    assert why_not_affine(case.model(), censored=False) == ""
    assume(twin(case).condition(parameters(case)) < 1e3)
    found = errors(case) | draw_errors(case)
    assert max(found.values()) < TOLERANCE, found


@pytest.mark.parametrize("bend", BENDS)
def test_what_is_not_linear_is_refused_with_a_reason(bend):
    """Each bend alone makes a model of which all else is linear one that is not."""
    case = replace(PANEL, bend=bend)
    assert BENDS[bend] in why_not_affine(case.model(), censored=bend == "censored")


@settings(max_examples=3)
@given(linear_cases())
def test_bends_of_drawn_models(case):
    """The step of a scheme with a bent drift is never taken for a linear one."""
    assert "step" in why_not_affine(replace(case, bend="drift").model(), censored=False)


def test_which_examples_are_linear():
    linear_ones = {name for name, example in EXAMPLES.items() if not why_not_affine(example.model(), censored=False)}
    assert linear_ones == {"ornstein_uhlenbeck", "integrated_ornstein_uhlenbeck", "nile", "heat_rod", "building"}


def test_coordinates_of_the_parameters():
    """With u = m + L f(q) the density of q is that of u with f', its normal part taken out in the coordinates."""
    case, rng = PANEL, np.random.default_rng(3)
    engine, u = IntegratedEngine(case.model(), case.grid(), lanes=case.lanes), parameters(case)
    q, skew = rng.normal(size=u.size), rng.uniform(-0.9, 0.9, size=u.size)
    factor = 0.4 * np.eye(u.size) + 0.1 * rng.normal(size=(u.size, u.size))

    def moved(q):
        return q + skew * (jnp.sqrt(1.0 + q**2) - 1.0)

    with jax.enable_x64(True):
        centre = u - factor @ np.asarray(moved(q))
        slopes = jax.jvp(jax.grad(lambda q: jnp.sum(moved(q))), (q,), (np.ones_like(q),))
    stretch, of_stretch = map(np.asarray, slopes)
    for name, values in (("centre", centre), ("factor", factor), ("skew", skew)):
        engine.set("problem", engine.problem, "coordinates", name, values)
    point = engine.block("point")
    engine.set("point", point, "u", "u", q)
    value = plain_native().integrated_paths.integrate_with_gradient(engine.machine(), point)
    expected, slope = twin(case).by_rows(u)
    assert relative(value, expected + 0.5 * u @ u - 0.5 * q @ q - np.sum(np.log(stretch))) < TOLERANCE
    gradient = engine.get("vector", engine.gradient(point), "u", "u")
    assert relative(gradient, stretch * (factor.T @ (slope + u)) - of_stretch / stretch - q) < TOLERANCE
