"""The Gram matrix G = J J^T as the observation covariance of the linearised path: factorise, solve, project.

method.md, sections 4 and 5. `free` is 0 at a node whose state is conditioned on: nothing passes through it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pathfold.engine.model_functions import Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan
from pathfold.program.matrices import eliminate, lower_mirrored, ones_where_missing

SINGULAR = 1e-13  # a pivot below this fraction of its variance has no digits left


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [_factorise(f, r, n), _push(r, n), filter_vector(f, r), _unexplained(r), smooth_vector(f, r), _pull(r)]


def _factorise(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Forward filter: M = A P A^T + Q, Sig = H M H^T + W W^T, K = M H^T Sig^{-1}, and the U columns d, eU with it.

    P is updated in Joseph's form, (I - K H) M (I - K H)^T + K W W^T K^T: it stays accurate when the path noise is much
    smaller than the uncertainty before the observation. Relaxations are variances, in units of the squared scales,
    that are added to every gap and every observation while a start is sought (method.md, section 12), else zero. The
    excesses of starts and nodes, which are no part of the matrix, are added up on the way.
    """

    def init(B0, E0, C, P_in, d_in, excesses, excess_x0):
        begun = {"C": C, "log_sig": np.zeros(()), "excesses": excesses + excess_x0}
        return {"P": B0 @ B0.T + P_in, "d": E0 + d_in, **begun}

    def body(
        P,
        d,
        C,
        log_sig,
        excesses,
        excess,
        A,
        E,
        Q,
        H,
        Hu,
        Hw,
        mask,
        row_relaxation,
        gap_relaxation,
        state_scale,
        row_scale,
    ):
        Q, noise = relaxed(Q, Hw, mask, row_relaxation, gap_relaxation, state_scale, row_scale)
        seen = look(P, d, A, E, Q, H, Hu, noise, mask, f.free(mask))
        return {
            "P_start": P,
            "d_start": d,
            "M": seen.M,
            "K": seen.K,
            "Sig_inv": seen.Sig_inv,
            "eU": seen.eU,
            "P": seen.P,
            "d": seen.d,
            "C": C + lower_mirrored(seen.eU.T @ seen.Sig_inv @ seen.eU),
            "log_sig": log_sig + sum(_log_pivot(seen.pivots[j], seen.Sig[j, j]) for j in range(n.Y)),
            "excesses": excesses + excess,
        }

    def final(C, log_sig, log_det, excesses):
        return {"C": C, "log_sig": log_sig, "log_det": log_det + log_sig, "excesses": excesses}

    uses = r.uses(problem="settings grid", point="start node sums segment")
    return NodeScan("factorise", uses, init=init, body=body, final=final)


def relaxed(Q, Hw, mask, row_relaxation, gap_relaxation, state_scale, row_scale):
    """Return the covariances of the path noise of an interval and of the rows' noise, with the relaxations."""
    rows = np.diag(row_relaxation * mask * row_scale**2)
    return Q + np.diag(gap_relaxation * state_scale**2), lower_mirrored(Hw @ Hw.T + rows)


class Look(NamedTuple):
    """A step of the filter at a node: the covariance predicted, the terms of the innovation, what is updated."""

    M: Any
    Sig: Any
    Sig_inv: Any
    pivots: Any
    K: Any
    I_KH: Any
    eU: Any
    P: Any
    d: Any


def look(P, d, A, E, Q, H, Hu, noise, mask, free) -> Look:
    """Go to the next node, where P and d are A P A^T + Q and A d + E, and look at its rows."""
    M = lower_mirrored(A @ P @ A.T + Q)
    Sig = lower_mirrored(ones_where_missing(H @ M @ H.T + noise, mask))
    Sig_inv, pivots = eliminate(Sig)
    Sig_inv = lower_mirrored(Sig_inv)
    K = M @ H.T @ Sig_inv
    I_KH = np.eye(len(M)) - K @ H
    dm = A @ d + E
    eU = H @ dm + Hu
    P = free * lower_mirrored(I_KH @ M @ I_KH.T + K @ noise @ K.T)
    return Look(M, Sig, Sig_inv, pivots, K, I_KH, eU, P, free * (dm - K @ eU))


def _log_pivot(pivot, variance):
    """Return the log of a pivot; NaN if it is below rounding error: then rows are linearly dependent."""
    return np.where(pivot > SINGULAR * variance, np.log(pivot), np.nan)


def _push(r: Records, n: Sizes) -> Kernel:
    """sum_s B_{n,s} p_{v,n,s}: the movement of the node by the path noise of a vector."""

    def init():
        return {"total": np.zeros(n.X)}

    def body(total, B, v):
        return {"total": total + B @ v}

    def final(total):
        return {"Bp": total}

    return LaneScan("push", r.uses(point="path", vector="v", scratch="work"), init=init, body=body, final=final)


def filter_vector(f: Programs, r: Records) -> NodeScan:
    """Innovations e of J p, with gaps and misfits of the path added; c is the filtered movement of the nodes."""

    def init(E0, B0, u, v0, c_in):
        return {"running": E0 @ u + B0 @ v0 + c_in}

    def body(running, u, w, Bp, gap, o, A, E, H, Hu, Hw, K, mask):
        cm = A @ running + E @ u + Bp + gap
        e = H @ cm + Hu @ u + Hw @ w + o
        c = f.free(mask) * (cm - K @ e)
        return {"e": e, "c": c, "running": c}

    uses = r.uses(problem="grid", point="start node", vector="u v0 w", scratch="work newton handed")
    return NodeScan("filter_vector", uses, init=init, body=body)


def _unexplained(r: Records) -> Kernel:
    """b = sum eU^T Sig^{-1} (e - eU a): the part of the innovations that the parameters could still explain.

    C a = sum eU^T Sig^{-1} e is solved by corrections a += C^{-1} (b - a). The first, from a = 0, is the plain solve;
    where the parameters move the observations by much more than the noise does it loses digits, which the next restore.
    """

    def init(b):
        return {"b": b}

    def body(b, a, e, eU, Sig_inv):
        return {"b": b + eU.T @ (Sig_inv @ (e - eU @ a))}

    def final(b):
        return {"b": b}

    uses = r.uses(point="node", scratch="newton newton_sums")
    return NodeScan("unexplained", uses, init=init, body=body, final=final)


def smooth_vector(f: Programs, r: Records) -> NodeScan:
    """Backward pass: lam = (G^{-1} r)_n and eta_n, with J^T G^{-1} r = (a; B0^T rho_0; W^T lam; B^T eta)."""

    def init(rho_in):
        return {"rho": rho_in}

    def body(rho, e, eU, a, A, H, K, Sig_inv, mask):
        rho = f.free(mask) * rho
        lam = Sig_inv @ (e - eU @ a) - K.T @ rho
        eta = H.T @ lam + rho
        return {"lam": lam, "eta": eta, "rho": A.T @ eta}

    def final(rho, B0):
        return {"zeta0": B0.T @ rho}

    uses = r.uses(problem="grid", point="start node", scratch="newton newton_sums start_multipliers handed")
    return NodeScan("smooth_vector", uses, init=init, body=body, final=final, reverse=True)


def _pull(r: Records) -> Kernel:
    """Take the path and observation parts of J^T G^{-1} r from a vector: v -= B^T eta, w -= W^T lam."""

    def body(v, B, eta):
        return {"v": v - B.T @ eta}

    def final(w, Hw, lam):
        return {"w": w - Hw.T @ lam}

    return LaneScan("pull", r.uses(point="path node", vector="v w", scratch="newton"), body=body, final=final)
