"""The law of the data with the path integrated out, where rows are affine in the noise (method.md, section 25).

Given the parameters the rows are c = r + J n with r their value without noise: minus the log of their density is
1/2 log|G| + 1/2 r^T G^{-1} r up to a constant, with G = J J^T. It is the factor of section 4 for a single column in the
place of those of the parameters, the mean of path and rows; its gradient by z is that of section 6, all Jacobians being
functions of z alone. The noise of a draw is standard normal noise, moved by the least change that meets the data.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pathfold.engine.equations import gram, linearise
from pathfold.engine.equations.gram import SINGULAR
from pathfold.engine.model_functions import LARGEST_HESSIAN, Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan
from pathfold.program.layout import Record
from pathfold.program.matrices import eliminate, lower_mirrored, ones_where_missing
from pathfold.program.programs import Applied


class IntegratedRecords(Records):
    """Records of Jacobians, means and factor given the parameters, which alone have coordinates that move."""

    def __init__(self, n: Sizes, *, regular: bool, censored: int, metric: bool) -> None:
        super().__init__(replace(n, U=0), regular=regular, censored=censored, metric=False)
        X, V, U, Z, Y, W, V0 = n.X, n.V, n.U, n.Z, n.Y, n.W, n.V0
        self.u = Record("u", "shared", {"u": (U,)})
        self.coordinates = Record("coordinates", "shared", {"centre": (U,), "factor": (U, U), "skew": (U,)})
        self.theta = Record("theta", "shared", {"z": (Z,), "excess_u": ()})
        self.start = Record("start", "series", {"x0": (X,), "mean0": (X,), "B0": (X, V0), "excess_x0": ()})
        self.path = Record("path", "step", {"x": (X,), "B": (X, V), "Phi": (X, X)})
        states = {"x_start": (X,), "x_node": (X,), "A": (X, X), "b": (X,), "Q": (X, X)}
        rows = {"H": (Y, X), "Hw": (Y, W), "o": (Y,), "excess": ()}
        factor = {"P_start": (X, X), "c_start": (X,), "M": (X, X), "m": (X,), "K": (X, Y), "Sig_inv": (Y, Y), "e": (Y,)}
        self.node = Record("node", "lane", states | rows | factor)
        self.sums = Record("sums", "shared", {"misfit": (), "gz": (Z,)})
        weights = {"Th": (X, X), "pull": (X,), "wH": (Y, X), "wHw": (Y, W), "wo": (Y,)}
        self.work = Record("work", "lane", weights | {"gz_node": (Z,), "gz_path": (Z,), "Bp": (X,)})
        self.newton = Record("newton", "lane", {"gap": (X,), "e_drawn": (Y,), "c": (X,), "lam": (Y,), "eta": (X,)})
        self.start_weights = Record("start_weights", "series", {"wB0": (X, V0), "pull0": (X,)})
        self.blocks["point"] = [*self.blocks["vector"], "theta", "start", "node", "path", "sums"]
        self.blocks["scratch"] = ["work", "newton", "start_weights", "carry"]


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    shared = [*linearise.kernels(f, r, n), *gram.kernels(f, r, n)]
    return [
        _parameters(f, r),
        _start_means(f, r, n),
        _means(f, r, n),
        _row_means(f, r, n),
        _integrate(r, n),
        _mean_weights(r, n),
        _interval_slopes(f, r, n),
        _row_slopes(f, r, n),
        _gather(f, r, n),
        _parameter_gradient(f, r),
        _predict(r),
        _condition(r),
        *(each for each in shared if each.name in ("link", "simulate", "push", "pull")),
    ]


def _parameters(f: Programs, r: Records) -> Kernel:
    """z = g_z(u) with u = m + L f(q), f = q + k (sqrt(1 + q^2) - 1), and what the law of q has besides normals."""

    def final(u, centre, factor, skew):
        root = np.sqrt(1.0 + u * u)
        at, stretch = centre + factor @ (u + skew * (root - 1.0)), 1.0 + skew * u / root
        excess = f.parameter_excess(at).value() + 0.5 * (at @ at - u @ u) - sum(np.log(stretch))
        return {"z": f.parameters(at).value(), "excess_u": excess}

    return NodeScan("parameters", r.uses(problem="coordinates", point="u theta"), final=final)


def _start_means(f: Programs, r: Records, n: Sizes) -> Kernel:
    """x_0 without noise, and B0 = dx_0/dv0."""

    def final(z, covariates):
        start, excess = f.start(z, np.zeros(n.V0), covariates), f.start_excess(z, np.zeros(n.V0), covariates)
        return {"mean0": start.value(), "B0": start.jacobian(1), "excess_x0": excess.value()}

    uses = r.uses(problem="about", point="theta start")
    return NodeScan("start_means", uses, final=final, fixes=("mean0", "B0", "excess_x0"))


def _at_rest(f: Programs, n: Sizes, z, delta, t_start, s, forcing):
    """A step from zero without noise: its Jacobians are the same anywhere."""
    return f.step(z, np.zeros(n.X), np.zeros(n.V), delta, t_start + s * delta, forcing)


def _means(f: Programs, r: Records, n: Sizes) -> Kernel:
    """x_n = A x_{n-1} + b + sum B_s v_s: backward with Phi_s, b = sum Phi_s f_s(0, 0), Q = sum B_s B_s^T."""

    def init():
        return {"Phi_s": np.eye(n.X), "b_s": np.zeros(n.X), "Q": np.zeros((n.X, n.X))}

    def body(z, delta, t_start, s, forcing, Phi_s, b_s, Q):
        step = _at_rest(f, n, z, delta, t_start, s, forcing)
        F, Sv = step.jacobians(1, 2)
        B = Phi_s @ Sv
        moved = {"Phi_s": Phi_s @ F, "b_s": b_s + Phi_s @ step.value(), "Q": lower_mirrored(Q + B @ B.T)}
        return {"B": B, "Phi": Phi_s, **moved}

    def final(Phi_s, b_s, Q):
        return {"A": Phi_s, "b": b_s, "Q": Q}

    uses = r.uses(problem="settings grid forcing", point="theta node path")
    fixes = ("B", "Phi", "A", "b", "Q")
    return LaneScan("means", uses, init=init, body=body, final=final, reverse=True, fixes=fixes)


def _row_means(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Rows of a node at the state zero without noise, H = dh/dx, Hw = dh/dw, and the excess."""

    def final(z, t_end, inputs_end, y, mask, censored, upper, coldness):
        at = (z, np.zeros(n.X), np.zeros(n.W), t_end, inputs_end, y, mask, censored, upper, coldness)
        rows, excess = f.rows(*at), f.node_excess(*at)
        return {"o": rows.value(), "H": rows.jacobian(1), "Hw": rows.jacobian(2), "excess": excess.value()}

    fixes = ("o", "H", "Hw", "excess")
    return LaneScan("row_means", r.uses(problem="settings grid", point="theta node"), final=final, fixes=fixes)


def _integrate(r: Records, n: Sizes) -> Kernel:
    """The filter of section 4 with the mean as its one column: misfit = sum log|Sig| + e^T Sig^{-1} e + 2 excess.

    Rows being few, Joseph's form is made of low-rank changes, (M - K H M) (I - K H)^T + K W W^T K^T.
    """

    def init(B0, mean0, excess_x0, misfit):
        return {"P": B0 @ B0.T, "mean": mean0, "misfit": misfit + 2.0 * excess_x0}

    def body(P, mean, misfit, A, b, Q, H, o, Hw, mask, excess):
        M, noise = lower_mirrored(A @ P @ A.T + Q), lower_mirrored(Hw @ Hw.T)
        HM = H @ M
        Sig = lower_mirrored(ones_where_missing(HM @ H.T + noise, mask))
        Sig_inv, pivots = eliminate(Sig)
        Sig_inv = lower_mirrored(Sig_inv)
        K, m = HM.T @ Sig_inv, A @ mean + b
        e, seen = H @ m + o, M - K @ HM
        held = [np.where(pivots[j] > SINGULAR * Sig[j, j], pivots[j], np.nan) for j in range(n.Y)]
        return {
            "P_start": P,
            "c_start": mean,
            "M": M,
            "m": m,
            "K": K,
            "Sig_inv": Sig_inv,
            "e": e,
            "P": lower_mirrored(seen - (seen @ H.T) @ K.T + K @ noise @ K.T),
            "mean": m - K @ e,
            "misfit": misfit + sum((np.log(each) for each in held), e @ (Sig_inv @ e)) + 2.0 * excess,
        }

    def final(misfit):
        return {"misfit": misfit}

    uses = r.uses(problem="grid", point="start node sums")
    return NodeScan("integrate", uses, init=init, body=body, final=final)


def _mean_weights(r: Records, n: Sizes) -> Kernel:
    """Backward over nodes, as in section 6: Om, and rho for the column; weights of interval and rows.

    d h_1 = <Th, dQ> / 2 + <Th A P + eta c^T, dA> + eta.db and likewise for the rows, with Th = Om - eta eta^T.
    """

    def init():
        return {"Om": np.zeros((n.X, n.X)), "rho": np.zeros(n.X)}

    def body(Om, rho, A, H, Hw, K, Sig_inv, M, m, e):
        lam = Sig_inv @ e - K.T @ rho
        eta = rho + H.T @ lam
        KOm = K.T @ Om
        own = lower_mirrored(Sig_inv + KOm @ K)
        across = own @ H - KOm
        Om_n = lower_mirrored(Om - KOm.T @ H + H.T @ across)
        return {
            "wo": lam,
            "wH": across @ M + lam[:, None] * (m - M @ eta),
            "wHw": (own - lam[:, None] * lam) @ Hw,
            "Th": lower_mirrored(Om_n - eta[:, None] * eta),
            "pull": eta,
            "Om": lower_mirrored(A.T @ Om_n @ A),
            "rho": A.T @ eta,
        }

    def final(Om, rho, B0):
        return {"wB0": (Om - rho[:, None] * rho) @ B0, "pull0": rho}

    uses = r.uses(point="start node", scratch="work start_weights")
    return NodeScan("mean_weights", uses, init=init, body=body, final=final, reverse=True)


def _interval_slopes(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Forward inside an interval, Lam_s = F_s Lam_{s-1} + Sv_s B_s^T Th + f_s eta^T: the gradient by z of
    <Phi^T Lam^T, F> + <Phi^T Th B, Sv> + <Phi^T eta, f>."""

    def init(P_start, c_start, A, Th, pull):
        return {"Lam": P_start @ (A.T @ Th) + c_start[:, None] * pull, "gz": np.zeros(n.Z)}

    def body(Lam, gz, z, delta, t_start, s, forcing, B, Phi, Th, pull):
        step = _at_rest(f, n, z, delta, t_start, s, forcing)
        F, Sv = step.jacobians(1, 2)
        weight = np.concatenate([(Lam @ Phi).T, Phi.T @ (Th @ B)], axis=1)
        along = F @ Lam + Sv @ (B.T @ Th) + step.value()[:, None] * pull
        return {"Lam": along, "gz": gz + slope_of(step, Phi.T @ pull, weight)}

    def final(gz):
        return {"gz_path": gz}

    uses = r.uses(problem="settings grid forcing", point="theta node path", scratch="work")
    return LaneScan("interval_slopes", uses, init=init, body=body, final=final, fixes=("gz_path",))


def slope_of(step: Applied, pull: Any, weight: Any) -> Any:
    """Return the gradient by z of <pull, f> + <weight, [F, Sv]>.

    Derivatives of a small model are written out: where all steps are alike they are computed once. Those of a large one
    would take long to find, and it is one gradient.
    """
    z, x, v = (math.prod(shape) for shape in step.program.shapes[:3])
    if x * (z + x + v) ** 2 > LARGEST_HESSIAN:
        weights = np.zeros((x, z)), *np.split(weight, (x,), axis=1)
        return step.contracted(weights, 0, 1, 2)[0] + step.pulled(pull, 0)[0]
    mixed = step.hessians(0, 1, 2)
    return sum((mixed[k][z:, :z].T @ weight[k] for k in range(x)), step.jacobian(0).T @ pull)


def _row_slopes(f: Programs, r: Records, n: Sizes) -> Kernel:
    """The gradient by z of <wo, o> + <wH, H> + <wHw, Hw> and of the excess of the node."""

    def final(z, t_end, inputs_end, y, mask, censored, upper, coldness, wo, wH, wHw):
        at = (z, np.zeros(n.X), np.zeros(n.W), t_end, inputs_end, y, mask, censored, upper, coldness)
        rows = f.rows(*at)
        slope = rows.contracted((np.zeros((n.Y, n.Z)), wH, wHw), 0, 1, 2)[0] + rows.pulled(wo, 0)[0]
        return {"gz_node": np.where(np.any(mask > 0.0), slope, 0.0) + f.node_excess(*at).jacobian(0)}

    uses = r.uses(problem="settings grid", point="theta", scratch="work")
    return LaneScan("row_slopes", uses, final=final, fixes=("gz_node",))


def _gather(f: Programs, r: Records, n: Sizes) -> Kernel:
    """The gradient by z: of all intervals and nodes, and of <wB0, B0> + <rho_0, x_0> and the excess of the start."""

    def init(gz):
        return {"gz": gz}

    def body(gz, gz_node, gz_path):
        return {"gz": gz + (gz_node + gz_path)}

    def final(gz, z, covariates, wB0, pull0):
        at = (z, np.zeros(n.V0), covariates)
        start = f.start(*at)
        slope = start.contracted((np.zeros((n.X, n.Z)), wB0), 0, 1)[0] + start.pulled(pull0, 0)[0]
        return {"gz": gz + slope + f.start_excess(*at).jacobian(0)}

    uses = r.uses(problem="about", point="theta sums", scratch="work start_weights")
    return NodeScan("gather", uses, init=init, body=body, final=final)


def _parameter_gradient(f: Programs, r: Records) -> Kernel:
    """The gradient by the coordinates, f' L^T (g_z(u)'^T gz + u + grad excess) - f''/f' - q: less what is normal."""

    def final(u, centre, factor, skew, gz):
        root = np.sqrt(1.0 + u * u)
        at, stretch = centre + factor @ (u + skew * (root - 1.0)), 1.0 + skew * u / root
        slope = f.parameters(at).pulled(gz, 0)[0] + at + f.parameter_excess(at).jacobian(0)
        return {"u_g": stretch * (factor.T @ slope) - skew / (stretch * root**3) - u}

    uses = r.uses(problem="coordinates", point="u sums", gradient="u")
    return NodeScan("parameter_gradient", uses, final=final)


def _predict(r: Records) -> Kernel:
    """Innovations e of the rows with the noise of a vector; c is the state at a node before it is seen."""

    def init(mean0, B0, v0):
        return {"running": mean0 + B0 @ v0}

    def body(running, w, Bp, A, b, H, Hw, o, K):
        c = A @ running + b + Bp
        e_drawn = H @ c + Hw @ w + o
        return {"e_drawn": e_drawn, "c": c, "running": c - K @ e_drawn}

    uses = r.uses(point="start node v0 w", scratch="work newton")
    return NodeScan("predict", uses, init=init, body=body)


def _condition(r: Records) -> Kernel:
    """Backward: lam = G^{-1} (r + J n) and eta, the states at the nodes, and v0 less its part of J^T lam."""

    def init(A):
        return {"rho": np.zeros(A.shape[0])}

    def body(rho, e_drawn, c, A, H, K, Sig_inv, M):
        lam = Sig_inv @ e_drawn - K.T @ rho
        eta = H.T @ lam + rho
        return {"lam": lam, "eta": eta, "x_node": c - M @ eta, "rho": A.T @ eta}

    def final(rho, v0, mean0, B0):
        moved = v0 - B0.T @ rho
        return {"v0": moved, "x0": mean0 + B0 @ moved}

    uses = r.uses(point="start node v0", scratch="newton")
    return NodeScan("condition", uses, init=init, body=body, final=final, reverse=True)
