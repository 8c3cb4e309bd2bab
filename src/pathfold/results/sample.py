"""The one call: pf.sample."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Literal, cast

import xarray as xr

from pathfold.engine import Solver
from pathfold.model import Data, DiffusionModel, TimeGrid
from pathfold.model.diffusion_model import check_model
from pathfold.results.deterministics import check_deterministics
from pathfold.results.diagnostics import warn_of_trouble
from pathfold.results.posterior import state_times, to_datatree
from pathfold.results.start import earlier_run
from pathfold.sampling import DynamicHMC, Settings, StaticHMC, UnconstrainedHMC, run_chains


def sample(
    model: DiffusionModel,
    data: Data,
    *,
    steps_per_interval: int | Literal["auto"] | None = None,
    max_step: float | None = None,
    chains: int = 4,
    warmup: int | None = None,
    draws: int = 1000,
    seed: int = 0,
    start: xr.DataTree | None = None,
    sampler: StaticHMC | DynamicHMC | UnconstrainedHMC | None = None,
    splitting: Literal["gaussian", "stormer-verlet"] | None = None,
    solver: Solver | None = None,
    observations_per_block: int | None = None,
    initial_states: Literal["projection", "interpolation", "adam", "adam-states"] | None = None,
    keep_path: Literal["nodes", "all", "none"] = "nodes",
    keep_warmup: bool = False,
    deterministics: Mapping[str, Callable[..., Any]] | None = None,
    progress: bool = True,
    checkpoint: str | os.PathLike | None = None,
    executor: Executor | None = None,
    threads: int | None = None,
) -> xr.DataTree:
    """Draws from the posterior of parameters and paths, given observations; a list or dict of them is a panel.

    The result depends on model, data, settings and `seed` alone, not on `threads`, `executor` or whether the run was
    resumed from its `checkpoint`. Whatever can be checked is checked before anything is compiled; errors are derived
    from `pf.PathfoldError`.

    steps_per_interval, max_step: one of them: fine steps between neighbouring observations, or their greatest length.
        "auto" finds out with short runs how many are enough (`pf.refine` does so with care), and goes on from these.
    chains, warmup, draws, seed: how many chains, of how many iterations, of which the first `warmup` adapt: 250, or 50
        after a warm start.
    start: results of an earlier run of the model, with other data or steps, to begin where its chains ended, with their
        step sizes and integration times.
    sampler: `pf.StaticHMC()`, the default, `pf.DynamicHMC()` or `pf.UnconstrainedHMC()`.
    splitting: of the Hamiltonian, "gaussian" or "stormer-verlet".
    solver: `pf.Solver(...)`, when the projection of a step onto the manifold has converged.
    observations_per_block: condition on the full state every so many observations, as the paper does; the posterior is
        the same.
    initial_states: how a first point of the manifold is sought: by "projection" of prior draws, the default, or with
        one of the paper's heuristics, "interpolation", "adam" and "adam-states".
    keep_path: which states are kept: at the "nodes", "all" after every fine step, or "none".
    keep_warmup: whether the results have the draws of warm-up too.
    deterministics: functions of z, (z, path) or (z, path, times) by name, recorded with the draws; path (time,
        component) are the states that are kept; what varies has a row for each series in z.
    progress: whether to show how far the chains are.
    checkpoint: a folder; the same call goes on where the last one ended, and more `draws` make the run longer.
    executor, threads: where the chains run: a `concurrent.futures.Executor`, or so many threads.
    """
    check_model(model)
    if isinstance(steps_per_interval, str) and steps_per_interval == "auto" and max_step is None:
        from pathfold.results.refine import pilot  # which samples itself

        where = {"checkpoint": checkpoint, "executor": executor, "threads": threads}
        chosen = pilot(model, data, seed, sampler=sampler, solver=solver, progress=progress, **where)
        steps_per_interval, start = chosen.steps[-1], chosen.posterior if start is None else start
    settings = Settings.checked(
        chains=chains,
        warmup=warmup,
        draws=draws,
        seed=seed,
        start=None if start is None else earlier_run(start, model),
        sampler=sampler,
        splitting=splitting,
        solver=solver,
        observations_per_block=observations_per_block,
        initial_states=initial_states,
        keep_path=keep_path,
        keep_warmup=keep_warmup,
        progress=progress,
        checkpoint=checkpoint,
        executor=executor,
        threads=threads,
    )
    grid = TimeGrid.build(data, steps_per_interval=cast(int | None, steps_per_interval), max_step=max_step)
    times = state_times(grid, settings.keep_path)
    functions = check_deterministics({} if deterministics is None else deterministics, model, len(grid.first), times)
    run = run_chains(model, data, grid, settings)
    tree = to_datatree(run, keep_warmup=settings.keep_warmup, deterministics=functions)
    warn_of_trouble(tree, list(model.priors), model.network)
    return tree
