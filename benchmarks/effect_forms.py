"""Which form of random effects mixes: non-centred as pathfold writes them, or centred, by subjects x observations.

    python benchmarks/effect_forms.py [--subjects 10 50 200] [--observations 1 3 10 50] [--noise small large]
        [--forms non-centred centred] [--draws 300] [--chains 2]
    python benchmarks/effect_forms.py --shares 0.95 0.5 0.1 0.03 [--subjects 50 500] [--draws 500]

Every subject relaxes to a level of its own, at a rate of its own. Non-centred, what is sampled are standard normals e_i
with m_i = mean + spread e_i; centred, it is m_i itself, in units of the true spread about the true mean, so that the
prior of m_i given mean and spread is a factor of the density. Without constraints to tie them together mean and spread
then need a metric, so that the centred form is run with metric="adapted". A row has the effective draws of the slowest
population parameter, the smaller of bulk and tail, per 1,000 steps and a second of core after warm-up, which one it is,
its effective share of the draws, the steps of a draw, and the share of trajectories that failed.

With `--shares` there is one effect, seen once in each subject through known noise, and effects make so large a share of
the variance of what is seen: the mean and the spread by themselves, non-centred (method.md, section 7).
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr

import pathfold as pf
from pathfold.results.convergence import judged

MEAN = {"level": 2.0, "log_rate": 0.0}
SPREAD = {"level": 0.5, "log_rate": 0.4}
NOISE = {"small": {"sigma": 0.02, "tau": 0.02}, "large": {"sigma": 0.3, "tau": 0.5}}
END = 6.0
SAMPLERS = {"non-centred": pf.StaticHMC(integrate=False), "centred": pf.DynamicHMC(metric="adapted")}


class Centred(dist.Normal):
    """A normal distribution without a quantile function: pathfold then samples the value itself, by its density."""

    def icdf(self, q: Any) -> Any:
        raise NotImplementedError


def effect(name: str, form: str) -> dict[str, Any]:
    """Return the priors of an effect, its mean and its spread."""
    mean, spread = f"{name}_mean", f"{name}_spread"
    priors: dict[str, Any] = {
        mean: dist.Normal(MEAN[name], 1.0),
        spread: dist.LogNormal(np.log(SPREAD[name]), 0.7),
    }
    if form == "non-centred":
        return priors | {name: pf.Varying(lambda z: dist.Normal(z[mean], z[spread]))}
    own = f"{name}_own"
    middle, unit = MEAN[name], SPREAD[name]
    return priors | {
        own: pf.Varying(lambda z: Centred((z[mean] - middle) / unit, z[spread] / unit)),
        name: pf.Varying(lambda z: middle + unit * z[own]),
    }


def relaxing(form: str, noise: dict[str, float]) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.exp(z["log_rate"]) * (z["level"] - x),
        diffusion=lambda x, z: z["sigma"].reshape(1, 1),
        parameters={
            **effect("level", form),
            **effect("log_rate", form),
            **{name: dist.LogNormal(np.log(each), 0.7) for name, each in noise.items()},
        },
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, "tau"),
        scheme=pf.ExactLinearDrift(),
    )


def population(subjects: int, observations: int, noise: dict[str, float]) -> list[pf.Observations]:
    """Simulate subjects with effects of their own."""
    model, rng = relaxing("non-centred", noise), np.random.default_rng(1)
    truth = noise | {f"{name}_mean": each for name, each in MEAN.items()}
    truth |= {f"{name}_spread": each for name, each in SPREAD.items()}
    own = [{name: MEAN[name] + SPREAD[name] * rng.standard_normal() for name in MEAN} for _ in range(subjects)]
    times = END / observations * np.arange(1, observations + 1)
    return [pf.simulate(model, truth | each, times, steps_per_interval=1, seed=seed) for seed, each in enumerate(own)]


def one_effect(share: float) -> pf.DiffusionModel:
    """A level of each subject that is seen through noise, with as much of it as leaves effects this share."""
    noise = float(np.sqrt(1.0 / share - 1.0))
    return pf.DiffusionModel(
        drift=lambda x, z: 0.0 * x,
        diffusion=lambda x, z: 1e-3 * jnp.eye(1),
        parameters={
            "mean": dist.Normal(0.0, 3.0),
            "spread": dist.LogNormal(0.0, 0.7),
            "level": pf.Varying(lambda z: dist.Normal(z["mean"], z["spread"])),
        },
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x + z["level"], noise),
    )


def sampled(model: pf.DiffusionModel, data: list[pf.Observations], form: str, draws: int, chains: int) -> xr.DataTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs that are short, or of a form that does not mix
        return pf.sample(
            model,
            data,
            steps_per_interval=1,
            chains=chains,
            draws=draws,
            keep_path="none",
            sampler=SAMPLERS[form],
            threads=1,
            progress=False,
        )


def effective(tree: xr.DataTree, name: str) -> float:
    return min(found.effective for _, _, found in judged(tree.posterior[name]))


def by_share(share: float, subjects: int, draws: int, chains: int) -> str:
    values = np.random.default_rng(1).standard_normal(subjects) / np.sqrt(share)
    tree = sampled(one_effect(share), [pf.Observations([1.0], [y]) for y in values], "non-centred", draws, chains)
    steps = tree.sample_stats["n_steps"].values
    found = ", ".join(f"{name} {effective(tree, name) / steps.size:5.1%}" for name in ("mean", "spread"))
    return f"{subjects:4d} subjects, share {share:4.2f}: {found} of the draws, {steps.mean():5.1f} steps a draw"


def measured(form: str, subjects: int, observations: int, noise: str, draws: int, chains: int) -> str:
    model = relaxing(form, NOISE[noise])
    tree = sampled(model, population(subjects, observations, NOISE[noise]), form, draws, chains)
    found = {name: effective(tree, name) for name in model.parameters.names}
    slowest = min(found, key=lambda name: found[name])
    fewest, steps = found[slowest], tree.sample_stats["n_steps"].values
    seconds = float(np.sum(tree.attrs["main_seconds"]))
    failed = float(np.mean(tree.sample_stats["status"].values != 0))
    return (
        f"{subjects:4d} subjects x {observations:2d}, {noise} noise, {form:11s}: {1e3 * fewest / steps.sum():6.1f} "
        f"per 1,000 steps, {fewest / seconds:7.2f} a second, slowest {slowest:15s} {fewest / steps.size:6.1%} of the "
        f"draws, {steps.mean():5.1f} steps a draw, {failed:.1%} failed"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Which form of random effects mixes.")
    parser.add_argument("--subjects", type=int, nargs="+", default=[10, 50, 200])
    parser.add_argument("--observations", type=int, nargs="+", default=[1, 3, 10, 50])
    parser.add_argument("--noise", nargs="+", default=[*NOISE], choices=[*NOISE])
    parser.add_argument("--forms", nargs="+", default=[*SAMPLERS], choices=[*SAMPLERS])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--shares", type=float, nargs="+")
    options = parser.parse_args()
    if options.shares:
        for subjects, share in product(options.subjects, options.shares):
            print(by_share(share, subjects, options.draws, options.chains), flush=True)
        return
    for noise, subjects, observations, form in product(
        options.noise, options.subjects, options.observations, options.forms
    ):
        print(measured(form, subjects, observations, noise, options.draws, options.chains), flush=True)


if __name__ == "__main__":
    main()
