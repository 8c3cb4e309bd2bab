"""Small dense linear algebra on flat arrays, and a test for what is finite."""

from __future__ import annotations

from numpy import fabs, inf, log, sqrt

from .jit import compiled

EATEN, CLEARLY = 1e-12, 1e-3  # pivots below this fraction of their size count as zero, below minus that as negative


@compiled
def finite(x):
    """Return whether x is finite, by a comparison: numpy.isfinite compiles to x - x = 0, which fast-math makes true."""
    return fabs(x) < inf


@compiled
def larger(a, b):
    """Return the larger of the two; NaN if either is."""
    return a if a >= b or a != a else b


@compiled
def invert(matrix, inverse, n):
    """Invert an n x n matrix with row exchanges, overwriting it; return log|det|, not finite if it is singular."""
    for i in range(n * n):
        inverse[i] = 0.0
    for i in range(n):
        inverse[i * n + i] = 1.0
    log_det = 0.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if fabs(matrix[i * n + k]) > fabs(matrix[pivot * n + k]):
                pivot = i
        if pivot != k:
            for j in range(n):
                a, b = matrix[k * n + j], matrix[pivot * n + j]
                matrix[k * n + j], matrix[pivot * n + j] = b, a
                a, b = inverse[k * n + j], inverse[pivot * n + j]
                inverse[k * n + j], inverse[pivot * n + j] = b, a
        log_det += log(fabs(matrix[k * n + k]))
        scale = 1.0 / matrix[k * n + k]
        for j in range(n):
            matrix[k * n + j] *= scale
            inverse[k * n + j] *= scale
        for i in range(n):
            if i != k:
                factor = matrix[i * n + k]
                for j in range(n):
                    matrix[i * n + j] -= factor * matrix[k * n + j]
                    inverse[i * n + j] -= factor * inverse[k * n + j]
    return log_det


@compiled
def semidefinite_root(matrix, scale, root, n):
    """Write the lower factor of a positive semidefinite n x n matrix; pivots that rounding has eaten count as zero.

    `scale` is a matrix whose diagonal has the sizes that rounding errors are relative to. Returns whether no pivot is
    clearly negative.
    """
    good = True
    for j in range(n):
        for i in range(n):
            if i < j:
                root[i * n + j] = 0.0
                continue
            total = matrix[i * n + j]
            for k in range(j):
                total -= root[i * n + k] * root[j * n + k]
            if i == j:
                size = fabs(scale[j * n + j])
                good = good and total >= -CLEARLY * size
                root[j * n + j] = sqrt(total) if total > EATEN * size else 0.0
            else:
                root[i * n + j] = total / root[j * n + j] if root[j * n + j] > 0.0 else 0.0
    return good


@compiled
def solve_semidefinite(root, b, n):
    """Solve (L L^T) x = b, in place, for b in the range of the matrix."""
    for i in range(n):
        total = b[i]
        for k in range(i):
            total -= root[i * n + k] * b[k]
        b[i] = total / root[i * n + i] if root[i * n + i] > 0.0 else 0.0
    for i in range(n - 1, -1, -1):
        total = b[i]
        for k in range(i + 1, n):
            total -= root[k * n + i] * b[k]
        b[i] = total / root[i * n + i] if root[i * n + i] > 0.0 else 0.0


@compiled
def times(matrix, vector, out, rows, columns):
    """out = matrix vector."""
    for i in range(rows):
        total = 0.0
        for j in range(columns):
            total += matrix[i * columns + j] * vector[j]
        out[i] = total


@compiled
def times_transposed(matrix, vector, out, rows, columns):
    """out = matrix^T vector."""
    for j in range(columns):
        total = 0.0
        for i in range(rows):
            total += matrix[i * columns + j] * vector[i]
        out[j] = total
