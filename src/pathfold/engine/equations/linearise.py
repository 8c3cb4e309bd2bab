"""The path and its Jacobians at a point q (method.md, section 3): kernels over parameters, starts, steps and nodes."""

from __future__ import annotations

import numpy as np

from pathfold.engine.model_functions import Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, LaneScan, NodeScan
from pathfold.program.matrices import lower_mirrored


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [parameters(f, r), start_states(f, r), _link(f, r, n), _simulate(f, r), _linearise(f, r, n), _observe(f, r)]


def parameters(f: Programs, r: Records) -> Kernel:
    """z = g_z(u), D = dz/du, and the part of the prior that is not standard normal; u in the coordinates sampled."""

    def final(u, centre, factor):
        at = f.in_coordinates(u, centre, factor)
        return {"z": at.z, "D": at.D, "excess_u": at.excess, "excess_u_gradient": at.excess_gradient}

    return NodeScan("parameters", r.uses(problem="coordinates", point="u theta"), final=final, fixes=("D",))


def start_states(f: Programs, r: Records) -> Kernel:
    """x_0 = g_x0(z, v0), E0 = dx_0/du, B0 = dx_0/dv0; all zero where a segment goes on with a series."""

    def final(z, D, v0, covariates, begins):
        start, excess = f.start(z, v0, covariates), f.start_excess(z, v0, covariates)
        E0z, B0 = start.jacobians(0, 1)
        excess_z, excess_v0 = excess.jacobians(0, 1)
        found = {
            "x0": start.value(),
            "E0z": E0z,
            "E0": E0z @ D,
            "B0": B0,
            "excess_x0": excess.value(),
            "excess_z_gradient": excess_z,
            "excess_v0_gradient": excess_v0,
        }
        return {name: np.where(begins > 0.0, value, 0.0) for name, value in found.items()}

    uses = r.uses(problem="about", point="theta v0 start")
    return NodeScan("start_states", uses, final=final, fixes=("E0z", "E0", "B0"))


def _link(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Every interval begins where the one before ended: x_{n,0} = x_{n-1}, or the state that is conditioned on."""

    def init(x0, x_in):
        return {"previous": x0 + x_in}

    def body(previous, x_node, y, mask):
        return {"x_start": previous, "previous": f.seen_state(x_node, y, mask)}

    return NodeScan("link", r.uses(problem="grid", point="start node segment"), init=init, body=body)


def _simulate(f: Programs, r: Records) -> Kernel:
    """x_{n,s} = f(z, x_{n,s-1}, v_{n,s}) from the node states, all intervals abreast; keeps the states and the gaps."""

    def init(x_start):
        return {"state": x_start}

    def body(z, state, v, delta, t_start, s, forcing):
        return {"x": state, "state": f.step(z, state, v, delta, t_start + s * delta, forcing).value()}

    def final(state, x_node):
        return {"gap": state - x_node}

    uses = r.uses(problem="settings grid forcing", point="theta v node path", scratch="newton")
    return LaneScan("simulate", uses, init=init, body=body, final=final)


def _linearise(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Backward with Phi_s = dx_n/dx_{n,s}: B_s = Phi_s Sv_s, A = Phi_0, E = sum Phi_s E_s, Q = sum B_s B_s^T."""

    def init():
        return {"Phi": np.eye(n.X), "Ez": np.zeros((n.X, n.Z)), "Q": np.zeros((n.X, n.X))}

    def body(z, x, x_start, v, delta, t_start, s, forcing, Phi, Ez, Q):
        step = f.step(z, f.along(x, x_start), v, delta, t_start + s * delta, forcing)
        E, F, Sv = step.jacobians(0, 1, 2)
        B = Phi @ Sv
        return {"B": B, "Phi": Phi @ F, "Ez": Ez + Phi @ E, "Q": lower_mirrored(Q + B @ B.T)}

    def final(Phi, Ez, Q, D):
        return {"A": Phi, "Ez": Ez, "E": Ez @ D, "Q": Q}

    uses = r.uses(problem="settings grid forcing", point="theta v node path")
    fixes = ("B", "A", "Ez", "E", "Q")
    return LaneScan("linearise", uses, init=init, body=body, final=final, reverse=True, fixes=fixes)


def _observe(f: Programs, r: Records) -> Kernel:
    """H = dh/dx, Hz = dh/dz, Hu = dh/du, Hw = dh/dw and the misfit o at the nodes; masked rows are zero.

    Also what the potential has besides: noise that is not Gaussian, remainders of likelihoods; and the loss.
    """

    def final(z, x_node, w, t_end, inputs_end, y, mask, censored, upper, coldness, D):
        seen = (t_end, inputs_end, y, mask, censored, upper)
        rows, excess = f.rows(z, x_node, w, *seen, coldness), f.node_excess(z, x_node, w, *seen, coldness)
        Hz, H, Hw = rows.jacobians(0, 1, 2)
        jacobians = {"H": H, "Hz": Hz, "Hu": Hz @ D, "Hw": Hw}
        return {**jacobians, "o": rows.value(), "excess": excess.value(), "loss": f.loss(z, x_node, *seen).value()}

    uses = r.uses(problem="settings grid", point="theta w node", scratch="newton")
    return LaneScan("observe", uses, final=final, fixes=("H", "Hz", "Hu", "Hw"))
