"""Whether chains begin, in which mode, and how long that takes: the examples, their priors made wider, and hard cases.

Every problem is searched with many seeds, as `pf.sample` does before its chains run. A chain is in a poor mode if the
mass of the mode that it begins with, by Laplace's method, is below e^-10 of the best that any seed found. Seconds are
those of a search, the least and the most of all seeds. `--panels` measures panels of growing size instead.

    python -m benchmarks.starts [--seeds 20] [--problems theophylline seir ...] [--wider] [--panels 10 100 1000]
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.example_models import EXAMPLES, lorenz96
from pathfold.model.kept import Kept
from pathfold.model.parameters import build_parameters
from pathfold.sampling.laplace_marginal import LaplaceMarginal
from pathfold.sampling.scales import relative_spread, set_scales
from pathfold.sampling.starts import Point, find_starts

CHAINS = 4
POOR = 10.0  # log mass below the best mode

type Problem = tuple[pf.DiffusionModel, Any, dict[str, Any]]


def theophylline() -> Problem:
    """Twelve people, one dose each; absorption, clearance and volume vary between them."""

    def varying(name: str) -> pf.Varying:
        return pf.Varying(lambda z: dist.LogNormal(z[f"log_{name}"], z[f"spread_{name}"]))

    typical = {"ka": 0.0, "CL": -3.0, "V": -1.0}
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.array([-z["ka"] * x[0], (z["ka"] * x[0] - z["CL"] * x[1]) / z["V"]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={name: varying(name) for name in typical}
        | {f"log_{name}": dist.Normal(centre, 1.0) for name, centre in typical.items()}
        | {f"spread_{name}": dist.LogNormal(-1.0, 0.7) for name in typical}
        | {"sigma": dist.LogNormal(-1.0, 0.7), "tau": dist.LogNormal(-1.0, 0.7)},
        initial_state=[0.0, 0.0],
        observation=pf.GaussianNoise(lambda x, z: x[1:], "tau"),
        events={"dose": lambda x, z, amount: x.at[0].add(amount)},
        states=("gut", "concentration"),
    )
    table = pf.datasets.theophylline()
    data = [
        pf.Observations(
            person["hours"].to_numpy(),
            person["concentration"].to_numpy(),
            initial_time=0.0,
            events={"dose": ([0.0], person["dose"].iloc[0])},
        )
        for _, person in table[table["hours"] > 0].groupby("subject")
    ]
    return model, data, {"max_step": 0.25}


def one_compartment(subjects: int) -> Problem:
    """A drug in many people, eight samples of each: clearance and volume vary between them."""
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.array([-z["ka"] * x[0], z["ka"] * x[0] - z["CL"] / z["V"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"] * x[1]]]),
        parameters={
            "ka": dist.LogNormal(0.0, 0.5),
            "CL": pf.Varying(lambda z: dist.LogNormal(z["log_CL"], z["spread_CL"])),
            "V": pf.Varying(lambda z: dist.LogNormal(z["log_V"], z["spread_V"])),
            "log_CL": dist.Normal(1.5, 0.7),
            "spread_CL": dist.LogNormal(-1.5, 0.5),
            "log_V": dist.Normal(3.5, 0.7),
            "spread_V": dist.LogNormal(-1.5, 0.5),
            "sigma": dist.LogNormal(-2.0, 0.5),
            "tau": dist.LogNormal(-2.0, 0.5),
        },
        initial_state=[200.0, 0.1],
        observation=pf.Likelihood(lambda x, z: dist.LogNormal(jnp.log(x[1] / z["V"]), z["tau"])),
        states=("gut", "blood"),
    )
    rng, step, times = np.random.default_rng(0), 0.01, [1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 18.0, 24.0]
    clearance = np.exp(rng.normal(np.log(5.0), 0.3, subjects))
    volume = np.exp(rng.normal(np.log(40.0), 0.2, subjects))
    gut, blood, seen = np.full(subjects, 200.0), np.full(subjects, 0.1), []
    for begin, end in zip([0.0, *times], times, strict=False):
        for _ in range(round((end - begin) / step)):
            moved = 0.1 * blood * np.sqrt(step) * rng.normal(size=subjects)
            gut, blood = (
                gut - 0.8 * gut * step,
                blood + (0.8 * gut - clearance / volume * blood) * step + moved,
            )
        seen.append(blood / volume * np.exp(0.1 * rng.normal(size=subjects)))
    return model, [pf.Observations(times, y[:, None]) for y in np.array(seen).T], {"max_step": 1.0}


def epidemic() -> Problem:
    """Weekly counts of an epidemic whose transmission rate wanders."""
    population, rate, recovery = 1e5, 1.75, 1.4

    def drift(x, z):
        infections = jnp.exp(x[3]) * x[0] * jnp.exp(x[2])
        exposed, infected = jnp.exp(x[1]), jnp.exp(x[2])
        level = jnp.log(recovery * z["R0"])
        return jnp.array(
            [
                -infections / population,
                infections / exposed - rate,
                rate * exposed / infected - recovery,
                -z["kappa"] * (x[3] - level),
                rate * exposed,
            ]
        )

    def start(z):
        wander = dist.Normal(jnp.log(recovery * z["R0"]), z["sigma"] / jnp.sqrt(2.0 * z["kappa"]))
        return [1.0, dist.Normal(jnp.log(z["E0"]), 0.1), dist.Normal(jnp.log(z["E0"]), 0.3), wander, 0.0]

    model = pf.DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.array([[0.0], [0.0], [0.0], [z["sigma"]], [0.0]]),
        parameters={
            "R0": dist.LogNormal(0.5, 0.4),
            "kappa": dist.LogNormal(-1.0, 0.5),
            "sigma": dist.LogNormal(-1.5, 0.7),
            "k": dist.LogNormal(3.0, 1.0),
            "E0": dist.LogNormal(3.0, 1.0),
        },
        initial_state=start,
        observation=pf.Likelihood(lambda x, z: dist.NegativeBinomial2(0.3 * x[4] + 1e-6, z["k"])),
        accumulators="new",
        states=("s", "log E", "log I", "log beta", "new"),
        observed=("cases",),
    )
    truth = {"R0": 1.8, "kappa": 0.3, "sigma": 0.25, "k": 20.0, "E0": 20.0}
    data = pf.simulate(model, truth, np.arange(1.0, 31.0), steps_per_interval=50, seed=4)
    return model, pf.Observations(np.arange(1.0, 23.0), np.asarray(data.values)[:22]), {"steps_per_interval": 10}


def stiff(steps: int) -> Problem:
    """Van der Pol's oscillator with mu = 50."""
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.array([x[1], z["mu"] * (1.0 - x[0] ** 2) * x[1] - x[0]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={
            "mu": dist.LogNormal(np.log(50.0), 0.3),
            "sigma": dist.LogNormal(0.0, 0.5),
            "tau": dist.LogNormal(-2.0, 0.5),
        },
        initial_state=[2.0, 0.0],
        observation=pf.GaussianNoise(lambda x, z: x[:1], "tau"),
    )
    truth = {"mu": 50.0, "sigma": 1.0, "tau": 0.1}
    data = pf.simulate(model, truth, np.arange(2.0, 101.0, 2.0), steps_per_interval=2000, seed=1)
    return model, data, {"steps_per_interval": steps}


def example(name: str) -> Problem:
    of_name = EXAMPLES[name]
    return of_name.model(), of_name.data(), {"steps_per_interval": of_name.steps_per_interval}


def other_data(name: str) -> Problem:
    """An example with data simulated from another seed."""
    model, data, steps = example(name)
    truth, fine = EXAMPLES[name].truth, 4 * steps["steps_per_interval"]
    assert truth is not None
    return model, pf.simulate(model, truth, data.times, steps_per_interval=fine, seed=11), steps


HARD: dict[str, Callable[[], Problem]] = {
    "theophylline": theophylline,
    "20 subjects": lambda: one_compartment(20),
    "1,000 subjects": lambda: one_compartment(1000),
    "epidemic": epidemic,
    "kuramoto, other data": lambda: other_data("kuramoto"),
    "autoregulation, other data": lambda: other_data("autoregulation"),
    "lorenz96, 40 states": lambda: (lorenz96.noisy(40), lorenz96.data(40, observations=20), {"steps_per_interval": 5}),
    "van der Pol, mu 50, 400 steps": lambda: stiff(400),
    "van der Pol, mu 50, 10 steps": lambda: stiff(10),
}


def wider(problem: Problem) -> Problem:
    """The problem with lognormal priors, which rates, sizes and scales have, ten times as wide on the logarithm."""
    model, data, steps = problem
    model = copy.copy(model)
    model.priors = {
        name: dist.LogNormal(prior.loc, 10.0 * prior.scale) if isinstance(prior, dist.LogNormal) else prior
        for name, prior in model.priors.items()
    }
    with jax.enable_x64(True):
        model.parameters, model.varying = build_parameters(model.priors)
    model.kept = Kept()
    return model, data, steps


def searched(problem: Problem, seeds: int) -> tuple[list[np.ndarray | None], list[float]]:
    """Log masses of the modes that chains begin with, by seed, None where there is none; seconds of each search.

    The mass of a mode from which no most probable path is found is not known.
    """
    model, data, steps = problem
    engine = Engine(model, TimeGrid.build(data, **steps))
    set_scales(engine)
    marginal = LaplaceMarginal(engine, threads=1)
    relaxation, began, seconds = relative_spread(engine), list[np.ndarray | None](), list[float]()
    for seed in range(seeds + 1):
        begin = time.perf_counter()
        try:
            starts = find_starts(engine, range(CHAINS), seed=seed, threads=1, relaxation=relaxation)
            points: list[Point] | None = [starts.point(i) for i in range(CHAINS)]
        except pf.InitialisationError:
            points = None
        if seed > 0:  # the first is for warming up
            seconds.append(time.perf_counter() - begin)
            found = None if points is None else [marginal.start_at(each) for each in points]
            began.append(None if found is None else np.array([start.log_mass if start else np.nan for start in found]))
    return began, seconds


def report(name: str, problem: Problem, seeds: int) -> None:
    began, seconds = searched(problem, seeds)
    found = np.array([masses for masses in began if masses is not None])
    below = np.nanmax(found) - found if np.isfinite(found).any() else found
    unknown = f", {np.isnan(found).sum()} in one of unknown mass" if np.isnan(found).any() else ""
    print(
        f"{name:32s} {found.size:4d} of {CHAINS * seeds} begin, {np.sum(below > POOR):3d} in a poor mode "
        f"(worst {np.nanmax(below, initial=0.0):.2f}){unknown}, "
        f"{1e3 * min(seconds):8.1f} to {1e3 * max(seconds):8.1f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", nargs="*", default=[*HARD, *EXAMPLES])
    parser.add_argument("--wider", action="store_true", help="priors that are ten times as wide")
    parser.add_argument("--panels", nargs="*", type=int)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.panels is not None:
        for subjects in given.panels or (10, 100, 1000, 10_000):
            report(f"{subjects:,} subjects", one_compartment(subjects), min(given.seeds, 2))
        return
    for name in given.problems:
        problem = HARD[name]() if name in HARD else example(name)
        report(name, wider(problem) if given.wider else problem, given.seeds)


if __name__ == "__main__":
    main()
