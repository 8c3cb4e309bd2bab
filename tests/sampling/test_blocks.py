"""Which states are held between blocks, and what cannot be held."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.example_models import fitzhugh_nagumo
from pathfold.paper.blocks import partitions

BLOCKED = pf.DynamicHMC(observations_per_block=2)


def test_the_partitions_are_the_papers():
    """T = 10, R = 4: after observations 4 and 8, and after 2 and 6; a node without observation does not count."""
    values = np.zeros(11)
    values[3] = np.nan
    grid = TimeGrid.build(
        [pf.Observations(np.arange(1, 12), values), pf.Observations([1.0, 2.0, 3.0], np.zeros(3))], steps_per_interval=2
    )
    first, second = partitions(grid, 4)
    assert first.tolist() == [4, 8]  # the fourth and eighth of the first series
    assert second.tolist() == [1, 6, 12]  # its second and sixth, the second of the other
    assert partitions(grid, 40) == []


@pytest.mark.filterwarnings("ignore:.*few effective draws", "ignore:.*not converged")
def test_states_that_are_held_do_not_move():
    """R = 2, T = 3: one transition holds the second state, the next the first."""
    model = fitzhugh_nagumo.noisy(0.1)
    data = pf.Observations([0.5, 1.0, 1.5], [-0.5, -0.4, -0.6])
    tree = pf.sample(model, data, steps_per_interval=4, chains=1, warmup=0, draws=8, sampler=BLOCKED, progress=False)
    x = tree.posterior["state"].values[0]
    moved = np.any(x[1:] != x[:-1], axis=2)
    assert not moved[0::2, 0].any()  # transitions 1, 3, ... hold the first state
    assert not moved[1::2, 1].any()
    assert moved.any(axis=0).all()
    assert tree.attrs["observations_per_block"] == 2


@pytest.mark.parametrize("R", [1, 0, -3, 2.5, True])
def test_a_block_has_two_observations_or_more(R):
    with pytest.raises(pf.SettingsError, match="observations_per_block must be a whole number of at least 2"):
        pf.DynamicHMC(observations_per_block=R)


def test_exact_observations_of_parameters_cannot_be_held():
    model = pf.DiffusionModel(
        drift=lambda x, z: -x,
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={"offset": dist.Normal(0.0, 1.0)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.Noiseless(lambda x, z: x + z["offset"]),
    )
    data = pf.Observations(np.arange(1, 6), np.zeros(5))
    with pytest.raises(pf.SettingsError, match="an exact observation depends on parameters"):
        pf.sample(model, data, steps_per_interval=2, sampler=BLOCKED, progress=False)


def test_noise_that_does_not_move_the_whole_state_is_named():
    """From a known start one Euler-Maruyama step does not move the integrated component at all."""
    model = pf.DiffusionModel(
        drift=lambda x, z: jnp.array([x[1], -x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [1.0]]),
        parameters={"a": dist.Normal(0.0, 1.0)},
        initial_state=[0.0, 0.0],
        observation=pf.GaussianNoise(lambda x, z: x[:1] + z["a"], 0.5),
    )
    data = pf.Observations(np.arange(1, 7), np.zeros(6))
    with pytest.raises(pf.SettingsError, match="the states between blocks cannot be held"):
        pf.sample(model, data, steps_per_interval=1, sampler=BLOCKED, chains=1, progress=False)
