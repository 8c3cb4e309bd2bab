"""Whether a model is affine in its noise given the parameters, so that paths can be integrated out (method.md, section
25).

Its programs say so, not numbers: an operation is affine in what its arguments are affine in if it adds them, picks one
by a condition that does not depend on them, or multiplies one by what does not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pathfold.engine.compile import CONSTRAINED_METHOD, Variant, sizes_of
from pathfold.engine.model_functions import ModelFunctions
from pathfold.errors import ModelError
from pathfold.model import DiffusionModel
from pathfold.program.arrays import needs
from pathfold.program.graph import Graph
from pathfold.program.interpret import input_nodes
from pathfold.program.programs import Program
from pathfold.program.trace import trace

CONSTANT, AFFINE, CURVED = range(3)  # the degree of a result in some of the arguments
LARGEST = (
    2000  # multiplications of a product that is looked through: 12 coupled states with exact steps, 44 with others
)


@dataclass(frozen=True)
class Demand:
    """The degree that a function may have in the noise and states among its arguments, and what it means if not."""

    program: str
    arguments: tuple[int, ...]
    most: int
    sentence: str


DEMANDS = (
    Demand("start", (1,), AFFINE, "an initial state, or an effect, is not a linear function of normals"),
    Demand("start_excess", (1,), CONSTANT, "an initial state, or an effect, has a law that is no transformed normal"),
    Demand(
        "step", (1, 2), AFFINE, "a step is not linear in state and noise: see to drift, diffusion, scheme and events"
    ),
    Demand("rows", (1, 2), AFFINE, "what is observed is not linear in the state with Gaussian noise, or not at all"),
    Demand("node_excess", (1, 2), CONSTANT, "what is observed has noise that is not Gaussian"),
)


def why_not_affine(model: DiffusionModel, *, censored: bool) -> str:
    """Return why paths cannot be integrated out, as a part of a sentence; empty if they can."""
    return model.kept.get(_why_not, model, censored)


def _why_not(model: DiffusionModel, censored: bool) -> str:
    if censored:
        return "some observed values are censored"
    variant = Variant(CONSTRAINED_METHOD, regular=True, complete=False, censored=False, conditioned=False)
    programs = ModelFunctions(model).programs(sizes_of(model, variant), 0)
    for demand in DEMANDS:
        try:
            if degree(getattr(programs, demand.program), demand.arguments) > demand.most:
                return demand.sentence
        except (ModelError, NotImplementedError, TypeError, ValueError):  # of which compiling finds the cause
            return f"the function {demand.program!r} cannot be written down"
    return ""


def degree(program: Program, arguments: Collection[int]) -> int:
    """Return the degree of a program's results in some of its arguments: the largest of all."""
    g = Graph(LARGEST)
    out = trace(g, program.function, *(input_nodes(g, str(i), shape) for i, shape in enumerate(program.shapes)))
    names, found = {str(a) for a in arguments}, list[int]()
    for op in g.ops:
        match op:
            case ("const", *_):
                found.append(CONSTANT)
            case ("input", "array", number, _):
                found.append(_of_array(g, number, names, found))
            case ("input", name, _):
                found.append(AFFINE if name in names else CONSTANT)
            case ("add" | "sub" | "neg", *of):
                found.append(max(found[n] for n in of))
            case ("mul", a, b):
                found.append(min(CURVED, found[a] + found[b]))
            case ("select", condition, a, b):
                found.append(CURVED if found[condition] else max(found[a], found[b]))
            case (_, *of):
                found.append(CURVED if any(found[n] for n in of) else CONSTANT)
    return max((found[n] for n in out.ravel().tolist()), default=CONSTANT)


def _of_array(g: Graph, number: int, names: Collection[str], found: list[int]) -> int:
    """Return the degree of what a loop computes: nothing is known of it but whether it sees any of the arguments."""
    statement = g.statements[number]
    seen = any(view.memory[0] in names for view in statement.views())
    return CURVED if seen or any(found[n] for n in needs(g, statement)) else CONSTANT
