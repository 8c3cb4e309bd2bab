"""Inverse and pivots of a small matrix as one operation of JAX: written out where it is small, else a loop."""

from __future__ import annotations

import jax
import numpy as np
from jax.extend.core import Primitive

from pathfold.program.arrays import Elimination, result_of
from pathfold.program.graph import Graph
from pathfold.program.interpret import RULES, Nodes
from pathfold.program.roll import in_memory

_eliminate = Primitive("eliminate")
_eliminate.multiple_results = True


def eliminate(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Inverse of a small matrix and its pivots, by elimination without exchanges.

    For covariances (positive pivots) and matrices near one; a vanishing pivot gives infinities, which the caller's
    status test sees.
    """
    inverse, pivots = _eliminate.bind(matrix)
    return inverse, pivots


@_eliminate.def_abstract_eval
def _shapes(matrix):
    return matrix, matrix.update(shape=matrix.shape[:1])


def _rule(g: Graph, eqn, args):
    (matrix,) = args
    n = len(matrix)
    entries = int(np.sum((matrix != g.const(0.0)) & (matrix != g.const(-0.0))))
    if n**3 <= g.largest or entries <= n:
        return _written_out(g, matrix)
    nodes = result_of(g, Elimination(n, in_memory(g, matrix)))
    return [nodes[: n * n].reshape(n, n), nodes[n * n :]]


def _written_out(g: Graph, matrix: Nodes) -> list[Nodes]:
    n = len(matrix)
    unit = [[g.const(float(i == j)) for j in range(n)] for i in range(n)]
    rows = [[*row.tolist(), *one] for row, one in zip(matrix, unit, strict=True)]
    pivots = []
    for k in range(n):
        pivots.append(rows[k][k])
        inverse = g.op("recip", rows[k][k])
        rows[k] = [g.op("mul", entry, inverse) for entry in rows[k]]
        for i in range(n):
            if i != k:
                factor = rows[i][k]
                rows[i] = [g.op("sub", a, g.op("mul", factor, b)) for a, b in zip(rows[i], rows[k], strict=True)]
    inverse = np.array([row[n:] for row in rows], dtype=np.int64).reshape(n, n)
    return [inverse, np.array(pivots, dtype=np.int64)]


RULES["eliminate"] = _rule
