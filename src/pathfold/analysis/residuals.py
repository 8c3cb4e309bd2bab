"""One-step-ahead residuals: where each value lies among those expected from the values before it.

Given the parameters, F(y_n | y_1, ..., y_{n-1}, z) is uniform if the model is right, and independent from one time to
the next (Rosenblatt 1952), and so is that of a posterior draw of z. For linear models F is known. For others the
values expected are simulated, from particles that have seen what was observed before, by paths that know nothing of
y_n.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from pathfold.analysis.chosen import Chosen
from pathfold.analysis.innovations import filter_of
from pathfold.analysis.log_likelihood import shared_parameters
from pathfold.data import Data
from pathfold.data.checks import cores, whole
from pathfold.errors import warn
from pathfold.model import DiffusionModel
from pathfold.results.grid import grid_of_data
from pathfold.results.in_order import results_of
from pathfold.results.overview import extended

DRAWS, PARTICLES = 4, 1000  # draws of each chain and particles of each, unless they are given


def residuals(
    model: DiffusionModel,
    data: Data,
    posterior: xr.DataTree,
    *,
    draws: int | None = None,
    particles: int = PARTICLES,
    seed: int = 0,
    threads: int | None = None,
) -> xr.DataTree:
    """Compute one-step-ahead residuals: each value among those expected from the values before, as a standard normal.

    They are the classical second opinion on a model: `pf.check`, `pf.plot_check` and `pf.report` look at them where
    results have them. They see outliers, heavy tails and changes of variance better than the noise of posterior draws,
    which is pulled towards what the model expects. The values expected come from the filter of
    `pf.log_likelihood(..., ahead=True)`, exact for linear models and by particles for others, and exist for the same
    models.

    Parameters
    ----------
    model
        The `pf.DiffusionModel` that `posterior` is of.
    data
        The observations that `posterior` is of.
    posterior
        Results of `pf.sample`, whose parameters are taken.
    draws
        How many draws of each chain to take, evenly spread: 4 by default.
    particles
        Of the filter, if the model is not linear: the more, the closer residuals are to standard normals if the model
        is right, and the further out outliers. A warning says how many would do if there are so few that residuals
        depend on them.
    seed
        A whole number: the same gives the same particles.
    threads
        How many threads run the filter; one per core by default.

    Returns
    -------
    xarray.DataTree
        The results with a group `residuals`: `y`, the residuals, and `expected`, the mean of the values expected, for
        each draw chosen in the dimensions of `observed_data`; NaN where a value is missing or censored, as `seen` says.
        Its attribute `method` is "exact" or "particles".
    """
    tree = results_of(posterior, model=model)
    grid = grid_of_data(tree, model, data)
    particles, seed = whole("particles", particles, least=2), whole("seed", seed, least=0)
    threads = cores(threads)
    chosen = Chosen.of(tree, min(DRAWS, tree.posterior.sizes["draw"]) if draws is None else draws)
    z = shared_parameters(model, chosen)
    score = filter_of(model, grid, particles)
    scores, expected = score.residuals(z, seed, threads=threads)
    estimates = score.judged(z, seed, threads=threads)
    if estimates.enough > estimates.particles:
        warn(f"{estimates}; pf.check does not judge these residuals")
    observed = tree.observed_data["y"]
    dims = [str(dim) for dim in observed.dims]
    coords = {str(name): (c.dims, c.values) for name, c in tree.observed_data.coords.items()}
    coords["interval"] = (observed.dims[:1], score.rows)
    drawn = {"y": (dims, scores), "expected": (dims, expected)}
    counts = {"particles": estimates.particles, "enough_particles": estimates.enough}
    group = chosen.dataset(drawn, coords, method=score.method, **counts)
    return extended(tree, {"residuals": group.assign(seen=(dims, score.known.astype(np.int64)))})
