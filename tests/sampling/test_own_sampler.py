"""The sampler on the page "A sampler of your own" draws from the posterior, and all that surrounds chains takes it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import xarray as xr

import pathfold as pf
from tests.sampling.comparing import scores, threshold
from tests.sampling.linear_gaussian import Exact, ornstein_uhlenbeck

PAGE = Path(__file__).parents[2] / "docs" / "own_sampler.md"


def test_it_draws_from_the_posterior_in_threads_or_not_and_goes_on(tmp_path):
    sampler, call = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(sampler, names)
    process = ornstein_uhlenbeck(noisy=True)
    model = process.model(known=False)
    data = pf.Observations(0.5 * np.arange(1, 6), np.array([0.2, 0.9, 0.4, -0.3, 0.6]))
    settings: dict[str, Any] = {"chains": 2, "warmup": 0, "thin": 5, "seed": 3, "progress": False}
    given: dict[str, Any] = {"steps_per_interval": 4, "sampler": names["RandomWalk"](length=0.6)}
    tree = pf.sample(model, data, **given, **settings, draws=4000, threads=2)
    found = scores(tree, Exact(process, data, 4).unknown)
    worst = {name: float(np.abs(z).max()) for name, z in found.items()}
    assert max(worst.values()) < threshold(sum(z.size for z in found.values()), 1e-4), worst
    assert 0.05 < tree.sample_stats["acceptance_rate"].mean() < 0.95
    pf.sample(model, data, **given, **settings, draws=2000, threads=1, checkpoint=tmp_path)
    again = pf.sample(model, data, **given, **settings, draws=4000, threads=1, checkpoint=tmp_path)
    xr.testing.assert_equal(again.posterior.to_dataset(), tree.posterior.to_dataset())
    short = SimpleNamespace(sample=lambda *a, **k: pf.sample(*a, **k, **settings, draws=4000))
    names |= {"model": model, "data": data, "pf": short}
    exec(call, names)
    assert names["posterior"].attrs["sampler"] == "RandomWalk"
    assert names["posterior"].attrs["length"] == 0.5
