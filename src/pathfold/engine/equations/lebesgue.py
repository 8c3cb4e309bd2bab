"""The posterior of (u, v0, v) by its Lebesgue density, where observations have one: the paper's baseline (method.md,
section 16).

    -log density = 1/2 |q|^2 + excess of the priors - sum_n log p(y_n | x_n, z)

The path is one sequence: every fine step is an interval of its own, and kernels go from one to the next.
"""

from __future__ import annotations

import numpy as np

from pathfold.engine.equations.linearise import parameters, start_states
from pathfold.engine.model_functions import Programs
from pathfold.engine.records import Records, Sizes
from pathfold.program.kernel import Kernel, NodeScan
from pathfold.program.layout import Record


class LebesgueRecords(Records):
    """Records of the path as one sequence; the noise of a fine step belongs to its interval."""

    def __init__(self, n: Sizes, *, regular: bool, censored: int, metric: bool) -> None:
        super().__init__(n, regular=regular, censored=censored, metric=metric)
        self.v = Record("v", "lane", {"v": (n.V,)})
        self.forcing = Record("forcing", "lane", self.forcing.fields)
        self.node = Record("node", "lane", {"x_start": (n.X,), "x_node": (n.X,)})
        self.sums = Record("sums", "shared", {"misfit": (), "excesses": (), "gz": (n.Z,)})
        self.work = Record("work", "series", {"gx0": (n.X,)})
        # The metric, one scale a coordinate, and what it is being estimated from.
        self.metric, self.window_mean, self.window_squares = (
            Record(name, "vector", {}) for name in ("metric", "window_mean", "window_squares")
        )
        vector = ["u", "v0", "w", "v"]
        self.blocks = {
            "problem": [*self.blocks["problem"], "metric", "window_mean", "window_squares"],
            "vector": vector,
            "point": [*vector, "theta", "start", "node", "sums"],
            "scratch": ["work", "carry"],
        }


def kernels(f: Programs, r: Records, n: Sizes) -> list[Kernel]:
    return [
        parameters(f, r),
        start_states(f, r),
        _path(f, r),
        _path_gradient(f, r, n),
        _start_gradient(r),
        _gradient(r),
    ]


def _path(f: Programs, r: Records) -> Kernel:
    """Forward: x_n = f(z, x_{n-1}, v_n), the sum of misfits, and that of the excesses of starts."""

    def init(x0, misfit):
        return {"state": x0, "misfit": misfit}

    def body(state, misfit, z, v, delta, t_start, t_end, forcing, inputs_end, y, mask, censored, upper):
        x = f.step(z, state, v, delta, t_start, forcing).value()
        misfit = misfit + f.misfit(z, x, t_end, inputs_end, y, mask, censored, upper).value()
        return {"x_start": state, "x_node": x, "state": x, "misfit": misfit}

    def final(misfit, excesses, excess_x0):
        return {"misfit": misfit, "excesses": excesses + excess_x0}

    uses = r.uses(problem="settings grid forcing", point="theta start v node sums")
    return NodeScan("path", uses, init=init, body=body, final=final)


def _path_gradient(f: Programs, r: Records, n: Sizes) -> Kernel:
    """Backward: the gradient of the misfits by the noise of each step, by z and by the initial state."""

    def init(gz):
        return {"eta": np.zeros(n.X), "gz": gz}

    def body(eta, gz, z, v, x_start, x_node, delta, t_start, t_end, forcing, inputs_end, y, mask, censored, upper):
        misfit = f.misfit(z, x_node, t_end, inputs_end, y, mask, censored, upper)
        gz_misfit, gx = misfit.pulled(np.ones(()), 0, 1)
        gz_step, gx_start, gv = f.step(z, x_start, v, delta, t_start, forcing).pulled(eta + gx, 0, 1, 2)
        return {"v_g": gv, "eta": gx_start, "gz": gz + gz_misfit + gz_step}

    def final(eta, gz):
        return {"gx0": eta, "gz": gz}

    uses = r.uses(problem="settings grid forcing", point="theta v node sums", gradient="v", scratch="work")
    return NodeScan("path_gradient", uses, init=init, body=body, final=final, reverse=True)


def _start_gradient(r: Records) -> Kernel:
    """The initial state's share of the gradient."""

    def final(gx0, E0z, B0, excess_z_gradient, excess_v0_gradient, gz):
        return {"gz": gz + E0z.T @ gx0 + excess_z_gradient, "v0_g": B0.T @ gx0 + excess_v0_gradient}

    return NodeScan("start_gradient", r.uses(point="start sums", gradient="v0", scratch="work"), final=final)


def _gradient(r: Records) -> Kernel:
    """The gradient by u."""

    def final(gz, D, excess_u_gradient):
        return {"u_g": D.T @ gz + excess_u_gradient}

    return NodeScan("parameter_gradient", r.uses(point="theta sums", gradient="u"), final=final)
