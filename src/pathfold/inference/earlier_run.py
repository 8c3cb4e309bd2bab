"""Reading from the results of an earlier run what a later one needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from pathfold.errors import SettingsError
from pathfold.model import DiffusionModel
from pathfold.results.fitted import is_fit
from pathfold.results.prior import parameter_names
from pathfold.results.reading import check_posterior
from pathfold.sampling.warm_start import Earlier


def earlier_run(start: Any, model: DiffusionModel) -> Earlier:
    """Return where the chains ended; raise SettingsError if that is not known, or the parameters are others."""
    tree = check_posterior(start, "noise", "constant_data", "sample_stats", name="start")
    if unknown := sorted(set(parameter_names(tree)) - set(model.priors)):
        raise SettingsError(f"start is of another model: it has a parameter {unknown[0]!r} that this one does not have")
    noise, constant = tree.noise.isel(draw=-1), tree.constant_data
    chains, series = tree.noise.sizes["chain"], constant["first_interval"].size
    intervals = constant["interval_end"].size

    def normals(name: str, *shape: int) -> np.ndarray:
        return noise[name].values if name in noise else np.zeros((chains, *shape, 0))

    of_chains = tree.noise["chain"].values.tolist()
    if gone := [each for each in of_chains if each not in tree.sample_stats["chain"].values]:
        raise SettingsError(f"start has the noise of chain {gone[0]}, but not its step size; select the same of both")
    step_sizes = np.zeros(chains)
    if "step_size" in tree.sample_stats and tree.attrs["sampler"] != "GuidedProposals":
        step_sizes = tree.sample_stats["step_size"].sel(chain=of_chains).values[:, -1]

    integration_times = dict(zip(tree.attrs["chain_numbers"], tree.attrs["integration_times"], strict=True))
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
        integration_times=np.array([integration_times[each] for each in of_chains], dtype=float),
        centres=noise["parameter_centre"].values if "parameter_centre" in noise else None,
        factors=noise["parameter_factor"].values if "parameter_factor" in noise else None,
        fitted=is_fit(tree),
    )
