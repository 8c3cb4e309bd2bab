"""FitzHugh-Nagumo with observation noise: time per effective draw of constrained chains and of what the paper compares
them with (its section 7.2)."""

from __future__ import annotations

import math
from typing import Any

from experiments.noise_levels import describe, draw
from experiments.setting import Scale, Setting, guided_proposals, with_and_without_constraints, with_budgets

__all__ = ["describe", "draw", "settings"]


def settings(scale: Scale) -> list[Setting]:
    found = []
    for variance in scale.noise_variances:
        common: dict[str, Any] = {
            "model": "fitzhugh_nagumo",
            "S": scale.noise_S,
            "T": scale.base[2],
            "sigma_y": math.sqrt(variance),
            "chains": scale.chains,
            "warmup": scale.noise_warmup,
            "draws": scale.noise_draws,
            "seed": scale.seeds[0],
        }
        found += with_and_without_constraints(R=scale.base[0], **common)
        found += guided_proposals(scale, **common)
    return with_budgets(found, scale)
