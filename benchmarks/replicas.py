"""What replica exchange costs and brings: rungs over the number of observations, and draws beside static trajectories.

Problems with one mode (an Ornstein-Uhlenbeck process with unknown noise) show what is lost, those with several what is
won: a double well that is seen through its square, of whose path every excursion may have either sign, and a drug whose
absorption and elimination trade places. Effective draws are those of the slowest parameter, and of the sign of the last
state, or of which of the two rates is larger; a minus stands where chains never changed it. One core, warm-up counted.

    python -m benchmarks.replicas [--problems ou well drug] [--observations 10 100 1000] [--draws 500] ...
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr

import pathfold as pf
from pathfold.results.convergence import convergence, effective_draws

type Problem = tuple[pf.DiffusionModel, Any]

SAMPLERS = {"static": pf.StaticHMC(), "replicas": pf.ReplicaExchange()}


def ou(count: int) -> Problem:
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["theta"] * x,
        diffusion=lambda x, z: z["sigma"] * jnp.ones((1, 1)),
        parameters={name: dist.LogNormal(np.log(centre), 0.5) for name, centre in OU.items()},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, "tau"),
    )
    return model, pf.simulate(model, OU, 0.5 * np.arange(1, count + 1), steps_per_interval=10)


def well(count: int) -> Problem:
    model = pf.DiffusionModel(
        drift=lambda x, z: 2.0 * (x - x**3),
        diffusion=lambda x, z: z["sigma"] * jnp.ones((1, 1)),
        parameters={"sigma": dist.LogNormal(np.log(0.5), 0.3)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x**2, 0.1),
    )
    return model, pf.simulate(model, {"sigma": 0.5}, 0.5 * np.arange(1, count + 1), steps_per_interval=10)


def drug(count: int) -> Problem:
    """Doses by mouth to `count` people, with eight samples each."""
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.array([-z["ka"] * x[0], z["ka"] * x[0] - z["k"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"] * x[1]]]),
        parameters={
            "ka": dist.LogNormal(-0.5, 1.0),
            "k": dist.LogNormal(-0.5, 1.0),
            "V": dist.LogNormal(2.5, 1.0),
            "sigma": dist.LogNormal(-3.0, 0.5),
            "tau": dist.LogNormal(-2.0, 0.5),
        },
        initial_state=[100.0, 0.0],
        observation=pf.Likelihood(lambda x, z: dist.LogNormal(jnp.log(x[1] / z["V"]), z["tau"])),
    )
    times = [0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]
    return model, [pf.simulate(model, DRUG, times, steps_per_interval=10, seed=k) for k in range(count)]


OU = {"theta": 0.8, "sigma": 0.5, "tau": 0.3}
DRUG = {"ka": 1.5, "k": 0.3, "V": 20.0, "sigma": 0.05, "tau": 0.1}
PROBLEMS: dict[str, Callable[[int], Problem]] = {"ou": ou, "well": well, "drug": drug}
BRANCHES: dict[str, Callable[[xr.DataTree], np.ndarray]] = {
    "well": lambda tree: tree.posterior["state"].values[:, :, -1, 0] > 0.0,
    "drug": lambda tree: tree.posterior["ka"].values > tree.posterior["k"].values,
}


def measure(problem: str, count: int, sampler: str, chains: int, warmup: int, draws: int) -> str:
    """Return a row of the table."""
    model, data = PROBLEMS[problem](count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs that are too short, or of modes
        tree = pf.sample(
            model,
            data,
            steps_per_interval=10,
            chains=chains,
            warmup=warmup,
            draws=draws,
            sampler=SAMPLERS[sampler],
            threads=1,
            progress=False,
        )
    seconds, stats = float(np.sum(tree.attrs["chain_seconds"])), tree.sample_stats
    fewest = min(convergence(tree.posterior[name].values).effective for name in model.priors)
    cells = [problem, f"{count}", sampler, f"{stats.sizes.get('rung', 1)}"]
    cells.append(f"{1e3 * float(np.sum(tree.attrs['main_seconds'])) / (chains * draws):.1f}")
    trips = 1e3 * stats["round_trips"].values[:, -1].mean() / draws if "round_trips" in stats else np.nan
    cells += ["-" if np.isnan(trips) else f"{trips:.0f}", f"{fewest / seconds:.1f}"]
    if problem not in BRANCHES:
        cells += ["", ""]
    else:
        branch = 1.0 * BRANCHES[problem](tree)
        moved = np.ptp(branch, axis=1) > 0.0
        cells += [f"{effective_draws(branch) / seconds:.2f}" if moved.all() else "-", f"{branch.mean():.2f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=[*PROBLEMS], default=[*PROBLEMS])
    parser.add_argument("--observations", nargs="+", type=int, default=[10, 100, 1000])
    for name, default in (("chains", 2), ("warmup", 400), ("draws", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    columns = ("problem", "size", "sampler", "rungs", "ms a draw", "round trips in 1,000 draws")
    columns += ("effective draws a second", "of branches", "share of a branch")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for problem in given.problems:
        for count in (2, 8) if problem == "drug" else given.observations:
            for sampler in SAMPLERS:
                print(measure(problem, count, sampler, given.chains, given.warmup, given.draws), flush=True)


if __name__ == "__main__":
    main()
