"""Newton's method on the lifted path (method.md, section 8): kernels of one iteration.

Quantities at the moving point (q', xhat) carry the suffix _new where both points meet; plain ones belong to the start q
of the step. The moving point's node states are unknowns of their own, so every interval is simulated by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pathfold.engine.model_functions import Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan
from pathfold.program.matrices import eliminate, ones_where_missing


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [
        _move_nodes(f, r),
        _shoot(f, r),
        _shoot_linearised(f, r, n),
        _residual(f, r),
        _residual_linearised(f, r),
        _cross_factorise(f, r, n),
        cross_filter(f, r),
        _cross_unexplained(r),
        cross_smooth(f, r),
    ]


def _move_nodes(f: Programs, r: Records) -> Kernel:
    """Node states moved with a first-order change of position: c - d a - P rho, with rho = eta - H^T lam.

    P and d at the node are (I - K H) M and A d + E - K eU, with d at the node before.
    """

    def final(x_node, c, a, A, d_start, E, eU, M, K, H, eta, lam, mask):
        before = A @ (d_start @ a) + E @ a + M @ (eta - H.T @ lam)
        seen = eU @ a + H @ (M @ (eta - H.T @ lam))
        return {"x_node_new": x_node + c - f.free(mask) * (before - K @ seen)}

    uses = r.uses(problem="grid", origin="node", target="node", scratch="newton newton_sums")
    return LaneScan("move_nodes", uses, final=final)


def _shoot(f: Programs, r: Records) -> Kernel:
    """Move the path noise, v' -= B^T eta, and simulate every interval from its node: gap_n = f-chain - xhat_n."""

    def init(x_start_new):
        return {"state": x_start_new}

    def body(state, z_new, v_new, delta, t_start, s, forcing, B, eta):
        v = v_new - B.T @ eta
        return {"v_new": v, "state": f.step(z_new, state, v, delta, t_start + s * delta, forcing).value()}

    def final(state, x_node_new):
        return {"gap": state - x_node_new}

    uses = r.uses(problem="settings grid forcing", origin="path", target="theta v node", scratch="newton")
    return LaneScan("shoot", uses, init=init, body=body, final=final)


def _shoot_linearised(f: Programs, r: Records, n: Sizes) -> Kernel:
    """As `_shoot`, with the Jacobians carried forward: A' = dx_n/dx_{n,0}, E' = dx_n/du, cross = sum_s B'_s B_s^T."""

    def init(x_start_new):
        zeros = {"A": np.eye(n.X), "Ez": np.zeros((n.X, n.Z)), "cross": np.zeros((n.X, n.X))}
        return {"state": x_start_new, **zeros}

    def body(state, A, Ez, cross, z_new, v_new, delta, t_start, s, forcing, B, eta):
        v = v_new - B.T @ eta
        step = f.step(z_new, state, v, delta, t_start + s * delta, forcing)
        E, F, Sv = step.jacobians(0, 1, 2)
        return {"v_new": v, "state": step.value(), "A": F @ A, "Ez": F @ Ez + E, "cross": F @ cross + Sv @ B.T}

    def final(state, A, Ez, cross, x_node_new, D_new):
        return {"gap": state - x_node_new, "A_new": A, "E_new": Ez @ D_new, "cross": cross}

    uses = r.uses(problem="settings grid forcing", origin="path", target="theta v node", scratch="newton")
    return LaneScan("shoot_linearised", uses, init=init, body=body, final=final, fixes=("cross",))


def _residual(f: Programs, r: Records) -> Kernel:
    """Move the observation noise, w' -= W^T lam, and compare with the data: o_n = h(u', xhat_n, w'_n) - y_n."""

    def final(z_new, x_node_new, w_new, t_end, inputs_end, y, mask, censored, upper, coldness, Hw, lam):
        w = w_new - Hw.T @ lam
        rows = f.rows(z_new, x_node_new, w, t_end, inputs_end, y, mask, censored, upper, coldness)
        return {"w_new": w, "o": rows.value()}

    uses = r.uses(problem="settings grid", origin="node", target="theta w node", scratch="newton")
    return LaneScan("residual", uses, final=final)


def _residual_linearised(f: Programs, r: Records) -> Kernel:
    """As `_residual`, with the Jacobians of the observation at the moving point."""

    def final(z_new, x_node_new, w_new, t_end, inputs_end, y, mask, censored, upper, coldness, Hw, lam, D_new):
        w = w_new - Hw.T @ lam
        rows = f.rows(z_new, x_node_new, w, t_end, inputs_end, y, mask, censored, upper, coldness)
        Hz, H, Hw = rows.jacobians(0, 1, 2)
        return {"w_new": w, "o": rows.value(), "H_new": H, "Hu_new": Hz @ D_new, "Hw_new": Hw}

    uses = r.uses(problem="settings grid", origin="node", target="theta w node", scratch="newton")
    return LaneScan("residual_linearised", uses, final=final)


def _cross_factorise(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Filter of the mixed matrix J(q') J(q)^T: covariances between the two linearised paths, not symmetric."""

    def init(B0, B0_new, E0, E0_new, C, Pc_in, dl_in, dr_in):
        return {"P": B0_new @ B0.T + Pc_in, "dl": E0_new + dl_in, "dr": E0 + dr_in, "C": C}

    def body(P, dl, dr, C, A, A_new, E, E_new, cross, H, H_new, Hu, Hu_new, Hw, Hw_new, mask):
        matrices = A, A_new, E, E_new, cross, H, H_new, Hu, Hu_new, Hw, Hw_new
        seen = cross_look(P, dl, dr, *matrices, mask, f.free(mask))
        return {
            "Pc": seen.P,
            "Kl": seen.Kl,
            "Kr": seen.Kr,
            "Sc_inv": seen.S_inv,
            "eUl": seen.eUl,
            "SeR": seen.SeR,
            "dl_node": seen.dl,
            "P": seen.P,
            "dl": seen.dl,
            "dr": seen.dr,
            "C": C + seen.SeR.T @ seen.eUl,
        }

    def final(C):
        return {"C": C}

    uses = r.uses(problem="grid", origin="start node", target="start node", scratch="newton newton_sums handed")
    return NodeScan("cross_factorise", uses, init=init, body=body, final=final)


class CrossLook(NamedTuple):
    """What the filter of the mixed matrix makes of a node."""

    S_inv: Any
    Kl: Any
    Kr: Any
    eUl: Any
    SeR: Any
    P: Any
    dl: Any
    dr: Any


def cross_look(P, dl, dr, A, A_new, E, E_new, cross, H, H_new, Hu, Hu_new, Hw, Hw_new, mask, free) -> CrossLook:
    """Go to the next node, on both paths, and look at its rows (as `gram.look`).

    Left (l, the gain Kl) is q', right (r, Kr) is q. H, Hu, Hw and residuals are zero where a row is missing
    (`ModelFunctions.rows`), so that what the gains have of such a row counts nowhere.
    """
    M = A_new @ P @ A.T + cross
    S_inv, _ = eliminate(ones_where_missing(H_new @ M @ H.T + Hw_new @ Hw.T, mask))
    Kl = M @ H.T @ S_inv
    Kr = S_inv @ H_new @ M
    left, right = A_new @ dl + E_new, A @ dr + E
    eUl, eR = H_new @ left + Hu_new, H @ right + Hu
    P, dl, dr = M - Kl @ H_new @ M, left - Kl @ eUl, right - Kr.T @ eR
    return CrossLook(S_inv, Kl, Kr, eUl, S_inv.T @ eR, free * P, free * dl, free * dr)


def cross_filter(f: Programs, r: Records) -> NodeScan:
    """Closed-loop innovations of the residuals, cm = A' c + gap, e = o + H' cm, c = cm - K' e.

    And the largest residual, in units of the scales of states and rows.
    """

    def init(residual, running_in):
        return {"running": running_in, "residual": residual}

    def body(running, residual, A_new, H_new, gap, o, Kl, mask, state_scale, row_scale):
        cm = A_new @ running + gap
        e = o + H_new @ cm
        c = f.free(mask) * (cm - Kl @ e)
        largest = np.maximum(np.max(np.abs(gap / state_scale)), np.max(np.abs(o / row_scale)))
        return {"e": e, "c": c, "running": c, "residual": np.maximum(residual, largest)}

    def final(residual):
        return {"residual": residual}

    uses = r.uses(problem="settings grid", target="node", scratch="newton newton_sums handed")
    return NodeScan("cross_filter", uses, init=init, body=body, final=final, largest=("residual",))


def _cross_unexplained(r: Records) -> Kernel:
    """b = sum eR^T Sig^{-1} (e - eU' a), as in `unexplained`."""

    def init(b):
        return {"b": b}

    def body(b, a, e, eUl, SeR):
        return {"b": b + SeR.T @ (e - eUl @ a)}

    def final(b):
        return {"b": b}

    uses = r.uses(origin="node", scratch="newton newton_sums")
    return NodeScan("cross_unexplained", uses, init=init, body=body, final=final)


def cross_smooth(f: Programs, r: Records) -> NodeScan:
    """Backward: multipliers lam, eta of the change dq = -J(q)^T lam, and the node states moved with it.

    `change` is the largest 2-norm of dq over the noise of one interval or observation, squared; it bounds |dq|_inf.
    """

    def init(change, zeta_in):
        return {"zeta": zeta_in, "change": change}

    def body(zeta, change, a, e, c, eUl, Sc_inv, Kr, Pc, dl_node, A, H, Hw, Q, x_node_new, mask):
        zeta = f.free(mask) * zeta
        lam = Sc_inv @ (e - eUl @ a) - Kr @ zeta
        eta = H.T @ lam + zeta
        dw = Hw.T @ lam
        moved = np.maximum(eta @ (Q @ eta), dw @ dw)
        return {
            "lam": lam,
            "eta": eta,
            "x_node_new": x_node_new + c - dl_node @ a - Pc @ zeta,
            "zeta": A.T @ eta,
            "change": np.maximum(change, moved),
        }

    def final(zeta, change, B0):
        zeta0 = B0.T @ zeta
        return {"zeta0": zeta0, "change": np.maximum(change, zeta0 @ zeta0)}

    scratch = "newton start_multipliers newton_sums handed"
    uses = r.uses(problem="grid", origin="start node", target="node", scratch=scratch)
    return NodeScan("cross_smooth", uses, init=init, body=body, final=final, reverse=True, largest=("change",))
