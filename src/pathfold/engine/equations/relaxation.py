"""What the search for a start asks of a point (method.md, section 12).

Its residuals and its potential with relaxed rows, series by series, steps that are shortened by series, and misfits
that the noise of observations takes over.
"""

from __future__ import annotations

import numpy as np

from pathfold.engine.model_functions import Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [_weigh_intervals(r), _weigh(r), _shorten_starts(r), _shorten(r), _absorb(r)]


def _weigh_intervals(r: Records) -> Kernel:
    """1/2 |w, v|^2 + excess + 1/2 c^T R^{-1} c, the share of an interval in l_rho but for the determinant.

    Without a relaxation the rows are met. And the sum of squares and the largest of its gaps and misfits, in units of
    the scales.
    """

    def init():
        return {"noise": 0.0}

    def body(noise, v):
        return {"noise": noise + v @ v}

    def final(noise, w, gap, o, excess, state_scale, row_scale, row_relaxation):
        gaps, misfits = gap / state_scale, o / row_scale
        of_rows = np.sum(misfits * misfits)
        relaxed = np.where(row_relaxation > 0.0, 0.5 * of_rows / row_relaxation, 0.0)
        return {
            "level": 0.5 * (noise + np.sum(w * w)) + excess + relaxed,
            "square": of_rows + np.sum(gaps * gaps),
            "furthest": np.max(np.abs(np.concatenate([gaps, misfits]))),
        }

    uses = r.uses(problem="settings grid", point="w v node", scratch="newton descent")
    return LaneScan("weigh_intervals", uses, init=init, body=body, final=final)


def _weigh(r: Records) -> Kernel:
    """The share of a series in l_rho, and the squares of its gaps and misfits; the sum over all, and the largest."""

    def init(v0, excess_x0, log_sig, rows, residual):
        share = excess_x0 + 0.5 * (log_sig + np.sum(v0 * v0))
        return {"share": share, "missed": 0.0, "rows": rows, "residual": residual}

    def body(share, missed, rows, residual, level, square, furthest, mask):
        largest = np.maximum(residual, furthest)
        return {"share": share + level, "missed": missed + square, "rows": rows + np.sum(mask), "residual": largest}

    def final(share, missed, rows, residual, squares):
        return {"share": share, "missed": missed, "rows": rows, "residual": residual, "squares": squares + missed}

    uses = r.uses(problem="grid", point="v0 start", scratch="descent descent_of_series newton_sums")
    return NodeScan("weigh", uses, init=init, body=body, final=final, largest=("residual",))


def _shorten_starts(r: Records) -> Kernel:
    """Move v0 of the moving point back towards the origin, to a fraction of the way, which intervals are told."""

    def init(fraction):
        return {"kept": fraction}

    def body(kept):
        return {"own_fraction": kept, "kept": kept}

    def final(fraction, v0, v0_new):
        return {"v0_new": v0 + fraction * (v0_new - v0)}

    uses = r.uses(origin="v0", target="v0", scratch="descent descent_of_series")
    return NodeScan("shorten_starts", uses, init=init, body=body, final=final)


def _shorten(r: Records) -> Kernel:
    """As `_shorten_starts`, all other noise and the node states."""

    def body(own_fraction, v, v_new):
        return {"v_new": v + own_fraction * (v_new - v)}

    def final(own_fraction, w, w_new, x_node, x_node_new):
        return {"w_new": w + own_fraction * (w_new - w), "x_node_new": x_node + own_fraction * (x_node_new - x_node)}

    uses = r.uses(origin="w v node", target="w v node", scratch="descent")
    return LaneScan("shorten", uses, body=body, final=final)


def _absorb(r: Records) -> Kernel:
    """Let the noise of observations make up for their misfits, where there is any: w -= Hw_j^T o_j / |Hw_j|^2."""

    def final(w, Hw, o):
        squares = np.stack([row @ row for row in Hw])
        return {"w": w - Hw.T @ np.where(squares > 0.0, o / squares, 0.0)}

    return LaneScan("absorb", r.uses(point="w node", scratch="newton"), final=final)
