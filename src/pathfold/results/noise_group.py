"""The noise of the draws that chains hold, as the group `noise` of the results."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from pathfold.model import DiffusionModel, Seen
from pathfold.sampling import Run
from pathfold.sampling.held_noise import Noise
from pathfold.sampling.selection import component_labels

DIMENSIONS = {
    "parameter_noise": ("parameter_normal",),
    "initial_noise": ("series", "initial_normal"),
    "observation_noise": ("interval", "observation_normal"),
    "path_noise": ("interval", "step", "path_normal"),
}


def noise_dataset(run: Run, noise: Noise) -> xr.Dataset:
    """Return the normals of every draw held, by kind, with the states that they give at the nodes; `standard` marks
    those that are standard.

    Where the parameters had a metric M, their normals are centre + factor q, with factor factor^T = M^{-1}.
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
    if metrics := [chain.coordinates for chain in run.chains if chain.coordinates is not None]:
        variables["parameter_centre"] = (["chain", "parameter_normal"], [metric.centre for metric in metrics])
        factors = [metric.factor for metric in metrics]
        variables["parameter_factor"] = (["chain", "parameter_normal", "coordinate"], factors)
    variables["drives"] = ("path_normal", _driven(run.model, noise))
    variables["moves"] = (["path_normal", "observation"], _moved(run.model, noise).T)
    exact = np.asarray(run.grid.mask) & (run.grid.censored == 0)
    variables["observed"] = (["interval", "observation"], exact.astype(np.int64))
    if "observation_noise" in variables:
        variables["observed_column"] = ("observation_normal", noise.columns)
    return xr.Dataset(variables, coordinates)


def _driven(model: DiffusionModel, noise: Noise) -> np.ndarray:
    """Return the component of the state that each normal of a step drives at a draw, -1 if it drives several."""
    moved = _loading(model, noise)[2] != 0.0
    component = np.where(moved.sum(axis=0) == 1, np.argmax(moved, axis=0), -1)
    times, rest = divmod(model.noise_dim, moved.shape[1])
    return np.tile(component, times) if rest == 0 else np.full(model.noise_dim, -1)


def _moved(model: DiffusionModel, noise: Noise) -> np.ndarray:
    """Return whether each normal of a step by itself raises (1) or lowers (-1) each observed column, at a draw."""
    x, z, loading, t = *_loading(model, noise), model.some_clock()
    Y = model.observation_dim
    w, seen = jnp.zeros(model.observation_noise_dim), Seen(np.full(Y, 0.5), np.ones(Y), np.zeros(0), np.zeros(0))
    with jax.enable_x64(True):
        # Compiled, since NumPyro refuses numbers that are not finite, as a logarithm's may be here, but no traced ones.
        slopes = jax.jit(jax.jacfwd(lambda x: model.observation.misfit(x, z, w, t, seen)))(x)
    signs = np.zeros((model.observation_dim, model.noise_dim), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        signs[:, : loading.shape[1]] = np.sign(np.nan_to_num(np.asarray(slopes) @ loading))
    return signs


def _loading(model: DiffusionModel, noise: Noise) -> tuple[Any, Any, np.ndarray]:
    """Return the initial state and the parameters of a draw, and the matrix by which normals enter a step there."""
    z, x0 = noise.z[0, -1], noise.x0[0, -1, 0]
    with jax.enable_x64(True):
        t = model.some_clock()
        x, z = model.in_series(model.parameters.unflatten(jnp.asarray(z)), jnp.asarray(x0), t)
        return x, z, np.asarray(model.scheme.loading(model.sde, z, x, t))
