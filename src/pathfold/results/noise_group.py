"""The noise of the draws that chains hold, as the group `noise` of the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.special import ndtri_exp

from pathfold.data import Seen
from pathfold.model import DiffusionModel, Likelihood
from pathfold.sampling import Run
from pathfold.sampling.held_noise import Noise
from pathfold.sampling.selection import component_labels

DIMENSIONS = {
    "parameter_noise": ("parameter_normal",),
    "initial_noise": ("series", "initial_normal"),
    "observation_noise": ("interval", "observation_normal"),
    "path_noise": ("interval", "step", "path_normal"),
}

NOTHING = -2  # is driven


def noise_dataset(run: Run, noise: Noise) -> xr.Dataset:
    """Return the normals of every draw held, by kind, with the states that they give at the nodes; `standard` marks
    those that are standard.

    `drives` is the component that each normal of a step drives: NOTHING if none at all, -1 if several. Likelihoods and
    bounds have no standard normals of their own: where they have a distribution function, `observation_score` has the
    normal scores of the values given the state, which are standard normals too.
    """
    variables: dict[str, Any] = {}
    for letter, (name, dims) in zip(("u", "v0", "w", "v"), DIMENSIONS.items(), strict=True):
        values = getattr(noise, letter)
        if values.size:
            standard = np.broadcast_to(noise.standard[letter], values.shape[-1:]).astype(np.int64)
            variables[name] = (["chain", "draw", *dims], values, {"standard": standard})
    initial_states = noise.x0[..., : run.model.state_dim]
    variables["initial_state"] = (["chain", "draw", "series", "component"], initial_states)
    variables["state"] = (["chain", "draw", "interval", "component"], noise.nodes)
    coordinates: dict[str, Any] = {"chain": [chain.chain for chain in run.chains], "draw": noise.draws}
    coordinates |= {
        "component": component_labels(run.model),
        "observation": [*(run.model.observed or run.grid.components)],
        "series": [*run.grid.series],
    }
    for kind, names in (("parameter", noise.parameters), ("initial", noise.of_series)):
        if f"{kind}_noise" in variables:
            coordinates[f"{kind}_normal"] = names
    variables["drives"] = ("path_normal", _driven(run, noise))
    variables["moves"] = (["path_normal", "observation"], _moved(run.model, noise).T)
    exact = np.asarray(run.grid.mask) & (run.grid.censored == 0)
    variables["observed"] = (["interval", "observation"], exact.astype(np.int64))
    if "observation_noise" in variables:
        variables["observed_column"] = ("observation_normal", noise.columns)
    if np.any(run.grid.censored) or np.any(_by_likelihood(run.model)):
        variables["observation_score"] = (["chain", "draw", "interval", "observation"], _scores(run, noise))
    return xr.Dataset(variables, coordinates)


def _driven(run: Run, noise: Noise) -> np.ndarray:
    """Return the component of the state that each normal of a step drives at a draw, -1 if several, NOTHING if none."""
    moved = _loading(run.model, noise)[2] != 0.0
    component = np.where(moved.sum(axis=0) == 1, np.argmax(moved, axis=0), -1)
    times, rest = divmod(run.model.noise_dim, moved.shape[1])
    driven = np.tile(component, times) if rest == 0 else np.full(run.model.noise_dim, -1)
    return driven if moved.any(axis=0).all() else np.where(_enters(run, noise), driven, NOTHING)


def _enters(run: Run, noise: Noise) -> np.ndarray:
    """Return whether each normal moves the state after a step, from any of the nodes of a draw."""
    model, grid = run.model, run.grid
    v, delta = jnp.full(model.noise_dim, 0.5), float(np.median(grid.delta[grid.delta > 0.0]))

    def slopes(x, t):
        x, z = model.in_series(model.parameters.unflatten(jnp.asarray(noise.z[0, -1])), x, t)
        return jax.jacfwd(lambda v: model.scheme.step(model.sde, z, x, v, delta, t))(v)

    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(slopes))(_with_own(run, noise, 0, -1), model.clocks(grid)[1])
    return np.any(np.asarray(found) != 0.0, axis=(0, 1))


def _with_own(run: Run, noise: Noise, chain: int, draw: int) -> np.ndarray:
    """Return the states of a draw at all nodes, followed by what varies between series."""
    own = noise.x0[chain, draw][run.grid.series_of_intervals, run.model.state_dim :]
    return np.concatenate([noise.nodes[chain, draw], own], axis=1)


def _by_likelihood(model: DiffusionModel) -> np.ndarray:
    """Mark the observed columns (Y,) that have a likelihood."""
    return np.concatenate([np.full(part.dim, isinstance(part, Likelihood)) for _, part in model.observation.parts])


def _scores(run: Run, noise: Noise) -> np.ndarray:
    """Return the normal scores (chain, draw, interval, Y) of values given the state, NaN where they are not known.

    The score is positive where the value is higher than expected. Where the distribution function jumps, random numbers
    say how far within the jump, and for a censored value, how far between its bounds.
    """
    model, grid = run.model, run.grid
    uniform = np.random.default_rng(run.settings["seed"]).random((*noise.nodes.shape[:3], model.observation_dim))

    found = np.full(uniform.shape, np.nan)
    with jax.enable_x64(True):
        compiled = model.kept.get(_compiled_ranks, model)
        at_nodes = jax.tree.map(lambda array: jnp.asarray(array, float), (model.clocks(grid)[1], grid.seen()))
        for k, i in np.ndindex(*noise.z.shape[:2]):
            logs = np.minimum(compiled(noise.z[k, i], _with_own(run, noise, k, i), uniform[k, i], *at_nodes), 0.0)
            below, above = ndtri_exp(np.moveaxis(logs, 1, 0))
            found[k, i] = np.where(below < 0.0, below, -above)
    return np.where(grid.mask, found, np.nan)


def _compiled_ranks(model: DiffusionModel) -> Callable[..., Any]:
    """Return `log_ranks` of the observation as a function of parameters and, at each node, state and value."""

    def log_ranks(z, x, uniform, t, seen):
        x, named = model.in_series(model.parameters.unflatten(z), x, t)
        return model.observation.log_ranks(x, named, uniform, t, seen)

    return jax.jit(jax.vmap(log_ranks, (None, 0, 0, 0, 0)))


def _moved(model: DiffusionModel, noise: Noise) -> np.ndarray:
    """Return whether each normal of a step by itself raises (1) or lowers (-1) each observed column, at a draw."""
    x, z, loading, t = *_loading(model, noise), model.some_clock()
    Y = model.observation_dim
    with jax.enable_x64(True):
        w, none = jnp.zeros(model.observation_noise_dim), jnp.zeros(0)
        seen = Seen(jnp.full(Y, 0.5), jnp.ones(Y), none, none)
        # Compiled, since NumPyro refuses numbers that are not finite, as a logarithm's may be here, but no traced ones.
        slopes = jax.jit(jax.jacfwd(lambda x: model.observation.misfit(x, z, w, t, seen)))(x)
    signs = np.zeros((model.observation_dim, model.noise_dim), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        signs[:, : loading.shape[1]] = np.sign(np.nan_to_num(np.asarray(slopes) @ loading))
    return np.where(_by_likelihood(model)[:, None], -signs, signs)  # whose roots fall as values rise


def _loading(model: DiffusionModel, noise: Noise) -> tuple[Any, Any, np.ndarray]:
    """Return the initial state and the parameters of a draw, and the matrix by which normals enter a step there."""
    z, x0 = noise.z[0, -1], noise.x0[0, -1, 0]
    with jax.enable_x64(True):
        t = model.some_clock()
        x, z = model.in_series(model.parameters.unflatten(jnp.asarray(z)), jnp.asarray(x0), t)
        return x, z, np.asarray(model.scheme.loading(model.sde, z, x, t))
