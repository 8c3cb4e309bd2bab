"""Draw the picture of the README: the recovery of a neuron, never observed, from exact values of its potential.

    python scripts/readme_figure.py

FitzHugh-Nagumo's model, as in the README. One path is simulated; every 25th value of its first component is the data,
its second component the truth that the bands have to hold.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pathfold as pf
from pathfold.example_models import fitzhugh_nagumo

FILE = Path(__file__).parents[1] / "docs" / "figures" / "recovery.png"
STEPS, OBSERVATIONS, SPACING = 25, 60, 0.2


def main() -> None:
    model = fitzhugh_nagumo.noiseless()
    seen_whole = pf.DiffusionModel(
        fitzhugh_nagumo.drift,
        fitzhugh_nagumo.diffusion,
        model.priors,
        fitzhugh_nagumo.INITIAL_STATE,
        pf.Noiseless(lambda x, z: x),
        model.scheme,
    )
    times = SPACING / STEPS * np.arange(1, STEPS * OBSERVATIONS + 1)
    path = pf.simulate(seen_whole, fitzhugh_nagumo.TRUTH, times, steps_per_interval=40, seed=1).values
    data = pf.Observations(times[STEPS - 1 :: STEPS], path[STEPS - 1 :: STEPS, :1])
    posterior = pf.sample(model, data, steps_per_interval=STEPS, keep_path="all", seed=1)

    figure = pf.plot_paths(posterior, truth=path)
    figure.set_size_inches(9.0, 4.2)
    top, bottom = figure.axes
    top.set_ylabel("membrane potential,\nobserved exactly")
    bottom.set_ylabel("recovery,\nnever observed")
    bottom.set_xlim(0.0, SPACING * OBSERVATIONS)
    figure.savefig(FILE, dpi=110)
    low, high = posterior.posterior["state"][..., 1].quantile([0.025, 0.975], ("chain", "draw")).values
    held = np.mean((low <= path[:, 1]) & (path[:, 1] <= high))
    print(f"{FILE.name}, {FILE.stat().st_size / 1000:.0f} kB; the 95 % band holds the truth {held:.1%} of the time")


if __name__ == "__main__":
    main()
