"""Small dense linear algebra on flat arrays, and a test for what is finite."""

from __future__ import annotations

from numpy import fabs, inf, log

from .jit import compiled


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
