"""Whether the posterior depends on the time step: what half steps would change, to first order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pathfold.engine import Engine
from pathfold.engine.native.refinement import first_order_shift
from pathfold.engine.status import CONVERGED
from pathfold.model import DiffusionModel
from pathfold.sampling.draws import Draws


def half_step_shift(model: DiffusionModel, engine: Engine, chains: list[Draws]) -> np.ndarray:
    """How far each of z (Z,) would move with half steps, in posterior standard deviations; empty if it is not known.

    At the last point of every chain each step is made in two halves that follow the same Wiener path. Where an interval
    then ends beside its node, by c, the constraints are not met any more, and the posterior mean of u changes by
    -J_u^T G^{-1} c, with a posterior covariance of C^{-1} (method.md, section 5), both to first order. The mean over
    chains; the normals that a Wiener path is refined by are always the same.
    """
    rng, scheme = np.random.default_rng(41), model.scheme
    fine = Engine(
        model, replace(engine.grid, steps=2 * engine.grid.steps), conditioned=engine.conditioned, metric=engine.metric
    )
    point, scratch, found = fine.block("point"), fine.block("scratch"), []
    for chain in chains:
        u, v0, w, v = engine.get_vector(chain.last)
        halves = scheme.halve(v, rng.standard_normal(v.shape))
        if halves is None:
            break
        fine.set_vector(point, u, v0, w, np.stack(halves, axis=2))
        fine.set("point", point, "node", "x_node", engine.get("point", chain.last, "node", "x_node"))
        moved = fine.block("vector")
        if first_order_shift(fine.layout, fine.problem, point, moved, scratch) != CONVERGED:
            continue
        D = fine.get("point", point, "theta", "D")
        spread = np.sqrt(np.diag(D @ fine.get("point", point, "sums", "C_inv") @ D.T))
        shift = D @ fine.get("vector", moved, "u", "u")
        found.append(np.divide(shift, spread, out=np.zeros_like(shift), where=spread > 0.0))  # 0 of what is known
    return np.mean([each for each in found if np.all(np.isfinite(each))] or np.zeros((1, 0)), axis=0)
