"""The modes that a fit, or a profile, is about: climbed to from several starts, and told apart.

Starts are modes of parameters and path together, which `starts.find_starts` alone searches for; these are of the
parameters, with the path integrated out. Where that is exact, draws of the prior will do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

import numpy as np

from pathfold.errors import InitialisationError, say
from pathfold.inference.fit.integrated import Integrated
from pathfold.inference.fit.posterior_mode import (
    Density,
    Mode,
    climb,
    curvature,
)
from pathfold.sampling.contradictions import contradiction_at
from pathfold.sampling.differences import Origin
from pathfold.sampling.laplace_marginal import LaplaceMarginal
from pathfold.sampling.linear_marginal import LinearMarginal
from pathfold.sampling.marginal import Marginal
from pathfold.sampling.scales import relative_spread
from pathfold.sampling.starts import LIGHT, Point, find_starts, worth_beginning_with

SAME_MODE = 0.5  # modes are the same if they are nearer than this, in standard deviations of the parameters ...
SAME_PATH = 1.0  # ... and the noise of their paths, in prior standard deviations
PROBABLE = 5.0  # modes whose log density is lower by more do not count
NEARBY = 1e-3  # prior standard deviations
CLIMB, PAIR = 20, 3  # gradients of a typical climb, and densities that take as long as one with its pair of paths
SPREADS = 4 * (0.3, 1.0)  # of draws that are climbed from, in prior standard deviations
LONG = 10.0  # seconds from which on a forecast is made


def find_modes(
    marginal: LaplaceMarginal | LinearMarginal, starts: int, seed: int, explored: int = 0
) -> tuple[Mode, list[Origin]]:
    """Climb from several starts; return the highest mode, and the others that are about as probable.

    Without the prior, latent parameters are integrated out on the way. A forecast of the time counts the points to be
    `explored` later. Once the time is spent no other start is tried, and the curvature is that of the constraints.
    """
    found, density, covariance = list[tuple[Origin, bool]](), cast(Density, marginal), np.eye(marginal.size)
    marginal.stages.begin("looking for starts")
    candidates = _drawn(marginal, seed) if isinstance(marginal, LinearMarginal) else _searched(marginal, seed)
    points = [*_far_apart(candidates, starts)]
    for number, point in enumerate(points):
        if found and marginal.stages.spent:
            break
        marginal.stages.begin(f"seeking the mode from start {number + 1}")
        if (start := marginal.start_at(point)) is None:
            continue
        if not found:
            covariance = start.covariance
            latent = not marginal.prior and marginal.counted.any()
            density = Integrated(marginal, covariance) if latent else marginal
            _forecast(marginal, density, start.origin, len(points), explored)
        if (origin := density.reached(start.origin.u, start.origin)) is not None:
            found.append(climb(density, origin, start.covariance))
    if not found:
        raise InitialisationError(
            "a path that meets the data was found, but from it no most probable one; pf.sample needs none"
        )
    found.sort(key=lambda each: -each[0].log_density)
    best, converged = found[0]
    marginal.stages.begin("computing the curvature at the mode")
    hessian = np.linalg.inv(covariance) if marginal.stages.spent else curvature(density, best, covariance)
    mode, others = Mode(density, best, hessian, converged), list[Origin]()
    for other, _ in () if marginal.stages.spent else found:
        probable = other.log_density > best.log_density - PROBABLE
        if probable and all(_apart(marginal, mode, other, known) for known in (best, *others)):
            others.append(other)
    return mode, others


def _searched(marginal: LaplaceMarginal, seed: int) -> list[Point]:
    """Search for modes of parameters and path together; say what of the first contradicts its prior."""
    full = marginal.full
    candidates = find_starts(
        full,
        [0],
        seed=seed,
        threads=marginal.workers,
        relaxation=relative_spread(full),
        thorough=full.model.noise_everywhere and full.work < LIGHT,
    ).candidates
    places = worth_beginning_with(candidates)
    if sentence := contradiction_at(full, candidates[places[0]]):
        say(sentence, show=marginal.stages.show)
    return [candidates[i].point for i in places]


def _drawn(marginal: LinearMarginal, seed: int) -> list[Point]:
    """Climb from draws of the prior; return the posterior's modes that are about as probable as the best, the first."""
    posterior = marginal.with_prior()
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(7,)))
    found = list[Origin]()
    for spread in SPREADS:
        point = Point(spread * rng.standard_normal(marginal.size), np.zeros(0))
        if (start := posterior.start_at(point)) is not None:
            found.append(climb(posterior, start.origin, start.covariance)[0])
        if found and marginal.stages.spent:
            break
    if not found:
        raise InitialisationError(
            f"at none of {len(SPREADS)} draws of the parameters do the data have a density; take more "
            "steps_per_interval, or widen or move priors that the data contradict"
        )
    found.sort(key=lambda each: -each.log_density)
    best = found[0].log_density
    return [Point(each.u, np.zeros(0)) for each in found if each.log_density > best - PROBABLE]


def _forecast(marginal: Marginal, density: Density, origin: Origin, starts: int, points: int) -> None:
    """Say how long a fit will take, if that is long, from the time that densities take nearby, one in each thread."""
    L, begin = np.eye(marginal.size)[:, density.free], time.perf_counter()
    density.gradient(origin, L)
    middle = time.perf_counter()
    density.values(origin.u + NEARBY * np.ones((marginal.workers, 1)) * density.free, origin)
    seconds = (time.perf_counter() - middle) / marginal.workers
    mode, explored = (starts * CLIMB + density.free.sum()) * (middle - begin), PAIR * points * seconds
    if mode + explored > LONG:
        limit = marginal.stages.max_seconds
        parts = f"{mode:.0f} s for the mode" + (f", {explored:.0f} s for {points} points about it" if points else "")
        ended = f"; max_seconds={limit:g} will end it before" if mode + explored > limit else ""
        say(f"this fit takes about {mode + explored:.0f} s ({parts}){ended}", show=marginal.stages.show)


def _far_apart(points: list[Point], count: int) -> Iterator[Point]:
    """Yield the first point, and then in turn the one that is furthest from those before."""
    furthest, chosen = np.full(len(points), np.inf), 0
    for _ in range(min(count, len(points))):
        yield points[chosen]
        away = [float(np.linalg.norm(each.position - points[chosen].position)) for each in points]
        furthest = np.minimum(furthest, away)
        chosen = int(furthest.argmax())


def _apart(marginal: Marginal, mode: Mode, one: Origin, other: Origin) -> bool:
    """Whether two climbs ended at different modes, of parameters or of paths."""
    away, size = one.u - other.u, marginal.engine.block_sizes["vector"]
    far = float(away @ mode.hessian @ away) > SAME_MODE**2
    return far or float(np.abs(one.point[:size] - other.point[:size]).max(initial=0.0)) > SAME_PATH
