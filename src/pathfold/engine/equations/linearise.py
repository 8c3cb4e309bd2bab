"""The path and its Jacobians at a point q (method.md, section 3): kernels over parameters, starts, steps and nodes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from pathfold.engine.model_functions import ModelFunctions
from pathfold.engine.records import Records, Sizes
from pathfold.model import Seen
from pathfold.program.kernel import Kernel, LaneScan, NodeScan
from pathfold.program.matrices import lower_mirrored


def kernels(f: ModelFunctions, r: Records, n: Sizes) -> list[Kernel]:
    return [parameters(f, r), start_states(f, r), _link(f, r, n), _simulate(f, r), _linearise(f, r, n), _observe(f, r)]


def parameters(f: ModelFunctions, r: Records) -> Kernel:
    """z = g_z(u), D = dz/du, and the part of the prior that is not standard normal; u in the coordinates sampled."""

    def final(u, centre, factor):
        push, excess = f.in_coordinates(centre, factor)
        return {
            "z": push(u),
            "D": jax.jacfwd(push)(u),
            "excess_u": excess(u),
            "excess_u_gradient": jax.grad(excess)(u),
        }

    return NodeScan("parameters", r.uses(problem="coordinates", point="u theta"), final=final, fixes=("D",))


def start_states(f: ModelFunctions, r: Records) -> Kernel:
    """x_0 = g_x0(z, v0), E0 = dx_0/du, B0 = dx_0/dv0; all zero where a segment goes on with a series."""

    def final(z, D, v0, covariates, begins):
        start = (z, v0, covariates)
        E0z, B0 = jax.jacfwd(f.start, argnums=(0, 1))(*start)
        excess_z, excess_v0 = jax.grad(f.start_excess, argnums=(0, 1))(*start)
        found = {
            "x0": f.start(*start),
            "E0z": E0z,
            "E0": E0z @ D,
            "B0": B0,
            "excess_x0": f.start_excess(*start),
            "excess_z_gradient": excess_z,
            "excess_v0_gradient": excess_v0,
        }
        return {name: jnp.where(begins > 0.0, value, 0.0) for name, value in found.items()}

    uses = r.uses(problem="about", point="theta v0 start")
    return NodeScan("start_states", uses, final=final, fixes=("E0z", "E0", "B0"))


def _link(f: ModelFunctions, r: Records, n: Sizes) -> Kernel:
    """Every interval begins where the one before ended: x_{n,0} = x_{n-1}, or the state that is conditioned on."""

    def init(x0, x_in):
        return {"previous": x0 + x_in}

    def body(previous, x_node, y, mask):
        return {"x_start": previous, "previous": f.seen_state(x_node, y, mask)}

    return NodeScan("link", r.uses(problem="grid", point="start node segment"), init=init, body=body)


def _simulate(f: ModelFunctions, r: Records) -> Kernel:
    """x_{n,s} = f(z, x_{n,s-1}, v_{n,s}) from the node states, all intervals abreast; keeps the states and the gaps."""

    def init(x_start):
        return {"state": x_start}

    def body(z, state, v, delta, t_start, s, forcing):
        return {"x": state, "state": f.step(z, state, v, delta, f.clock(t_start + s * delta, forcing))}

    def final(state, x_node):
        return {"gap": state - x_node}

    uses = r.uses(problem="settings grid forcing", point="theta v node path", scratch="newton")
    return LaneScan("simulate", uses, init=init, body=body, final=final)


def _linearise(f: ModelFunctions, r: Records, n: Sizes) -> Kernel:
    """Backward with Phi_s = dx_n/dx_{n,s}: B_s = Phi_s Sv_s, A = Phi_0, E = sum Phi_s E_s, Q = sum B_s B_s^T."""

    def init():
        return {"Phi": jnp.eye(n.X), "Ez": jnp.zeros((n.X, n.Z)), "Q": jnp.zeros((n.X, n.X))}

    def body(z, x, x_start, v, delta, t_start, s, forcing, Phi, Ez, Q):
        _, E, F, Sv = f.step_jacobians(z, f.along(x, x_start), v, delta, f.clock(t_start + s * delta, forcing))
        B = Phi @ Sv
        return {"B": B, "Phi": Phi @ F, "Ez": Ez + Phi @ E, "Q": lower_mirrored(Q + B @ B.T)}

    def final(Phi, Ez, Q, D):
        return {"A": Phi, "Ez": Ez, "E": Ez @ D, "Q": Q}

    uses = r.uses(problem="settings grid forcing", point="theta v node path")
    fixes = ("B", "A", "Ez", "E", "Q")
    return LaneScan("linearise", uses, init=init, body=body, final=final, reverse=True, fixes=fixes)


def _observe(f: ModelFunctions, r: Records) -> Kernel:
    """H = dh/dx, Hz = dh/dz, Hu = dh/du, Hw = dh/dw and the misfit o at the nodes; masked rows are zero.

    Also what the potential has besides: noise that is not Gaussian, remainders of likelihoods; and the loss.
    """

    def final(z, x_node, w, t_end, inputs_end, y, mask, censored, upper, coldness, D):
        t, seen = f.node_clock(t_end, inputs_end), Seen(y, mask, censored, upper)
        node = (z, x_node, w, t, seen, coldness)
        Hz, H, Hw = f.row_jacobians(*node)
        jacobians = {"H": H, "Hz": Hz, "Hu": Hz @ D, "Hw": Hw}
        return {**jacobians, "o": f.rows(*node), "excess": f.node_excess(*node), "loss": f.loss(z, x_node, t, seen)}

    uses = r.uses(problem="settings grid", point="theta w node", scratch="newton")
    return LaneScan("observe", uses, final=final, fixes=("H", "Hz", "Hu", "Hw"))
