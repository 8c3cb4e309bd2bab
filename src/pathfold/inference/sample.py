"""Sampling the posterior: pf.sample."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import xarray as xr

from pathfold.data import Data, TimeGrid
from pathfold.errors import SettingsError
from pathfold.model import DiffusionModel
from pathfold.model.diffusion_model import check_model
from pathfold.results.checkpointed import described
from pathfold.results.deterministics import check_deterministics, keys_of
from pathfold.results.diagnostics import moves_on_manifold, warn_of_trouble
from pathfold.results.in_order import results_of
from pathfold.results.posterior import state_times, to_datatree
from pathfold.results.prior import parameter_names
from pathfold.results.reading import is_fit
from pathfold.sampling import Sampler, Settings, run_chains
from pathfold.sampling.alone import check_pilot
from pathfold.sampling.selection import Selection
from pathfold.sampling.warm_start import Earlier


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
    sampler: Sampler | None = None,
    keep: Sequence[str | int] | str | int | None = None,
    keep_path: Literal["nodes", "all", "none"] = "nodes",
    keep_warmup: bool = False,
    thin: int = 1,
    deterministics: Mapping[str, Callable[..., Any]] | None = None,
    progress: bool = True,
    max_seconds: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    threads: int | None = None,
) -> xr.DataTree:
    """Draw from the posterior of parameters and paths, given observations.

    The draws depend on model, data, settings and `seed` alone, not on `threads`, `executor` or whether the run was
    resumed from its `checkpoint`; `max_seconds` may change how many there are. Whatever can be checked is checked
    before anything is compiled; errors are derived from `pf.PathfoldError`.

    Parameters
    ----------
    model
        A `pf.DiffusionModel`.
    data
        `pf.Observations`; or a list of them, or a dict by name: a panel of series that share the parameters, each with
        its own initial state.
    steps_per_interval
        The number of fine steps between neighbouring observations. Give this or `max_step`, and refine until the
        posterior no longer changes (`pf.refine`). "auto" finds out with short runs how many are enough, and goes on
        from these.
    max_step
        The greatest length of a fine step; long gaps between observations are split.
    chains
        How many chains.
    warmup
        Iterations at the beginning of each chain that adapt the sampler and are not draws: 250, or 50 after a warm
        start whose paths were not integrated out, 100 after a fit; of `pf.ReplicaExchange()` 400, of
        `pf.GuidedProposals()` 500, each of several moves.
    draws
        Draws per chain after warm-up.
    seed
        A whole number: the same gives the same draws.
    start
        Results of an earlier run of the model, with other data or steps, to begin where its chains ended, with their
        step sizes and integration times; or of `pf.fit`, to begin at draws of the approximation.
    sampler
        `pf.StaticHMC()`, `pf.DynamicHMC()`, `pf.ReplicaExchange()` for several modes, `pf.UnconstrainedHMC()` or
        `pf.GuidedProposals()`, with settings of its own. By default it is the first; after a `start` by replica
        exchange it is that again.
    keep
        Names of the parameters, and of the components of the state (numbers, if they have no names), that are kept of
        every draw; all by default. Where no component is named, no states are kept.
    keep_path
        Of which times the states are kept: the "nodes" (observation times), "all" after every fine step, or "none".
    keep_warmup
        Whether the results have the draws of warm-up too.
    thin
        Iterations for each draw after warm-up, of which the last is kept, with its statistics: the draws are every
        `thin`-th of a run without it. Of `pf.GuidedProposals(thin=)` it is a setting of its own.
    deterministics
        A dict of name -> function of z, (z, path) or (z, path, times), recorded with every draw; path (time, component)
        are the states that are kept. What varies between series has a row for each of them in z.
    progress
        Whether to show how far the chains are.
    max_seconds
        Processor seconds that a chain may take, those before a `checkpoint` counted: of its core, or where several
        threads share its steps the sum over them, so that four threads spend them up to four times as fast as the clock
        goes. A chain that has spent them ends as if it was interrupted: a warning says how many draws are kept, of
        chains that were left out where they were, and the same call with more seconds goes on.
    checkpoint
        A folder that draws are written to as they are made, so that only a few sit in memory. The same call goes on
        where the last one ended, and more `draws` make the run longer; `pf.open_checkpoint` shows what there is so far.
        Large variables of the results are read from there when they are asked for: keep the folder while they are used.
    executor
        A `concurrent.futures.Executor` that runs the chains: processes of this machine, or a cluster's.
    threads
        How many threads there are for all chains, if there is no executor; one per core by default. Each chain has one,
        and more where there are more of them than chains and a step has enough work to share.

    Returns
    -------
    xarray.DataTree
        Groups `posterior`, `sample_stats`, `observed_data` and `constant_data`, as ArviZ has them.

    Examples
    --------
    >>> from pathfold.example_models import EXAMPLES
    >>> example = EXAMPLES["ornstein_uhlenbeck"]
    >>> posterior = pf.sample(
    ...     example.model(), example.data(), steps_per_interval=5, chains=2, progress=False
    ... )
    >>> dict(posterior.posterior["sigma"].sizes)
    {'chain': 2, 'draw': 1000}
    """
    check_model(model)
    if isinstance(steps_per_interval, str) and steps_per_interval == "auto" and max_step is None:
        from pathfold.inference.refine import pilot  # which samples itself

        check_pilot()
        where = {"checkpoint": checkpoint, "executor": executor, "threads": threads}
        chosen = pilot(model, data, seed, sampler=sampler, progress=progress, **where)
        steps_per_interval, start = chosen.steps[-1], chosen.posterior if start is None else start
    settings = Settings.checked(
        chains=chains,
        warmup=warmup,
        draws=draws,
        seed=seed,
        start=None if start is None else earlier_run(start, model),
        sampler=sampler,
        keep=Selection.of(model, keep),
        keep_path=keep_path,
        keep_warmup=keep_warmup,
        thin=thin,
        progress=progress,
        max_seconds=max_seconds,
        checkpoint=checkpoint,
        executor=executor,
        threads=threads,
    )
    grid = TimeGrid.build(data, steps_per_interval=cast(int | None, steps_per_interval), max_step=max_step)
    times, series = state_times(grid, settings.keep_path), len(grid.first)
    recorded = settings.chains * (settings.draws + settings.warmup * settings.keep_warmup)
    functions = check_deterministics(
        {} if deterministics is None else deterministics, model, series, times, settings.keep, recorded
    )
    run = run_chains(model, data, grid, settings, partial(described, model, grid))
    tree = to_datatree(run, keep_warmup=settings.keep_warmup, deterministics=functions)
    if functions:
        tree.attrs["deterministics"] = json.dumps(keys_of(functions, model, series, times, settings.keep))
    warn_of_trouble(tree, list(model.priors), model.network)
    return tree


def earlier_run(start: Any, model: DiffusionModel) -> Earlier:
    """Read where the chains of an earlier run ended; raise SettingsError if that is not known, or of another model."""
    tree = results_of(start, "noise", "constant_data", "sample_stats", name="start")
    if unknown := sorted(set(parameter_names(tree)) - set(model.priors)):
        raise SettingsError(f"start is of another model: it has a parameter {unknown[0]!r} that this one does not have")
    noise, constant = tree.noise.isel(draw=-1), tree.constant_data
    chains, series = tree.noise.sizes["chain"], constant["first_interval"].size
    intervals = constant["interval_end"].size

    def normals(name: str, *shape: int) -> np.ndarray:
        return noise[name].values if name in noise else np.zeros((chains, *shape, 0))

    of_chains = tree.noise["chain"].values.tolist()
    if gone := [chain for chain in of_chains if chain not in tree.sample_stats["chain"].values]:
        raise SettingsError(f"start has the noise of chain {gone[0]}, but not its step size; select the same of both")
    step_sizes = np.zeros(chains)
    if "step_size" in tree.sample_stats and moves_on_manifold(tree):
        step_sizes = tree.sample_stats["step_size"].sel(chain=of_chains).values[:, -1]

    integration_times = dict(zip(tree.attrs["chain_numbers"], tree.attrs["integration_times"], strict=True))
    if odd := [chain for chain in of_chains if chain not in integration_times]:
        raise SettingsError(
            f"start has a chain {odd[0]!r} that its run did not make: give the results of one run, its chains numbered "
            "as they were"
        )
    return Earlier(
        u=normals("parameter_noise"),
        v0=normals("initial_noise", series),
        w=normals("observation_noise", intervals),
        v=normals("path_noise", intervals, int(tree.attrs["steps_per_interval"])),
        x0=noise["initial_state"].values,
        nodes=noise["state"].values,
        starts=constant["interval_start"].values,
        ends=constant["interval_end"].values,
        first=constant["first_interval"].values,
        step_sizes=step_sizes,
        integration_times=np.array([integration_times[chain] for chain in of_chains], dtype=float),
        fitted=is_fit(tree),
        exchanged="rung" in tree.sample_stats.dims,
    )
