"""Parameters and initial states that the data move far out in their priors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pathfold.engine import Engine
from pathfold.sampling.held_noise import names_of_normals, standard_normals
from pathfold.sampling.starts import Candidate

FAR_OUT = 5.0  # standard deviations, beyond which one normal in 1.7 million is
NAMED = 3


def far_out(name: str, z: float) -> str:
    """Return the words for a normal z of a parameter or an initial state."""
    size = f"{abs(z):.2g}" if abs(z) < 100.0 else f"{abs(z):,.0f}"
    return f"{name} is {size} standard deviations out in its prior"


def contradiction(parameters: dict[str, np.ndarray], of_series: dict[str, np.ndarray], series: Sequence[str]) -> str:
    """Return a sentence that names what lies far out, the furthest first; empty if nothing does.

    The normals (count,) of each parameter are given, and those (series, count) of what series have of their own.
    """
    furthest = {name: np.abs(u).max() for name, u in parameters.items()}
    for name, v0 in of_series.items():
        what = name.replace("initial_state", "the initial state")
        for label, own in zip(series, np.abs(v0).max(axis=1), strict=True):
            furthest[f"{what} of series {label!r}" if len(series) > 1 else what] = own
    out = sorted((name for name, z in furthest.items() if z > FAR_OUT), key=lambda name: -furthest[name])
    if not out:
        return ""
    others = ", ".join(out[1:NAMED]) + (f" and {len(out) - NAMED} more" if len(out) > NAMED else "")
    return (
        f"data and prior contradict each other: {far_out(out[0], furthest[out[0]])}"
        + (f" (far out are {others}, too)" if others else "")
        + "; move or widen the prior, or give data in other units or about another origin"
    )


def contradiction_at(engine: Engine, start: Candidate) -> str:
    """Return the sentence for a point that chains can begin with."""
    u, v0 = engine.get_vector(start.point.block(engine))[:2]
    standard, (parameters, own) = standard_normals(engine.model), names_of_normals(engine.model)
    return contradiction(
        by_name(parameters, u, standard["u"]),
        by_name(own, v0, standard["v0"]),
        [str(name) for name in engine.grid.series],
    )


def by_name(names: Sequence[str], normals: np.ndarray, standard: np.ndarray) -> dict[str, np.ndarray]:
    """Return those normals (..., count) that are standard, by name."""
    labels = np.asarray(names, dtype=str)
    return {str(name): normals[..., (labels == name) & standard] for name in np.unique(labels[standard])}
