"""The marginal likelihood of a model, by importance sampling of parameters or from the rungs of replica exchange.

**Importance sampling**: p(y) is the mean of p(y | z) p(u) / q(u) over draws u of a proposal q, and stays so when
p(y | z), which is exact for linear models, is replaced by an estimate without bias, by guided particles. The proposal
is Student's t fitted to the posterior, mixed with the standard normal that most priors of u are, so that weights are
bounded where the fit is too narrow.

**Replicas**: stepping stones (method.md, section 22). With Z_k the integral of prior times likelihood^b_k, Z_k / Z_l is
the mean of likelihood^(b_k - b_l) over the draws of rung l, and p(y) the product of these ratios.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from pathfold.analysis.ahead import Ahead
from pathfold.analysis.chosen import Chosen
from pathfold.analysis.innovations import filter_of
from pathfold.analysis.log_likelihood import PARTICLES, shared_parameters
from pathfold.analysis.particle_filter import REPEATED
from pathfold.data import Data
from pathfold.data.checks import choice, cores, positive, truth, whole
from pathfold.errors import SettingsError, warn
from pathfold.inference.fit.proposal import Proposal, log_normal
from pathfold.model import DiffusionModel
from pathfold.model.row_constants import row_constants
from pathfold.results.convergence import effective_draws
from pathfold.results.grid import grid_of_data
from pathfold.results.in_order import results_of
from pathfold.sampling.progress import Counted

Method = Literal["particles", "replicas"]
DRAWS = 1000
ROUNDS, SHARE = 3, 5  # of fitting the proposal, each with a fifth as many draws
FEWEST = 10  # draws that anything is made of
FEW = 50  # effective draws below which a standard error says little
TOO_FEW = 10  # below which there is none


@dataclass(frozen=True)
class Evidence:
    """The outcome of `pf.evidence`.

    Parameters
    ----------
    log_evidence
        The estimate of log p(y).
    standard_error
        The standard error of `log_evidence`; NaN with fewer than ten effective draws.
    draws
        The number of draws that it is a mean over: of the parameters, or of all rungs.
    effective_draws
        How many draws of equal weight would be as good.
    """

    log_evidence: float
    standard_error: float
    draws: int
    effective_draws: float

    def __str__(self) -> str:
        known = np.isfinite(self.standard_error)
        error = f"± {self.standard_error:.2g}" if known else "with an unknown error"
        effective = f"{self.effective_draws:.0f} of {self.draws} draws effective"
        return f"log evidence {self.log_evidence:.3f} {error} ({effective}{'' if known else ', too few'})"

    __repr__ = __str__


def evidence(
    model: DiffusionModel,
    data: Data,
    posterior: xr.DataTree,
    *,
    method: Method = "particles",
    draws: int = DRAWS,
    particles: int = PARTICLES,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = True,
    max_seconds: float | None = None,
) -> Evidence:
    """Estimate the marginal likelihood of a model, for Bayes factors: p(y) with parameters and paths integrated out.

    Parameters are drawn from a distribution fitted to the posterior and weighted; their likelihoods are those of
    `pf.log_likelihood(..., ahead=True)`, exact for linear models, and exist for the same models. A run of
    `pf.ReplicaExchange` knows p(y) from its rungs, without further work. p(y) is that of the discretised model, with
    the fine steps of the posterior.

    Parameters
    ----------
    model
        The `pf.DiffusionModel` that `posterior` is of.
    data
        The observations that `posterior` is of.
    posterior
        Results of `pf.sample`, which say where to draw parameters.
    method
        "particles", of which linear models need none; or "replicas", if `posterior` is of `pf.ReplicaExchange`, for
        which the settings below have no meaning.
    draws
        Of the parameters, for the estimate; fitting their distribution takes three fifths as many besides.
    particles
        The number of particles of the filter, for each of these draws, if the model is not linear. A warning says how
        many would do if few draws are effective because the likelihoods depend on the particles.
    seed
        A whole number: the same gives the same estimate.
    threads
        How many threads run the filter; one per core by default.
    progress
        Whether to say how far the filter is, and how long it will take, once that is longer than a second.
    max_seconds
        Seconds after which the estimate is made of the draws that there are; a warning says how many.

    Returns
    -------
    Evidence
        The log of p(y) with its standard error.
    """
    draws, particles = whole("draws", draws, least=FEWEST), whole("particles", particles, least=1)
    seed, threads = whole("seed", seed, least=0), cores(threads)
    tree = results_of(posterior, model=model)
    grid = grid_of_data(tree, model, data)
    if choice("method", method, get_args(Method)) == "replicas":
        nodes = np.flatnonzero(grid.mask.any(axis=1))
        return _of_replicas(tree, float(row_constants(model, grid, nodes).sum()))
    seconds = np.inf if max_seconds is None else positive("max_seconds", max_seconds)
    counts = [*[max(10, draws // SHARE)] * ROUNDS, draws]
    score = filter_of(model, grid, particles)
    counted = Counted(f"draws of parameters by {score.told}", sum(counts), show=truth("progress", progress))
    integrand = _Integrand(score, np.random.SeedSequence(seed), threads, counted)
    rng = np.random.default_rng(integrand.seeds.spawn(1)[0])
    proposal = Proposal.of_draws(_posterior_normals(tree, score.model.parameters.size))
    ends = time.monotonic() + seconds * np.cumsum(counts) / sum(counts)

    def scored(count: int, end: float) -> tuple[np.ndarray, np.ndarray]:
        """Return draws of the proposal and the logs of their weights, those that there is time for."""
        u, log_density = proposal.draw(rng, count)
        order = rng.permutation(count)
        log_weights = integrand(u[order], end) - log_density[order]
        known = ~np.isnan(log_weights)
        if known.sum() < FEWEST:
            raise SettingsError(f"max_seconds={seconds:g} is too short for {FEWEST} draws of parameters; give more")
        return u[order][known], log_weights[known]

    for count, end in zip(counts[:-1], ends[:-1], strict=True):
        proposal = proposal.refitted(*scored(count, end))
    _, log_weights = scored(draws, ends[-1])
    if len(log_weights) < draws:
        warn(f"max_seconds were spent: {len(log_weights)} of {draws} draws are counted")
    if not np.isfinite(log_weights.max()):
        raise SettingsError(f"the likelihood was zero at all parameters that were tried; {score.remedy}")
    found = _estimate(log_weights)
    if found.effective_draws < FEW:
        z = shared_parameters(model, Chosen.of(tree, min(REPEATED, tree.posterior.sizes["draw"])))
        estimates = score.judged(z, seed, threads=threads)
        remedy = estimates if estimates.enough > estimates.particles else "give more draws"
        what = "there is no standard error" if np.isnan(found.standard_error) else "the standard error says little"
        warn(f"only {found.effective_draws:.0f} of {found.draws} draws are effective, so that {what}; {remedy}")
    return found


def _posterior_normals(tree: xr.DataTree, size: int) -> np.ndarray:
    """Return u (draw, U) of the draws whose noise is held."""
    results_of(tree, "noise")
    if size == 0:
        return np.zeros((1, 0))
    return tree.noise["parameter_noise"].values.reshape(-1, size)


class _Integrand:
    """The integrand log p(y | z) p(u), whose first factor, if it is an estimate, has new particles at every call."""

    def __init__(self, score: Ahead, seeds: np.random.SeedSequence, threads: int, progress: Counted) -> None:
        self.filter, self.seeds, self.threads, self.progress = score, seeds, threads, progress
        parameters = score.model.parameters
        excess = parameters.excess or (lambda u: jnp.zeros(()))
        self._pushed = jax.jit(jax.vmap(lambda u: (parameters.push(u), excess(u))))

    def __call__(self, u: np.ndarray, deadline: float) -> np.ndarray:
        """Return the log of the integrand at each of u, NaN of those that the deadline comes before."""
        with jax.enable_x64(True):
            z, excess = (np.asarray(array) for array in self._pushed(jnp.asarray(u)))
        log_prior = log_normal(u) - excess
        known = np.isfinite(z).all(axis=1) & np.isfinite(log_prior)
        out = np.full(len(u), -np.inf)
        seed = int(self.seeds.spawn(1)[0].generate_state(1)[0])
        ahead = self.filter(z[known], seed, threads=self.threads, progress=self.progress, deadline=deadline)
        out[known] = ahead.sum(axis=1) + log_prior[known]
        return out


def _estimate(log_weights: np.ndarray) -> Evidence:
    """Return the log of the mean weight, and its error by the delta method."""
    count, total = len(log_weights), float(np.logaddexp.reduce(log_weights))
    effective = float(np.exp(2 * total - np.logaddexp.reduce(2 * log_weights)))
    relative = np.sqrt(max(0.0, (1.0 / effective - 1.0 / count) * count / (count - 1)))
    error = float(relative) if effective >= TOO_FEW else np.nan
    return Evidence(total - float(np.log(count)), error, count, effective)


def _of_replicas(tree: xr.DataTree, constant: float) -> Evidence:
    """Return the evidence by stepping stones, the mean over chains; `constant` is what likelihoods leave out.

    The error of a chain is that of the sum of all relative errors of a sweep, whose autocorrelation is known. Chains
    that differ by more than that have not found all modes, and then it is their spread that counts.
    """
    results_of(tree, "sample_stats")
    if "rung" not in tree.sample_stats.dims:
        raise SettingsError(
            "method='replicas' needs a run of replica exchange: sample with sampler=pf.ReplicaExchange(), or use "
            "method='particles'"
        )
    stats = tree.sample_stats.to_dataset()
    if stats.sizes["draw"] < FEWEST:
        raise SettingsError(
            f"the results have {stats.sizes['draw']} draws per chain, whose standard error nobody knows; sample with "
            f"draws={FEWEST} at least"
        )
    if not np.all(stats["round_trips"].values[:, -1] > 0):
        warn(
            "a chain has no round trip between posterior and prior, so that the evidence may lack a mode; run more "
            "draws",
        )
    by_chain = [_stepping_stones(stats.sel(chain=chain)) for chain in stats["chain"].values]
    logs, errors, effective = (np.array(part) for part in zip(*by_chain, strict=True))
    within = np.sqrt(np.sum(errors**2)) / len(logs)
    between = np.std(logs, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else 0.0
    draws = stats.sizes["chain"] * stats.sizes["draw"]
    return Evidence(float(logs.mean()) + constant, float(max(within, between)), draws, float(effective.sum()))


def _stepping_stones(stats: xr.Dataset) -> tuple[float, float, float]:
    """Return log p(y) of one chain, its standard error, and how many sweeps are effective."""
    powers, likelihoods = stats["power"].values[-1], stats["rung_log_likelihood"].values
    count = int(np.isfinite(powers).sum())
    if not count or powers[0] != 1.0 or powers[count - 1] != 0.0:
        raise SettingsError("the first or the last rung is missing; give the results with all of their rungs")
    logs = likelihoods[:, 1:count] * (powers[: count - 1] - powers[1:count])
    shift = logs.max(axis=0)
    weights = np.column_stack([np.exp(logs - shift), stats["prior_weight"].values])
    means = weights.mean(axis=0)
    relative = (weights / means - 1.0).sum(axis=1)
    effective = effective_draws(relative[None])
    return float(np.log(means).sum() + shift.sum()), float(relative.std(ddof=1) / np.sqrt(effective)), effective
