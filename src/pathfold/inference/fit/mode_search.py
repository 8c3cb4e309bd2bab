"""The modes that a fit, or a profile, is about: climbed to from several starts, and told apart.

Starts are modes of parameters and path together, which `starts.find_starts` alone searches for; these are of the
parameters, with the path integrated out.
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
from pathfold.sampling.marginal import Marginal, Origin
from pathfold.sampling.scales import relative_spread
from pathfold.sampling.starts import LIGHT, Point, find_starts, worth_beginning_with

SAME_MODE = 0.5  # modes are the same if they are nearer than this, in standard deviations of the parameters ...
SAME_PATH = 1.0  # ... and the noise of their paths, in prior standard deviations
PROBABLE = 5.0  # modes whose log density is lower by more do not count
CLIMB, PAIR = 20, 3  # gradients of a typical climb, and densities that take as long as one with its pair of paths
LONG = 10.0  # seconds from which on a forecast is made


def find_modes(marginal: Marginal, starts: int, seed: int, points: int = 0) -> tuple[Mode, list[Origin]]:
    """Climb from several starts; return the highest mode, and the others that are about as probable.

    Without the prior, latent parameters are integrated out on the way. A forecast of the time counts the `points` to be
    explored later. Once the time is spent no other start is tried, and the curvature is that of the constraints.
    """
    full, found = marginal.full, list[tuple[Origin, bool]]()
    density, covariance = cast(Density, marginal), np.eye(marginal.size)
    marginal.stages.begin("looking for starts")
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
    for number, point in enumerate(_far_apart([candidates[i].point for i in places], starts)):
        if found and marginal.stages.spent:
            break
        marginal.stages.begin(f"seeking the mode from start {number + 1}")
        if (start := marginal.start_at(point.block(full))) is None:
            continue
        if not found:
            covariance = start.covariance
            latent = not marginal.prior and marginal.counted.any()
            density = Integrated(marginal, covariance) if latent else marginal
            _forecast(marginal, density, start.origin, min(starts, len(places)), points)
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


def _forecast(marginal: Marginal, density: Density, origin: Origin, starts: int, points: int) -> None:
    """Say how long a fit will take, if that is long, from the time that densities take nearby, one in each thread."""
    free, begin = density.free.sum(), time.perf_counter()
    density.values(origin.u + density.difference * np.ones((marginal.workers, 1)) * density.free, origin)
    seconds = (time.perf_counter() - begin) / marginal.workers
    mode, explored = (starts * CLIMB * 2 * free + 2 * free**2) * seconds, PAIR * points * seconds
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
    return far or float(np.abs(one.point[:size] - other.point[:size]).max()) > SAME_PATH
