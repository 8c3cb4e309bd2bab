"""Draws carried forward, against the model's own step, one fine step after the other, with the same noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import forward as module
from pathfold.engine.forward import forward
from tests.analysis.rich import model, panel


def stepped(grid: TimeGrid, z, starts, rng, after_data) -> np.ndarray:
    """The twin: states (D, N, X) at all nodes, with the noise in the order in which the kernel draws it."""
    m, S, held = model(), grid.steps, min(grid.steps, module.STEPS_AT_ONCE)
    step = jax.jit(jax.vmap(lambda z, x, v, delta, t: m.step(m.parameters.unflatten(z), x, v, delta, t),
                            (0, 0, 0, None, None)))  # fmt: skip
    forcing = m.forcing(grid, after_data)[0]
    states = np.empty((len(z), len(grid.starts), m.state_dim))
    for begin in range(0, len(z), module.ABREAST_DRAWS):
        some = slice(begin, begin + module.ABREAST_DRAWS)
        x = noise = np.empty(0)
        for n in range(len(grid.starts)):
            if n in grid.first:
                x = starts[some, grid.first.tolist().index(n)]
            for s in range(S):
                if s % held == 0:
                    noise = rng.standard_normal((held, m.noise_dim, module.ABREAST_DRAWS))
                v = noise[s % held].T[: len(x)]
                t = m.clock(jnp.asarray(grid.starts[n] + s * grid.delta[n]), jnp.asarray(forcing[n, s]))
                x = np.asarray(step(z[some], x, v, grid.delta[n], t))
            states[some, n] = x[:, : m.state_dim]
    return states


@pytest.mark.parametrize("after_data", [None, np.array([True, False])])
def test_every_draw_has_the_states_of_the_model_s_step(monkeypatch, after_data):
    """More draws than lanes, more steps than are held, accumulators, events, inputs, what varies."""
    monkeypatch.setattr(module, "STEPS_AT_ONCE", 3)
    grid = TimeGrid.build(panel(), steps_per_interval=4)
    rng = np.random.default_rng(5)
    D = module.ABREAST_DRAWS + 3
    z = np.column_stack([rng.normal(size=D), rng.uniform(0.2, 1.0, D), rng.normal(size=D)])
    starts = rng.normal(size=(D, 2, model().augmented_dim))
    found = forward(model()).run(
        grid, z, starts, np.random.default_rng(6), keep=np.ones(len(grid.starts), dtype=bool), after_data=after_data
    )
    with jax.enable_x64(True):
        expected = stepped(grid, z, starts, np.random.default_rng(6), after_data)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_function_that_cannot_be_compiled_is_named():
    base = model()
    odd = pf.DiffusionModel(
        drift=lambda x, z: jnp.fft.ifft(jnp.fft.fft(x)).real,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={},
        initial_state=[0.0],
        observation=pf.Noiseless(lambda x, z: x),
    )
    assert forward(base) is forward(base), "it is kept with the model"
    with pytest.raises(pf.ModelError, match="drift cannot be compiled to a scalar program"):
        forward(odd)
