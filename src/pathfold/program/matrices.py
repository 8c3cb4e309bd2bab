"""Operations on matrices as JAX primitives of our own: written out for small matrices, loops for larger ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive

from pathfold.program.arrays import Elimination, entries_of, is_entry, result_of
from pathfold.program.graph import Graph
from pathfold.program.interpret import RULES, Nodes
from pathfold.program.roll import fill, in_memory, put

SMALL = 4  # up to this order of a matrix, loops do not pay

_eliminate = Primitive("eliminate")
_eliminate.multiple_results = True
_mirror = Primitive("mirror")


def eliminate(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the inverse of a small matrix and its pivots, by elimination without exchanges.

    It is meant for covariances (positive pivots) and matrices near the identity; a vanishing pivot gives infinities,
    which the caller's status test sees.
    """
    inverse, pivots = _eliminate.bind(matrix)
    return inverse, pivots


def invert(matrix: jax.Array) -> jax.Array:
    """Return the inverse of a small matrix of any kind, by elimination with rows exchanged for the largest pivot."""
    n = len(matrix)
    rows = list(jnp.concatenate([matrix, jnp.eye(n)], axis=1))
    for k in range(n):
        for i in range(k + 1, n):
            larger = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
            rows[k], rows[i] = jnp.where(larger, rows[i], rows[k]), jnp.where(larger, rows[k], rows[i])
        rows[k] = rows[k] / rows[k][k]
        for i in range(n):
            if i != k:
                rows[i] = rows[i] - rows[i][k] * rows[k]
    return jnp.stack(rows)[:, n:]


def lower_mirrored(matrix: jax.Array) -> jax.Array:
    """Make a symmetric matrix of its lower triangle; the upper one is never computed."""
    return _mirror.bind(matrix)


def ones_where_missing(matrix: jax.Array, mask: jax.Array) -> jax.Array:
    """Put ones on the diagonal in the rows of missing components, which are zero.

    The ones are selected, not added: the compiler may reorder sums, and a variance of 1e-16 is lost when
    (variance + 1) - mask is computed instead of variance + (1 - mask).
    """
    return jnp.where(jnp.diag(mask == 0.0), 1.0, matrix)


@_mirror.def_abstract_eval
def _same_shape(matrix):
    return matrix


def _mirror_rule(g: Graph, eqn, args):
    """Return the mirrored nodes, put into an array of their own where that takes few single entries.

    Views of such an array have even strides.
    """
    (matrix,) = args
    mirrored = _mirrored(matrix)
    if not g.statements or len(matrix) <= SMALL:
        return mirrored
    if _is_regular(g, mirrored):
        return _put(g, mirrored)
    return _put(g, _mirrored(_put(g, matrix))) if _is_regular(g, matrix) else mirrored


def _mirrored(matrix: Nodes) -> Nodes:
    return np.where(np.tri(len(matrix), dtype=bool), matrix, matrix.T)


def _put(g: Graph, nodes: Nodes) -> Nodes:
    return entries_of(g, put(g, nodes).memory).reshape(nodes.shape)


def _is_regular(g: Graph, nodes: Nodes) -> bool:
    filling = fill(g, nodes)
    return any(filling.views()) and len(filling.entries) <= 2 * len(nodes) < is_entry(g, nodes).sum() // 2


@_eliminate.def_abstract_eval
def _shapes(matrix):
    return matrix, matrix.update(shape=matrix.shape[:1])


def _eliminate_rule(g: Graph, eqn, args):
    (matrix,) = args
    n = len(matrix)
    if n**3 <= g.largest or is_entry(g, matrix).sum() <= n:
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


RULES["eliminate"] = _eliminate_rule
RULES["mirror"] = _mirror_rule
