"""Simulating many draws at once, each from its own state and with its own parameters.

The engine's kernels have the intervals of one path abreast, which share the parameters. Here draws are the lanes: the
same step of the model, compiled once more, with the parameters of each lane beside its state.
"""

from __future__ import annotations

import ctypes

import numpy as np

from pathfold.data import TimeGrid
from pathfold.engine.model_functions import ModelFunctions, step_program
from pathfold.errors import ModelError
from pathfold.model import DiffusionModel
from pathfold.program.emit import emit
from pathfold.program.kernel import LAYOUT_HEAD, LAYOUT_SLOTS, LAYOUT_STEPS, LaneScan, Traced
from pathfold.program.layout import Record, Use
from pathfold.program.machine import Loaded, assemble
from pathfold.program.trace import check_compilable

ABREAST_DRAWS = 64  # draws abreast: so many that calls are few, so few that what they work on stays in the cache
STEPS_AT_ONCE = 64  # fine steps whose noise is held at a time

# Places in the layout table of this kernel alone: where its records begin in their blocks.
CLOCK, DRAW, NOISE, FORCING, CARRY, FORWARD_LENGTH = range(LAYOUT_HEAD, LAYOUT_HEAD + 6)


def forward(model: DiffusionModel) -> Forward:
    """Return the kernel of a model, kept with it; a ModelError names a user's function that cannot be compiled."""
    try:
        return model.kept.get(Forward, model)
    except (ModelError, NotImplementedError, TypeError, ValueError):
        for name, (function, shapes) in model.user_functions().items():
            check_compilable(name, function, shapes)
        raise


class Forward:
    """x <- f(z, x, v_s; delta, t_start + s delta) for s = 0, 1, ..., draws abreast (method.md, section 1)."""

    def __init__(self, model: DiffusionModel) -> None:
        self.model = model
        self.sizes = Z, X, V, F = model.parameters.z_size, model.augmented_dim, model.noise_dim, model.forcing_dim
        step = step_program(ModelFunctions(model), Z, X, V, F)
        uses = [
            Use(Record("clock", "shared", {"delta": (), "t_start": ()}), "problem", CLOCK),
            Use(Record("draw", "lane", {"z": (Z,), "x": (X,)}), "point", DRAW),
            Use(Record("noise", "step", {"v": (V,)}), "other", NOISE),
            Use(Record("forcing", "step", {"forcing": (F,)}), "other", FORCING),
            Use(Record("carry", "shared", {}), "scratch", CARRY),
        ]

        def init(x):
            return {"state": x}

        def body(z, state, v, delta, t_start, s, forcing):
            return {"state": step(z, state, v, delta, t_start + s * delta, forcing).value()}

        def final(state):
            return {"x": state}

        code = emit(Traced(LaneScan("forward", uses, init=init, body=body, final=final)), ABREAST_DRAWS)
        self._loaded = Loaded({"forward": assemble(code)})  # the code is there for as long as this is
        call = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 5)
        self.call = call(self._loaded.addresses["forward"])
        self.carried = code.carried

    def run(
        self,
        grid: TimeGrid,
        z: np.ndarray,
        starts: np.ndarray,
        rng: np.random.Generator,
        *,
        keep: np.ndarray,
        after_data: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the states (D, kept, X) of D draws at the nodes of a grid that are kept (N,), with fresh noise.

        z (D, Z) are the parameters that series share, starts (D, K, augmented) where each series begins; those that
        begin right `after_data` (K,) begin with empty accumulators. A path that is lost is not finite from there on.
        """
        memory, delta = ForwardMemory(self, min(grid.steps, STEPS_AT_ONCE)), grid.delta
        forcing, _ = self.model.forcing(grid, after_data)
        series = dict(zip(grid.first.tolist(), range(len(grid.first)), strict=True))  # by their first interval
        states = np.empty((len(z), int(keep.sum()), self.model.state_dim))
        for begin in range(0, len(z), ABREAST_DRAWS):
            draws, row = slice(begin, begin + ABREAST_DRAWS), 0
            memory.z[:, : len(z[draws])] = z[draws].T
            for n in range(len(grid.starts)):
                if n in series:
                    memory.x[:, : len(z[draws])] = starts[draws, series[n]].T
                memory.interval(rng, len(z[draws]), grid.starts[n], delta[n], forcing[n])
                if keep[n]:
                    states[draws, row] = memory.x[: self.model.state_dim, : len(z[draws])].T
                    row += 1
        return states


class ForwardMemory:
    """The memory of the kernel: parameters and states of some draws, noise and forcing of some fine steps."""

    def __init__(self, kernel: Forward, steps: int) -> None:
        Z, X, V, F = kernel.sizes
        self.call, self.steps = kernel.call, steps
        self.layout = np.zeros(FORWARD_LENGTH, dtype=np.int64)
        self.clock, self.carry = np.zeros(2), np.zeros(kernel.carried * ABREAST_DRAWS)
        self.draw = np.zeros((Z + X, ABREAST_DRAWS))
        self.z, self.x = self.draw[:Z], self.draw[Z:]
        self.by_step = np.zeros(steps * (V + F) * ABREAST_DRAWS)
        self.layout[FORCING] = size = steps * V * ABREAST_DRAWS
        self.noise, self.forcing = self.by_step[:size], self.by_step[size:].reshape(steps, F, ABREAST_DRAWS)
        blocks = (self.layout, self.clock, self.draw, self.by_step, self.carry)
        self.addresses = [block.ctypes.data for block in blocks]

    def interval(self, rng: np.random.Generator, draws: int, start: float, delta: float, forcing: np.ndarray) -> None:
        """Carry the states of the draws through the fine steps of an interval, whose forcing is (S, F)."""
        self.layout[LAYOUT_SLOTS] = draws
        for s in range(0, len(forcing), self.steps):
            some = forcing[s : s + self.steps]
            self.layout[LAYOUT_STEPS] = len(some)
            self.clock[:] = delta, start + s * delta
            self.forcing[: len(some)] = some[:, :, None]
            rng.standard_normal(out=self.noise)
            self.call(0, *self.addresses)
