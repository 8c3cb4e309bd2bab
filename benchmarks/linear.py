"""Seconds of core that an effective draw takes where paths are integrated out, beside the manifold, in one run.

    python -m benchmarks.linear [--cells ou seasons] [--draws 1000] [--chains 2] [--numpyro] [--short]

Cells: 1,000 noisy values of an Ornstein-Uhlenbeck process (4 parameters), 192 months with a level and seasons (12
states, 3 parameters), the example of a building (8 parameters). Draws are those after warm-up, the parameter with
fewest effective ones counts, and the larger R-hat is given. `--numpyro` adds NUTS on a Kalman likelihood
(`jax.lax.scan`, dense metric, vectorised chains one after the other), for the first cell, where NumPyro is installed
with its JAX; `--short` prints what a value with its gradient takes.
"""

from __future__ import annotations

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import IntegratedEngine
from pathfold.engine.native.integrated_paths import integrate_with_gradient
from pathfold.example_models import EXAMPLES
from pathfold.results.convergence import convergence

Case = tuple[pf.DiffusionModel, pf.Observations, int]
TRUTH = {"theta": 1.0, "mu": 0.5, "sigma": 0.7, "tau": 0.2}
PRIORS = {
    "theta": dist.LogNormal(0.0, 0.5),
    "mu": dist.Normal(0.0, 1.0),
    "sigma": dist.LogNormal(np.log(0.7), 0.5),
    "tau": dist.LogNormal(np.log(0.2), 0.5),
}
INTERVAL, START = 0.2, (0.5, 0.6)


def ornstein_uhlenbeck(times: int = 1000) -> Case:
    model = pf.DiffusionModel(
        drift=lambda x, z: -z["theta"] * (x - z["mu"]),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters=PRIORS,
        initial_state=[dist.Normal(*START)],
        observation=pf.GaussianNoise(lambda x, z: x, "tau"),
        scheme=pf.ExactLinearDrift(),
    )
    at = INTERVAL * np.arange(1, times + 1)
    return model, pf.simulate(model, TRUTH, at, steps_per_interval=1, seed=1), 1


def seasons(months: int = 192) -> Case:
    """A level that wanders and eleven seasons, of which the twelfth is what makes them add up to nothing."""

    def step(x, z, v, delta, t):
        season = -jnp.sum(x[1:]) + z["omega"] * v[1]
        return jnp.concatenate([jnp.stack([x[0] + z["sigma"] * v[0], season]), x[1:-1]])

    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.zeros(12),
        diffusion=lambda x, z: jnp.zeros((12, 2)),
        parameters={name: dist.LogNormal(np.log(size), 1.0) for name, size in _SIZES.items()},
        initial_state=dist.Normal(jnp.zeros(12), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x[:1] + x[1:2], "tau"),
        scheme=pf.CustomScheme(step, 2),
    )
    data = pf.simulate(model, dict(_SIZES), np.arange(1.0, months + 1.0), steps_per_interval=1, seed=2)
    return model, data, 1


_SIZES = {"sigma": 0.1, "omega": 0.05, "tau": 0.3}


def building() -> Case:
    example = EXAMPLES["building"]
    data = example.data()
    assert isinstance(data, pf.Observations)
    return example.model(), data, example.steps_per_interval


CELLS = {"ou": ornstein_uhlenbeck, "seasons": seasons, "building": building}


def measured(case: Case, draws: int, chains: int, *, integrate: bool) -> dict[str, float]:
    model, data, steps = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = pf.sample(
            model,
            data,
            steps_per_interval=steps,
            draws=draws,
            chains=chains,
            threads=1,
            seed=3,
            progress=False,
            sampler=pf.StaticHMC(integrate=integrate),
        )
    posterior = tree.posterior.to_dataset()
    values = {name: posterior[name].values for name in model.priors if name in posterior}
    return figures([x for x in values.values() if np.ptp(x) > 0.0], sum(tree.attrs["main_seconds"]))


def figures(samples: list[np.ndarray], seconds: float) -> dict[str, float]:
    found = [convergence(x) for x in samples]
    effective = min(each.effective for each in found)
    return {"ms": 1e3 * seconds / effective, "effective": effective, "rhat": max(each.rhat for each in found)}


def nuts(data: pf.Observations, draws: int, chains: int) -> dict[str, float]:
    """The same posterior by NumPyro, its Kalman likelihood written for one state; compiling is not counted."""
    values = jnp.asarray(data.values[:, 0])

    def model():
        z = {name: numpyro.sample(name, prior) for name, prior in PRIORS.items()}
        kept = jnp.exp(-z["theta"] * INTERVAL)
        spread = z["sigma"] ** 2 * -jnp.expm1(-2.0 * z["theta"] * INTERVAL) / (2.0 * z["theta"])

        def look(state, y):
            mean, variance = state
            mean, variance = z["mu"] + kept * (mean - z["mu"]), kept**2 * variance + spread
            seen = variance + z["tau"] ** 2
            gain = variance / seen
            log_density = -0.5 * (jnp.log(seen) + (y - mean) ** 2 / seen)
            return (mean + gain * (y - mean), (1.0 - gain) * variance), log_density

        _, parts = jax.lax.scan(look, (START[0], START[1] ** 2), values)
        numpyro.factor("y", jnp.sum(parts))

    with jax.enable_x64(True):
        kernel = NUTS(model, dense_mass=True)
        run = MCMC(kernel, num_warmup=500, num_samples=draws, num_chains=chains, progress_bar=False)
        run.warmup(jax.random.PRNGKey(0))
        run.run(jax.random.PRNGKey(1))  # compiles
        run.post_warmup_state = run.last_state
        begin = time.process_time()
        run.run(jax.random.PRNGKey(2))
        samples = run.get_samples(group_by_chain=True)
        return figures([np.asarray(x) for x in samples.values()], time.process_time() - begin)


def of_a_value(case: Case) -> float:
    """Return the microseconds that a value with its gradient takes: the least of twenty means."""
    model, data, steps = case
    engine = IntegratedEngine(model, TimeGrid.build(data, steps_per_interval=steps))
    point, machine, times = engine.block("point"), engine.machine(), []
    for _ in range(20):
        begin = time.process_time()
        for _ in range(50):
            integrate_with_gradient(machine, point)
        times.append((time.process_time() - begin) / 50)
    return 1e6 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=[*CELLS])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--numpyro", action="store_true")
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args()
    print("| cell | method | ms of core an effective draw | effective | R-hat |\n|---|---|---|---|---|")
    for name in given.cells:
        case = CELLS[name]()
        if given.short:
            print(f"| {name} | a value with its gradient | {1e-3 * of_a_value(case):.3f} | | |")
            continue
        rows = {"integrated": measured(case, given.draws, given.chains, integrate=True)}
        rows["manifold"] = measured(case, given.draws, given.chains, integrate=False)
        if given.numpyro and name == "ou":
            rows["NumPyro NUTS"] = nuts(case[1], given.draws, given.chains)
        for method, f in rows.items():
            print(f"| {name} | {method} | {f['ms']:.3f} | {f['effective']:.0f} | {f['rhat']:.3f} |", flush=True)


if __name__ == "__main__":
    main()
