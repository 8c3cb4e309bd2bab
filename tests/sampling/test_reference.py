"""The authors' own code as a reference (slow): FitzHugh-Nagumo observed without noise, 100 observations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pathfold as pf
from pathfold.example_models import fitzhugh_nagumo
from tests.sampling.comparing import array_stats, threshold

FALSE_ALARMS = 1e-3  # of this file
DATA = Path(__file__).parent / "data" / "fhn_noiseless_T100.csv"

# Mean, standard deviation and Monte-Carlo standard error of the mean, from 4 chains of 1,000 draws of the Python
# package that accompanies the paper (commit a96a769); the prior mean of the initial state is [0; -beta] there.
REFERENCE = {
    "sigma": (0.2883, 0.02584, 0.00062),
    "epsilon": (0.09966, 0.008515, 0.00020),
    "gamma": (1.5052, 0.1602, 0.0025),
    "beta": (0.80081, 0.1200, 0.0017),
    "x_0[0]": (-0.68813, 0.5719, 0.0075),
    "x_0[1]": (0.23736, 0.1200, 0.0016),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(.*) of the trajectories failed")  # counted below
@pytest.mark.parametrize(
    ("sampler", "failures"), [(pf.StaticHMC(), 0.01), (pf.DynamicHMC(), 0.06)], ids=["static", "dynamic"]
)
def test_means_and_deviations_are_those_of_the_authors(sampler, failures):
    times, values = np.loadtxt(DATA, delimiter=",", skiprows=1, unpack=True)
    tree = pf.sample(
        fitzhugh_nagumo.noiseless(),
        pf.Observations(times, values),
        steps_per_interval=25,
        chains=4,
        warmup=250,
        draws=2000,
        seed=1,
        sampler=sampler,
        keep_path="none",
        progress=False,
    )
    assert np.mean(tree.sample_stats["status"].values != 0) < failures
    draws = {name: tree.posterior[name].values for name in ("sigma", "epsilon", "gamma", "beta")}
    draws |= {f"x_0[{i}]": tree.posterior["initial_state"].values[..., i] for i in (0, 1)}
    scores = {}
    for name, (mean, sd, mcse) in REFERENCE.items():
        x = draws[name]
        scores[f"{name} mean"] = (x.mean() - mean) / np.hypot(mcse, float(array_stats.mcse(x, method="mean")))
        # The table has no error of the standard deviation: for about Gaussian posteriors it is 1 / sqrt(2) of that of
        # the mean when draws of squares are as effective as draws, and they are less so; twice that is taken.
        error = np.hypot(np.sqrt(2.0) * mcse, float(array_stats.mcse(x, method="sd")))
        scores[f"{name} sd"] = (x.std() - sd) / error
    print({name: round(float(z), 2) for name, z in scores.items()})
    assert np.abs([*scores.values()]).max() < threshold(len(scores), 0.5 * FALSE_ALARMS), scores
