"""Seconds that pf.fit takes after compiling, over observations, fine steps, parameters and series, on one thread.

For each size: the mode with its curvature, and the whole fit with verdict, each the least of three; and pf.sample with
`--sample`, by its time for 400 effective draws. `--quick` does the small sizes alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.example_models import EXAMPLES
from pathfold.inference.fit.fit import prepare_marginal
from pathfold.inference.fit.mode_search import find_modes
from pathfold.results.convergence import judged

Case = tuple[str, pf.DiffusionModel, pf.Observations | list[pf.Observations], int]


def fitzhugh_nagumo(times: int, steps: int) -> Case:
    example = EXAMPLES["fitzhugh_nagumo"]
    model, truth = example.model(), example.truth
    assert truth is not None
    t = 0.2 * np.arange(1, times + 1)
    data = pf.simulate(model, truth, t, initial_state=[-0.5, -0.5], steps_per_interval=50, seed=0)
    return f"FitzHugh-Nagumo, T = {times}, S = {steps}", model, data, steps


def forced(parameters: int) -> Case:
    """A state driven by a sum of sines, each with an unknown weight."""
    frequencies = np.arange(1, parameters + 1)

    def drift(x, z, t):
        return z["weights"] @ jnp.sin(0.3 * frequencies * t) - x

    model = pf.DiffusionModel(
        drift=lambda x, z, t: drift(x, z, t) * jnp.ones(1),
        diffusion=lambda x, z: jnp.array([[0.3]]),
        parameters={"weights": dist.Normal(jnp.zeros(parameters), 1.0)},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.normal(0.0, 0.3, size=(100, 1)), axis=0)
    return f"{parameters} parameters, T = 100, S = 5", model, pf.Observations(0.5 * np.arange(1, 101), values), 5


def panel(series: int) -> Case:
    model = pf.DiffusionModel(
        drift=lambda x, z: z["rate"] * (z["level"] - x),
        diffusion=lambda x, z: jnp.array([[z["sigma"]]]),
        parameters={
            "rate": dist.LogNormal(0.0, 0.5),
            "mean": dist.Normal(0.0, 1.0),
            "sigma": dist.LogNormal(-1.0, 0.5),
            "level": pf.Varying(lambda z: dist.Normal(z["mean"], 0.5)),
        },
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.1),
    )
    rng, times = np.random.default_rng(0), 0.5 * np.arange(1, 11)
    levels = rng.normal(0.3, 0.5, size=series)
    data = [pf.Observations(times, (1.0 - np.exp(-times))[:, None] * m + rng.normal(0.0, 0.2, (10, 1))) for m in levels]
    return f"{series} series, T = 10, S = 5", model, data, 5


def cases(quick: bool) -> Iterator[Case]:
    for times, steps in ((100, 25), (100, 50), (200, 25)) if quick else ((100, 25), (100, 100), (400, 25), (1600, 25)):
        yield fitzhugh_nagumo(times, steps)
    yield from (forced(count) for count in ((2, 8) if quick else (2, 5, 10, 20)))
    yield from (panel(count) for count in ((10, 40) if quick else (10, 100, 1000)))


def least(function, repeats: int = 3) -> float:
    """The least processor time of some calls, after one that compiles."""
    function()
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def sampled(model: pf.DiffusionModel, data, steps: int) -> float:
    """Seconds of pf.sample for 400 effective draws of the slowest parameter, warm-up included."""
    tree = pf.sample(model, data, steps_per_interval=steps, draws=500, keep_path="none", progress=False, threads=1)
    effective = min(each.effective for name in model.priors for *_, each in judged(tree.posterior[name]))
    main = float(np.sum(tree.attrs["main_seconds"]))
    return float(np.sum(tree.attrs["chain_seconds"])) - main + main * 400.0 / effective


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sample", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, model, data, steps in cases(args.quick):
        grid = TimeGrid.build(data, steps_per_interval=steps)
        marginal = prepare_marginal(model, grid, threads=1, prior=True)
        mode = least(lambda marginal=marginal: find_modes(marginal, 1, 0))
        whole = least(
            lambda model=model, data=data, steps=steps: pf.fit(model, data, steps_per_interval=steps, threads=1)
        )
        beside = f", pf.sample {sampled(model, data, steps):.2f} s" if args.sample else ""
        print(f"{name}: mode and curvature {mode:.3f} s, fit {whole:.2f} s{beside}", flush=True)


if __name__ == "__main__":
    main()
