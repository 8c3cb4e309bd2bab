"""What NumPyro's NUTS takes for the populations of `populations.py`: the same data, priors and exact steps.

    python benchmarks/populations_numpyro.py [--subjects 12 100] [--effects 2 3] [--seconds 300] [--chains 2]
        [--assay 0.4]

The model is written as one would in NumPyro: effects and the noise of each step are standard normals (non-centred), and
a step between samples is the closed form of the drug's equations, with one normal, since noise enters the blood alone.
NUTS has its defaults, in double precision, with a warm-up of 500 iterations and vectorised chains, until the seconds of
core are spent, compiling not counted. A row is like one of `populations.py`.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS
from populations import ASSAY, DOSE, SPREAD, TIMES, TYPICAL, noise, people

from pathfold.results.convergence import convergences

WARMUP = 500


def drug(values: jax.Array, effects: int, assay: float) -> None:
    """The model of `populations.drug`, for the concentrations (subject, sample) of all subjects."""
    varying = ["CL", "V", "ka"][:effects]
    count = len(values)
    own = {}
    for name, each in TYPICAL.items():
        typical = numpyro.sample(f"{name}_typical", dist.LogNormal(np.log(each), 0.7))
        own[name] = jnp.broadcast_to(typical, count)
        if name in varying:
            spread = numpyro.sample(f"{name}_spread", dist.LogNormal(np.log(SPREAD[name]), 0.5))
            own[name] = typical * jnp.exp(spread * numpyro.sample(f"{name}_effect", dist.Normal().expand([count])))
    sigma, tau = (numpyro.sample(name, dist.LogNormal(np.log(each), 0.7)) for name, each in noise(assay).items())
    v = numpyro.sample("v", dist.Normal().expand([len(TIMES), count]))
    ka, k = own["ka"], own["CL"] / own["V"]

    def step(amounts, along):
        (gut, blood), (delta, normal) = amounts, along
        kept, left = jnp.exp(-k * delta), jnp.exp(-ka * delta)
        spread = sigma * jnp.sqrt(-jnp.expm1(-2.0 * k * delta) / (2.0 * k))
        blood = kept * blood + ka * gut * (kept - left) / (ka - k) + spread * normal
        return (left * gut, blood), blood

    start = (DOSE * jnp.ones(count), jnp.zeros(count))
    _, blood = jax.lax.scan(step, start, (jnp.diff(jnp.array([0.0, *TIMES])), v))
    numpyro.sample("y", dist.Normal(blood.T / own["V"][:, None], tau), obs=values)


def measured(count: int, effects: int, seconds: float, chains: int, assay: float) -> str:
    data = jnp.asarray(np.stack([each.values[:, 0] for each in people(count, assay)])), effects, assay
    kernel = NUTS(drug)
    state = kernel.init(jax.random.split(jax.random.PRNGKey(1), chains), WARMUP, None, data, {})
    step = jax.jit(lambda state: kernel.sample(state, data, {})).lower(state).compile()
    shared = [name for name in state.z if name != "v" and not name.endswith("_effect")]
    draws: list[dict[str, Any]] = []
    iterations, steps, diverged = 0, 0, 0
    begin = main = time.process_time()
    while (spent := time.process_time() - begin) < seconds:
        state, iterations = step(state), iterations + 1
        if iterations > WARMUP:
            draws.append({name: np.asarray(state.z[name]) for name in shared})
            steps, diverged = steps + int(state.num_steps.sum()), diverged + int(state.diverging.sum())
        else:
            main = time.process_time()
    if len(draws) < 4:
        return f"{count:6d} subjects, {effects} effects: no draws, {iterations} iterations of warm-up in {spent:.0f} s"
    found = {name: np.exp(np.stack([each[name] for each in draws], axis=1)) for name in shared}  # positive: it has logs
    judged = convergences(np.stack([found[name] for name in shared], axis=-1))
    fewest = min(each.effective for each in judged)
    means = ", ".join(f"{name} {found[name].mean():.4g}" for name in shared)
    return (
        f"{count:6d} subjects, {effects} effects: {1e3 * (begin + spent - main) / steps:8.2f} ms a step, "
        f"{steps / (chains * len(draws)):5.1f} steps a draw, {fewest / spent:8.2f} effective draws a second of core, "
        f"{diverged / (chains * len(draws)):.1%} diverged, R-hat {max(each.rhat for each in judged):.3f}, "
        f"{spent:.0f} s; means {means}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What NumPyro takes for populations.")
    parser.add_argument("--subjects", type=int, nargs="+", default=[12, 100])
    parser.add_argument("--effects", type=int, nargs="+", default=[2], choices=[2, 3])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--assay", type=float, default=ASSAY)
    options = parser.parse_args()
    with jax.enable_x64(True):
        for count in options.subjects:
            for effects in options.effects:
                print(measured(count, effects, options.seconds, options.chains, options.assay), flush=True)


if __name__ == "__main__":
    main()
