"""The status codes of a step or a filter. Native code returns them; only the outermost Python call raises."""

from __future__ import annotations

CONVERGED = 0
NOT_CONVERGED = 1
DIVERGED = 2
NON_REVERSIBLE = 3
NON_FINITE = 4
NOT_AFFINE = 5
RETURNED = 6  # of the way back of a step, which is sure to reach where it came from

MEANING = {
    CONVERGED: "the step succeeded",
    NOT_CONVERGED: "the projection onto the manifold did not converge within its iterations",
    DIVERGED: "the projection onto the manifold diverged",
    NON_REVERSIBLE: "the step taken backward did not return to where it came from",
    NON_FINITE: "a model function, or a quantity derived from it, was not finite",
}
