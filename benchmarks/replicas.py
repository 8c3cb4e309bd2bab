"""What replica exchange costs and brings: rungs over the number of observations, and draws beside static trajectories.

Problems with one mode (an Ornstein-Uhlenbeck process with unknown noise) show what is lost, those with several what is
won: a double well that is seen through its square, of whose path every excursion may have either sign, and a drug whose
absorption and elimination trade places. Effective draws are those of the slowest parameter, and of the sign of the last
state, or of which of the two rates is larger; a minus stands where chains never changed it. One core, warm-up counted.

    python -m benchmarks.replicas [--problems ou well drug] [--observations 10 100 1000] [--draws 500] ...

`--hard` runs both samplers on problems that static trajectories have trouble with, and tells the share of a branch in
every chain: oscillators whose phases are seen as angles, so that each may have made a turn more or less; a toggle
switch of which the sum is seen, rarely; a double well seen by counts, with few steps; an epidemic with unknown noise,
of which the branch is the tail of small noise. Of the oscillators the branch is that both make a turn less between
observations, among the draws in which both make as many more or less; what it should be follows from the draws in
which they make none more, and is told beside it. `--calibrate RUNS` is simulation-based calibration of a model with two
modes, in `--processes`.

`--threads` measures how much faster a chain is when threads share its replicas.

    python -m benchmarks.replicas --hard [turns toggle counts epidemic] [--draws 500]
    python -m benchmarks.replicas --threads 2 4 8
    python -m benchmarks.replicas --calibrate 300 --processes 16 --checkpoint folder
"""

from __future__ import annotations

import argparse
import multiprocessing
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr

import pathfold as pf
from pathfold.example_models import kuramoto, sir
from pathfold.results.convergence import convergence, effective_draws, scalars

type Problem = tuple[pf.DiffusionModel, Any]

SAMPLERS = {"static": pf.StaticHMC(integrate=False), "replicas": pf.ReplicaExchange()}


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


def turns(count: int = 6) -> Problem:
    """Two coupled oscillators seen as angles, rarely: each may have made a turn more between two observations."""
    model = pf.DiffusionModel(
        drift=kuramoto.drift,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(2),
        parameters={
            "omega": dist.Normal(jnp.full(2, 2.0), 2.0),
            "K": dist.LogNormal(-0.5, 0.5),
            "sigma": dist.LogNormal(-1.5, 0.5),
        },
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.GaussianNoise(lambda x, z: jnp.concatenate([jnp.cos(x), jnp.sin(x)]), 0.3),
    )
    return model, pf.simulate(model, TURNS, 2.0 * np.arange(1, count + 1), steps_per_interval=20, seed=1)


def turns_more(draws: xr.Dataset) -> np.ndarray:
    """Return how many turns more each oscillator makes between observations than it did, by chain and draw."""
    return np.round((draws["omega"].values - TURNS["omega"]) / np.pi)


def turn_less(draws: xr.Dataset) -> xr.DataArray:
    """Return whether both make a turn less, among the draws in which both make as many more or less."""
    turns = turns_more(draws)
    both = np.where(turns[..., 0] == turns[..., 1], 1.0 * (turns[..., 0] == -1.0), np.nan)
    return xr.DataArray(both, dims=("chain", "draw"))


def expected_turn_less(draws: xr.Dataset) -> float:
    """Return the share of `turn_less` that follows from the draws in which nobody makes a turn more.

    If both make a turn more between all observations, the differences of their phases are the same, and so is all
    that is seen: the posterior of the frequencies is what it was, moved by half a turn a second, but for their prior.
    """
    omega = draws["omega"].values[np.all(turns_more(draws) == 0.0, axis=-1)]
    prior = [np.exp(-0.5 * (((omega + np.pi * k - 2.0) / 2.0) ** 2).sum(axis=-1)) for k in range(-4, 5)]
    masses = np.array([np.mean(p / prior[4]) for p in prior])
    return masses[3] / masses.sum()


def toggle(count: int = 6) -> Problem:
    """Two genes that repress each other, in logarithms, whose sum is seen, rarely: which of them is on nobody sees."""

    def drift(x, z):
        return z["alpha"] / (1.0 + jnp.exp(2.0 * x[::-1])) * jnp.exp(-x) - 1.0

    model = pf.DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(2),
        parameters={
            "alpha": dist.LogNormal(jnp.log(jnp.array([4.0, 5.0])), 0.2),
            "sigma": dist.LogNormal(-1.0, 0.4),
        },
        initial_state=dist.Normal(jnp.zeros(2), 1.0),
        observation=pf.Likelihood(lambda x, z: dist.LogNormal(jnp.log(jnp.exp(x).sum()), 0.1)),
    )
    truth, times = {"alpha": [4.0, 5.0], "sigma": 0.4}, 4.0 * np.arange(1, count + 1)
    return model, pf.simulate(model, truth, times, initial_state=[1.3, -1.5], steps_per_interval=40, seed=2)


def counts() -> Problem:
    """A double well seen by counts, four of which say that it is on the one side, and then on the other."""
    model = pf.DiffusionModel(
        drift=lambda x, z: z["theta"] * x * (1.0 - x**2),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={"theta": dist.LogNormal(0.0, 1.0), "sigma": dist.LogNormal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.ones(1), 0.5),
        observation=pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(2.0 * x[0]))),
    )
    values = [6.0, 4.0, np.nan, 0.0, 1.0, 0.0, 2.0]
    return model, pf.Observations(0.6 * np.arange(1, 8), np.array(values))


OU = {"theta": 0.8, "sigma": 0.5, "tau": 0.3}
TURNS = {"omega": [1.8, 2.6], "K": 0.6, "sigma": 0.2}
DRUG = {"ka": 1.5, "k": 0.3, "V": 20.0, "sigma": 0.05, "tau": 0.1}
PROBLEMS: dict[str, Callable[[int], Problem]] = {"ou": ou, "well": well, "drug": drug}
BRANCHES: dict[str, Callable[[xr.DataTree], np.ndarray]] = {
    "well": lambda tree: tree.posterior["state"].values[:, :, -1, 0] > 0.0,
    "drug": lambda tree: tree.posterior["ka"].values > tree.posterior["k"].values,
}


HARD: dict[str, tuple[Callable[[], Problem], int, Callable[[xr.Dataset], xr.DataArray]]] = {
    "turns": (turns, 20, turn_less),
    "toggle": (
        toggle,
        20,
        lambda draws: draws["state"].isel(time=-1, component=0) > draws["state"].isel(time=-1, component=1),
    ),
    "counts": (counts, 3, lambda draws: draws["state"].isel(time=-1, component=0) > 0.0),
    "epidemic": (lambda: (sir.noisy(), sir.data()), 20, lambda draws: draws["sigma_y"] < 0.5),
}


def hard(name: str, sampler: str, chains: int, draws: int) -> str:
    """Return a row of the table of problems that static trajectories have trouble with."""
    problem, steps, branch = HARD[name]
    model, data = problem()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = pf.sample(
            model, data, steps_per_interval=steps, chains=chains, draws=draws, sampler=SAMPLERS[sampler], threads=1,
            progress=False,
        )  # fmt: skip
    shares = branch(tree.posterior.to_dataset()).mean("draw").values
    worst = max(convergence(x).rhat for name in model.priors for _, x in scalars(tree.posterior[name]))
    trips = f"{tree.sample_stats['round_trips'].values[:, -1].sum()}" if "round_trips" in tree.sample_stats else "-"
    cells = [name, sampler, f"{tree.sample_stats.sizes.get('rung', 1)}", f"{np.sum(tree.attrs['chain_seconds']):.0f}"]
    cells += [trips, f"{shares.mean():.2f}", " ".join(f"{share:.2f}" for share in shares), f"{worst:.2f}"]
    told = [
        phrase
        for phrase in ("different modes", "stood still", "failed", "diverged")
        if any(phrase in str(w.message) for w in caught)
    ]
    if name == "turns":
        told.append(f"{expected_turn_less(tree.posterior.to_dataset()):.3f} expected")
    return f"| {' | '.join([*cells, ', '.join(told)])} |"


def threads(problem: str, count: int, numbers: list[int]) -> str:
    """Return a row of the table of threads: times as fast as with one, by the least seconds of three runs."""
    model, data = PROBLEMS[problem](count)
    settings: dict[str, Any] = {"steps_per_interval": 10, "chains": 1, "warmup": 100, "draws": 400, "progress": False}
    seconds, rungs = dict.fromkeys([1, *numbers], np.inf), 0
    for number in 3 * [*seconds]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of runs that are too short
            tree = pf.sample(model, data, sampler=pf.ReplicaExchange(), threads=number, **settings)
        seconds[number], rungs = min(seconds[number], tree.attrs["run_seconds"]), tree.sample_stats.sizes["rung"]
    cells = [problem, f"{count}", f"{rungs}"]
    return f"| {' | '.join([*cells, *(f'{seconds[1] / seconds[number]:.2f}' for number in numbers)])} |"


def two_modes() -> pf.DiffusionModel:
    """A level m of which the square is seen, and of its sign a little: of data from the prior many have two modes."""
    return pf.DiffusionModel(
        drift=lambda x, z: -0.8 * x,
        diffusion=lambda x, z: 0.5 * jnp.ones((1, 1)),
        parameters={"m": dist.Normal(0.0, 1.5), "tau": dist.LogNormal(np.log(0.3), 0.3)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(
            lambda x, z: jnp.array([z["m"] ** 2 + 0.3 * x[0], 0.1 * jnp.tanh(4.0 * z["m"])]), "tau"
        ),
    )


def calibrated(runs: int, processes: int, checkpoint: str | None) -> pf.Calibration:
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        return pf.calibrate(
            two_modes(), 0.5 * np.arange(1, 9), runs=runs, steps_per_interval=3, warmup=150, draws=495,
            sampler=pf.ReplicaExchange(), checkpoint=checkpoint, executor=pool, threads=processes,
        )  # fmt: skip


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
    cells += ["-" if np.isnan(trips) else f"{trips:.0f}", f"{float(cells[-1]) / trips:.2g}" if trips > 0.0 else "-"]
    cells.append(f"{fewest / seconds:.1f}")
    if problem not in BRANCHES:
        cells += ["", ""]
    else:
        branch = 1.0 * BRANCHES[problem](tree)
        moved = np.ptp(branch, axis=1) > 0.0
        cells += [f"{effective_draws(branch) / seconds:.2f}" if moved.all() else "-", f"{branch.mean():.2f}"]
    return f"| {' | '.join(cells)} |"


def head(*columns: str) -> None:
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=[*PROBLEMS], default=[*PROBLEMS])
    parser.add_argument("--observations", nargs="+", type=int, default=[10, 100, 1000])
    parser.add_argument("--samplers", nargs="+", choices=[*SAMPLERS], default=[*SAMPLERS])
    for name, default in (("chains", 2), ("warmup", 400), ("draws", 500), ("processes", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--hard", nargs="*", choices=[*HARD], help="these problems instead, all of them by default")
    parser.add_argument("--calibrate", type=int, metavar="RUNS", help="simulation-based calibration, with so many runs")
    parser.add_argument("--threads", nargs="+", type=int, help="how much faster a chain is with so many threads")
    parser.add_argument("--checkpoint", help="folder from which calibration goes on")
    given = parser.parse_args()
    if given.calibrate:
        print(calibrated(given.calibrate, given.processes, given.checkpoint))
        return
    if given.threads:
        head("problem", "size", "rungs", *(f"{number} threads" for number in given.threads))
        for problem, count in (("ou", 100), ("drug", 2), ("well", 30)):
            print(threads(problem, count, given.threads), flush=True)
        return
    if given.hard is not None:
        head("problem", "sampler", "rungs", "seconds", "round trips", "share of a branch", "by chain", "R-hat", "told")
        for name in given.hard or HARD:
            for sampler in given.samplers:
                print(hard(name, sampler, 2 * given.chains, given.draws), flush=True)
        return
    columns = ("problem", "size", "sampler", "rungs", "ms a draw", "round trips in 1,000 draws", "seconds for one")
    head(*columns, "effective draws a second", "of branches", "share of a branch")
    for problem in given.problems:
        for count in (2, 8) if problem == "drug" else given.observations:
            for sampler in given.samplers:
                print(measure(problem, count, sampler, given.chains, given.warmup, given.draws), flush=True)


if __name__ == "__main__":
    main()
