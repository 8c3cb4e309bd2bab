"""FitzHugh-Nagumo with observation noise: time per effective draw with and without constraints (paper, section 7.2)."""

from __future__ import annotations

import math

from experiments.noise_levels import describe, draw
from experiments.setting import Scale, Setting, shorter_without_constraints, with_and_without_constraints

__all__ = ["describe", "draw", "settings"]


def settings(scale: Scale) -> list[Setting]:
    found = [
        each
        for variance in scale.noise_variances
        for each in with_and_without_constraints(
            model="fitzhugh_nagumo",
            R=scale.base[0],
            S=scale.noise_S,
            T=scale.base[2],
            sigma_y=math.sqrt(variance),
            chains=scale.chains,
            warmup=scale.noise_warmup,
            draws=scale.noise_draws,
            seed=scale.seeds[0],
        )
    ]
    return shorter_without_constraints(found, scale)
