"""The metric of the parameters, as coordinates in which it is the identity (method.md, section 7).

A metric M of u is the identity for q with u = m + L q and L L^T = M^{-1}, L lower triangular. Positions and momenta
hold q in the place of u, and but for the map to z nothing that is done with them knows of a metric. What is recorded of
a position, and what a metric is estimated from, is u.
"""

from __future__ import annotations

from pathfold.engine import table as at
from pathfold.engine.native.constrained_step import prepare_constrained
from pathfold.engine.native.jit import compiled
from pathfold.engine.native.run import Machine
from pathfold.engine.native.vectors import copy


@compiled
def centre_of(m):
    begin = m.layout[at.PROBLEM_COORDINATES]
    return m.problem[begin : begin + m.layout[at.COORDINATES_FACTOR]]


@compiled
def factor_of(m):
    begin = m.layout[at.PROBLEM_COORDINATES] + m.layout[at.COORDINATES_FACTOR]
    return m.problem[begin : m.layout[at.PROBLEM_COORDINATES + at.END]]


@compiled
def to_normals(m, q):
    """Compute u = m + L q, in place."""
    centre, factor = centre_of(m), factor_of(m)
    U = centre.size
    for i in range(U - 1, -1, -1):
        total = centre[i]
        for j in range(i + 1):
            total += factor[i * U + j] * q[j]
        q[i] = total


@compiled
def from_normals(m, u):
    """Compute q = L^{-1} (u - m), in place."""
    centre, factor = centre_of(m), factor_of(m)
    U = centre.size
    for i in range(U):
        total = u[i] - centre[i]
        for j in range(i):
            total -= factor[i * U + j] * u[j]
        u[i] = total / factor[i * U + i]


@compiled
def change_coordinates(m, problems, point, centre, factor):
    """Switch to the coordinates (m, L) in all problems; the point stays the same, and is prepared for one of them."""
    layout = m.layout
    q = point[layout[at.POINT_U] : layout[at.POINT_U + at.END]]
    to_normals(m, q)
    for k in range(problems.shape[0]):
        own = Machine(layout, problems[k], m.scratch, m.counts)
        copy(centre, centre_of(own))
        copy(factor, factor_of(own))
    from_normals(m, q)
    prepare_constrained(m, point)
