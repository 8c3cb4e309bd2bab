"""What the search for a start asks of a point (method.md, section 12).

Its residuals, the potential of each series with relaxed rows, steps that are shortened by series, and misfits that the
noise of observations takes over.
"""

from __future__ import annotations

import numpy as np

from pathfold.engine.model_functions import Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [_residuals(r), _level(r), _weigh(r), _shorten_starts(r), _shorten(r), _absorb(r)]


def _residuals(r: Records) -> Kernel:
    """The sum of squares and the largest of all gaps and misfits, in units of the scales."""

    def init(squares, residual):
        return {"squares": squares, "residual": residual}

    def body(squares, residual, gap, o, state_scale, row_scale):
        left = np.concatenate([gap / state_scale, o / row_scale])
        return {"squares": squares + left @ left, "residual": np.maximum(residual, np.max(np.abs(left)))}

    def final(squares, residual):
        return {"squares": squares, "residual": residual}

    uses = r.uses(problem="settings grid", scratch="newton newton_sums")
    return NodeScan("residuals", uses, init=init, body=body, final=final, largest=("residual",))


def _level(r: Records) -> Kernel:
    """1/2 |w, v|^2 + excess + 1/2 c^T R^{-1} c, the share of an interval in l_rho but for the determinant.

    And |c / scale|^2; without a relaxation the rows are met.
    """

    def init():
        return {"noise": 0.0}

    def body(noise, v):
        return {"noise": noise + v @ v}

    def final(noise, w, o, excess, row_scale, row_relaxation):
        misfit = np.sum((o / row_scale) ** 2)
        relaxed = np.where(row_relaxation > 0.0, 0.5 * misfit / row_relaxation, 0.0)
        return {"level": 0.5 * (noise + np.sum(w * w)) + excess + relaxed, "misfit": misfit}

    uses = r.uses(problem="settings grid", point="w v node", scratch="newton descent")
    return LaneScan("level", uses, init=init, body=body, final=final)


def _weigh(r: Records) -> Kernel:
    """The share of a series in l_rho, and its squared misfits; sums of these and of the rows that there are."""

    def init(v0, excess_x0, log_sig, rows):
        return {"share": excess_x0 + 0.5 * (log_sig + np.sum(v0 * v0)), "misfits": 0.0, "rows": rows}

    def body(share, misfits, rows, level, misfit, mask):
        return {"share": share + level, "misfits": misfits + misfit, "rows": rows + np.sum(mask)}

    def final(share, misfits, rows, squares):
        return {"share": share, "misfits": misfits, "rows": rows, "squares": squares + misfits}

    uses = r.uses(problem="grid", point="v0 start", scratch="descent descent_of_series newton_sums")
    return NodeScan("weigh", uses, init=init, body=body, final=final)


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
