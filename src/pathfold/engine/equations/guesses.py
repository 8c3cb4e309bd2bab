"""First guesses of the states at the nodes: moved towards the observations (method.md, section 12)."""

from __future__ import annotations

import numpy as np

from pathfold.engine.model_functions import Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [_place_nodes(r, n), _hold_nodes(r), _improve_nodes(r, n), _worst_guess(r), _keep_best(r)]


def _place_nodes(r: Records, n: Sizes) -> Kernel:
    """The first guess is the initial state of the series, about which nothing is known."""

    def init(x0):
        return {"placed": x0}

    def body(placed):
        return {"x_node": placed, "best": placed, "least": np.inf, "placed": placed}

    return NodeScan("place_nodes", r.uses(point="start node", scratch="guess"), init=init, body=body)


def _hold_nodes(r: Records) -> Kernel:
    """Nothing is better than the states that there are: `improve_nodes` leaves them."""

    def final(x_node):
        return {"best": x_node, "least": -np.inf}

    return LaneScan("hold_nodes", r.uses(point="node", scratch="guess"), final=final)


def _improve_nodes(r: Records, n: Sizes) -> Kernel:
    """Step towards the observation from a state that is better than all before; from another, go half the way back.

    The step is one of simultaneous iterative reconstruction: with H and o in units of the scales, each component i
    moves by -sum_j H_ji o_j / r_j / c_i, with r and c the sums of |H| over rows and columns. It does not leap where one
    row says little, as that of a sine near its top. Where o is not a number and never was one, the state is where the
    path comes to.
    """

    def final(x_node, H, o, gap, best, least, state_scale, row_scale):
        misfit = np.sum((o / row_scale) ** 2)
        width = np.abs(state_scale * H) @ np.ones(n.X)
        slope = H / row_scale[:, None]
        towards = slope.T @ np.where(width > 0.0, o / width, 0.0)
        step = towards * (state_scale / (np.ones(n.Y) @ np.abs(slope)))
        moved = np.where(np.abs(step) < np.inf, x_node - step, x_node)
        led = np.where(np.abs(gap) < np.inf, x_node + gap, x_node)
        better, otherwise = misfit < least, np.where(least == np.inf, led, 0.5 * (x_node + best))
        return {
            "x_node": np.where(better, moved, otherwise),
            "best": np.where(better, x_node, best),
            "least": np.where(better, misfit, least),
        }

    uses = r.uses(problem="settings grid", point="node", scratch="newton guess")
    return LaneScan("improve_nodes", uses, final=final)


def _worst_guess(r: Records) -> Kernel:
    """The largest misfit of the best states: infinite where there is none for some node."""

    def init(change):
        return {"change": change}

    def body(change, least):
        return {"change": np.maximum(change, least)}

    def final(change):
        return {"change": change}

    uses = r.uses(scratch="guess newton_sums")
    return NodeScan("worst_guess", uses, init=init, body=body, final=final, largest=("change",))


def _keep_best(r: Records) -> Kernel:
    def final(best):
        return {"x_node": best}

    return LaneScan("keep_best", r.uses(point="node", scratch="guess"), final=final)
