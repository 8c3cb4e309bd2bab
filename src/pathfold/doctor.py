"""Tells whether this installation works: versions, processor, cache, and a short run whose answer is known."""

from __future__ import annotations

import os
import platform
import sys
import time
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
import numpyro.distributions as dist

from pathfold.data import Observations
from pathfold.engine import model_cache
from pathfold.engine.installation import compile_sampler
from pathfold.inference import sample
from pathfold.model import DiffusionModel, GaussianNoise
from pathfold.paper import DynamicHMC, GuidedProposals
from pathfold.results.convergence import convergence
from pathfold.sampling import ReplicaExchange, StaticHMC
from pathfold.sampling.laplace_marginal import LAPLACE
from pathfold.sampling.linear_marginal import LINEAR

NEEDED = ("numpy", "scipy", "jax", "jaxlib", "numba", "llvmlite", "numpyro", "xarray", "pandas", "tqdm", "filelock")
OPTIONAL = ("arviz", "matplotlib", "h5netcdf", "zarr")
WORST = 5.0  # standard errors between the mean and the exact one; more occur in one healthy run of a million


def examine() -> bool:
    """Print the facts about this installation and its self-test, and return whether it is healthy."""
    for line in surroundings():
        print(line)
    print(f"sampler: ready after {compile_samplers():.1f} s")
    lines, faults = self_test()
    for line in lines:
        print(line)
    for fault in faults:
        print(f"not as it should be: {fault}")
    print("pathfold is healthy." if not faults else "pathfold is NOT healthy; report this output.")
    return not faults


def compile_samplers() -> float:
    """Compile what all samplers and fits call, or load it; return the seconds."""
    samplers = StaticHMC, ReplicaExchange, DynamicHMC, GuidedProposals
    return compile_sampler(*(sampler.native for sampler in samplers), LAPLACE, LINEAR, announce=True)


def surroundings() -> Iterator[str]:
    """Yield lines about versions, the machine and the cache."""
    yield f"pathfold {metadata.version('pathfold')} in {Path(__file__).parent}"
    yield f"Python {platform.python_version()} ({sys.executable}) on {platform.platform()}"
    yield f"processor: {llvm.get_host_cpu_name()}, {os.cpu_count()} cores"
    yield ", ".join(f"{name} {metadata.version(name)}" for name in NEEDED)
    yield ", ".join(f"{name} {_version(name)}" for name in OPTIONAL)
    try:
        stored = model_cache.entries()
        state = f"{len(stored)} compiled models, {sum(file.size for file in stored) / 2**20:.1f} MiB"
    except (model_cache.Unusable, OSError) as error:
        state = f"cannot be used ({error}): set PATHFOLD_CACHE to another folder, or models are compiled again"
    yield f"cache: {model_cache.folder()}: {state}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "is not installed"


class Found(NamedTuple):
    """The lines that a self-test prints, and the faults that it finds."""

    lines: list[str]
    faults: list[str]


def self_test() -> Found:
    """Sample Brownian motion with an unknown drift, seen with noise, and compare with its posterior, known exactly."""
    times = np.arange(1.0, 9.0)
    values = np.array([0.9, 1.1, 2.7, 2.2, 3.9, 4.8, 4.1, 6.0])
    model = DiffusionModel(
        drift=lambda x, z: z["mu"] * jnp.ones(1),
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={"mu": dist.Normal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=GaussianNoise(lambda x, z: x, 0.5),
    )
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = sample(model, Observations(times, values), steps_per_interval=4, seed=1, progress=False)
    mu = tree.posterior["mu"].values
    mean, deviation = exact_drift(times, values)
    z = (mu.mean() - mean) / (deviation / np.sqrt(convergence(mu).effective))
    failed = int(np.sum(tree.sample_stats["status"].values != 0))
    lines = [
        f"self-test: {mu.size} draws in {time.perf_counter() - begin:.1f} s, of which compiling "
        f"{tree.attrs['compile_seconds']:.1f} s",
        f"self-test: drift {mu.mean():.3f} +- {mu.std():.3f}, exactly {mean:.3f} +- {deviation:.3f} (z = {z:.1f})",
    ]
    faults = [str(warning.message) for warning in caught]
    if not abs(z) < WORST:
        faults.append(f"the posterior mean is {abs(z):.1f} standard errors away from the exact one")
    if not 0.9 < mu.std() / deviation < 1.1:
        faults.append("the posterior's standard deviation is not the exact one")
    if failed:
        faults.append(f"{failed} of {mu.size} trajectories failed")
    return Found(lines, faults)


def exact_drift(times: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of mu given values of x_0 + mu t + W_t + noise, by linear regression."""
    covariance = 1.0 + np.minimum(times, times[:, None]) + 0.25 * np.eye(times.size)
    weights = np.linalg.solve(covariance, times)
    precision = 1.0 + times @ weights
    return float(values @ weights / precision), float(precision**-0.5)
