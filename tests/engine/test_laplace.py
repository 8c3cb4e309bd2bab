"""The inner problem of the Laplace approximation against a dense twin: log|det K|, Newton step and multipliers.

The twin has the states at the nodes as unknowns too, with rows and gaps as constraints and any multipliers: the whole
matrix K of the conditions of a minimum, by automatic differentiation, and its solution by linear algebra.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, seed, settings

from pathfold.engine import LaplaceEngine
from pathfold.engine.equations import laplace, linearise
from pathfold.engine.status import CONVERGED
from pathfold.program.kernel import Traced
from tests.by_numpy import by_numpy
from tests.dense import Dense
from tests.engine.driving import relative
from tests.engine.faults import plant
from tests.engine.models import Case, cases
from tests.engine.test_oracle import HIERARCHY, ROUND
from tests.plain import plain_native
from tests.thorough import thorough

TOLERANCE = 1e-10


class Lifted:
    """V and the constraint of (noise, node states) given the parameters u; rows that are masked do not count."""

    def __init__(self, case: Case) -> None:
        self.dense = Dense(case.model(), case.grid())
        d, self.u = self.dense, 0.5 * np.random.default_rng(case.seed).normal(size=self.dense.sizes[0])
        self.noise, self.nodes = sum(d.sizes[1:]), d.N * d.model.augmented_dim
        self.functions = by_numpy(lambda y, lam, eta: self._conditions(y, lam, eta))

    def _parts(self, y):
        """V, gaps (N, X) and misfits (N, Y)."""
        d, m = self.dense, self.dense.model
        noise, nodes = y[: self.noise], y[self.noise :].reshape(d.N, m.augmented_dim)
        _, v0, w, v = d.split(jnp.concatenate([jnp.asarray(self.u), noise]))
        z = m.parameters.unflatten(m.parameters.push(jnp.asarray(self.u)))
        times, node_times = m.clocks(d.grid)
        total = 0.5 * noise @ noise + jnp.sum(d.of_each_series(m.start_excess, z, v0))
        begins = jnp.concatenate([jnp.zeros((1, m.augmented_dim)), nodes[:-1]])
        begins = begins.at[d.grid.first].set(d.of_each_series(m.start, z, v0))

        def interval(x, noise, delta, t, *node):
            x, _ = jax.lax.scan(lambda x, at: (m.step(z, x, at[0], delta, at[1]), None), x, (noise, t))
            return x, m.misfit(z, *node), jnp.asarray(m.node_excess(z, *node), dtype=float)

        seen = d.seen(d.grid.values)
        x, misfits, excess = jax.vmap(interval)(begins, v, d.grid.delta, times, nodes, w, node_times, seen)
        return total + jnp.sum(excess), x - nodes, jnp.where(d.mask, misfits, 0.0)

    def _conditions(self, y, lam, eta):
        def lagrangian(y):
            total, gaps, misfits = self._parts(y)
            return total + jnp.sum(lam * misfits) + jnp.sum(eta * gaps)

        def constraint(y):
            _, gaps, misfits = self._parts(y)
            return jnp.concatenate([gaps.ravel(), misfits.ravel()])

        slope, curvature = jax.grad(lambda y: self._parts(y)[0])(y), jax.hessian(lagrangian)(y)
        return slope, curvature, constraint(y), jax.jacfwd(constraint)(y)

    def solve(self, y, lam, eta, *, curved: bool) -> tuple[np.ndarray, float, float]:
        """The change of y and the new multipliers (of gaps, then of rows), log|det K|, and the condition of K."""
        d = self.dense
        counted = np.concatenate([np.ones(self.nodes, dtype=bool), d.mask.ravel()])
        slope, curvature, c, J = self.functions(y, lam, eta)
        if not curved:
            curvature = np.diag(np.arange(y.size) < self.noise).astype(float)
        c, J = c[counted], J[counted]
        K = np.block([[curvature, J.T], [J, np.zeros((len(c), len(c)))]])
        solution = np.linalg.solve(K, -np.concatenate([slope, c]))
        found = np.zeros(y.size + counted.size)
        found[: y.size], found[y.size :][counted] = solution[: y.size], solution[y.size :]
        signs = np.linalg.eigvalsh(K)
        self.inertia = int((signs < 0.0).sum()) == len(c)
        return found, float(np.linalg.slogdet(K)[1]), float(np.linalg.cond(K))


@cache
def lifted(case: Case) -> Lifted:
    return Lifted(case)


def pass_errors(case: Case, *, curved: bool, scale: float = 0.3) -> tuple[dict[str, float], float]:
    """Relative errors of one pass at a random point off the manifold, and the condition of the dense matrix."""
    twin, rng = lifted(case), np.random.default_rng(case.seed + 3)
    d, model = twin.dense, twin.dense.model
    engine = LaplaceEngine(model, d.grid, lanes=case.lanes)
    noise = scale * rng.normal(size=twin.noise)
    nodes = d.node_states(np.concatenate([twin.u, noise])) + 0.1 * rng.normal(size=(d.N, model.augmented_dim))
    lam, eta = scale * rng.normal(size=d.mask.shape), scale * rng.normal(size=nodes.shape)
    expected, log_det, condition = twin.solve(np.concatenate([noise, nodes.ravel()]), lam * d.mask, eta, curved=curved)

    point, change, scratch = (engine.block(kind) for kind in ("point", "vector", "scratch"))
    engine.give(engine.problem, twin.u)
    engine.set_vector(point, np.zeros(0), *np.split(noise, np.cumsum(d.sizes[1:])[:-1]))
    engine.set("point", point, "node", "x_node", nodes)
    engine.set("point", point, "dual", "lam_at", lam * d.mask)
    engine.set("point", point, "dual", "eta_at", eta)
    code, machine = plain_native().inner_mode, engine.machine(scratch)
    with np.errstate(all="ignore"):
        code.simulate(machine, point)
        set_start_multipliers(engine, point, scratch)
        code.newton_pass(machine, point, change, float(curved))
    moved = [part.ravel() for part in engine.get_vector(change)]
    moved.append(engine.get("scratch", scratch, "element", "dx_node").ravel())
    split, found = twin.noise + twin.nodes, np.concatenate(moved)
    eta_up, lam_up = (engine.get("scratch", scratch, "element", name).ravel() for name in ("eta_up", "lam_up"))
    errors = {
        "log det": relative(engine.get("point", point, "sums", "log_det"), log_det, max(1.0, abs(log_det))),
        "change": relative(found, expected[:split]),
        "multipliers of gaps": relative(eta_up, expected[split : split + twin.nodes]),
        "multipliers of rows": relative(lam_up, expected[split + twin.nodes :]),
    }
    return errors, condition


def set_start_multipliers(engine: LaplaceEngine, point: np.ndarray, scratch: np.ndarray) -> None:
    """The multiplier of an initial state: eta of the first node, pulled back through its interval."""
    plain_native().constrained_step.linearise(engine.machine(scratch), point)
    known = Traced(linearise._linearise(engine.functions, engine.records, engine.sizes)).fixed("A")
    A = np.where(np.isnan(known), engine.get("point", point, "node", "A"), known)  # constants are not written
    eta = engine.get("point", point, "dual", "eta_at")
    engine.set("point", point, "dual_start", "rho_at", np.stack([A[n].T @ eta[n] for n in engine.first]))


def worst(case: Case, **options) -> float:
    return max(pass_errors(case, **options)[0].values())


@pytest.mark.parametrize("curved", [False, True])
def test_fixed_model(curved):
    assert worst(ROUND, curved=curved) < TOLERANCE


@pytest.mark.slow  # with covariates and groups besides: test_covariates.py
def test_a_hierarchy_with_student_noise():
    """Priors given others, values that vary between series, excesses of initial states and of the noise."""
    assert worst(replace(HIERARCHY, starts=("gamma",), scheme="custom"), curved=True) < TOLERANCE


FAULTS = {
    "sign of a curvature": ("_elements", lambda out, given: {"eO": -out["eO"]}),
    "no slope": ("_elements", lambda out, given: {"mu": 0.0 * out["mu"]}),
    "determinant": ("_eliminate_nodes", lambda out, given: {"log_det": out["log_det"] - given["el"]}),
    "multiplier": ("_multipliers", lambda out, given: {"rho": out["rho"] - given["eO"] @ out["dx_start"]}),
    "change of the noise": ("_noise_change", lambda out, given: {"v_g": out["v_g"] - given["Kx"] @ given["dx"]}),
}


@pytest.mark.parametrize("fault", thorough(FAULTS, "sign of a curvature", "multiplier"))
def test_a_planted_fault_is_found(monkeypatch, fault):
    plant(monkeypatch, laplace, *FAULTS[fault])
    assert worst(ROUND, curved=True) > 1e-6


@settings(max_examples=1)
@given(cases())
def test_random_models(case):
    check_random(case)


@pytest.mark.slow
@settings(max_examples=60)
@seed(1)
@given(cases())
def test_many_random_models(case):
    check_random(case)


def check_random(case: Case) -> None:
    for curved in (False, True):
        errors, condition = pass_errors(case, curved=curved)
        assume(condition < 1e6)
        bound = max(TOLERANCE, 1e-14 * condition)
        assert max(errors.values()) < bound, (errors, condition)


def test_without_curvature_it_is_the_gram_matrix_of_the_noise():
    """log|det K| is then log|G|, less what the parameters add: `constrained_step.factorise` has both."""
    twin = lifted(ROUND)
    d, engine = twin.dense, LaplaceEngine(twin.dense.model, twin.dense.grid, lanes=2)
    q = np.concatenate([twin.u, 0.3 * np.random.default_rng(1).normal(size=twin.noise)])
    point, change, scratch = (engine.block(kind) for kind in ("point", "vector", "scratch"))
    engine.give(engine.problem, twin.u)
    engine.set_vector(point, np.zeros(0), *np.split(q, np.cumsum(d.sizes)[:-1])[1:])
    engine.set("point", point, "node", "x_node", d.node_states(q))
    native, machine = plain_native(), engine.machine(scratch)
    native.constrained_step.linearise(machine, point)
    assert native.inner_mode.newton_pass(machine, point, change, 0.0) == CONVERGED
    found = float(engine.get("point", point, "sums", "log_det"))
    assert native.constrained_step.factorise(machine, point) == CONVERGED
    assert relative(found, engine.get("point", point, "sums", "log_det")) < 1e-13
    J = d.jacobian(q)[:, d.sizes[0] :]
    assert relative(found, np.linalg.slogdet(J @ J.T)[1]) < 1e-12
