"""The two-stage integrator of Blanes, Casas and Sanz-Serna (2014): a pair of steps, kicked most in the middle.

Two steps of size t with kicks of lengths b h, (1 - 2 b) h and b h, where h = 2 t, are reversible and preserve volume
for every b, and cost the same; b = 1/4 makes them two equal steps. For a standard normal coordinate, kicked by all of
its potential, a pair is a linear map of (q, p) with the matrix (A B; C A), and in equilibrium the mean energy error of
a trajectory of any number of pairs lies between 0 and

    rho(h, b) = (B + C)^2 / (2 (1 - A^2))
              = h^4 (2 b^2 (1/2 - b) h^2 + 4 b^2 - 6 b + 1)^2
                / (8 (2 - b h^2) (2 - (1/2 - b) h^2) (1 - b (1/2 - b) h^2)).

A normal target of many coordinates has as many frequencies, each with its own h; the error of all is the sum. OUTER is
the b for which the largest rho over 0 < h < 2 is smallest. With the Gaussian splitting the flow between kicks turns the
prior's part exactly, and kicks have only the rest: there it is the measurements of method.md, section 9, that speak
for this number. It decides how long steps can be, not what is sampled.
"""

from __future__ import annotations

from pathfold.engine.status import CONVERGED

from .dynamics import step
from .jit import compiled
from .trajectory import BACK, BEFORE, MIDDLE, MOVING, STEPPED
from .vectors import copy

OUTER = 0.21178  # the kick at either end of a pair of steps, as a share of all three


@compiled
def take_pair(m, points, momenta, at, to, t):
    """Two steps from points[at] to points[to], with OUTER of their kicks at either end; returns a status.

    The momentum before them is kept.
    """
    p = momenta[MOVING]
    copy(p, momenta[BEFORE])
    first, last = 2.0 * OUTER * t, (1.0 - 2.0 * OUTER) * t
    origin, target = at, MIDDLE
    status = CONVERGED
    for _ in range(2):
        if status == CONVERGED:
            m.counts[STEPPED] += 1
            blocks = points[origin], points[target], points[BACK]
            status = step(m, *blocks, p, t, first, last)
            first, last = last, first
            origin, target = MIDDLE, to
    return status
