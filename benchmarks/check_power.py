"""What `pf.check` sees: how often it finds a model amiss that is right, and one that is wrong in one of ten ways.

The model is an Ornstein-Uhlenbeck process with unknown rate, level, volatility and errors, seen at 100 times: for it
Kalman's filter gives the innovations, and the usual tests of these (Jarque and Bera's of normality, Levene's of the two
halves, the first autocorrelation; Bonferroni's rule over the three) are what `pf.check` is put beside. Data come from
the model's own fine steps, so that what is called right is right: there the parameters are drawn from their priors.

`python -m benchmarks.check_power --runs 100` makes so many runs of each departure and five times as many of the right
model, about a second each, saves counts in `benchmarks/check_power.json`, goes on where it was stopped, and prints the
table of docs/after.md. `--sizes` makes the table beside it: how often tests of one-step residuals reject a right model
at a level of 5 %, for errors of several distributions and 100, 400 and 1,000 values. Nothing is sampled: parameters are
drawn from their priors, and the residuals are those of four draws at these parameters, each with particles of its own
where errors are not normal or lognormal, for which residuals are exact.
The first column has all tests by the rule of `pf.check`, the others single tests of one draw, for which no bound makes
up. The counts are in `benchmarks/check_sizes.json`. `--processes 16` makes so many runs at once.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats

import pathfold as pf
from pathfold.analysis.channels import Channel
from pathfold.analysis.check import gathered
from pathfold.analysis.innovations import filter_of
from pathfold.analysis.noise_tests import When, moments, over_time, shape
from pathfold.data import TimeGrid

FOLDER = Path(__file__).parent
TIMES, STEPS = 0.5 * np.arange(1, 101), 3
H = 0.5 / STEPS
TRUTH = {"rate": 0.8, "level": 0.0, "sigma": 0.6, "tau": 0.2}
LEVEL = 0.05
TESTS = ("pf.check", "with pf.residuals", "innovations")

DRAWS, PARTICLES = 4, 1000


def model_with(observation: Any) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * (x - z["level"]),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={
            "rate": dist.LogNormal(0.0, 0.7),
            "level": dist.Normal(0.0, 1.0),
            "sigma": dist.LogNormal(-0.5, 0.7),
            "tau": dist.LogNormal(-1.5, 0.5),
        },
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=observation,
    )


model = model_with(pf.GaussianNoise(lambda x, z: x, "tau"))
LAWS: dict[str, Callable[[Any, Any], dist.Distribution]] = {
    "normal": lambda x, z: dist.Normal(x[0], z["tau"]),
    "Student's t, 3 degrees": lambda x, z: dist.StudentT(3.0, x[0], z["tau"]),
    "Student's t, 5 degrees": lambda x, z: dist.StudentT(5.0, x[0], z["tau"]),
    "Laplace": lambda x, z: dist.Laplace(x[0], z["tau"]),
    "lognormal": lambda x, z: dist.LogNormal(x[0], z["tau"]),
    "gamma, shape 2": lambda x, z: dist.Gamma(2.0, 2.0 * jnp.exp(-x[0])),
}
LENGTHS = (100, 400, 1000)
SIZES = ("rule of pf.check", "tails", "shape", "variance", "mean")


def path(
    rng: np.random.Generator,
    truth: dict[str, float],
    *,
    drift: Callable[[float, float], float] | None = None,
    volatility: Callable[[float], float] = lambda t: 1.0,
    jumps: np.ndarray | None = None,
) -> np.ndarray:
    """States at the times, by Euler's scheme with the model's fine steps."""
    drift = drift or (lambda x, t: -truth["rate"] * (x - truth["level"]))
    x, out = rng.normal(), []
    for n in range(len(TIMES)):
        for s in range(STEPS):
            t = H * (STEPS * n + s)
            x += H * drift(x, t) + truth["sigma"] * volatility(t) * np.sqrt(H) * rng.normal()
        x += 0.0 if jumps is None else jumps[n]
        out.append(x)
    return np.array(out)


def few(rng: np.random.Generator, count: int, size: float) -> np.ndarray:
    """So many values of this size, of either sign, at random times; zeros elsewhere."""
    out = np.zeros(len(TIMES))
    out[rng.choice(len(TIMES), count, replace=False)] = size * rng.choice([-1.0, 1.0], count)
    return out


def normals(rng: np.random.Generator) -> np.ndarray:
    return TRUTH["tau"] * rng.normal(size=len(TIMES))


def from_prior(rng: np.random.Generator) -> dict[str, float]:
    return {
        "rate": np.exp(0.7 * rng.normal()),
        "level": rng.normal(),
        "sigma": np.exp(-0.5 + 0.7 * rng.normal()),
        "tau": np.exp(-1.5 + 0.5 * rng.normal()),
    }


def right(rng: np.random.Generator) -> np.ndarray:
    truth = from_prior(rng)
    return path(rng, truth) + truth["tau"] * rng.normal(size=len(TIMES))


def alternating_errors(rng: np.random.Generator) -> np.ndarray:
    """Errors of standard deviation 0.4 that alternate: their correlation is -0.8 from one time to the next."""
    e = rng.normal(size=len(TIMES))
    for n in range(1, len(e)):
        e[n] = -0.8 * e[n - 1] + 0.6 * e[n]
    return path(rng, TRUTH) + 0.4 * e


RIGHT = "none: the model is right"
CASES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    RIGHT: right,
    "one error of ten standard deviations": lambda rng: path(rng, TRUTH) + normals(rng) + few(rng, 1, 2.0),
    "six errors of ten standard deviations": lambda rng: path(rng, TRUTH) + normals(rng) + few(rng, 6, 2.0),
    "errors of Student's t, two degrees of freedom": lambda rng: (
        path(rng, TRUTH) + TRUTH["tau"] * rng.standard_t(2, size=len(TIMES))
    ),
    "errors three times as large in the second half": lambda rng: (
        path(rng, TRUTH) + normals(rng) * np.where(TIMES > 25.0, 3.0, 1.0)
    ),
    "volatility 2.5 times as large in the second half": lambda rng: (
        path(rng, TRUTH, volatility=lambda t: 2.5 if t >= 25.0 else 1.0) + normals(rng)
    ),
    "three jumps of 2 in the path": lambda rng: path(rng, TRUTH, jumps=few(rng, 3, 2.0)) + normals(rng),
    "level 2 higher in the second half": lambda rng: (
        path(rng, TRUTH, drift=lambda x, t: -TRUTH["rate"] * (x - 2.0 * (t >= 25.0))) + normals(rng)
    ),
    "a season in the level, amplitude 1, period 12": lambda rng: (
        path(rng, TRUTH, drift=lambda x, t: -TRUTH["rate"] * (x - np.sin(2.0 * np.pi * t / 12.0))) + normals(rng)
    ),
    "two wells, drift 2 tanh(2 x) - 1.5 x": lambda rng: (
        path(rng, TRUTH, drift=lambda x, t: 2.0 * np.tanh(2.0 * x) - 1.5 * x) + normals(rng)
    ),
    "errors that alternate, correlation -0.8": alternating_errors,
}


def innovations(y: np.ndarray, z: dict[str, float]) -> np.ndarray:
    """Of Kalman's filter, for the fine steps of the model; standard normal if z is the truth."""
    slope = 1.0 - z["rate"] * H
    a, q = slope**STEPS, z["sigma"] ** 2 * H * sum(slope ** (2 * i) for i in range(STEPS))
    mean, variance, out = 0.0, 1.0, []
    for value in y:
        mean, variance = z["level"] + a * (mean - z["level"]), a * a * variance + q
        total = variance + z["tau"] ** 2
        out.append((value - mean) / np.sqrt(total))
        mean, variance = mean + variance / total * (value - mean), variance * z["tau"] ** 2 / total
    return np.array(out)


def innovation_p_value(r: np.ndarray) -> float:
    """The smallest p-value of three tests of the innovations, by Bonferroni's rule."""
    half = len(r) // 2
    lag = np.corrcoef(r[1:], r[:-1])[0, 1] * np.sqrt(len(r))
    found = [stats.jarque_bera(r).pvalue, stats.levene(r[:half], r[half:]).pvalue, 2.0 * stats.norm.sf(abs(lag))]
    return 3.0 * float(min(found))


def run(name: str, number: int) -> list[bool]:
    """Whether each of the tests finds something amiss."""
    y = CASES[name](np.random.default_rng([list(CASES).index(name), number]))
    data = pf.Observations(TIMES, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = pf.sample(
            model, data, steps_per_interval=STEPS, chains=1, warmup=200, draws=160, seed=number, threads=1,
            progress=False,
        )  # fmt: skip
    ahead = pf.residuals(model, data, posterior, draws=5, particles=PARTICLES, seed=number, threads=1)
    middle = {name: float(posterior.posterior[name].mean()) for name in TRUTH}
    kalman = innovation_p_value(innovations(y, middle))
    return [not pf.check(posterior).passed, not pf.check(ahead).passed, kalman < LEVEL]


@cache
def model_of(law: str) -> pf.DiffusionModel:
    return model_with(pf.Likelihood(LAWS[law]))


def run_sizes(cell: str, number: int) -> list[bool]:
    """Whether all tests of four draws together, and some of a single draw, reject the model that is right."""
    law, length = cell.split("; ")
    right_model, rng = model_of(law), np.random.default_rng([list(LAWS).index(law), int(length), number])
    truth, times = from_prior(rng), 0.5 * np.arange(1, int(length) + 1)
    data = pf.simulate(right_model, truth, times, steps_per_interval=STEPS, seed=int(rng.integers(2**31)))
    z = np.array([[truth[name] for name in right_model.parameters.names]] * DRAWS)
    grid = TimeGrid.build(data, steps_per_interval=STEPS)
    scores = filter_of(right_model, grid, PARTICLES).residuals(z, number)[0][:, :, 0]
    rows = np.arange(int(length))
    source = Channel("ahead", "y", scores, rows, times - 0.5, times, np.zeros_like(rows))
    tests = [*shape(source, When([""], [None])), *over_time(source), *moments(source)]
    alone = {test.family: bool(test.p_values[0] < LEVEL) for test in tests}
    return [not gathered([tests], LEVEL, DRAWS).passed, *(alone[name] for name in SIZES[1:])]


def table(found: dict[str, dict[str, Any]], head: str, tests: tuple[str, ...]) -> str:
    lines = [f"| {head} | runs | " + " | ".join(tests) + " |", "|---|---|" + "---|" * len(tests)]
    for name, each in found.items():
        shares = [f"{100 * count / each['runs']:.3g} %" for count in each["found"]]
        lines.append(f"| {name} | {each['runs']} | {' | '.join(shares)} |")
    return "\n".join(lines)


def counted(
    file: Path, wanted: dict[str, int], one: Callable[[str, int], list[bool]], tests: int, processes: int
) -> dict[str, dict[str, Any]]:
    """Make the runs that are missing in a file of counts; runs are counted in order, so that it can be stopped."""
    found = json.loads(file.read_text()) if file.exists() else {}
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for name, runs in wanted.items():
            each = found.setdefault(name, {"runs": 0, "found": [0] * tests})
            for seen in pool.map(partial(one, name), range(each["runs"], runs)):
                each["found"] = [count + hit for count, hit in zip(each["found"], seen, strict=True)]
                each["runs"] += 1
                file.write_text(json.dumps(found, indent=2) + "\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="How often pf.check finds a model amiss.")
    parser.add_argument(
        "--runs", type=int, default=100, help="of each departure, five times as many of the right model; of each size"
    )
    parser.add_argument("--sizes", action="store_true", help="how often right models are rejected, by errors")
    parser.add_argument("--processes", type=int, default=1, help="how many runs to make at once")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.sizes:
        wanted = {f"{law}; {length}": options.runs for law, length in product(LAWS, LENGTHS)}
        found = counted(FOLDER / "check_sizes.json", wanted, run_sizes, len(SIZES), options.processes)
        print(table(found, "errors; values", SIZES))
    else:
        wanted = {name: 5 * options.runs if name == RIGHT else options.runs for name in CASES}
        found = counted(FOLDER / "check_power.json", wanted, run, len(TESTS), options.processes)
        print(table(found, "departure", TESTS))


if __name__ == "__main__":
    main()
