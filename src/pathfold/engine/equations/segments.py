"""Series in segments, which are filtered and smoothed side by side (method.md, section 23): kernels of their ends.

A scan over nodes needs what the segment before hands to it. What a segment makes of it is known beforehand, up to a few
numbers: for a filter from a run that begins with a reference covariance, for all other scans, which are linear, from
one that begins with zero. A join then goes from segment to segment, and the scans go through all of them once more. No
state of a node is held here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from inspect import signature

import numpy as np

from pathfold.engine.equations import gram, log_det, newton
from pathfold.engine.model_functions import Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, KernelPart, NodeScan, SegmentScan
from pathfold.program.matrices import invert, lower_mirrored

LITTLE = 1e-4  # a variance, in units of the squared scales


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [
        _reference(r, n),
        _survey(r, n),
        _join_factors(r, n),
        _join_weights(r, n),
        *_filters(f, r, n),
        *_smoothers(f, r, n),
        *_pulls(f, r, n),
        _cross_survey(r, n),
        _join_cross_factors(r, n),
        *_cross_filters(f, r, n),
        *_cross_smoothers(f, r, n),
    ]


def _reference(r: Records, n: Sizes) -> Kernel:
    """Reference covariance of a segment, from the filter over its first X + 1 intervals: from P = 0, with the variance
    LITTLE added to every constraint row; and from P = LITTLE, with the rows as they are, for states that no noise
    reaches.

    With 0 as the reference, exact observations of a state that noise reaches through others would have no variance; one
    much larger than the true covariance costs digits, so what the path amplifies must be seen, and what the rows say of
    constants that the segments before have learned. The first segment begins with the initial state: it needs no other.
    """

    def init(state_scale):
        return {"P": np.zeros((n.X, n.X)), "P_still": np.diag(LITTLE * state_scale**2)}

    def body(P, P_still, A, Q, H, Hw, mask, row_relaxation, gap_relaxation, state_scale, row_scale):
        no_columns = np.zeros((n.X, 0)), np.zeros((n.Y, 0))

        def looked(P, relaxation):
            relaxed, noise = gram.relaxed(Q, Hw, mask, relaxation, gap_relaxation, state_scale, row_scale)
            return gram.look(P, no_columns[0], A, no_columns[0], relaxed, H, no_columns[1], noise, mask, 1.0).P

        return {"P": looked(P, LITTLE), "P_still": looked(P_still, row_relaxation)}

    def final(P, P_still, begins):
        still = np.where(np.diag(P) > 0.0, 0.0, 1.0)
        return {"P_ref": np.where(begins > 0.0, 0.0, P + still[:, None] * P_still * still)}

    uses = r.uses(problem="settings grid about", point="node segment")
    return NodeScan("reference", uses, init=init, body=body, final=final, most=n.X + 1)


def _survey(r: Records, n: Sizes) -> Kernel:
    """The filter from the reference: its end, and how that depends on the beginning.

    Phi is the product of all (I - K H) A, Psi that of all A. With Phi up to the node before, Om = sum (H A Phi)^T
    Sig^{-1} H A Phi is what the rows say of the state at the beginning, r = -sum (H A Phi)^T Sig^{-1} eU what they say
    of it for the parameters' columns.
    """
    X, U = n.X, n.U

    def init(B0, E0, P_ref):
        begin = {"P": B0 @ B0.T + P_ref, "d": E0, "Phi": np.eye(X), "Psi": np.eye(X)}
        return begin | {"Om": np.zeros((X, X)), "r": np.zeros((X, U))}

    def body(P, d, Phi, Psi, Om, r, A, E, Q, H, Hu, Hw, mask, row_relaxation, gap_relaxation, state_scale, row_scale):
        Q, noise = gram.relaxed(Q, Hw, mask, row_relaxation, gap_relaxation, state_scale, row_scale)
        seen = gram.look(P, d, A, E, Q, H, Hu, noise, mask, 1.0)
        ahead = A @ Phi
        weight = seen.Sig_inv @ (H @ ahead)
        return {
            "P": seen.P,
            "d": seen.d,
            "Phi": seen.I_KH @ ahead,
            "Psi": A @ Psi,
            "Om": Om + lower_mirrored(ahead.T @ (H.T @ weight)),
            "r": r - weight.T @ seen.eU,
        }

    def final(P, d, Phi, Psi, Om, r):
        return {"P_end": P, "d_end": d, "Phi": Phi, "Psi": Psi, "Om": Om, "r": r}

    uses = r.uses(problem="settings grid", point="start node segment")
    return NodeScan("survey", uses, init=init, body=body, final=final)


def _join_factors(r: Records, n: Sizes) -> Kernel:
    """Combine segments forward: the P and d that the filter of each begins with; rebase Phi, Om and r to them.

    If the covariance is P_ref + D and not P_ref, all that follows has J = (I + D Om)^{-1} between: the gains before it
    do not know of D.
    """

    def init():
        return {"P": np.zeros((n.X, n.X)), "d": np.zeros((n.X, n.U))}

    def body(P, d, P_ref, P_end, d_end, Phi, Om, r):
        D = P - P_ref
        J = invert(np.eye(n.X) + D @ Om)
        through = Phi @ J
        return {
            "P_in": P,
            "d_in": d,
            "Phi": through,
            "Om": lower_mirrored(Om @ J),
            "r": J.T @ (r - Om @ d),
            "P": lower_mirrored(P_end + through @ D @ Phi.T),
            "d": d_end + through @ (d + D @ r),
        }

    return _join("join_factors", r, init, body, point="segment")


def _join_weights(r: Records, n: Sizes) -> Kernel:
    """Combine segments backward: the information (Om, R) that later ones carry about the state at the end of each."""

    def init():
        return {"ahead": np.zeros((n.X, n.X)), "R_ahead": np.zeros((n.X, n.U))}

    def body(ahead, R_ahead, Om, r, Phi):
        before = {"ahead": lower_mirrored(Om + Phi.T @ ahead @ Phi), "R_ahead": Phi.T @ R_ahead - r}
        return {"Om_in": ahead, "R_in": R_ahead} | before

    return _join("join_weights", r, init, body, reverse=True, point="segment")


def _filters(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    def begin(E0, B0, u, v0):
        return {"running": E0 @ u + B0 @ v0}

    def final(running):
        return {"c_end": running}

    def body(c, c_end, Phi):
        return {"c_in": c, "c": c_end + Phi @ c}

    join = _join("join_filters", r, lambda: {"c": np.zeros(n.X)}, body, point="segment", scratch="handed")
    return [_ends("filter_ends", gram.filter_vector(f, r), begin, final), join]


def _smoothers(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    def begin():
        return {"rho": np.zeros(n.X)}

    def final(rho):
        return {"rho_end": rho}

    def body(rho, rho_end, Phi):
        return {"rho_in": rho, "rho": rho_end + Phi.T @ rho}

    join = _join("join_smoothers", r, begin, body, reverse=True, point="segment", scratch="handed")
    return [_ends("smooth_ends", gram.smooth_vector(f, r), begin, final), join]


def _pulls(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    def begin():
        return {"later": np.zeros(n.X)}

    def final(later):
        return {"later_end": later}

    def body(later, later_end, Phi, Psi, row_relaxation, gap_relaxation):
        through = np.where(row_relaxation + gap_relaxation > 0.0, Psi, Phi)
        return {"later_in": later, "later": later_end + through.T @ later}

    blocks = {"problem": "settings", "point": "segment", "scratch": "handed"}
    join = _join("join_pulls", r, begin, body, reverse=True, **blocks)
    return [_ends("pull_back_ends", log_det.pull_back(f, r), begin, final), join]


def _cross_survey(r: Records, n: Sizes) -> Kernel:
    """As `_survey`, for the mixed matrix, with one product Phi for each of the two paths.

    The covariance at the origin of the step is the reference: the mixed one is near it.
    """
    X, U = n.X, n.U

    def init(B0, B0_new, E0, E0_new, P_in):
        begin = {"P": B0_new @ B0.T + P_in, "dl": E0_new, "dr": E0, "Phi_l": np.eye(X), "Phi_r": np.eye(X)}
        return begin | {"Om_c": np.zeros((X, X)), "r_l": np.zeros((X, U)), "r_r": np.zeros((X, U))}

    def body(
        P, dl, dr, Phi_l, Phi_r, Om_c, r_l, r_r, A, A_new, E, E_new, cross, H, H_new, Hu, Hu_new, Hw, Hw_new, mask
    ):
        matrices = A, A_new, E, E_new, cross, H, H_new, Hu, Hu_new, Hw, Hw_new
        seen = newton.cross_look(P, dl, dr, *matrices, mask, 1.0)
        left, right = A_new @ Phi_l, A @ Phi_r
        seen_left, weight = H_new @ left, seen.S_inv.T @ (H @ right)
        return {
            "P": seen.P,
            "dl": seen.dl,
            "dr": seen.dr,
            "Phi_l": left - seen.Kl @ seen_left,
            "Phi_r": right - seen.Kr.T @ (H @ right),
            "Om_c": Om_c + weight.T @ seen_left,
            "r_l": r_l - weight.T @ seen.eUl,
            "r_r": r_r - seen_left.T @ seen.SeR,
        }

    def final(P, dl, dr, Phi_l, Phi_r, Om_c, r_l, r_r):
        ends = {"Pc_end": P, "dl_end": dl, "dr_end": dr}
        return ends | {"Phi_l": Phi_l, "Phi_r": Phi_r, "Om_c": Om_c, "r_l": r_l, "r_r": r_r}

    uses = r.uses(problem="grid", origin="start node segment", target="start node", scratch="newton handed")
    return NodeScan("cross_survey", uses, init=init, body=body, final=final)


def _join_cross_factors(r: Records, n: Sizes) -> Kernel:
    """As `_join_factors`, for the mixed matrix."""

    def init():
        return {"P": np.zeros((n.X, n.X)), "dl": np.zeros((n.X, n.U)), "dr": np.zeros((n.X, n.U))}

    def body(P, dl, dr, P_in, Pc_end, dl_end, dr_end, Phi_l, Phi_r, Om_c, r_l, r_r):
        D = P - P_in
        left = Phi_l @ invert(np.eye(n.X) + D @ Om_c)
        right = Phi_r @ invert(np.eye(n.X) + D.T @ Om_c.T)
        return {
            "Pc_in": P,
            "dl_in": dl,
            "dr_in": dr,
            "Phi_l": left,
            "Phi_r": right,
            "P": Pc_end + left @ D @ Phi_r.T,
            "dl": dl_end + left @ (dl + D @ r_l),
            "dr": dr_end + right @ (dr + D.T @ r_r),
        }

    return _join("join_cross_factors", r, init, body, origin="segment", scratch="handed")


def _cross_filters(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    def begin():
        return {"running": np.zeros(n.X)}

    def final(running):
        return {"running_end": running}

    def body(running, running_end, Phi_l):
        return {"running_in": running, "running": running_end + Phi_l @ running}

    join = _join("join_cross_filters", r, begin, body, scratch="handed")
    return [_ends("cross_filter_ends", newton.cross_filter(f, r), begin, final), join]


def _cross_smoothers(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    def begin():
        return {"zeta": np.zeros(n.X)}

    def final(zeta):
        return {"zeta_end": zeta}

    def body(zeta, zeta_end, Phi_r):
        return {"zeta_in": zeta, "zeta": zeta_end + Phi_r.T @ zeta}

    join = _join("join_cross_smoothers", r, begin, body, reverse=True, scratch="handed")
    return [_ends("cross_smooth_ends", newton.cross_smooth(f, r), begin, final), join]


def _ends(name: str, scan: NodeScan, begin: KernelPart, final: KernelPart) -> Kernel:
    """Return a scan as far as it matters for what it carries to its end: from `begin`, with nothing handed to it."""
    whole = scan.body
    assert whole is not None
    (carried,) = signature(final).parameters

    @wraps(whole)
    def body(**fields):
        return {carried: whole(**fields)[carried]}

    return NodeScan(name, scan.uses, init=begin, body=body, final=final, reverse=scan.reverse)


def _join(name: str, r: Records, init: KernelPart, body: KernelPart, *, reverse: bool = False, **blocks: str) -> Kernel:
    """Return a scan over the segments of a series."""
    by_row = {"series": "lane"}
    uses = [
        replace(use, record=replace(use.record, kind=by_row.get(use.record.kind, use.record.kind)))
        for use in r.uses(**blocks)
    ]
    return SegmentScan(name, uses, init=init, body=body, reverse=reverse)
