"""The inner problem of the Laplace approximation (method.md, section 21): kernels of one Newton pass with curvature.

Given the parameters, the noise that is most probable minimises V = 1/2 |n|^2 + eps subject to the rows of the
constraint. A pass solves the linearised conditions of that minimum, with or without the curvature of the constraint,
as a filter and a smoother on the lifted path, and finds log|det K| of their matrix K = [W J^T; J 0] on the way.

An interval, or a part of one, is an element: what its noise makes of a change dx of the state at its start and of the
costate rho at its end, rho.(A dx + b) - 1/2 rho.Q rho + 1/2 dx.O dx + g.dx, and l, the log of the determinant of what
was eliminated. The parameters stand in the problem; positions have none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pathfold.engine.equations import gram, linearise, newton
from pathfold.engine.equations.gram import SINGULAR
from pathfold.engine.model_functions import Programs, contracted_hessian
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan
from pathfold.program.layout import Record
from pathfold.program.matrices import eliminate, lower_mirrored, ones_where_missing, solve_lower


class LaplaceRecords(Records):
    """Records of a path given the parameters: no columns of u, but multipliers, elements and gains."""

    def __init__(self, n: Sizes, *, regular: bool, censored: int, metric: bool) -> None:
        super().__init__(replace(n, U=0), regular=regular, censored=censored, metric=False)
        X, V, Y, V0, N = n.X, n.V, n.Y, n.V0, n.X + n.W
        self.settings = Record("settings", "shared", {**self.settings.fields, "curved": (), "held": ()})
        self.coordinates = Record("coordinates", "shared", {"centre": (n.U,)})
        self.dual = Record("dual", "lane", {"lam_at": (Y,), "eta_at": (X,)})
        self.dual_start = Record("dual_start", "series", {"rho_at": (X,)})
        self.sums = Record("sums", "shared", {**self.sums.fields, "negatives": (), "penalty": ()})
        self.element = Record(
            "element",
            "lane",
            {"eA": (X, X), "eQ": (X, X), "eO": (X, X), "eb": (X,), "eg": (X,), "el": (), "en": ()}
            | {"curv_h": (N, N), "slope_h": (N,)}
            | {"ahead": (X,), "gain": (X, X), "S_inv": (Y, Y), "misfit_h": (Y,), "HD": (Y, X)}
            | {"seen_mean": (N,), "seen_cov": (N, X), "M_ahead": (X, X)}
            | {"end_precision": (X,)}
            | {"lam_up": (Y,), "eta_up": (X,), "dx_start": (X,), "dx_node": (X,)},
        )
        self.element_start = Record(
            "element_start",
            "series",
            {"P0": (X, X), "m0": (X,), "R0": (V0, V0), "R0_inv": (V0, V0), "pull0": (V0,), "l0": (), "negatives0": ()}
            | {"rho_up": (X,), "x_end": (X,)},
        )
        self.gains = Record(
            "gains",
            "step",
            {"Gx": (X, X), "Gr": (X, X), "g_state": (X,), "Kx": (V, X), "Kr": (V, X), "k_noise": (V,)}
            | {"root": (V, V), "spread": (X, V)},
        )
        self.tied = Record(
            "tied", "lane", {"dx_loose": (X,), "end_loose": (X,), "tie": (X,), "dx_tied": (X,), "square": ()}
        )
        self.lane_normals = Record("lane_normals", "lane", {"start_normals": (X,)})
        self.series_normals = Record("series_normals", "series", {"end_normals": (X,)})
        self.blocks["point"] = [*self.blocks["point"], "dual", "dual_start"]
        self.blocks["scratch"] = [
            *self.blocks["scratch"],
            "element",
            "element_start",
            "gains",
            "tied",
            "lane_normals",
            "series_normals",
        ]


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    """Return the kernels of the path given the parameters: its linearisation, factor and solves, and those below."""
    n = replace(n, U=0)
    shared = [*linearise.kernels(f, r, n), *gram.kernels(f, r, n), *newton.kernels(f, r, n)]
    return [
        _given_parameters(f, r, n),
        *(each for each in shared if each.name != "parameters"),
        _elements(f, r, n),
        _row_curvature(f, r, n),
        _start_elements(f, r, n),
        _eliminate_nodes(r, n),
        _multipliers(r, n),
        _noise_change(r),
        _advance(r),
        _advance_starts(r),
        _merit(r),
        _mixed_log_det(r, n),
    ]


def _given_parameters(f: Programs, r: Records, n: Sizes) -> Kernel:
    """z = g_z(u) of the parameters that the problem gives, and the part of their prior that is not standard normal."""

    def final(centre):
        return {
            "z": f.parameters(centre).value(),
            "D": np.zeros((n.Z, 0)),
            "excess_u": f.parameter_excess(centre).value(),
            "excess_u_gradient": np.zeros(0),
        }

    return NodeScan("parameters", r.uses(problem="coordinates", point="theta"), final=final, fixes=("D",))


def _log(pivots):
    """Return log|det| of what was eliminated, and whether it is negative, as 0 or 1."""
    return sum(np.log(np.abs(each)) for each in pivots), _is_negative(pivots)


def _is_negative(pivots):
    sign = 1.0
    for each in pivots:
        sign = np.where(each < 0.0, -sign, sign)
    return 0.5 - 0.5 * sign


def _elements(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Backward inside an interval, with the costate mu: the element of all steps from s on, and the gains of step s.

    Lam = d^2 (mu.f) by (x, v), R = I + Lam_vv; a step is the element (F - Sv R^{-1} Lam_vx, Sv R^{-1} Sv^T,
    Lam_xx - Lam_xv R^{-1} Lam_vx, ...). The gains give state and noise after the step from the change dx before it and
    the costate rho at the end of the interval; the root is that of the precision of the step's noise, given the state
    before it and nothing of the end, or where that has a precision of its own, with that.
    """

    def init(eta_at, end_precision):
        element = {"eA": np.eye(n.X), "eQ": np.zeros((n.X, n.X)), "eO": np.diag(end_precision)}
        return {"mu": eta_at, **element, "eb": np.zeros(n.X), "eg": np.zeros(n.X), "el": 0.0, "en": 0.0}

    def body(mu, eA, eQ, eO, eb, eg, el, en, z, x, x_start, v, delta, t_start, s, forcing, curved):
        step = f.step(z, f.along(x, x_start), v, delta, t_start + s * delta, forcing)
        F, Sv = step.jacobians(1, 2)
        Lam = curved * contracted_hessian(step, mu, 1, 2)
        xx, vx, vv = Lam[: n.X, : n.X], Lam[n.X :, : n.X], Lam[n.X :, n.X :]
        R_inv, R_pivots = eliminate(np.eye(n.V) + vv)
        R_inv = lower_mirrored(R_inv)
        A, Q, own = F - Sv @ (R_inv @ vx), lower_mirrored(Sv @ R_inv @ Sv.T), lower_mirrored(xx - vx.T @ R_inv @ vx)
        b, g = -Sv @ (R_inv @ v), -vx.T @ (R_inv @ v)
        D, pivots = eliminate(np.eye(n.X) + Q @ eO)
        Gx, Gr, g_state = D @ A, -D @ Q @ eA.T, D @ (b - Q @ eg)
        pulled = Sv @ R_inv  # (R^{-1} Sv^T)^T
        root = np.linalg.cholesky(np.eye(n.V) + vv + lower_mirrored(Sv.T @ eO @ Sv))
        log_R, negative_R = _log(R_pivots)
        log_D, negative_D = _log(pivots)
        return {
            "Gx": Gx,
            "Gr": Gr,
            "g_state": g_state,
            "Kx": -R_inv @ vx - pulled.T @ (eO @ Gx),
            "Kr": -pulled.T @ (eA.T + eO @ Gr),
            "k_noise": -R_inv @ v - pulled.T @ (eO @ g_state + eg),
            "root": root,
            "spread": solve_lower(root, Sv.T).T,
            "mu": F.T @ mu,
            "eA": eA @ Gx,
            "eQ": lower_mirrored(eQ - eA @ Gr),
            "eO": lower_mirrored(own + A.T @ eO @ Gx),
            "eb": eb + eA @ g_state,
            "eg": g + A.T @ (eO @ g_state + eg),
            "el": el + log_R + log_D,
            "en": en + negative_R + negative_D,
        }

    def final(eA, eQ, eO, eb, eg, el, en):
        return {"eA": eA, "eQ": eQ, "eO": eO, "eb": eb, "eg": eg, "el": el, "en": en}

    uses = r.uses(problem="settings grid forcing", point="theta v node path dual", scratch="element gains")
    return LaneScan("elements", uses, init=init, body=body, final=final, reverse=True, fixes=("eA", "eQ", "eb"))


def _row_curvature(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Lam_h = d^2 (eps + lam.h) and the gradient of eps, by (x, w), at the nodes."""

    def final(z, x_node, w, t_end, inputs_end, y, mask, censored, upper, lam_at, curved):
        node = (z, x_node, w, t_end, inputs_end, y, mask, censored, upper, np.ones(()))
        rows, excess = f.rows(*node), f.node_excess(*node)
        curvature = contracted_hessian(excess, np.ones(1), 1, 2) + contracted_hessian(rows, lam_at, 1, 2)
        return {"curv_h": curved * curvature, "slope_h": np.concatenate(excess.jacobians(1, 2))}

    uses = r.uses(problem="settings grid", point="theta w node dual", scratch="element")
    return LaneScan("row_curvature", uses, final=final, fixes=("curv_h", "slope_h"))


def _start_elements(f: Programs, r: Records, n: Sizes) -> Kernel:
    """P_0 = B0 (I + Lam_0)^{-1} B0^T with Lam_0 = d^2 (eps_0 + rho_0.x_0) by v0, and the mean that goes with it."""

    def final(z, v0, covariates, B0, rho_at, excess_v0_gradient, curved):
        if not n.V0:
            none = {
                "R0": np.zeros((0, 0)),
                "R0_inv": np.zeros((0, 0)),
                "pull0": np.zeros(0),
                "l0": 0.0,
                "negatives0": 0.0,
            }
            return {"P0": np.zeros((n.X, n.X)), "m0": np.zeros(n.X), **none}

        start, excess = f.start(z, v0, covariates), f.start_excess(z, v0, covariates)
        curvature = contracted_hessian(excess, np.ones(1), 1) + contracted_hessian(start, rho_at, 1)
        R = np.eye(n.V0) + curved * curvature
        R_inv, pivots = eliminate(R)
        R_inv, pull = lower_mirrored(R_inv), v0 + excess_v0_gradient
        l0, negatives = _log(pivots)
        return {
            "P0": lower_mirrored(B0 @ R_inv @ B0.T),
            "m0": -B0 @ (R_inv @ pull),
            "R0": R,
            "R0_inv": R_inv,
            "pull0": pull,
            "l0": l0,
            "negatives0": negatives,
        }

    uses = r.uses(problem="settings about", point="theta v0 start dual_start", scratch="element_start")
    return NodeScan("start_elements", uses, final=final, fixes=("R0",))


def _eliminate_nodes(r: Records, n: Sizes) -> Kernel:
    """Forward filter with curvature: P~ = (I + P O)^{-1} P, M = A P~ A^T + Q, then the node's curvature and its rows.

    Over (x, w) the covariance is D = diag(M, I), with the curvature of the node D (I + Lam_h D)^{-1}, and with its rows
    that of Joseph's form. Means go along: gaps, misfits and the noise that is there, -v of a change.
    """

    def init(P0, m0, l0, negatives0, log_det, negatives):
        return {"P": P0, "m": m0, "log_det": log_det + l0, "negatives": negatives + negatives0}

    def body(P, m, log_det, negatives, eA, eQ, eO, eb, eg, el, en, gap, o, H, Hw, w, curv_h, slope_h, mask):
        E, pivots = eliminate(np.eye(n.X) + P @ eO)
        ahead, gain = E @ (m - P @ eg), E @ P @ eA.T
        M, mean = lower_mirrored(eA @ gain + eQ), eA @ ahead + eb + gap
        none, N = np.zeros((n.X, n.W)), n.X + n.W
        free = np.block([[M, none], [none.T, np.eye(n.W)]])
        tilt, node_pivots = eliminate(np.eye(N) + curv_h @ free)
        cov = lower_mirrored(free @ tilt)
        mean = np.concatenate([mean, -w])
        mean = mean - cov @ (curv_h @ mean + slope_h)
        rows = np.concatenate([H, Hw], axis=1)
        Sig = lower_mirrored(ones_where_missing(rows @ cov @ rows.T, mask))
        Sig_inv, row_pivots = eliminate(Sig)
        Sig_inv = lower_mirrored(Sig_inv)
        K = cov @ rows.T @ Sig_inv
        I_KH = np.eye(N) - K @ rows
        misfit = o + rows @ mean
        seen_mean, seen_cov = mean - K @ misfit, lower_mirrored(I_KH @ cov @ I_KH.T)
        logs = [_log(pivots), _log(node_pivots), _log_rows(row_pivots, Sig)]
        return {
            "ahead": ahead,
            "gain": gain,
            "M_ahead": M,
            "S_inv": Sig_inv,
            "misfit_h": misfit,
            "HD": (rows @ cov)[:, : n.X],
            "seen_mean": seen_mean,
            "seen_cov": seen_cov[:, : n.X],
            "P": seen_cov[: n.X, : n.X],
            "m": seen_mean[: n.X],
            "log_det": log_det + el + sum(each for each, _ in logs),
            "negatives": negatives + en + sum(each for _, each in logs),
        }

    def final(log_det, negatives):
        return {"log_det": log_det, "negatives": negatives}

    uses = r.uses(problem="grid", point="w node sums", scratch="newton element element_start")
    return NodeScan("eliminate_nodes", uses, init=init, body=body, final=final)


def _log_rows(pivots, covariance):
    """Return log|Sigma| and, if its determinant is negative, minus one; NaN where rounding has eaten a pivot.

    A negative one makes up for one that was negative before: K has as many negative eigenvalues as there are rows.
    """
    known = [np.abs(p) > SINGULAR * np.abs(covariance[j, j]) for j, p in enumerate(pivots)]
    logs = sum(np.where(ok, np.log(np.abs(p)), np.nan) for ok, p in zip(known, pivots, strict=True))
    return logs, -_is_negative(pivots)


def _multipliers(r: Records, n: Sizes) -> Kernel:
    """Backward over nodes: new multipliers lam, eta, rho_0, and the changes of node states, w and v0."""

    def init():
        return {"rho": np.zeros(n.X)}

    def body(rho, H, curv_h, slope_h, S_inv, misfit_h, HD, seen_mean, seen_cov, ahead, gain, eA, eO, eg):
        lam = S_inv @ (misfit_h - HD @ rho)
        change = seen_mean - seen_cov @ rho
        eta = H.T @ lam + curv_h[: n.X] @ change + slope_h[: n.X] + rho
        before = ahead - gain @ eta
        return {
            "lam_up": lam,
            "eta_up": eta,
            "dx_node": change[: n.X],
            "w_g": change[n.X :],
            "dx_start": before,
            "rho": eA.T @ eta + eO @ before + eg,
        }

    def final(rho, B0, R0_inv, pull0):
        return {"rho_up": rho, "v0_g": -R0_inv @ (pull0 + B0.T @ rho)}

    uses = r.uses(point="start node", gradient="v0 w", scratch="element element_start")
    return NodeScan("multipliers", uses, init=init, body=body, final=final, reverse=True)


def _noise_change(r: Records) -> Kernel:
    """Forward inside an interval: the change of the noise of every step, from that of the state at its start."""

    def init(dx_start):
        return {"dx": dx_start}

    def body(dx, Gx, Gr, g_state, Kx, Kr, k_noise, eta_up):
        return {"v_g": k_noise + Kx @ dx + Kr @ eta_up, "dx": g_state + Gx @ dx + Gr @ eta_up}

    uses = r.uses(gradient="v", scratch="element gains")
    return LaneScan("noise_change", uses, init=init, body=body)


def _advance(r: Records) -> Kernel:
    """The moving point is the origin and a fraction, the second factor, of the changes: node states and multipliers."""

    def final(factors, x_node, dx_node, lam_at, lam_up, eta_at, eta_up):
        fraction = factors[1]
        return {
            "x_node_new": x_node + fraction * dx_node,
            "lam_at_new": lam_at + fraction * (lam_up - lam_at),
            "eta_at_new": eta_at + fraction * (eta_up - eta_at),
        }

    uses = r.uses(origin="node dual", target="node dual", scratch="element newton_sums")
    return LaneScan("advance", uses, final=final)


def _advance_starts(r: Records) -> Kernel:
    """As `_advance`, the multipliers of the initial states."""

    def final(factors, rho_at, rho_up):
        return {"rho_at_new": rho_at + factors[1] * (rho_up - rho_at)}

    uses = r.uses(origin="dual_start", target="dual_start", scratch="element_start newton_sums")
    return NodeScan("advance_starts", uses, final=final)


def _merit(r: Records) -> Kernel:
    """Sums of the excesses of starts and nodes, and of all gaps and misfits, each with twice its new multiplier."""

    def init(excess_x0, excesses, penalty):
        return {"excesses": excesses + excess_x0, "penalty": penalty}

    def body(excesses, penalty, excess, gap, eta_up, o, lam_up):
        missed = np.sum(np.abs(gap * eta_up)) + np.sum(np.abs(o * lam_up))
        return {"excesses": excesses + excess, "penalty": penalty + 2.0 * missed}

    def final(excesses, penalty):
        return {"excesses": excesses, "penalty": penalty}

    uses = r.uses(point="start node sums", scratch="newton element")
    return NodeScan("merit", uses, init=init, body=body, final=final)


def _mixed_log_det(r: Records, n: Sizes) -> Kernel:
    """log|det J(n) J(n*)^T| of two points of a fibre, as in `newton._cross_factorise`; NaN if it is not positive."""

    def init(B0, B0_new, log_det):
        return {"P": B0_new @ B0.T, "log_det": log_det}

    def body(P, log_det, A, A_new, cross, H, H_new, Hw, Hw_new, mask):
        M = A_new @ P @ A.T + cross
        S_inv, pivots = eliminate(ones_where_missing(H_new @ M @ H.T + Hw_new @ Hw.T, mask))
        logs, negative = _log(pivots)
        return {"P": M - M @ H.T @ S_inv @ H_new @ M, "log_det": log_det + np.where(negative > 0.0, np.nan, logs)}

    def final(log_det):
        return {"log_det": log_det}

    uses = r.uses(problem="grid", origin="start node", target="start node", scratch="newton newton_sums")
    return NodeScan("mixed_log_det", uses, init=init, body=body, final=final)
