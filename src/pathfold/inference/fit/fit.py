"""A quick answer with a verdict: pf.fit, a marginal Laplace approximation that is explored, corrected and judged."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, cast, get_args

import numpy as np
import xarray as xr

from pathfold.data import Data, TimeGrid
from pathfold.data.checks import choice, positive, truth, whole
from pathfold.data.time_grid import warn_of_skipped_values
from pathfold.engine import Engine
from pathfold.engine.installation import announced, compile_sampler
from pathfold.errors import InitialisationError, say, warn
from pathfold.inference.fit.correction import Corrected, corrected, resample
from pathfold.inference.fit.exploration import Explored, explore
from pathfold.inference.fit.identifiability import sentences
from pathfold.inference.fit.integrated import Integrated
from pathfold.inference.fit.posterior_mode import (
    SECOND_DIFFERENCE,
    Density,
    Information,
    Mode,
    climb,
    curvature,
    information,
)
from pathfold.inference.fit.verdict import SPENT, Signs
from pathfold.model import DiffusionModel
from pathfold.model.check_data import check_panel
from pathfold.model.diffusion_model import check_model
from pathfold.model.memory import check_memory
from pathfold.results.diagnostics import contradiction_in
from pathfold.results.fitted import FittedDraws, fitted_tree, normal_labels
from pathfold.sampling.contradictions import contradiction_at
from pathfold.sampling.execution import check_path_fits, explained
from pathfold.sampling.held_noise import gathered
from pathfold.sampling.marginal import LAPLACE, MOST_PROBABLE, Marginal, Origin, Pair
from pathfold.sampling.scales import relative_spread, set_scales
from pathfold.sampling.settings import KeepPath
from pathfold.sampling.starts import LIGHT, Point, find_starts, worth_beginning_with

CHAINS = 4  # parts that the draws come in, so that pf.sample(start=fit) has a start for every chain
HELD = 4  # draws of each whose noise is kept
SAME_MODE = 0.5  # modes are the same if they are nearer than this, in standard deviations of the parameters ...
SAME_PATH = 1.0  # ... and the noise of their paths, in prior standard deviations
PROBABLE = 5.0  # modes whose log density is lower by more do not count
FLAT = 4.5  # standard error along a direction, in prior standard deviations, beyond which it says nothing
MAX_SECONDS = 120.0
CLIMB, PAIR = 20, 3  # gradients of a typical climb, and densities that take as long as one with its pair of paths
LONG = 10.0  # seconds from which on a forecast is made
HEAVY = 5e8  # multiplications of a pass, times points (some 30 s of a core): a useless first round is the last
USELESS = 2.5, 0.3  # spread of the logs of the pairs' weights, and share of the pairs that fail, beyond what is bad
FINE = "no sign of a poor approximation"


def fit(
    model: DiffusionModel,
    data: Data,
    *,
    steps_per_interval: int | None = None,
    max_step: float | None = None,
    draws: int = 1000,
    points: int | None = None,
    pairs: bool = True,
    starts: int = 2,
    prior: bool = True,
    keep_path: KeepPath = "nodes",
    seed: int = 0,
    threads: int | None = None,
    progress: bool = True,
    max_seconds: float | None = MAX_SECONDS,
) -> xr.DataTree:
    """Approximate the posterior in a fraction of the time that sampling takes, and say how far that can be trusted.

    The path is integrated out by Laplace's method, with second derivatives; the parameters are explored by importance
    sampling about their mode; and both are corrected by pairs of paths that meet the data, where that is possible. The
    answer depends on model, data, settings and `seed` alone, not on `threads`, if it ends before `max_seconds`.
    docs/first_look.md says what to make of it, and how long it takes.

    Parameters
    ----------
    model
        A `pf.DiffusionModel`.
    data
        `pf.Observations`, or a list or dict of them, as `pf.sample` takes.
    steps_per_interval
        The number of fine steps between neighbouring observations. Give this or `max_step`.
    max_step
        The greatest length of a fine step; long gaps between observations are split.
    draws
        How many draws of parameters and paths the results have, rounded up to four parts of equal length that look
        like chains. They are drawn from the points explored: more of them than points say nothing new.
    points
        How many parameters are tried: 256, or for more than three parameters 512, for more than eight 1024, unless
        it is given. Where few of them are effective, up to twice as many.
    pairs
        Whether paths are drawn for them, two for each. Without, the paths of the results are the most probable ones,
        and the verdict is at best "rough".
    starts
        From how many starts the mode is sought; if they lead to several, the verdict says so.
    prior
        Whether the prior counts. Without it the mode is that of the likelihood, with standard errors, and there are no
        draws. A prior that depends on other parameters, or is that of groups (`pf.Varying(by=...)`), is part of the
        likelihood: what it is the prior of is integrated out, and named in the attribute `integrated`.
    keep_path
        Of which times the states are kept: the "nodes" (observation times), "all" after every fine step, or "none".
    seed
        A whole number: the same gives the same answer.
    threads
        How many threads; one per core by default.
    progress
        Whether to say what is being done, if it takes longer than a second, and how long it will take in all.
    max_seconds
        Seconds after compiling after which the fit ends with what there is and a verdict of "sample": it is no first
        look any more, and `pf.sample(..., start=fit)` goes on from there. None sets no limit.

    Returns
    -------
    xarray.DataTree
        Groups `posterior`, `sample_stats`, `noise`, `laplace`, `observed_data` and `constant_data`, for ArviZ and for
        what takes results of `pf.sample`, its `start=` as well. The attributes `verdict` ("good", "rough" or "sample")
        and `reasons` say how far to trust it. A verdict of "sample" warns.

    Examples
    --------
    >>> from pathfold.example_models import EXAMPLES
    >>> example = EXAMPLES["ornstein_uhlenbeck"]
    >>> fit = pf.fit(example.model(), example.data(), steps_per_interval=5)
    >>> fit.attrs["verdict"]
    'good'
    """
    check_model(model)
    check_panel(model, data)
    draws, size = -(-whole("draws", draws, least=CHAINS) // CHAINS), model.parameters.size
    points = (256 if size <= 3 else 512 if size <= 8 else 1024) if points is None else whole("points", points, least=16)
    pairs, prior = truth("pairs", pairs), truth("prior", prior)
    starts, seed = whole("starts", starts, least=1), whole("seed", seed, least=0)
    keep_path = cast(KeepPath, choice("keep_path", keep_path, get_args(KeepPath)))
    threads = None if threads is None else whole("threads", threads, least=1)
    progress = truth("progress", progress)
    seconds = math.inf if max_seconds is None else positive("max_seconds", max_seconds)
    grid = TimeGrid.build(data, steps_per_interval=steps_per_interval, max_step=max_step)
    if prior:
        _check_paths_fit(model, grid, CHAINS * draws, points, fine=keep_path == "all")
    warn_of_skipped_values(model.inputs, grid)
    begin = time.perf_counter()
    marginal = prepare_marginal(model, grid, threads=threads, prior=prior, progress=progress, max_seconds=seconds)
    compiled = time.perf_counter()
    with explained(model, grid, seed):
        mode, others = find_modes(marginal, starts, seed, points if prior else 0)
    settings = {
        "chains": CHAINS,
        "draws": draws,
        "warmup": 0,
        "seed": seed,
        "keep": "all",
        "keep_path": keep_path,
        "sampler": "Laplace",
        "steps_per_interval": grid.steps,
        "prior": int(prior),
    }
    fitted = _Fitted(marginal, mode, others, seed)
    tree = fitted.tree(settings, points, pairs) if prior else fitted.likelihood(settings)
    tree.attrs |= {"compile_seconds": compiled - begin, "run_seconds": time.perf_counter() - compiled}
    if tree.attrs["verdict"] == "sample":
        how = ", with pf.sample(model, data, ..., start=fit)" if prior else ""
        warn(
            f"this fit should not be relied on: {tree.attrs['reasons'][0]}; sample instead{how}",
        )
    if sentence := contradiction_in(tree):
        warn(sentence)
    return tree


def prepare_marginal(
    model: DiffusionModel,
    grid: TimeGrid,
    *,
    threads: int | None,
    prior: bool,
    progress: bool = False,
    max_seconds: float = math.inf,
) -> Marginal:
    """Compile what a fit needs: the sampler's kernels for the start, and those of the paths given parameters."""
    check_path_fits(model, grid)
    compile_sampler(LAPLACE, announce=True)
    with announced("compiling the model", show=progress):
        full = Engine(model, grid)
        set_scales(full)
        return Marginal(full, threads=threads, prior=prior, progress=progress, max_seconds=max_seconds)


def _check_paths_fit(model: DiffusionModel, grid: TimeGrid, draws: int, points: int, *, fine: bool) -> None:
    """Raise SettingsError if the draws with a copy, and two paths for each of 2 `points`, exceed the memory."""
    path = 8 * model.augmented_dim * (len(grid.starts) * (grid.steps if fine else 1) + len(grid.first))
    less = "keep_path='nodes', " if fine else ""
    check_memory("the draws", (2 * draws + 4 * points) * path, f"{less}fewer draws or fewer points")


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
        if (start := marginal.start_at(point.position, point.nodes)) is None:
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


@dataclass
class _Fitted:
    """A mode, and what becomes of it."""

    marginal: Marginal
    mode: Mode
    others: list[Origin]
    seed: int

    @property
    def model(self) -> DiffusionModel:
        return self.marginal.full.model

    @property
    def grid(self) -> TimeGrid:
        return self.marginal.full.grid

    def tree(self, settings: dict[str, Any], points: int, pairs: bool) -> xr.DataTree:
        fine = settings["keep_path"] == "all"

        def draw(u: np.ndarray, first: int) -> list[Pair]:
            return self.marginal.pairs(u, self.mode.origin, self.seed, first, drawn=pairs, fine=fine)

        def useless(explored: Explored) -> bool:
            result, (spread, failed) = corrected(explored), USELESS
            heavy = self.marginal.full.work * points > HEAVY
            return heavy and pairs and (result.spread > spread or result.failed > failed)

        explored = explore(self.mode, points, self.seed, self.marginal.stages, draw, useless)
        result = corrected(explored)
        signs = self._signs(explored, result, pairs)
        if pairs and not any(np.isfinite(pair.log_weights).any() for pair in result.pairs):
            pairs = False  # no path was reached: what is left are the most probable ones
            result = corrected(replace(explored, pairs=draw(explored.u, 0)))
        hessian = self.mode.hessian
        known = information(hessian, np.zeros_like(hessian), self.mode.covariance)
        laplace = self._dataset(known) | self._explored(explored, result, signs)
        tree = fitted_tree(
            self.model, self.grid, settings, xr.Dataset(laplace), self._draws(explored, result, settings, pairs)
        )
        tree.attrs |= {"verdict": signs.verdict, "reasons": signs.reasons() or [FINE]}
        tree.attrs["identifiability"] = self._identifiability()
        return tree

    def likelihood(self, settings: dict[str, Any]) -> xr.DataTree:
        """Return the maximum of the likelihood, its standard errors, and information criteria."""
        size, rows = len(self.labels), int(self.grid.mask.sum())
        best = self.mode.origin.log_density
        criteria = {"log_likelihood": best, "aic": 2.0 * size - 2.0 * best, "bic": size * np.log(rows) - 2.0 * best}
        at_mode, spent = (self.mode.density, self.mode.origin, self.mode.covariance), self.marginal.stages.spent
        whole, half = (
            self.mode.hessian if spent else curvature(*at_mode, step=step)
            for step in (SECOND_DIFFERENCE, 0.5 * SECOND_DIFFERENCE)
        )
        known = information(*(self._of_free(each) for each in (half, whole - half, self.mode.covariance)))
        dataset = xr.Dataset(self._dataset(known) | {name: ((), value) for name, value in criteria.items()})
        tree = fitted_tree(self.model, self.grid, settings, dataset, None)
        reasons = list(_flat_directions(known, self.labels))
        if spent:
            reasons.insert(0, SPENT)
        elif not self.mode.converged:
            reasons.insert(0, "the climb to the maximum came to no end: the likelihood has an edge or a ridge there")
        tree.attrs |= {
            "verdict": "sample" if spent else "rough" if reasons else "good",
            "reasons": reasons or [FINE],
        }
        tree.attrs["identifiability"] = self._identifiability()
        if self.model.parameters.latent:
            tree.attrs["integrated"] = [*self.model.parameters.latent]
        return tree

    def _identifiability(self) -> list[str]:
        free, hessian = self.mode.density.free, self._of_free(self.mode.hessian)
        hessian = hessian if self.marginal.prior else hessian + np.eye(len(hessian))
        return sentences(self.marginal, self.mode.origin.u, free, hessian, self.labels)

    @property
    def labels(self) -> list[str]:
        """A label for each of the normals that the density at the mode depends on."""
        return [*compress(normal_labels(self.model), self.mode.density.free)]

    def _of_free(self, matrix: np.ndarray) -> np.ndarray:
        """Return the rows and columns of these normals."""
        free = self.mode.density.free
        return matrix[np.ix_(free, free)]

    def _signs(self, explored: Explored, result: Corrected, pairs: bool) -> Signs:
        before = np.exp(explored.log_weights[result.numbers])
        before, u = before / before.sum(), explored.u[result.numbers]
        mean = before @ u
        spread = np.sqrt(before @ (u - mean) ** 2)
        shifts = np.abs(result.weights @ u - mean) / np.maximum(spread, 1e-300)
        worst = int(np.argmax(shifts)) if shifts.size else 0
        return Signs(
            converged=self.mode.converged,
            pareto_k=explored.pareto_k if self.marginal.size else 0.0,
            effective_share=explored.effective_share,
            points_failed=explored.failed,
            pairs_failed=result.failed if pairs else None,
            pair_spread=result.spread,
            shift=float(shifts[worst]) if shifts.size else 0.0,
            shifted=self.labels[worst] if shifts.size else "",
            modes=1 + len(self.others),
            paths="paths" if self.marginal.has_paths else "effects" if self.model.varying.size else "initial states",
            done=explored.done,
        )

    def _dataset(self, known: Information) -> dict[str, Any]:
        """Return what is known at the mode: normals, curvature, and every parameter with its standard error."""
        free, labels, hessian = self.mode.density.free, self.labels, self._of_free(self.mode.hessian)
        values, vectors = np.linalg.eigh(hessian)
        z, slope = self.marginal.parameters(self.mode.origin.u)
        errors = known.standard_errors(slope[:, free])
        names = ("parameter_normal", "parameter_normal_2")
        dataset: dict[str, Any] = {
            "mode": ("parameter_normal", self.mode.origin.u[free]),
            "hessian": (names, hessian),
            "eigenvalue": ("direction", values),
            "eigenvector": (("parameter_normal", "direction"), vectors),
            "log_density": ((), self.mode.origin.log_density),
            "parameter_normal": labels,
            "parameter_normal_2": labels,
            "statistic": ["mode", "standard_error"],
        }
        begin = 0
        for name, shape in self.model.parameters.shapes.items():
            end = begin + int(np.prod(shape, dtype=int))
            if not slope[begin:end, ~free].any():  # it was not integrated out, nor follows from what was
                both = np.stack([z[begin:end].reshape(shape), errors[begin:end].reshape(shape)])
                dataset[f"{name}_at_mode"] = (("statistic", *self.model.dims(name)), both)
            begin = end
        return dataset

    def _explored(self, explored: Explored, result: Corrected, signs: Signs) -> dict[str, Any]:
        numbers = {
            "log_evidence": result.log_evidence,
            "pareto_k": signs.pareto_k,
            "effective_share": signs.effective_share,
            "points_failed": signs.points_failed,
            "pairs_failed": np.nan if signs.pairs_failed is None else signs.pairs_failed,
            "pair_spread": signs.pair_spread,
            "shift": signs.shift,
            "modes": signs.modes,
        }
        log_weight = np.full(len(explored.u), -np.inf)
        log_weight[result.numbers] = np.log(np.maximum(result.weights, 1e-300))
        return {name: ((), value) for name, value in numbers.items()} | {
            "explored": (("point", "parameter_normal"), explored.u),
            "explored_log_density": ("point", explored.log_density),
            "explored_log_weight": ("point", log_weight),
            "correction_slope": ("parameter_normal", result.slope),
        }

    def _draws(self, explored: Explored, result: Corrected, settings: dict[str, Any], pairs: bool) -> FittedDraws:
        """Draw points by weight, and of each one of its two paths, by their weights."""
        shape = CHAINS, settings["draws"]
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(6,)))
        places = resample(result.weights, shape[0] * shape[1], rng)
        logs = np.array([pair.log_weights for pair in result.pairs])
        with np.errstate(invalid="ignore"):  # of points without a path, which are not drawn
            first = 1.0 / (1.0 + np.exp(np.clip(logs[:, 1] - logs[:, 0], -700.0, 700.0)))
        signs = (rng.random(places.size) > first[places]).astype(int)
        z = np.array([pair.z for pair in result.pairs])
        starts = np.array([result.pairs[i].starts[k] for i, k in zip(places, signs, strict=True)])
        states = np.array([result.pairs[i].states[k] for i, k in zip(places, signs, strict=True)])
        statistics = {
            "lp": explored.log_density[result.numbers][places] + result.log_correction[places],
            "log_correction": result.log_correction[places],
            "point": result.numbers[places].astype(float),
        }
        signs = signs if pairs else np.full(places.size, MOST_PROBABLE)
        held = np.unique(np.linspace(0, shape[1] - 1, HELD).astype(np.int64))
        chosen = [
            [self._noise(explored, result, z, places, signs, k * shape[1] + i) for i in held] for k in range(CHAINS)
        ]

        def by_chain(array: np.ndarray) -> np.ndarray:
            return array.reshape(*shape, *array.shape[1:])

        return FittedDraws(
            by_chain(z[places]),
            by_chain(starts),
            by_chain(states),
            {name: by_chain(values) for name, values in statistics.items()},
            gathered(self.marginal.full, held, chosen),
        )

    def _noise(self, explored: Explored, result: Corrected, z, places, signs, i: int) -> tuple[np.ndarray, ...]:
        place = int(places[i])
        number = int(result.numbers[place])
        u = explored.u[number]
        v0, w, v, x0, nodes = self.marginal.noise(u, self.mode.origin, (self.seed, number), int(signs[i]))
        return u, v0, w, v, z[place], x0, nodes[:, : self.model.state_dim]


def _flat_directions(known: Information, labels: list[str]) -> Iterator[str]:
    """Say which combinations of parameters the likelihood leaves open."""

    def names(chosen: np.ndarray) -> str:
        return " and ".join(labels[i] for i in np.flatnonzero(chosen))

    for chosen in known.open(np.eye(len(labels))).T:
        yield f"the data do not determine {names(chosen)}" + (
            " separately: their standard errors are infinite"
            if chosen.sum() > 1
            else ": its standard error is infinite"
        )
    for direction in known.known.T:
        if (length := np.linalg.norm(direction)) > FLAT:
            flat = names(np.abs(direction) > 0.3 * length)
            yield f"the likelihood is flat along {flat}: their standard errors say nothing"
