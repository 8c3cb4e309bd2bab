"""The gradient of (1/2) log|G| in closed form (method.md, section 6).

d(1/2 log|G|) = <G^{-1} J, dJ>: each Jacobian gets a small weight from the smoother, and the second derivatives of the
model functions enter only contracted with these weights. All derivatives are taken by z; D = dz/du is applied once.
"""

from __future__ import annotations

import numpy as np

from pathfold.engine.model_functions import Programs, curvature
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan
from pathfold.program.matrices import lower_mirrored


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [
        _weights(f, r, n),
        _spread(f, r, n),
        _curvature(f, r, n),
        _observe_curvature(f, r),
        pull_back(f, r),
        _start_curvature(f, r),
        _parameter_gradient(f, r),
        _gradient_vector(r),
    ]


def _weights(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Backward over nodes: information matrix Om, U columns R, and the weights of H, Hz, Hw and of the interval.

    An interval has Jacobians of the states that move alone, and so have their weights.
    """
    moving = slice(n.M)

    def init(wD, Om_in, R_in):
        return {"Om": Om_in, "R": R_in, "wD": wD}

    def body(Om, R, wD, C_inv, D, A, Ez, E, H, Hz, Hw, K, Sig_inv, M, eU, P_start, d_start, mask):
        free = f.free(mask)
        dm = A @ d_start + E
        Om, R = free * Om, free * R
        I_KH = np.eye(n.X) - K @ H
        lamU = Sig_inv @ eU - K.T @ R
        Om_n = lower_mirrored(H.T @ Sig_inv @ H + I_KH.T @ Om @ I_KH)
        R_n = R + H.T @ lamU
        wHu = lamU @ C_inv
        Gam_u = R_n[moving] @ C_inv
        Th = Om_n[:, moving] - R_n @ Gam_u.T
        return {
            "wH": (Sig_inv @ H - K.T @ Om @ I_KH - wHu @ R_n.T) @ M + wHu @ dm.T,
            "wHz": wHu @ D.T,
            "wHw": (Sig_inv + K.T @ Om @ K - wHu @ lamU.T) @ Hw,
            "Th": lower_mirrored(Th[moving]),
            "Gam": Gam_u @ D.T,
            "Lam0": P_start @ A.T @ Th + d_start @ Gam_u.T,
            "Om": lower_mirrored(A.T @ Om_n @ A),
            "R": A.T @ R_n,
            "wD": wD + Hz.T @ wHu + Ez[moving].T @ Gam_u,
        }

    def final(Om, R, wD, C_inv, D, E0z, B0):
        wE0 = R @ C_inv
        return {"wE0": wE0 @ D.T, "wB0": (Om - wE0 @ R.T) @ B0, "wD": wD + E0z.T @ wE0}

    uses = r.uses(problem="grid", point="theta start node sums segment", scratch="work start_weights")
    return NodeScan("weights", uses, init=init, body=body, final=final, reverse=True)


def _spread(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Forward inside an interval: Lam_s = F_s Lam_{s-1} + Sv_s B_s^T Th + E_s Gam^T, kept before each step."""

    def init(Lam0):
        return {"running": Lam0}

    def body(running, z, x, x_start, v, delta, t_start, s, forcing, B, Th, Gam):
        E, F, Sv = f.step(z, f.along(x, x_start), v, delta, t_start + s * delta, forcing).jacobians(0, 1, 2)
        return {"Lam": running, "running": F @ running + Sv @ (B[: n.M].T @ Th) + E @ Gam.T}

    uses = r.uses(problem="settings grid forcing", point="theta v node path", scratch="work slope")
    return LaneScan("spread", uses, init=init, body=body)


def _curvature(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Backward inside an interval: gradient of <Phi^T Gam, E> + <Phi^T Lam^T, F> + <Phi^T Th B, Sv> + <eta, f>.

    gv is the gradient by the path noise as far as it acts inside the interval (plus v itself when 1/2 q.q belongs to
    h1), gx_path and gz_path what is left at the interval's start and for z; Bp = sum B gv.
    """

    def init():
        return {"Phi": np.eye(n.X), "eta": np.zeros(n.X), "gz": np.zeros(n.Z), "Bg": np.zeros(n.X)}

    def body(Phi, eta, gz, Bg, z, x, x_start, v, delta, t_start, s, forcing, B, Lam, Th, Gam, verlet):
        step = f.step(z, f.along(x, x_start), v, delta, t_start + s * delta, forcing)
        weight = Phi[: n.M, : n.M].T @ np.concatenate([Gam, Lam.T, Th @ B[: n.M]], axis=1)
        bent = curvature(step, weight, n.M)
        E, F, Sv = step.jacobians(0, 1, 2)
        total = eta @ np.concatenate([E, F, Sv], axis=1)
        for term in bent:
            total = total + term
        gz_s, gx_s, gv = np.split(total, (n.Z, n.Z + n.X))
        gv = gv + verlet * v
        return {"gv": gv, "Phi": Phi @ F, "eta": gx_s, "gz": gz + gz_s, "Bg": Bg + B @ gv}

    def final(eta, gz, Bg):
        return {"gx_path": eta, "gz_path": gz, "Bp": Bg}

    uses = r.uses(problem="settings grid forcing", point="theta v node path", scratch="work slope")
    return LaneScan("curvature", uses, init=init, body=body, final=final, reverse=True)


def _observe_curvature(f: Programs, r: Records) -> Kernel:
    """Gradient by (z, x_n, w_n) of <wH, H> + <wHz, Hz> + <wHw, Hw>, and of the excess of the node."""

    def final(z, x_node, w, t_end, inputs_end, y, mask, censored, upper, coldness, wH, wHz, wHw, verlet):
        node = (z, x_node, w, t_end, inputs_end, y, mask, censored, upper, coldness)
        # At a node without rows they may be no numbers; forward derivatives see to that themselves.
        of_rows = f.rows(*node).contracted((wHz, wH, wHw), 0, 1, 2)
        of_excess = f.node_excess(*node).jacobians(0, 1, 2)
        looked_at = np.any(mask > 0.0)
        gz, gx, gw = (np.where(looked_at, a, 0.0) + b for a, b in zip(of_rows, of_excess, strict=True))
        return {"gz_node": gz, "gx_node": gx, "w_g": gw + verlet * w}

    uses = r.uses(problem="settings grid", point="theta w node", gradient="w", scratch="work")
    return LaneScan("observe_curvature", uses, final=final)


def pull_back(f: Programs, r: Records) -> NodeScan:
    """State gradients back through the path, zeta_{n-1} = A_n^T zeta_n + gx_path_n + gx_node_{n-1}; sums for z, u.

    Rows of J may be added to the gradient, since it will be projected; with multipliers -K^T zeta they turn A into
    (I - K H) A, so that zeta does not grow without bound where the system is chaotic. While a start is sought,
    the projection does not remove them, and they are left out.
    """

    def init(gz, gu, later_in):
        return {"later": later_in, "gz": gz, "gu": gu}

    def body(
        later,
        gz,
        gu,
        gx_node,
        gx_path,
        gz_node,
        gz_path,
        A,
        E,
        Q,
        H,
        Hu,
        Hw,
        K,
        Bp,
        w_g,
        mask,
        row_relaxation,
        gap_relaxation,
    ):
        zeta = f.free(mask) * later + gx_node
        lam = np.where(row_relaxation + gap_relaxation > 0.0, 0.0, -K.T @ zeta)
        zeta = zeta + H.T @ lam
        return {
            "zeta": zeta,
            "w_g": w_g + Hw.T @ lam,
            "Bp": Bp + Q @ zeta,
            "later": A.T @ zeta + gx_path,
            "gz": gz + gz_node + gz_path,
            "gu": gu + E.T @ zeta + Hu.T @ lam,
        }

    def final(later, gz, gu):
        return {"zeta0x": later, "gz": gz, "gu": gu}

    scratch = "work start_weights handed"
    uses = r.uses(problem="settings grid", point="node sums", gradient="w", scratch=scratch)
    return NodeScan("pull_back", uses, init=init, body=body, final=final, reverse=True)


def _start_curvature(f: Programs, r: Records) -> Kernel:
    """The initial state's share: gradient of <wE0, E0> + <wB0, B0> + <zeta_0, x_0>, and of its prior's excess."""

    def final(z, v0, covariates, begins, wE0, wB0, zeta0x, excess_z_gradient, excess_v0_gradient, gz, verlet):
        start = f.start(z, v0, covariates)
        of_jacobians, of_state = start.contracted((wE0, wB0), 0, 1), start.pulled(zeta0x, 0, 1)
        gz_start, gv0 = (np.where(begins > 0.0, a + b, 0.0) for a, b in zip(of_jacobians, of_state, strict=True))
        return {"gz": gz + gz_start + excess_z_gradient, "v0_g": gv0 + excess_v0_gradient + verlet * v0}

    uses = r.uses(problem="settings about", point="theta v0 start sums", gradient="v0", scratch="start_weights")
    return NodeScan("start_curvature", uses, final=final)


def _parameter_gradient(f: Programs, r: Records) -> Kernel:
    """g_u = gu + D^T gz + grad_u <wD, D(u)> + gradient of the prior's excess."""

    def final(u, centre, factor, gz, gu, wD, D, excess_u_gradient, verlet):
        through_D = f.in_coordinates(u, centre, factor).contracted(wD)
        return {"u_g": gu + D.T @ gz + through_D + excess_u_gradient + verlet * u}

    uses = r.uses(problem="settings coordinates", point="u theta sums", gradient="u")
    return NodeScan("parameter_gradient", uses, final=final)


def _gradient_vector(r: Records) -> Kernel:
    """Path and observation parts of the gradient less its projection: gv + B^T (zeta - eta), gw - W^T lam."""

    def body(gv, B, zeta, eta):
        return {"v_g": gv + B.T @ (zeta - eta)}

    def final(w_g, Hw, lam):
        return {"w_g": w_g - Hw.T @ lam}

    uses = r.uses(point="path node", gradient="v w", scratch="slope work newton")
    return LaneScan("gradient_vector", uses, body=body, final=final)
