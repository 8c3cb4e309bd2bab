"""Writes a model in another state, by Ito's lemma."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pathfold.errors import ModelError
from pathfold.model.functions import OfTime, as_float64, of_state_and_parameters, result_shape, struct, try_twice
from pathfold.schemes import CustomScheme
from pathfold.schemes.ito import noise_operator, time_operator

if TYPE_CHECKING:
    from pathfold.model.diffusion_model import DiffusionModel


BOUNDED = (
    "write a state that must be positive as its logarithm, model.transform(jnp.log, jnp.exp), unless something flows "
    "into it from outside: then leave it an amount, with noise that vanishes at zero, and take pf.Milstein() or "
    "pf.LinearlyImplicit() (docs/models.md); write one between 0 and 1 as its logit, "
    "model.transform(jax.scipy.special.logit, jax.nn.sigmoid)"
)


def transformed(model: DiffusionModel, forward: Callable[..., Any], inverse: Callable[..., Any]) -> DiffusionModel:
    """Return the model in the state y = forward(x); see `DiffusionModel.transform`."""
    if isinstance(model.scheme, CustomScheme):
        raise ModelError(
            "the step of pf.CustomScheme is written for the state as it is and cannot be transformed; build the "
            "model in the new state, with a step for it"
        )
    to = as_float64(of_state_and_parameters("forward", forward))
    back = as_float64(of_state_and_parameters("inverse", inverse))
    with jax.enable_x64(True):
        _check_inverse(model, to, back)
    images = [noise_operator(model.sde, j, lambda x, z, t: to(x, z)) for j in range(model.wiener_dim)]
    mean = time_operator(model.sde, lambda x, z, t: to(x, z))
    start = model.initial_state
    before = start.then or (lambda x, z: x)
    jumps: Any = model.jumps.of(to, back)  # as the initial state, they are not built anew
    return type(model)(
        drift=OfTime(lambda x, z, t: mean(back(x, z), z, t)),
        diffusion=OfTime(lambda x, z, t: jnp.stack([image(back(x, z), z, t) for image in images], axis=1)),
        parameters=model.priors,
        initial_state=replace(start, then=lambda x, z: to(before(x, z), z)),
        observation=model.observation.of(back),
        scheme=model.scheme,
        inputs=model.inputs,
        states=model.states,
        observed=model.observed,
        events=jumps,
        covariates={name: list(each.levels) or each.typical for name, each in model.covariates.items()},
    )


def _check_inverse(model: DiffusionModel, to: Callable[..., Array], back: Callable[..., Array]) -> None:
    x, z, rng = struct(model.state_dim), model.structs(), np.random.default_rng(21)
    for name, function in (("forward", to), ("inverse", back)):
        if (shape := result_shape(name, function, (x, z))) != (model.state_dim,):
            raise ModelError(f"{name} returned shape {shape}, expected ({model.state_dim},), the size of the state")
        try_twice(name, function, (x, z))
    for x, z, _ in model.points()[::3]:
        for point in (x, x * (1.0 + 0.1 * rng.uniform(-1.0, 1.0, model.state_dim))):
            new = np.asarray(to(point, z))
            if not np.all(np.isfinite(new)):
                raise ModelError(f"forward is not finite at the state {point}, drawn from the prior: it gave {new}")
            if model.jumps.reset and not np.all(np.isfinite(np.asarray(to(model.jumps.reset(point, z), z)))):
                raise ModelError(
                    "forward is not finite where the accumulators are zero; leave them as they are in the new state"
                )
            if not np.allclose(again := np.asarray(back(jnp.asarray(new), z)), point, rtol=1e-6, atol=1e-9):
                raise ModelError(
                    f"inverse does not invert forward: the state {point} became {new}, and came back as {again}"
                )
