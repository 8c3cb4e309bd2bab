"""Plans: what the engine does at a point or between two, as lists of stages, written once as data.

A stage is kernels, by name, that are called one after the other on every chunk of intervals, every group of series,
every run of nodes, every series in segments, every share of a vector, or once. Bound to a model a plan is a few whole
numbers after the layout table, which native code goes through (`native/run.py`): kernels that the model does not have
are left out, and what kernels add to, raise or read among the sums of parts is known from the kernels themselves.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from inspect import signature
from itertools import chain
from typing import NamedTuple

import numpy as np

from pathfold.engine import table as at
from pathfold.engine.native.run import ADDED, MOST, ONCE, RAISED, READ
from pathfold.engine.native.thresholds import CORRECTIONS
from pathfold.program.kernel import Traced
from pathfold.program.layout import BLOCKS


class Stage(NamedTuple):
    over: int  # where the table lists what parts begin with
    kernels: tuple[str, ...]
    of_other: bool = False  # whether the other block takes the place of the point
    refines: bool = False  # whether it is left out once the parameters' multipliers are accurate


def once(*kernels: str) -> Stage:
    """One call, by the chain itself, once all before it is done and sums are joined."""
    return Stage(ONCE, kernels)


def chunks(*kernels: str) -> Stage:
    return Stage(at.BY_CHUNK, kernels)


def series(*kernels: str) -> Stage:
    """Every group of series, or of segments."""
    return Stage(at.BY_SERIES, kernels)


def nodes(*kernels: str) -> Stage:
    """Runs of nodes, whatever their series."""
    return Stage(at.BY_NODE, kernels)


def join(*kernels: str) -> Stage:
    """The segments of every series, once all before it is done."""
    return Stage(at.BY_SEGMENT, kernels)


def shares(*kernels: str) -> Stage:
    """Shares of a vector, one for every part."""
    return Stage(at.BY_SHARE, kernels)


def of_other(stage: Stage) -> Stage:
    return stage._replace(of_other=True)


def corrected(unexplained: str, correct: str) -> list[Stage]:
    """The multipliers a of the parameters, corrected from zero until they are accurate, a few times at most."""
    first = nodes(unexplained), once(correct)
    return [*first, *(CORRECTIONS - 1) * [stage._replace(refines=True) for stage in first]]


class Plan(int):
    """The number of a plan, which is what native code knows of it."""

    stages: tuple[Stage, ...]


PLANS: list[Plan] = []


def plan(*stages: Stage) -> Plan:
    new = Plan(len(PLANS))
    new.stages = stages
    PLANS.append(new)
    return new


# A point: parameters, initial states, path, Jacobians, the factor of the Gram matrix (method.md, sections 3 and 4).
STARTS = series("start_states", "hand_states", "link")
INTERVALS = chunks("simulate", "linearise", "observe")
FACTORS = (
    series("reference", "survey"),
    join("join_factors", "join_weights"),
    series("factorise"),
    once("finish_factor"),
)

PARAMETERS = plan(once("parameters"))
LINEARISE = plan(once("parameters"), STARTS, INTERVALS)
FACTOR = plan(once("begin_factor"), *FACTORS)
LINEARISE_AND_FACTOR = plan(once("parameters", "begin_factor"), STARTS, INTERVALS, *FACTORS)
SIMULATE = plan(once("parameters"), STARTS, chunks("simulate", "observe"))

# Guesses of the states at the nodes (section 12).
PLACE_NODES = plan(once("parameters"), series("start_states", "place_nodes"))
HOLD_NODES = plan(once("parameters"), series("start_states"), chunks("hold_nodes"))
IMPROVE_NODES = plan(chunks("observe", "improve_nodes"), series("worst_guess"))
LINEARISE_AND_IMPROVE = plan(
    once("parameters"), STARTS, chunks("simulate", "linearise", "observe", "improve_nodes"), series("worst_guess")
)
KEEP_BEST = plan(chunks("keep_best"))

# The search for a start (section 12): shortened steps lie between the point and the other.
WEIGH = plan(chunks("weigh_intervals"), series("weigh"))
SHORTEN = plan(series("shorten_starts"), chunks("shorten"))
OBSERVE_AND_ABSORB = plan(chunks("observe", "absorb"))
ABSORB = plan(chunks("absorb"))

# Solves with the Gram matrix (section 5): innovations of J p and of residuals; the multipliers a of the parameters, by
# corrections from zero; with these all others, lam, eta and zeta_0.
SOLVED = (
    series("filter_ends"),
    join("join_filters"),
    series("filter_vector"),
    *corrected("unexplained", "correct"),
)
SMOOTHED = series("smooth_ends"), join("join_smoothers"), series("smooth_vector")
PULLED = *SMOOTHED, chunks("pull"), once("pull_start")

PROJECT = plan(once("begin_solve"), chunks("clear_residuals", "push"), *SOLVED, *PULLED)
REMOVE_NORMAL = plan(once("begin_solve"), chunks("push"), *SOLVED, *PULLED)
SOLVE_ON_MANIFOLD = plan(once("begin_solve"), chunks("clear_residuals", "push"), *SOLVED)
SOLVE_WITH_RESIDUALS = plan(once("begin_solve"), chunks("push"), *SOLVED)
MOVE_NODES = plan(*SMOOTHED, chunks("move_nodes"))
SHIFT = plan(
    once("begin_solve"), chunks("push"), *SOLVED, *SMOOTHED, once("pull_start", "begin_gradient"), series("weights")
)

# The gradient of log|G|, projected (section 6).
GRADIENT = plan(
    once("begin_gradient"),
    series("weights"),
    chunks("spread", "curvature", "observe_curvature"),
    series("pull_back_ends"),
    join("join_pulls"),
    series("pull_back", "start_curvature"),
    once("parameter_gradient", "begin_solve"),
    chunks("clear_residuals"),
    *SOLVED,
    *SMOOTHED,
    chunks("gradient_vector"),
    once("pull_start"),
)

# An iteration of Newton's method (section 8), from the point to the other, with new Jacobians or those that there are.
# What the multipliers a are first corrected by is summed while the filter's results are in the cache; the correction
# waits until it is known that the iteration goes on.
MOVED = once("pull_start", "begin_solve")
BEGUN = of_other(once("parameters")), of_other(STARTS)
SHOT, SHOT_AFRESH = chunks("shoot", "residual"), chunks("shoot_linearised", "residual_linearised")
CROSS_FACTORS = series("cross_survey"), join("join_cross_factors"), series("cross_factorise")
CROSS_FILTERED = series("cross_filter_ends"), join("join_cross_filters"), series("cross_filter")
CROSS_UNEXPLAINED, *CROSS_CORRECTED = corrected("cross_unexplained", "cross_correct")

SHOOT = plan(MOVED, *BEGUN, SHOT, *CROSS_FILTERED, CROSS_UNEXPLAINED)
SHOOT_AFRESH = plan(
    MOVED,
    once("begin_cross_factor"),
    *BEGUN,
    SHOT_AFRESH,
    *CROSS_FACTORS,
    *CROSS_FILTERED,
    CROSS_UNEXPLAINED,
    once("finish_cross_factor"),
)
CROSS_SMOOTH = plan(
    *CROSS_CORRECTED,
    once("begin_change"),
    series("cross_smooth_ends"),
    join("join_cross_smoothers"),
    series("cross_smooth"),
    once("bound_change"),
)
JUST_SHOOT = plan(MOVED, *BEGUN, SHOT)
JUST_SHOOT_AFRESH = plan(*BEGUN, SHOT_AFRESH)

# Vectors.
COMBINE = plan(shares("combine"))
ADD = plan(shares("add"))
DISPLACE = plan(shares("displace"))
COMPARE = plan(shares("compare"))

# Without constraints.
PATH_GRADIENT = plan(
    once("parameters"),
    series("start_states", "path"),
    series("path_gradient", "start_gradient"),
    once("parameter_gradient"),
)

# The law of the data given z where paths are integrated out, its gradient, a draw of the noise given both (section 25).
INTEGRATE = plan(series("start_means"), chunks("means", "row_means"), series("integrate"))
INTEGRATED_GRADIENT = plan(
    series("mean_weights"), chunks("interval_slopes", "row_slopes"), series("gather"), once("parameter_gradient")
)
CONDITION = plan(chunks("push"), series("predict", "condition"), chunks("pull"), series("link"), chunks("simulate"))

# The inner mode of the Laplace approximation, and draws from the fibre (section 21).
NEWTON_PASS = plan(
    chunks("elements", "row_curvature"),
    series("start_elements", "eliminate_nodes"),
    series("multipliers"),
    chunks("noise_change"),
)
MERIT = plan(series("merit"))
ADVANCE = plan(chunks("advance"), series("advance_starts"))
DRAW_TANGENT = plan(
    chunks("hold_ends", "elements"),
    series("loose_nodes"),
    chunks("loose_noise"),
    series("tie_nodes"),
    chunks("tied_noise"),
    series("tied_squares"),
)
LET_ENDS_GO = plan(chunks("hold_ends"))
MIXED_LOG_DET = plan(series("mixed_log_det"))

# Kernels that are called by themselves, on one chunk, piece or node (`native/run.one`).
ONE_SIMULATE = plan(chunks("simulate"))
ONE_OBSERVE = plan(chunks("observe"))
ONE_IMPROVE = plan(chunks("improve_nodes"))
GUIDED_START = plan(chunks("guided_start"))
INNOVATIONS_START = plan(chunks("innovations_start"))
GUIDE = plan(chunks("guide"))
GUIDE_NODE = plan(chunks("guide_node"))
GUIDED_PATH = plan(chunks("guided_path"))
INNOVATIONS_PATH = plan(chunks("innovations"))
GUIDED_NODE = plan(chunks("guided_node"))
INNOVATIONS_NODE = plan(chunks("innovations_node"))


class Span(NamedTuple):
    """What a kernel does to sums: READ, ADDED or RAISED; the block that they are in, the place of their record in the
    table, and where they lie in the record."""

    what: int
    block: int
    record: int
    begin: int
    end: int


type Spans = Mapping[str, Sequence[Sequence[int]]]  # of every kernel that has some


def names_of(traced: Traced) -> tuple[set[str], set[str]]:
    """Return the names of what a kernel reads, its arguments, and of what it writes, the keys of its results."""
    kernel, carried = traced.kernel, set(traced.carry.shapes)
    parts = kernel.init, kernel.body, kernel.final
    init, body, final = (set(signature(part).parameters) if part else set() for part in parts)
    return init | (body | final) - carried - {"s"}, set(traced.body) - carried | set(traced.final)


def spans_of(traced: Traced) -> list[Span]:
    """Return what a kernel does to sums that parts have of their own."""
    (read, written), found = names_of(traced), []
    for name in sorted(read | written):
        use = traced.use_of(name)
        if use.record.name in at.OF_PARTS:
            added = RAISED if name in getattr(traced.kernel, "largest", ()) else ADDED
            columns = use.record.columns(name.removesuffix(use.suffix))
            what = added if name in written else READ
            found.append(Span(what, BLOCKS.index(use.block), use.at, columns.start, columns.stop))
    return found


class Bound(NamedTuple):
    """All plans as words, and which of the words are places among them."""

    words: np.ndarray
    places: np.ndarray

    def after(self, layout: np.ndarray) -> np.ndarray:
        """Return a layout table followed by the plans."""
        words = self.words.copy()
        words[self.places] += len(layout)
        table = np.append(layout, words)
        table[at.PLANS] = len(table) - len(PLANS)
        return table


def bind(addresses: Mapping[str, int], spans: Spans, *, apart: bool) -> Bound:
    """Return all plans for the kernels that there are.

    A plan is legs, runs of stages that a part can go through without waiting for others: their number, and where each
    is. A leg is spans that are begun before it and spans that are joined after it (where they are, and how many),
    whether parts have sums of their own meanwhile, whether it refines, the number of its stages, and these. The list of
    the plans comes last.
    """
    words: list[int] = []
    places: list[int] = []

    def write(numbers: Iterable[int], at_places: Iterable[int] = ()) -> int:
        """Append numbers, of which some are places; return where they begin."""
        begin = len(words)
        places.extend(begin + i for i in at_places)
        words.extend(numbers)
        return begin

    begins = []
    for each in PLANS:
        legs = _legs(each.stages, addresses, apart=apart)
        of_legs = []
        for i, leg in enumerate(legs):
            before, after, own = _sums(legs, i, spans)
            listed = (write(chain(*before)), len(before), write(chain(*after)), len(after))
            of_stages = chain(*(_words(stage, addresses) for stage in leg))
            of_legs.append(write((*listed, own, leg[0].refines, len(leg), *of_stages), at_places=(0, 2)))
        begins.append(write((len(of_legs), *of_legs), range(1, len(of_legs) + 1)))
    write(begins, range(len(begins)))
    return Bound(np.array(words, dtype=np.int64), np.array(places, dtype=np.int64))


def _words(stage: Stage, addresses: Mapping[str, int]) -> list[int]:
    kernels = [addresses[name] for name in stage.kernels]
    return [stage.over, int(stage.of_other), *kernels, *(MOST - len(kernels)) * [0]]


def _legs(stages: Sequence[Stage], known: Container[str], *, apart: bool) -> list[list[Stage]]:
    """Cut the stages that have kernels into legs."""
    kept = [stage._replace(kernels=tuple(name for name in stage.kernels if name in known)) for stage in stages]
    legs: list[list[Stage]] = []
    goes_on = False
    for stage in (stage for stage in kept if stage.kernels):
        alone = stage.over in (ONCE, at.BY_SEGMENT) or stage.refines or not apart
        if alone or not goes_on:
            legs.append([])
        legs[-1].append(stage)
        goes_on = not alone
    return legs


def _sums(legs: Sequence[Sequence[Stage]], i: int, spans: Spans) -> tuple[list[Span], list[Span], bool]:
    """Return the sums that begin before a leg, those that are joined after it, and whether there are any in it.

    They are those of all legs between single calls: they begin before the first of these and are joined after the last.
    """
    single = [-1, *(k for k, leg in enumerate(legs) if leg[0].over == ONCE), len(legs)]
    if i in single:
        return [], [], False
    begin, end = max(k for k in single if k < i) + 1, min(k for k in single if k > i)
    kernels = [name for leg in legs[begin:end] for stage in leg for name in stage.kernels]
    found: dict[tuple[int, ...], Span] = {}
    for span in (Span(*span) for name in kernels for span in spans.get(name, ())):
        found[span[1:]] = max(span, found.get(span[1:], span))
    every = list(found.values())
    joined = [span for span in every if span.what != READ]
    return every if i == begin else [], joined if i == end - 1 else [], bool(every)
