"""Whether chains begin, in which mode, and how long that takes: the examples, their priors made wider, and hard cases.

Every problem is searched with many seeds, as `pf.sample` does before its chains run. A chain is in a poor mode if the
mass of the mode that it begins with is below e^-10 of the best that any seed found. Seconds are those of a search, the
least and the most of all seeds. `--panels` measures panels of growing size instead.

    python -m benchmarks.starts [--seeds 20] [--problems theophylline seir ...] [--wider] [--panels 10 100 1000]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import pathfold as pf
from pathfold.engine import Engine
from pathfold.example_models import EXAMPLES, lorenz96
from pathfold.model import TimeGrid
from pathfold.sampling.scales import relative_spread, set_scales
from pathfold.sampling.starts import find_starts

CHAINS = 4
POOR = 10.0  # log mass below the best mode

type Problem = tuple[pf.DiffusionModel, Any, dict[str, Any]]

# Theophylline in 12 people: dose (mg/kg), hours and concentrations (mg/l) after it (Boeckmann, Sheiner and Beal, NONMEM
# users guide, part V, 1994; the data set Theoph of R, in the public domain). The samples at time 0 are left out.
THEOPHYLLINE: list[tuple[float, list[float], list[float]]] = [
    (4.02, [0.25, 0.57, 1.12, 2.02, 3.82, 5.1, 7.03, 9.05, 12.12, 24.37], [2.84, 6.57, 10.5, 9.66, 8.58, 8.36, 7.47, 6.89, 5.94, 3.28]),
    (4.40, [0.27, 0.52, 1.0, 1.92, 3.5, 5.02, 7.03, 9.0, 12.0, 24.3], [1.72, 7.91, 8.31, 8.33, 6.85, 6.08, 5.4, 4.55, 3.01, 0.9]),
    (4.53, [0.27, 0.58, 1.02, 2.02, 3.62, 5.08, 7.07, 9.0, 12.15, 24.17], [4.4, 6.9, 8.2, 7.8, 7.5, 6.2, 5.3, 4.9, 3.7, 1.05]),
    (4.40, [0.35, 0.6, 1.07, 2.13, 3.5, 5.02, 7.02, 9.02, 11.98, 24.65], [1.89, 4.6, 8.6, 8.38, 7.54, 6.88, 5.78, 5.33, 4.19, 1.15]),
    (5.86, [0.3, 0.52, 1.0, 2.02, 3.5, 5.02, 7.02, 9.1, 12.0, 24.35], [2.02, 5.63, 11.4, 9.33, 8.74, 7.56, 7.09, 5.9, 4.37, 1.57]),
    (4.00, [0.27, 0.58, 1.15, 2.03, 3.57, 5.0, 7.0, 9.22, 12.1, 23.85], [1.29, 3.08, 6.44, 6.32, 5.53, 4.94, 4.02, 3.46, 2.78, 0.92]),
    (4.95, [0.25, 0.5, 1.02, 2.02, 3.48, 5.0, 6.98, 9.0, 12.05, 24.22], [0.85, 2.35, 5.02, 6.58, 7.09, 6.66, 5.25, 4.39, 3.53, 1.15]),
    (4.53, [0.25, 0.52, 0.98, 2.02, 3.53, 5.05, 7.15, 9.07, 12.1, 24.12], [3.05, 3.05, 7.31, 7.56, 6.59, 5.88, 4.73, 4.57, 3.0, 1.25]),
    (3.10, [0.3, 0.63, 1.05, 2.02, 3.53, 5.02, 7.17, 8.8, 11.6, 24.43], [7.37, 9.03, 7.14, 6.33, 5.66, 5.67, 4.24, 4.11, 3.16, 1.12]),
    (5.50, [0.37, 0.77, 1.02, 2.05, 3.55, 5.05, 7.08, 9.38, 12.1, 23.7], [2.89, 5.22, 6.41, 7.83, 10.21, 9.18, 8.02, 7.14, 5.68, 2.42]),
    (4.92, [0.25, 0.5, 0.98, 1.98, 3.6, 5.02, 7.03, 9.03, 12.12, 24.08], [4.86, 7.24, 8.0, 6.81, 5.87, 5.22, 4.45, 3.62, 2.69, 0.86]),
    (5.30, [0.25, 0.5, 1.0, 2.0, 3.52, 5.07, 7.07, 9.03, 12.05, 24.15], [1.25, 3.96, 7.82, 9.72, 9.75, 8.57, 6.59, 6.11, 4.57, 1.17]),
]  # fmt: skip


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
    data = [
        pf.Observations(hours, np.array(values)[:, None], initial_time=0.0, events={"dose": ([0.0], dose)})
        for dose, hours, values in THEOPHYLLINE
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
    assert EXAMPLES[name].truth is not None
    fine = 4 * steps["steps_per_interval"]
    return model, pf.simulate(model, EXAMPLES[name].truth, data.times, steps_per_interval=fine, seed=11), steps


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


def wider(model: pf.DiffusionModel) -> pf.DiffusionModel:
    """The model with the spread of every lognormal prior ten times as wide: those of rates, scales and sizes."""
    priors = {
        name: dist.LogNormal(prior.loc, jnp.log(10.0) + prior.scale) if isinstance(prior, dist.LogNormal) else prior
        for name, prior in model.priors.items()
    }
    return model.with_priors(priors) if hasattr(model, "with_priors") else replace_priors(model, priors)


def searched(problem: Problem, seeds: int) -> tuple[list[np.ndarray | None], list[float]]:
    """Potentials of the modes that the chains begin with, by seed, None where there is none; seconds of each search."""
    model, data, steps = problem
    engine = Engine(model, TimeGrid.build(data, **steps))
    set_scales(engine)
    relaxation, began, seconds = relative_spread(engine), list[np.ndarray | None](), list[float]()
    for seed in range(seeds + 1):
        begin = time.perf_counter()
        try:
            starts = find_starts(engine, range(CHAINS), seed=seed, threads=1, relaxation=relaxation)
            potentials = np.array([starts.candidates[starts.of_chains[i]].potential for i in range(CHAINS)])
        except pf.InitialisationError:
            potentials = None
        if seed > 0:  # the first is for warming up
            began.append(potentials)
            seconds.append(time.perf_counter() - begin)
    return began, seconds


def report(name: str, problem: Problem, seeds: int) -> None:
    began, seconds = searched(problem, seeds)
    found = [potentials for potentials in began if potentials is not None]
    best = min((potentials.min() for potentials in found), default=np.nan)
    poor = sum(int(np.sum(potentials > best + POOR)) for potentials in found)
    worst = max((potentials.max() - best for potentials in found), default=np.nan)
    print(
        f"{name:32s} {CHAINS * len(found):4d} of {CHAINS * seeds} begin, {poor:3d} in a poor mode (worst {worst:7.2f}), "
        f"{1e3 * min(seconds):8.1f} to {1e3 * max(seconds):8.1f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", nargs="*", default=[*HARD, *EXAMPLES])
    parser.add_argument("--panels", nargs="*", type=int)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.panels is not None:
        for subjects in given.panels or (10, 100, 1000, 10_000):
            report(f"{subjects:,} subjects", one_compartment(subjects), min(given.seeds, 2))
        return
    for name in given.problems:
        report(name, HARD[name]() if name in HARD else example(name), given.seeds)


if __name__ == "__main__":
    main()
