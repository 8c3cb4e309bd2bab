"""A tangent vector at the most probable noise, drawn with the curvature there as its precision (method.md, section 21).

Every interval is drawn by itself, its end held loosely, and then tied to the next, from the last node to the first. How
loosely does not matter, since the end is given at last; not held at all, its noise may have no law. On entry scratch
has the pass that found the mode, and standard normals stand where the noise will be, and in records of their own.
"""

from __future__ import annotations

import numpy as np

from pathfold.engine.model_functions import Programs
from pathfold.engine.native.thresholds import HELD
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan
from pathfold.program.matrices import (
    eliminate,
    lower_mirrored,
    semidefinite_root,
    solve_lower,
    solve_semidefinite,
)


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [_hold_ends(r), _loose_nodes(r, n), _loose_noise(r), _tie_nodes(r, n), _tied_noise(r), _tied_squares(r)]


def _hold_ends(r: Records) -> Kernel:
    """Give the end of every interval a precision: a multiple of that which it has before its observation, or none."""

    def final(M_ahead, held):
        variance = np.abs(np.diag(M_ahead))
        return {"end_precision": np.where(variance > 0.0, held / variance, 0.0)}

    return LaneScan("hold_ends", r.uses(problem="settings", scratch="element"), final=final)


def _loose_nodes(r: Records, n: Sizes) -> Kernel:
    """Forward: the changes of state at the starts of intervals, each drawn given all that lies before it.

    With the gain by which the end of an interval pulls at its start, the covariance of the end, and the change at the
    last node, drawn given all observations.
    """

    def init(P0):
        return {"P": P0, "size": np.diag(P0)}

    def body(P, size, eA, eQ, eO, seen_cov, start_normals):
        E, _ = eliminate(np.eye(n.X) + P @ eO)
        ahead = lower_mirrored(E @ P)
        gain = ahead @ eA.T
        M = lower_mirrored(eA @ gain + eQ)
        drawn = semidefinite_root(ahead, size) @ start_normals
        return {"dx_loose": drawn, "gain": gain, "M_ahead": M, "P": seen_cov[: n.X], "size": np.diag(M)}

    def final(P, size, end_normals):
        return {"x_end": semidefinite_root(P, size) @ end_normals}

    uses = r.uses(scratch="element element_start tied lane_normals series_normals")
    return NodeScan("loose_nodes", uses, init=init, body=body, final=final)


def _loose_noise(r: Records) -> Kernel:
    """Forward inside an interval: noise drawn from its law given the state at the start, and nothing of the end."""

    def init(dx_loose):
        return {"dx": dx_loose}

    def body(dx, Gx, Kx, root, spread, v_g):
        return {"v_g": Kx @ dx + solve_lower(root, v_g, transposed=True), "dx": Gx @ dx + spread @ v_g}

    def final(dx):
        return {"end_loose": dx}

    return LaneScan("loose_noise", r.uses(gradient="v", scratch="gains tied"), init=init, body=body, final=final)


def _tie_nodes(r: Records, n: Sizes) -> Kernel:
    """Backward over nodes: the change of state at the start of each interval, given that at its end.

    The loose draw of the interval is moved to end where it is to, by the costate M^{-1} (its end less the state there).
    The squares of nodes and starts in the precision of the draw are added up.
    """

    def init(x_end, squares):
        return {"x": x_end, "squares": squares}

    def body(x, squares, H, Hw, curv_h, end_precision, M_ahead, gain, eO, dx_loose, end_loose, w_g):
        w = _tied_observation(x, w_g, curv_h, H, Hw) if n.W else w_g
        at = np.concatenate([x, w])
        tie = solve_semidefinite(semidefinite_root(M_ahead, np.diag(M_ahead)), end_loose - x)
        before = dx_loose - gain @ tie
        of_node = at @ (curv_h @ at) + np.sum(w * w) - (end_precision * x) @ x
        return {
            "w_g": w,
            "tie": tie,
            "dx_tied": before,
            "x": before,
            "squares": squares + of_node + before @ (eO @ before),
        }

    def final(x, squares, B0, R0, v0_g):
        if not n.V0:
            return {"squares": squares}
        v0 = _tied_start(x, v0_g, B0, R0)
        return {"v0_g": v0, "squares": squares + v0 @ (R0 @ v0)}

    uses = r.uses(point="start node", gradient="v0 w", scratch="element element_start tied newton_sums")
    return NodeScan("tie_nodes", uses, init=init, body=body, final=final, reverse=True)


def _tied_observation(x, normals, curvature, H, Hw):
    """Return noise of an observation, drawn so that its rows are met to first order, given the change x of the state.

    It has the precision R = I + Lam_ww and the slope Lam_wx x; what the rows are then missed by, H x + Hw w, is taken
    away by R^{-1} Hw^T (Hw R^{-1} Hw^T)^{-1}.
    """
    X, W = len(x), len(normals)
    root = np.linalg.cholesky(np.eye(W) + curvature[X:, X:])
    w = solve_lower(root, normals, transposed=True) - _solve(root, curvature[X:, :X] @ x)
    return w - _towards(root, Hw, H @ x + Hw @ w)


def _tied_start(x, normals, B0, R0):
    """Return noise of an initial state, drawn so that it changes the state by x.

    Its precision R0 need not be positive, since observations come later. Given x the law is the same if B0 v is held by
    a precision of its own.
    """
    size, precision = np.max(np.abs(R0)), R0
    for row in B0:
        square = row @ row
        held = np.where(square > 0.0, HELD * size / square, 0.0)
        precision = precision + held * (row[:, None] @ row[None])
    root = np.linalg.cholesky(precision)
    v = solve_lower(root, normals, transposed=True)
    return v - _towards(root, B0, B0 @ v - x)


def _towards(root, rows, missed):
    """R^{-1} J^T (J R^{-1} J^T)^{-1} r with the root of R: the likeliest noise that moves the rows J by r."""
    pulled = _solve(root, rows.T)
    cov = lower_mirrored(rows @ pulled)
    return pulled @ solve_semidefinite(semidefinite_root(cov, np.diag(cov)), missed)


def _solve(root, right):
    return solve_lower(root, solve_lower(root, right), transposed=True)


def _tied_noise(r: Records) -> Kernel:
    """Forward inside an interval: the noise, moved so that start and end are what they are to be; and its square.

    With the state eliminated the square is that of root^T (dv - Kx dx), summed over the steps.
    """

    def init(dx_tied, dx_loose):
        return {"dx": dx_tied, "moved": dx_tied - dx_loose, "square": 0.0}

    def body(dx, moved, square, Gx, Gr, Kx, Kr, root, spread, tie, v_g):
        v = v_g + Kx @ moved + Kr @ tie
        own = root.T @ (v - Kx @ dx)
        return {"v_g": v, "dx": Gx @ dx + spread @ own, "moved": Gx @ moved + Gr @ tie, "square": square + own @ own}

    def final(square):
        return {"square": square}

    return LaneScan("tied_noise", r.uses(gradient="v", scratch="gains tied"), init=init, body=body, final=final)


def _tied_squares(r: Records) -> Kernel:
    """Add the squares of all intervals."""

    def init(squares):
        return {"squares": squares}

    def body(squares, square):
        return {"squares": squares + square}

    def final(squares):
        return {"squares": squares}

    return NodeScan("tied_squares", r.uses(scratch="tied newton_sums"), init=init, body=body, final=final)
