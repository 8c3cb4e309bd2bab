"""Warnings that name the parameter or the cause, when a run should not be trusted yet."""

from __future__ import annotations

import warnings

import numpy as np
import xarray as xr

from pathfold.engine.status import MEANING
from pathfold.results.convergence import convergence, scalars

RHAT = 1.01
ESS_A_CHAIN = 100
FAILURES = 0.03
STANDSTILL = 0.02


def warn_of_trouble(tree: xr.DataTree, names: list[str]) -> None:
    """Warn of failed or diverged trajectories, of chains that stand still, of unconverged parameters (by ArviZ)."""
    if tree.posterior.sizes["draw"] == 0:
        return
    _warn_of_failures(tree)
    if tree.posterior.sizes["draw"] >= 4:
        _warn_of_standstill(tree)
        _warn_of_convergence(tree, names)


def _warn_of_failures(tree: xr.DataTree) -> None:
    status = tree.sample_stats["status"].values
    failed = status != 0
    if failed.mean() > FAILURES:
        codes, counts = np.unique(status[failed], return_counts=True)
        cause = MEANING[int(codes[np.argmax(counts)])]
        warnings.warn(
            f"{100 * failed.mean():.1f} % of the trajectories failed, most often because {cause}: raise the sampler's "
            "target_acceptance, or take more steps_per_interval",
            stacklevel=4,
        )
    diverged = tree.sample_stats["diverging"].values.mean()
    if diverged > FAILURES:
        warnings.warn(
            f"{100 * diverged:.1f} % of the trajectories diverged: their energy was not kept, which happens where the "
            "posterior is much narrower than elsewhere; raise the sampler's target_acceptance",
            stacklevel=4,
        )


def _warn_of_standstill(tree: xr.DataTree) -> None:
    moved = np.mean(np.diff(tree.sample_stats["lp"].values, axis=1) != 0.0, axis=1)
    for chain in np.flatnonzero(moved < STANDSTILL):
        warnings.warn(
            f"chain {chain} stood still: {100 * moved[chain]:.1f} % of its draws differ from the one before; give it a "
            "longer warmup or another seed",
            stacklevel=4,
        )


def _warn_of_convergence(tree: xr.DataTree, names: list[str]) -> None:
    chains = tree.posterior.sizes["chain"]
    for name in [*names, "initial_state"]:
        for label, draws in scalars(tree.posterior[name]):
            found = convergence(draws)
            if found.rhat > RHAT:
                warnings.warn(
                    f"{label} has not converged: R-hat is {found.rhat:.3f}, above {RHAT}; run more draws, or a longer "
                    "warmup",
                    stacklevel=4,
                )
            elif not found.effective >= ESS_A_CHAIN * chains:
                warnings.warn(
                    f"{label} has few effective draws: {found.bulk:.0f} in the bulk, {found.tail:.0f} in the tails, "
                    f"fewer than {ESS_A_CHAIN * chains}; run more draws",
                    stacklevel=4,
                )
