"""Rules for products of matrices: small ones are written out, larger ones are loops over arrays in memory.

Where a factor has few entries (a banded or diagonal Jacobian) and is not in memory, it is written out, and only the
other factor's free index is a loop.
"""

from __future__ import annotations

import numpy as np

from pathfold.program.arrays import Product, SparseProduct, is_entry, result_of
from pathfold.program.graph import Graph
from pathfold.program.interpret import RULES, Nodes
from pathfold.program.roll import in_memory, is_scattered, seen


def _dot_general(g: Graph, eqn, args):
    ((lc, rc), (lb, rb)) = eqn.params["dimension_numbers"]
    left, right = args
    lf = [i for i in range(left.ndim) if i not in (*lc, *lb)]
    rf = [i for i in range(right.ndim) if i not in (*rc, *rb)]
    batch = [left.shape[i] for i in lb]
    inner = int(np.prod([left.shape[i] for i in lc], dtype=int))
    rows, columns = [left.shape[i] for i in lf], [right.shape[i] for i in rf]
    a = np.transpose(left, [*lb, *lf, *lc]).reshape([*batch, int(np.prod(rows, dtype=int)), inner])
    b = np.transpose(right, [*rb, *rc, *rf]).reshape([*batch, inner, int(np.prod(columns, dtype=int))])
    out = np.empty([*batch, a.shape[-2], b.shape[-1]], dtype=np.int64)
    for k in np.ndindex(*batch):
        out[k] = product(g, a[k], b[k])
    return out.reshape([*batch, *rows, *columns])


def product(g: Graph, a: Nodes, b: Nodes) -> Nodes:
    """Return the nodes of sum_k a[i, k] b[k, j], in the form that costs least."""
    operations = _operations(g, a, b)
    if operations <= g.largest:
        return _written_out(g, a, b)
    rows, columns = is_entry(g, a).any(axis=1), is_entry(g, b).any(axis=0)
    if not (rows.all() and columns.all()):
        out = np.full((len(rows), len(columns)), g.const(0.0), dtype=np.int64)
        out[np.ix_(rows, columns)] = product(g, a[rows], b[:, columns])
        return out
    a_kept, b_kept = seen(g, a) is not None, seen(g, b) is not None
    a_entries, b_entries = int(is_entry(g, a).sum()), int(is_entry(g, b).sum())
    if not a_kept and not b_kept and operations <= 2 * (a_entries + b_entries):
        return _written_out(g, a, b)
    a_few, b_few = _is_sparse(a_entries, a.shape), _is_sparse(b_entries, b.shape)
    if a_few and not a_kept and (b_kept or a_entries <= b_entries or not b_few):
        return _sparse(g, a, b)
    if b_few and not b_kept:
        return _sparse(g, b.T, a.T).T
    return _dense(g, a, b)


def _is_sparse(entries: int, shape: tuple[int, ...]) -> bool:
    """Tell whether a factor has so few entries, for its size and its border, that they can be written out."""
    border, size = sum(shape), shape[0] * shape[1]
    return entries <= max(2 * border, size // 3) and entries <= 4 * border


def _operations(g: Graph, a: Nodes, b: Nodes) -> int:
    """Count the multiplications, or additions if they are more, that remain once zeros and ones are simplified away."""
    entries = [is_entry(g, x).astype(int) for x in (a, b)]
    factors = [e * ((x != g.const(1.0)) & (x != g.const(-1.0))) for e, x in zip(entries, (a, b), strict=True)]
    terms = entries[0] @ entries[1]
    return max(int((factors[0] @ factors[1]).sum()), int(np.maximum(terms - 1, 0).sum()))


def _written_out(g: Graph, a: Nodes, b: Nodes) -> Nodes:
    out = np.full((a.shape[0], b.shape[1]), g.const(0.0), dtype=np.int64)
    left, right = is_entry(g, a), is_entry(g, b)
    for i, j in np.argwhere(left @ right).tolist():
        both = np.flatnonzero(left[i] & right[:, j])
        out[i, j] = g.sum(g.op("mul", p, q) for p, q in zip(a[i, both].tolist(), b[both, j].tolist(), strict=True))
    return out


def _sparse(g: Graph, a: Nodes, b: Nodes) -> Nodes:
    """Multiply the rows of a that have entries, written out, with b in memory."""
    entries = is_entry(g, a)
    used = np.flatnonzero(entries.any(axis=1))
    rows = tuple(tuple((k, int(a[i, k])) for k in np.flatnonzero(entries[i]).tolist()) for i in used.tolist())
    view = in_memory(g, b)
    statement = SparseProduct(rows, b.shape[1], view, not g.abreast and not is_scattered(g, view, b.shape))
    out = np.full((a.shape[0], b.shape[1]), g.const(0.0), dtype=np.int64)
    out[used] = result_of(g, statement).reshape(len(used), b.shape[1])
    return out


def _dense(g: Graph, a: Nodes, b: Nodes) -> Nodes:
    """Multiply two matrices in memory.

    Without lanes abreast it pays to copy a matrix into consecutive memory first when its entries are used repeatedly.
    """
    shape = (a.shape[0], b.shape[1], a.shape[1])
    order = not g.abreast and min(shape[:2]) > 1
    left, right = in_memory(g, a, neighbours=order), in_memory(g, b, neighbours=order)
    statement = Product(shape, left, right, not g.abreast and not is_scattered(g, right, b.shape))
    return result_of(g, statement).reshape(shape[:2])


RULES["dot_general"] = _dot_general
