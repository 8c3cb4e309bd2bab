"""Paths guided by the data ahead of them (method.md, section 19): kernels over pieces of the path.

Every fine step is an interval of its own. A piece is a run of steps without an observation, or the one step that ends
at an observation, and takes the place that a series has in other methods; what follows the last observation of a series
is a piece too, its tail, which may be empty. The guide of a step is a Gaussian function of
the state at its end, exp(-1/2 x^T H x + F^T x), that stands for the likelihood of all that is seen from there on; any
H, F give the same law of paths once their weights are counted. The position is (u, omega_0, omega), in the records of
u, v0 and v: standard normals that the guide turns into the noise of the start and of the steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pathfold.engine.model_functions import Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, NodeScan
from pathfold.program.layout import Record
from pathfold.program.matrices import lower_mirrored, ones_where_missing, solve_lower
from pathfold.program.programs import Applied


class GuidedRecords(Records):
    """Records of the path as one sequence of pieces; the guide of a step belongs to its interval."""

    def __init__(self, n: Sizes, *, regular: bool, censored: int, metric: bool) -> None:
        super().__init__(n, regular=regular, censored=censored, metric=metric)
        X = n.X
        self.v = Record("v", "lane", {"v": (n.V,)})
        self.forcing = Record("forcing", "lane", self.forcing.fields)
        self.theta = Record("theta", "shared", {"z": (n.Z,), "excess_u": ()})
        self.node = Record("node", "lane", {"x_start": (X,), "x_node": (X,), "noise": (n.V,)})
        self.guide = Record("guide", "lane", {"H": (X, X), "F": (X,)})
        ends = {"x_begin": (X,), "x_end": (X,), "H_begin": (X, X), "F_begin": (X,), "H_end": (X, X), "F_end": (X,)}
        self.piece = Record(
            "piece",
            "series",
            {
                **ends,
                "log_weight": (),
                "log_ratio": (),
                "excess": (),
                "log_series": (),
                "missed": (),
                "noise0": (n.V0,),
                "kind": (n.Y,),
            },
        )
        vector = ["u", "v0", "w", "v"]
        self.blocks = {
            "problem": ["settings", "grid", "forcing", "about"],
            "vector": vector,
            "point": [*vector, "theta", "node", "guide", "piece"],
            "scratch": ["carry"],
        }


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [
        _parameters(f, r),
        _guided_start(f, r, n),
        _innovations_start(f, r, n),
        _guide(f, r, n),
        _guide_node(f, r, n),
        _guided_path(f, r, n),
        _innovations(f, r, n),
        _guided_node(f, r, n),
        _innovations_node(f, r, n),
    ]


class Seen(NamedTuple):
    """The end of a step: its time and inputs, what is observed there, and by normals of which kinds it is guided to."""

    t: Any
    inputs: Any
    value: Any
    mask: Any
    censored: Any
    upper: Any
    kind: Any


class Rows(NamedTuple):
    """Observations as the guide sees them: r + D dx + E w = 0 near a state, with w standard normal.

    `root` is a lower factor of E E^T, `unit` the same with ones on the diagonal for the rows that have no noise.
    """

    r: Any
    D: Any
    root: Any
    unit: Any
    noisy: Any


def linear_rows(f: Programs, z, x, seen: Seen) -> Rows:
    """The rows of the constraint (method.md, section 14), linearised at the state x and at no noise.

    Noisy rows that are no numbers there tell the guide nothing.
    """
    rows = _rows_at_rest(f, z, x, seen)
    r, (D, E) = rows.value(), rows.jacobians(1, 2)
    noisy = seen.mask * (1.0 - f.of.model.exactly_observed)
    known = np.abs(r) + np.abs(D) @ np.ones(len(x)) < np.inf
    r, D = np.where(known, r, 0.0), np.where(known[:, None], D, 0.0)
    E = np.where(noisy[:, None] > 0.0, E, 0.0)
    unit = np.linalg.cholesky(ones_where_missing(E @ E.T, noisy))
    return Rows(r, D, noisy[:, None] * unit, unit, noisy)


def _rows_at_rest(f: Programs, z, x, seen: Seen) -> Applied:
    """The rows at no noise."""
    *there, kind = seen
    if f.rows_of_kind is None:
        return f.rows(z, x, np.zeros(f.rows.shapes[2]), *there, np.ones(()))
    return f.rows_of_kind(z, x, np.zeros(f.rows.shapes[2]), *there, kind)


def _solve_transposed(factor, right):
    """C^{-T} b."""
    return solve_lower(factor, right, transposed=True)


def _log_det(factor):
    """log|C|."""
    return np.sum(np.log(np.diag(factor)))


def _look_back(H, F, A, L, a, rows: Rows | None, x_node, mask):
    """H, F one step earlier: of x -> E exp(-1/2 x'^T H x' + F^T x'), x' = a + A x + L v, times the rows' likelihood.

    P = I + L^T H L = C C^T, J = C^{-1} L^T. The innovation of the rows, given the guide from there on, is e - T x; both
    are divided by the root of its covariance.
    """
    J = solve_lower(np.linalg.cholesky(np.eye(L.shape[1]) + L.T @ H @ L), L.T)
    W, r = J @ H, F - H @ a
    q = J @ r
    earlier_H, earlier_F = A.T @ (H - W.T @ W) @ A, A.T @ (r - W.T @ q)
    if rows is not None:
        B = rows.D @ J.T
        root = np.linalg.cholesky(ones_where_missing(B @ B.T + rows.root @ rows.root.T, mask))
        T = solve_lower(root, rows.D @ (A - J.T @ (W @ A)))
        e = solve_lower(root, -(rows.r + rows.D @ (a + J.T @ q - x_node)))
        earlier_H, earlier_F = earlier_H + T.T @ T, earlier_F + T.T @ e
    return lower_mirrored(earlier_H), earlier_F


def _tilt(H, F, m, L):
    """C with P = I + L^T H L = C C^T and mu = P^{-1} L^T (F - H m): noise N(mu, P^{-1}) follows the guide from m."""
    C = np.linalg.cholesky(np.eye(L.shape[1]) + L.T @ H @ L)
    return C, _solve_transposed(C, solve_lower(C, L.T @ (F - H @ m)))


def _follow(C, mu, eta):
    """The noise v = mu + C^{-T} eta, and the log of phi(v) over the density of v when eta is standard normal."""
    v = mu + _solve_transposed(C, eta)
    return v, _log_ratio(C, v, eta)


def _log_ratio(C, v, eta):
    return 0.5 * (eta @ eta) - 0.5 * (v @ v) - _log_det(C)


def _parameters(f: Programs, r: Records) -> Kernel:
    """z = g_z(u), and the part of the prior that is not standard normal."""

    def final(u):
        return {"z": f.parameters(u).value(), "excess_u": f.parameter_excess(u).value()}

    return NodeScan("parameters", r.uses(point="u theta"), final=final)


def _guided_start(f: Programs, r: Records, n: Sizes) -> Kernel:
    """x_0 of the series that a piece begins, guided by what is ahead of it."""

    def final(z, v0, covariates, H_begin, F_begin):
        if not n.V0:
            return _begun(f, z, v0, covariates, 0.0)
        noise, log_ratio = _follow(*_start_tilt(f, n, z, covariates, H_begin, F_begin), v0)
        return {"noise0": noise, **_begun(f, z, noise, covariates, log_ratio)}

    return NodeScan("guided_start", r.uses(problem="about", point="theta v0 piece"), final=final)


def _innovations_start(f: Programs, r: Records, n: Sizes) -> Kernel:
    """The inverse of `_guided_start`: omega_0 of the given noise, and the start that it makes."""

    def final(z, noise0, covariates, H_begin, F_begin):
        if not n.V0:
            return _begun(f, z, noise0, covariates, 0.0)
        C, mu = _start_tilt(f, n, z, covariates, H_begin, F_begin)
        omega = C.T @ (noise0 - mu)
        return {"v0": omega, **_begun(f, z, noise0, covariates, _log_ratio(C, noise0, omega))}

    return NodeScan("innovations_start", r.uses(problem="about", point="theta v0 piece"), final=final)


def _start_tilt(f: Programs, n: Sizes, z, covariates, H, F):
    at_rest = f.start(z, np.zeros(n.V0), covariates)
    return _tilt(H, F, at_rest.value(), at_rest.jacobian(1))


def _begun(f: Programs, z, noise, covariates, log_ratio):
    """The start that the noise makes, and the two parts of its log weight, of which the first may be huge."""
    begin, excess = f.start(z, noise, covariates), f.start_excess(z, noise, covariates)
    return {"x_begin": begin.value(), "log_ratio": log_ratio, "excess": excess.value()}


_OF_STEPS = {"problem": "settings grid forcing", "point": "theta v node guide piece"}


def _guide(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Backward over steps without observations, linearised along the path that the point has."""

    def init(H_end, F_end):
        return {"H_here": H_end, "F_here": F_end}

    def body(H_here, F_here, z, x_start, delta, t_start, forcing):
        m, A, L = f.step_at_rest(z, x_start, delta, t_start, forcing)
        earlier = _look_back(H_here, F_here, A, L, m - A @ x_start, None, None, None)
        return {"H": H_here, "F": F_here, "H_here": earlier[0], "F_here": earlier[1]}

    def final(H_here, F_here):
        return {"H_begin": H_here, "F_begin": F_here}

    return NodeScan("guide", r.uses(**_OF_STEPS), init=init, body=body, final=final, reverse=True)


def _guide_node(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Backward over the step that ends at an observation, linearised along the path that the point has."""

    def init(H_end, F_end):
        return {"H_here": H_end, "F_here": F_end}

    def body(
        H_here, F_here, z, x_start, x_node, delta, t_start, t_end, forcing, inputs_end, y, mask, censored, upper, kind
    ):
        m, A, L = f.step_at_rest(z, x_start, delta, t_start, forcing)
        rows = linear_rows(f, z, x_node, Seen(t_end, inputs_end, y, mask, censored, upper, kind))
        earlier = _look_back(H_here, F_here, A, L, m - A @ x_start, rows, x_node, mask)
        return {"H": H_here, "F": F_here, "H_here": earlier[0], "F_here": earlier[1]}

    def final(H_here, F_here):
        return {"H_begin": H_here, "F_begin": F_here}

    return NodeScan("guide_node", r.uses(**_OF_STEPS), init=init, body=body, final=final, reverse=True)


def _guided_path(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Forward over steps without observations: the noise that the guide makes of omega, the path, its log weight."""

    def init(x_begin):
        return {"state": x_begin, "total": np.zeros(())}

    def body(state, total, z, v, H, F, delta, t_start, forcing):
        m, _, L = f.step_at_rest(z, state, delta, t_start, forcing)
        noise, log_ratio = _follow(*_tilt(H, F, m, L), v)
        x = f.step(z, state, noise, delta, t_start, forcing).value()
        return {"x_start": state, "x_node": x, "noise": noise, "state": x, "total": total + log_ratio}

    def final(state, total):
        return {"x_end": state, "log_weight": total}

    return NodeScan("guided_path", r.uses(**_OF_STEPS), init=init, body=body, final=final)


def _innovations(f: Programs, r: Records, n: Sizes) -> Kernel:
    """The inverse of `_guided_path`: omega of the given noise, the path that it makes, and the same log weight."""

    def init(x_begin):
        return {"state": x_begin, "total": np.zeros(())}

    def body(state, total, z, noise, H, F, delta, t_start, forcing):
        m, _, L = f.step_at_rest(z, state, delta, t_start, forcing)
        C, mu = _tilt(H, F, m, L)
        omega, x = C.T @ (noise - mu), f.step(z, state, noise, delta, t_start, forcing).value()
        total = total + _log_ratio(C, noise, omega)
        return {"x_start": state, "x_node": x, "v": omega, "state": x, "total": total}

    def final(state, total):
        return {"x_end": state, "log_weight": total}

    return NodeScan("innovations", r.uses(**_OF_STEPS), init=init, body=body, final=final)


class Meeting(NamedTuple):
    """The step from a state to an observation: with v = mu + C^{-T} eta the rows are e - B eta = R^{1/2} w.

    `root` is a factor of Sig = B B^T + R, with ones on the diagonal for the rows that are missing.
    """

    C: Any
    mu: Any
    rows: Rows
    B: Any
    e: Any
    root: Any

    @property
    def mean(self):
        """The mean of eta given the rows: B^T Sig^{-1} e."""
        return self.B.T @ _solve_transposed(self.root, solve_lower(self.root, self.e))


def _meeting(f: Programs, z, x, H, F, delta, t_start, forcing, seen: Seen) -> Meeting:
    m, _, L = f.step_at_rest(z, x, delta, t_start, forcing)
    rows = linear_rows(f, z, m, seen)
    C, mu = _tilt(H, F, m, L)
    B, e = solve_lower(C, (rows.D @ L).T).T, -(rows.r + rows.D @ (L @ mu))
    root = np.linalg.cholesky(ones_where_missing(B @ B.T + rows.root @ rows.root.T, seen.mask))
    return Meeting(C, mu, rows, B, e, root)


def _met(f: Programs, z, x, met: Meeting, noise, free, seen: Seen):
    """The log weight of the step that ended at x: the prior of its noise over the density that it was drawn with, times
    the likelihood of the rows with noise.

    `free` is |omega|^2 less |s|^2, the part of omega that rows without noise leave no room for. No term is huge and
    positive: a path that is far from the data, where the squares of eta and e are huge, has a small weight, and not the
    rounding errors of a large one.
    """
    *there, kind = seen._replace(mask=met.rows.noisy)
    likelihood = -f.misfit(z, x, *there).value()
    if f.log_share is not None:
        likelihood = likelihood + f.log_share(z, x, np.zeros(f.rows.shapes[2]), *there, kind).value()
    volume = _log_det(met.rows.unit) - _log_det(met.root) - _log_det(met.C)
    return 0.5 * free - 0.5 * (noise @ noise) + volume + likelihood


def _guided_node(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Forward over the step that ends at an observation, which its noise is drawn to meet: eta given the rows is

        B^T Sig^{-1} e + (I - B^T Sig^{-T/2} (Sig^{1/2} + R^{1/2})^{-1} B) omega

    (Andrews 1968), which meets rows without noise exactly if the step is affine in its noise; `missed` is the remaining
    misfit, in units of what was to be met.
    """

    def init(x_begin):
        return {"state": x_begin, "total": np.zeros(()), "off": np.zeros(())}

    def body(state, z, v, H, F, delta, t_start, t_end, forcing, inputs_end, y, mask, censored, upper, kind):
        seen = Seen(t_end, inputs_end, y, mask, censored, upper, kind)
        met = _meeting(f, z, state, H, F, delta, t_start, forcing, seen)
        fixed = solve_lower(met.root + met.rows.root, met.B @ v)
        eta = met.mean + v - met.B.T @ _solve_transposed(met.root, fixed)
        noise = met.mu + _solve_transposed(met.C, eta)
        x = f.step(z, state, noise, delta, t_start, forcing).value()
        exact = mask * (1.0 - met.rows.noisy)
        left = _rows_at_rest(f, z, x, seen).value()
        off = np.sum(exact * np.abs(left) / (np.abs(y) + np.abs(met.rows.r) + 1e-300))
        free = v @ v - (exact * fixed) @ (exact * fixed)
        total = _met(f, z, x, met, noise, free, seen)
        return {"x_start": state, "x_node": x, "noise": noise, "state": x, "total": total, "off": off}

    def final(state, total, off):
        return {"x_end": state, "log_weight": total, "missed": off}

    return NodeScan("guided_node", r.uses(**_OF_STEPS), init=init, body=body, final=final)


def _innovations_node(f: Programs, r: Records, n: Sizes) -> Kernel:
    """The inverse of `_guided_node` if every row has noise: omega = (I + B^T (Sig^{1/2} + R^{1/2})^{-T} R^{-1/2} B)
    (eta - B^T Sig^{-1} e), by Woodbury's formula."""

    def init(x_begin):
        return {"state": x_begin, "total": np.zeros(())}

    def body(state, z, noise, H, F, delta, t_start, t_end, forcing, inputs_end, y, mask, censored, upper, kind):
        seen = Seen(t_end, inputs_end, y, mask, censored, upper, kind)
        met = _meeting(f, z, state, H, F, delta, t_start, forcing, seen)
        eta = met.C.T @ (noise - met.mu)
        away = eta - met.mean
        scaled = _solve_transposed(met.root + met.rows.root, solve_lower(met.rows.unit, met.B @ away))
        omega, x = away + met.B.T @ scaled, f.step(z, state, noise, delta, t_start, forcing).value()
        total = _met(f, z, x, met, noise, omega @ omega, seen)
        return {"x_start": state, "x_node": x, "v": omega, "state": x, "total": total}

    def final(state, total):
        return {"x_end": state, "log_weight": total}

    return NodeScan("innovations_node", r.uses(**_OF_STEPS), init=init, body=body, final=final)
