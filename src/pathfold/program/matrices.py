"""Operations on matrices of nodes: written out for small ones, loops over arrays in memory for larger ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from pathfold.program.arrays import Elimination, entries_of, is_entry, result_of
from pathfold.program.graph import Graph
from pathfold.program.interpret import Nodes
from pathfold.program.node_arrays import NodeArray, nodes_in
from pathfold.program.roll import fill, in_memory, put
from pathfold.program.rules_of_algebra import solve_nodes

SMALL = 4  # up to this order of a matrix, loops do not pay


def eliminate(matrix: Any) -> tuple[Any, Any]:
    """Return the inverse of a small matrix and its pivots, by elimination without exchanges.

    It is meant for covariances (positive pivots) and matrices near the identity; a vanishing pivot gives infinities,
    which the caller's status test sees.
    """
    g, nodes = matrix.graph, matrix.nodes
    n = len(nodes)
    if n**3 <= g.largest or is_entry(g, nodes).sum() <= n:
        inverse, pivots = _written_out(g, nodes)
    else:
        result = result_of(g, Elimination(n, in_memory(g, nodes)))
        inverse, pivots = result[: n * n].reshape(n, n), result[n * n :]
    return NodeArray(g, inverse), NodeArray(g, pivots)


def solve_lower(factor: Any, right: Any, *, transposed: bool = False) -> Any:
    """Return L^{-1} b of a lower triangular matrix, or L^{-T} b."""
    g, matrix, nodes = factor.graph, factor.nodes, nodes_in(factor.graph, right)
    triangle = matrix.T if transposed else matrix
    found = solve_nodes(g, triangle, nodes.reshape(len(nodes), -1), lower=not transposed)
    return NodeArray(g, found.reshape(nodes.shape))


def invert(matrix: Any) -> Any:
    """Return the inverse of a small matrix of any kind, by elimination with rows exchanged for the largest pivot."""
    n = len(matrix)
    rows = list(np.concatenate([matrix, np.eye(n)], axis=1))
    for k in range(n):
        for i in range(k + 1, n):
            larger = np.abs(rows[i][k]) > np.abs(rows[k][k])
            rows[k], rows[i] = np.where(larger, rows[i], rows[k]), np.where(larger, rows[k], rows[i])
        rows[k] = rows[k] / rows[k][k]
        for i in range(n):
            if i != k:
                rows[i] = rows[i] - rows[i][k] * rows[k]
    return np.stack(rows)[:, n:]


EATEN, CLEARLY = 1e-12, 1e-3  # pivots below this fraction of their size count as zero, below minus that as negative


def semidefinite_root(matrix: Any, size: Any) -> Any:
    """Return the lower factor of a positive semidefinite matrix; pivots that rounding has eaten count as zero.

    `size` has what rounding errors of the diagonal are relative to. A pivot that is clearly negative makes NaN.
    """
    size, columns = np.abs(size), []
    for j in range(len(matrix)):
        rest = matrix[j:, j]
        for column in columns:
            rest = rest - column[j:] * column[j]
        least = rest[0]
        pivot = np.where(least > EATEN * size[j], np.sqrt(least), np.where(least >= -CLEARLY * size[j], 0.0, np.nan))
        below = np.where(pivot == 0.0, 0.0, rest[1:] / pivot)
        columns.append(np.concatenate([np.zeros(j), np.stack([pivot]), below]))
    return np.stack(columns, axis=1)


def solve_semidefinite(root: Any, right: Any) -> Any:
    """Solve (L L^T) x = b for b in the range of the matrix."""
    divided = np.where(np.eye(len(root), dtype=bool) & (root == 0.0), np.inf, root)
    return solve_lower(divided, solve_lower(divided, right), transposed=True)


def lower_mirrored(matrix: Any) -> Any:
    """Make a symmetric matrix of its lower triangle; the upper one is never computed.

    The result is put into an array in memory of its own where that takes few single entries: views of such an array
    have even strides.
    """
    g, nodes = matrix.graph, matrix.nodes
    mirrored = _mirrored(nodes)
    if g.statements and len(nodes) > SMALL:
        if _is_regular(g, mirrored):
            mirrored = _put(g, mirrored)
        elif _is_regular(g, nodes):
            mirrored = _put(g, _mirrored(_put(g, nodes)))
    return NodeArray(g, mirrored)


def ones_where_missing(matrix: Any, mask: Any) -> Any:
    """Put ones on the diagonal in the rows of missing components, which are zero.

    The ones are selected, not added: the compiler may reorder sums, and a variance of 1e-16 is lost when
    (variance + 1) - mask is computed instead of variance + (1 - mask).
    """
    return np.where(np.eye(len(mask), dtype=bool) & (mask == 0.0), 1.0, matrix)


def _mirrored(matrix: Nodes) -> Nodes:
    return np.where(np.tri(len(matrix), dtype=bool), matrix, matrix.T)


def _put(g: Graph, nodes: Nodes) -> Nodes:
    return entries_of(g, put(g, nodes).memory).reshape(nodes.shape)


def _is_regular(g: Graph, nodes: Nodes) -> bool:
    filling = fill(g, nodes)
    return any(filling.views()) and len(filling.entries) <= 2 * len(nodes) < is_entry(g, nodes).sum() // 2


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
