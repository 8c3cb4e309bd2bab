"""What the search for a start asks of a point, against NumPy on arrays by series and interval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pathfold.engine import plans
from pathfold.engine.equations import gram, relaxation
from tests.engine.driving import Driven, relative
from tests.engine.faults import plant
from tests.engine.test_oracle import ROUND
from tests.plain import compiled_native, plain_native
from tests.thorough import thorough

TOLERANCE = 1e-12
RHO = 0.3
PANEL = replace(ROUND, starts=("gamma",), lengths=(3, 2, 4), noise="student")
LAYOUTS: dict[str, dict[str, Any]] = {
    "one after the other": {"lanes": 3},
    "abreast": {"lanes": 2},
    "in segments": {"lanes": 2, "longest": 2},
}


class Searched:
    """A point with gaps and misfits, linearised, and one beside it."""

    def __init__(self, **layout: Any) -> None:
        self.d = d = Driven(PANEL.model(), PANEL.grid(), plain=not layout.get("longest"), **layout)
        rng, engine = np.random.default_rng(1), d.engine
        q, other = 0.5 * rng.normal(size=(2, d.dense.dim))
        nodes = [d.dense.node_states(each) + 0.1 * rng.normal(size=(d.dense.N, engine.sizes.X)) for each in (q, other)]
        self.native = compiled_native if layout.get("longest") else plain_native()
        self.point, self.target = d.raw_point(q, nodes[0]), d.raw_point(other, nodes[1])
        self.machine = d.machine(engine.block("scratch"))
        self.native.descent.relax(self.machine, RHO, False)
        for name, values in (("state_scale", [1.3, 0.7]), ("row_scale", 1.0 + rng.random((d.dense.N, engine.sizes.Y)))):
            engine.set("problem", engine.problem, "settings" if "state" in name else "grid", name, values)
        self.native.constrained_step.linearise(self.machine, self.point)

    def get(self, name: str, field: str) -> np.ndarray:
        blocks = {"problem": self.machine.problem, "scratch": self.machine.scratch, "point": self.point}
        kind = next(kind for kind in blocks if name in self.d.engine.records.blocks[kind])
        return self.d.engine.get(kind, blocks[kind], name, field)

    def by_series(self, of_intervals: np.ndarray) -> np.ndarray:
        return np.add.reduceat(of_intervals, self.d.engine.first)

    def errors(self) -> dict[str, float]:
        return self.residual_errors() | self.weight_errors() | self.shortening_errors() | self.absorption_errors()

    def residual_errors(self) -> dict[str, float]:
        gap, o = self.get("newton", "gap") / self.get("settings", "state_scale"), self.get("newton", "o")
        o = o / self.get("grid", "row_scale")
        squares, largest = self.native.descent.residuals(self.machine, self.point)
        found = {"squares": relative(squares, (gap**2).sum() + (o**2).sum())}
        return found | {"largest": relative(largest, max(np.abs(gap).max(), np.abs(o).max()))}

    def weight_errors(self) -> dict[str, float]:
        d, engine = self.d, self.d.engine
        shares = np.zeros(engine.series)
        value, misfits = self.native.descent.weigh(self.machine, self.point, shares)
        u, v0, w, v = engine.get_vector(self.point)
        of_rows = ((self.get("newton", "o") / self.get("grid", "row_scale")) ** 2).sum(axis=1)
        gaps = self.get("newton", "gap") / self.get("settings", "state_scale")
        squares = (w**2).sum(axis=1) + (v**2).sum(axis=(1, 2)) + of_rows / RHO
        starts = self.get("start", "excess_x0") + 0.5 * (v0**2).sum(axis=1)
        whole = starts + self.by_series(0.5 * squares + self.get("node", "excess"))
        log_det = 2.0 * (shares - whole)
        sums = {name: float(self.get("sums", name)) for name in ("log_det", "log_C", "excesses")}
        total = shares.sum() + 0.5 * u @ u + 0.5 * sums["log_C"] + float(self.get("theta", "excess_u"))
        excesses = self.get("start", "excess_x0").sum() + self.get("node", "excess").sum()
        return {
            "value": relative(value, total),
            "misfits": relative(misfits, of_rows.sum() + (gaps**2).sum()),
            "determinant": relative(log_det.sum(), sums["log_det"] - sums["log_C"]),
            "excesses": relative(sums["excesses"], excesses),
            "rows": relative(self.get("newton_sums", "rows"), d.dense.mask.sum()),
        }

    def shortening_errors(self) -> dict[str, float]:
        engine, fractions = self.d.engine, np.array([0.25, 1.0, 0.0])
        before, goal = ((*engine.get_vector(each), self._nodes(each)) for each in (self.point, self.target))
        self.native.descent.shorten(self.machine, self.point, self.target, 0.5, fractions)
        by_interval = np.repeat(fractions, np.diff([*engine.first, engine.intervals]))
        kept = 0.5, fractions[:, None], by_interval[:, None], by_interval[:, None, None], by_interval[:, None]
        found = (*engine.get_vector(self.target), self._nodes(self.target))
        names = "shortened u", "shortened v0", "shortened w", "shortened v", "shortened nodes"
        of_all = zip(names, found, before, goal, kept, strict=True)
        return {name: relative(x, a + part * (b - a)) for name, x, a, b, part in of_all}

    def _nodes(self, point: np.ndarray) -> np.ndarray:
        return self.d.engine.get("point", point, "node", "x_node")

    def absorption_errors(self) -> dict[str, float]:
        Hw, o, w = self.get("node", "Hw"), self.get("newton", "o"), self.d.engine.get_vector(self.point)[2]
        squares = (Hw**2).sum(axis=2)
        taken = np.divide(o, squares, out=np.zeros_like(o), where=squares > 0.0)
        self.native.run.run(self.machine, plans.ABSORB, self.point, self.point)
        expected = w - np.einsum("nj,njw->nw", taken, Hw)
        return {"absorbed": relative(self.d.engine.get_vector(self.point)[2], expected)}


@pytest.mark.parametrize("layout", thorough(LAYOUTS, "abreast", "in segments"))
def test_sums_and_steps_by_series(layout):
    found = Searched(**LAYOUTS[layout]).errors()
    assert max(found.values()) < TOLERANCE, found


FAULTS = {
    "squares of the path noise": (
        relaxation,
        "_weigh_intervals",
        lambda out, given: {"noise": given["noise"]},
        "determinant",
    ),
    "level of an interval": (relaxation, "_weigh", lambda out, given: {"share": given["share"]}, "determinant"),
    "residuals of an interval": (relaxation, "_weigh", lambda out, given: {"missed": given["missed"]}, "squares"),
    "rows": (relaxation, "_weigh", lambda out, given: {"rows": given["rows"] + 1.0}, "rows"),
    "largest residual": (relaxation, "_weigh", lambda out, given: {"residual": given["residual"]}, "largest"),
    "fractions": (
        relaxation,
        "_shorten_starts",
        lambda out, given: {"own_fraction": 0.5 * given["kept"]},
        "shortened w",
    ),
    "noise of a step": (relaxation, "_shorten", lambda out, given: {"v_new": given["v_new"]}, "shortened v"),
    "excess of a node": (gram, "_factorise", lambda out, given: {"excesses": given["excesses"]}, "excesses"),
}


@pytest.mark.parametrize("fault", thorough(FAULTS, "level of an interval", "fractions"))
def test_a_planted_fault_is_found(monkeypatch, fault):
    module, name, change, seen = FAULTS[fault]
    plant(monkeypatch, module, name, change)
    found = Searched(lanes=2).errors()
    assert found[seen] > 1e-6, found
