"""SIR with the noise scale fixed at several levels, with and without constraints (paper, supplement)."""

from __future__ import annotations

from experiments.noise_levels import describe, draw
from experiments.setting import Scale, Setting
from experiments.sir import chains

__all__ = ["describe", "draw", "settings"]


def settings(scale: Scale) -> list[Setting]:
    return [each for sigma_y in scale.sir_noise for each in chains(scale, sigma_y)]
