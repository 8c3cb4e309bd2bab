"""Tangent vectors drawn at a path, against the covariance that dense linear algebra gives them: a block of K^{-1}.

They are linear in the standard normals that they are made of: one run for each of these gives the whole covariance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, seed, settings

from pathfold.engine import LaplaceEngine
from pathfold.engine.equations import tangents
from pathfold.engine.native.thresholds import HELD
from pathfold.engine.status import CONVERGED
from pathfold.program.matrices import EATEN
from tests.engine.driving import relative
from tests.engine.faults import build_anew, plant
from tests.engine.models import Case, cases
from tests.engine.test_laplace import Lifted, lifted, set_start_multipliers
from tests.engine.test_oracle import HIERARCHY, ROUND
from tests.plain import plain_native
from tests.thorough import thorough

TOLERANCE = 1e-10
BROAD = replace(ROUND, W=3)
"""Rows do not say what all of their noise is: it has a law given the state."""


class Drawing:
    """The engine of a lifted case after a pass with curvature, at a path with gaps, misfits and multipliers."""

    def __init__(self, case: Case, scale: float = 0.2) -> None:
        self.twin: Lifted = lifted(case)
        twin, d, rng = self.twin, self.twin.dense, np.random.default_rng(case.seed + 3)
        self.engine = engine = LaplaceEngine(d.model, d.grid, lanes=case.lanes)
        noise = scale * rng.normal(size=twin.noise)
        nodes = d.node_states(np.concatenate([twin.u, noise]))
        lam, eta = scale * rng.normal(size=d.mask.shape), scale * rng.normal(size=nodes.shape)
        self.point, self.vector, scratch = (engine.block(kind) for kind in ("point", "vector", "scratch"))
        engine.give(engine.problem, twin.u)
        engine.set_vector(self.point, np.zeros(0), *np.split(noise, np.cumsum(d.sizes[1:])[:-1]))
        engine.set("point", self.point, "node", "x_node", nodes)
        engine.set("point", self.point, "dual", "lam_at", lam * d.mask)
        engine.set("point", self.point, "dual", "eta_at", eta)
        code, self.machine = plain_native(), engine.machine(scratch)
        with np.errstate(all="ignore"):
            code.inner_mode.simulate(self.machine, self.point)
            set_start_multipliers(engine, self.point, scratch)
            status = code.inner_mode.newton_pass(self.machine, self.point, self.vector, 1.0)
        self.passes = status == CONVERGED  # else the point is a saddle
        self.passed = scratch.copy()
        _, self.W, _, J = twin.functions(np.concatenate([noise, nodes.ravel()]), lam * d.mask, eta)
        self.J = J[np.concatenate([np.ones(nodes.size, dtype=bool), d.mask.ravel()])]
        self.shapes = [(d.N, engine.sizes.X), (engine.series, engine.sizes.X)]
        self.count = twin.noise + sum(int(np.prod(shape)) for shape in self.shapes)

    def __call__(self, normals: np.ndarray) -> tuple[np.ndarray, float]:
        """The vector made of standard normals, and its square."""
        engine, scratch = self.engine, self.machine.scratch
        scratch[:] = self.passed
        own, ends = self.twin.noise, self.twin.noise + int(np.prod(self.shapes[0]))
        engine.set_vector(self.vector, np.zeros(0), *np.split(normals[:own], np.cumsum(self.twin.dense.sizes[1:])[:-1]))
        engine.set("scratch", scratch, "lane_normals", "start_normals", normals[own:ends].reshape(self.shapes[0]))
        engine.set("scratch", scratch, "series_normals", "end_normals", normals[ends:].reshape(self.shapes[1]))
        with np.errstate(all="ignore"):
            square = plain_native().fibre.make_tangent(self.machine, self.point, self.vector)
        return np.concatenate([part.ravel() for part in engine.get_vector(self.vector)]), float(square)

    def conditions(self) -> tuple[float, float]:
        """The least curvature along the tangent space of rows and gaps, and the condition number of K."""
        Z = np.linalg.svd(self.J)[2][len(self.J) :]
        return float(np.linalg.eigvalsh(Z @ self.W @ Z.T).min(initial=1.0)), float(np.linalg.cond(self._conditions()))

    def _conditions(self) -> np.ndarray:
        return np.block([[self.W, self.J.T], [self.J, np.zeros((len(self.J), len(self.J)))]])

    def errors(self) -> dict[str, float]:
        assert self.passes
        vectors = np.array([self(normals)[0] for normals in np.eye(self.count)]).T
        count, noise = len(self.J), self.twin.noise
        cov = np.linalg.inv(self._conditions())[:noise, :noise]
        vector, square = self(np.random.default_rng(0).normal(size=self.count))
        gaps, nodes = self.J[: self.twin.nodes], self.J[: self.twin.nodes, noise:]
        lifted = np.append(vector, -np.linalg.solve(nodes, gaps[:, :noise] @ vector))
        return {
            "covariance": relative(vectors @ vectors.T, cov),
            "rows": relative(self.J @ lifted, np.zeros(count), vector),
            "square": relative(square, lifted @ self.W @ lifted),
        }


@pytest.mark.parametrize(("lanes", "abreast"), [(3, 1), (2, 2)])
def test_covariance_tangency_and_square(lanes, abreast):
    drawing = Drawing(replace(BROAD, lanes=lanes))
    assert drawing.engine.abreast == abreast
    found = drawing.errors()
    assert max(found.values()) < TOLERANCE, found


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        replace(HIERARCHY, starts=("gamma",), scheme="custom"),
        replace(ROUND, W=0, Y=1),
        replace(ROUND, starts=()),
        replace(ROUND, X=3, B=1),
    ],
    ids=["a hierarchy", "observed exactly", "known starts", "noise in one component"],
)
def test_other_models(case):
    found = Drawing(case).errors()
    assert max(found.values()) < 1e-8, found


@pytest.mark.slow
@settings(max_examples=15)
@seed(1)
@given(cases())
def test_many_random_models(case):
    drawing = Drawing(case)
    assume(drawing.passes)
    curvature, condition = drawing.conditions()
    assume(curvature > 0.01)  # else there is no such law
    assume(condition < 1e6)
    found = drawing.errors()
    # Ends that are held lose digits in I + Q O, and with them the squares, of which much cancels. A variance that
    # should vanish counts as zero below EATEN of what it was: exact rows are met to the root of that.
    bound = 100.0 * np.finfo(float).eps * HELD**2
    allowed = {"covariance": bound, "square": bound, "rows": np.sqrt(EATEN)}
    assert all(found[name] < allowed[name] for name in allowed), (found, curvature, condition)


FAULTS = {
    "pull at the start": ("_tie_nodes", lambda out, given: {"dx_tied": given["dx_loose"]}),
    "states tied": ("_tie_nodes", lambda out, given: {"x": given["dx_loose"]}),
    "precision of a held end": ("_tie_nodes", lambda out, given: {"squares": out["squares"] + given["x"] @ given["x"]}),
    "pull at the noise": ("_tied_noise", lambda out, given: {"v_g": out["v_g"] - given["Kr"] @ given["tie"]}),
    "spread of loose noise": ("_loose_noise", lambda out, given: {"dx": given["Gx"] @ given["dx"]}),
    "squares of intervals": ("_tied_squares", lambda out, given: {"squares": given["squares"]}),
}
FORGOTTEN = {
    "curvature of an observation": ("_tied_observation", lambda kept, x, w, C, H, Hw: kept(x, w, 0.0 * C, H, Hw)),
    "a held start": ("_tied_start", lambda kept, x, v, B0, R0: kept(0.0 * x, v, B0, R0)),
    "gain of the rows": ("_towards", lambda kept, root, rows, missed: kept(root, rows, 0.5 * missed)),
}


@pytest.mark.parametrize("fault", thorough([*FAULTS, *FORGOTTEN], "states tied", "a held start"))
def test_a_planted_fault_is_found(monkeypatch, fault):
    if fault in FAULTS:
        plant(monkeypatch, tangents, *FAULTS[fault])
    else:
        name, faulty = FORGOTTEN[fault]
        kept = getattr(tangents, name)
        monkeypatch.setattr(tangents, name, lambda *given: faulty(kept, *given))
        build_anew(monkeypatch)
    found = Drawing(BROAD).errors()
    assert max(found.values()) > 1e-6, found
