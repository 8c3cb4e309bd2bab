"""A quick answer with a verdict: pf.fit, a density of the parameters that is explored, corrected and judged."""

from __future__ import annotations

import math
import time
from typing import cast, get_args

import xarray as xr

from pathfold.data import Data, TimeGrid
from pathfold.data.checks import choice, cores, positive, truth, whole
from pathfold.data.time_grid import warn_of_skipped_values
from pathfold.engine import Engine
from pathfold.engine.affine import why_not_affine
from pathfold.engine.installation import announced, compile_sampler
from pathfold.errors import warn
from pathfold.inference.fit.mode_search import find_modes
from pathfold.inference.fit.outcome import CHAINS, Fitted
from pathfold.model import DiffusionModel
from pathfold.model.check_data import check_panel
from pathfold.model.diffusion_model import check_model
from pathfold.model.memory import check_memory
from pathfold.results.diagnostics import contradiction_in
from pathfold.results.reading import FIT
from pathfold.sampling.execution import check_path_fits, explained
from pathfold.sampling.laplace_marginal import LAPLACE, LaplaceMarginal
from pathfold.sampling.linear_marginal import LINEAR, LinearMarginal
from pathfold.sampling.scales import set_scales
from pathfold.sampling.settings import KeepPath
from pathfold.sampling.static_sampler import INTEGRATED

MAX_SECONDS = 120.0


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
    sampling about their mode; and both are corrected by pairs of paths that meet the data, where that is possible. Of a
    linear model the path is integrated out exactly, and the pairs are exact draws. The answer depends on model, data,
    settings and `seed` alone, not on `threads`, if it ends before `max_seconds`. docs/first_look.md says what to make
    of it, and how long it takes.

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
    threads = cores(threads)
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
        "sampler": FIT,
        "method": INTEGRATED if marginal.exact else "laplace",
        "steps_per_interval": grid.steps,
        "prior": int(prior),
    }
    fitted = Fitted(marginal, mode, others, seed)
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
    threads: int,
    prior: bool,
    progress: bool = False,
    max_seconds: float = math.inf,
) -> LaplaceMarginal | LinearMarginal:
    """Compile what a fit needs: the sampler's kernels for the start, and those of the paths given parameters.

    Of a model that is affine in its noise the density of the parameters is all.
    """
    check_path_fits(model, grid)
    options = {"threads": threads, "prior": prior, "progress": progress, "max_seconds": max_seconds}
    linear = not why_not_affine(model, censored=bool(grid.censored.any()))
    compile_sampler(LINEAR if linear else LAPLACE, announce=True)
    with announced("compiling the model", show=progress):
        if linear:
            return LinearMarginal(model, grid, **options)
        full = Engine(model, grid)
        set_scales(full)
        return LaplaceMarginal(full, **options)


def _check_paths_fit(model: DiffusionModel, grid: TimeGrid, draws: int, points: int, *, fine: bool) -> None:
    """Raise SettingsError if the draws with a copy, and two paths for each of 2 `points`, exceed the memory."""
    path = 8 * model.augmented_dim * (len(grid.starts) * (grid.steps if fine else 1) + len(grid.first))
    less = "keep_path='nodes', " if fine else ""
    check_memory("the draws", (2 * draws + 4 * points) * path, f"{less}fewer draws or fewer points")
