"""Checks of what a model is made of, on shapes and at prior draws."""

from typing import Any

import numpy as np

from pathfold.errors import ModelError, told
from pathfold.model.discrete_model import DiscreteModel
from pathfold.model.functions import result_shape, struct, try_twice
from pathfold.model.likelihood import Several
from pathfold.model.observation import Observation
from pathfold.schemes import CustomScheme


def as_one(observation: Any) -> Observation:
    """Return the user's observation, or list of them, as one; raise ModelError for anything else."""
    parts = tuple(observation) if isinstance(observation, list | tuple) else (observation,)
    if not parts:
        raise ModelError("observation is an empty list; give at least one")
    for part in parts:
        if not isinstance(part, Observation):
            raise ModelError(
                "observation must be pf.Noiseless(h), pf.GaussianNoise(mean, scale), pf.Likelihood(f) or "
                f"pf.NoisyObservation(h, noise), or a list of these, not {told(part)}"
            )
    return parts[0] if len(parts) == 1 else Several(parts)


def checked_wiener_dim(model: DiscreteModel, drift: Any, diffusion: Any) -> int:
    """Return the number of Wiener processes; raise ModelError unless drift and diffusion fit to the state."""
    x, z, t = struct(model.state_dim), model.structs(), model.time_struct()
    dim, fixed = model.state_dim, f"initial_state fixes the number of states, {model.state_dim}"
    if (shape := result_shape("drift", drift, (x, z, t))) != (dim,):
        raise ModelError(f"drift returned shape {shape}, expected ({dim},): {fixed}; give both the same")
    try_twice("drift", drift, (x, z, t))
    shape = result_shape("diffusion", diffusion, (x, z, t))
    if len(shape) != 2 or shape[0] != dim or shape[1] == 0:
        raise ModelError(
            f"diffusion returned shape {shape}, expected ({dim}, B), a row for each state and a column for each "
            f"Wiener process: write one column as b[:, None], independent noises as jnp.diag(b); {fixed}"
        )
    try_twice("diffusion", diffusion, (x, z, t))
    return shape[1]


def check_step(model: DiscreteModel) -> None:
    """Raise ModelError unless the scheme makes a state of a state."""
    x, z, v = struct(model.state_dim), model.structs(), struct(model.noise_dim)
    examples = (z, x, v, struct(), model.time_struct())
    shape = result_shape("the scheme's step", model.state_step, examples)
    if shape != (model.state_dim,):
        raise ModelError(f"the scheme's step returned shape {shape}, expected ({model.state_dim},)")
    if isinstance(model.scheme, CustomScheme):
        try_twice("the scheme's step", model.state_step, examples)


def check_finite(points: list[tuple[np.ndarray, dict[str, Any], Any]]) -> None:
    """Raise ModelError if a prior draw of parameters or initial state is not finite."""
    for x, z, _ in points:
        for name, value in z.items():
            if not np.all(np.isfinite(value)):
                raise ModelError(
                    f"the prior of parameter {name!r} gave {told(np.asarray(value))} at a draw from it; use "
                    "a prior with finite values, not as wide as that"
                )
        if not np.all(np.isfinite(x)):
            raise ModelError(
                f"initial_state gave {told(x)} at parameters drawn from their priors; give a distribution that is "
                "defined for all that the priors allow"
            )
