"""Every example model from data to draws with default settings (slow): chains start, move, and do not get stuck."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pathfold as pf
from tests.sampling.test_starts import EXAMPLES, example


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_can_be_sampled(name):
    model, data = example(name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*) has (not converged|few effective draws)")
        warnings.filterwarnings("ignore", "(.*) of the trajectories failed")  # counted below
        tree = pf.sample(model, data, steps_per_interval=20, chains=4, draws=500, seed=1, progress=False)
    failed = np.mean(tree.sample_stats["status"].values != 0, axis=1)
    print(name, failed, tree.sample_stats["step_size"].values[:, 0])
    assert failed.max() < 0.12, failed
    for parameter in model.parameters.names:
        draws = tree.posterior[parameter].values
        assert np.mean(np.diff(draws, axis=1) != 0.0) > 0.7
