"""SIR with the influenza data: the chains that its figures compare (paper, section 7.3)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from experiments.drawing import LOOKS, kind
from experiments.runner import Row
from experiments.setting import Scale, Setting, with_and_without_constraints, with_budgets

POSITIVE = {"gamma", "alpha", "sigma", "sigma_y"}  # shown on a logarithmic scale


def chains(scale: Scale, sigma_y: float | None) -> list[Setting]:
    """With the noise scale fixed, or unknown; the paper makes no blocks here."""
    found = with_and_without_constraints(
        splittings=("gaussian", "stormer-verlet"),
        model="sir",
        S=scale.sir_S,
        T=14,
        sigma_y=sigma_y,
        chains=scale.chains,
        warmup=scale.noise_warmup,
        draws=scale.sir_draws,
        seed=scale.seeds[0],
    )
    return with_budgets(found, scale)


def unknown_noise(scale: Scale) -> list[Setting]:
    return chains(scale, None)


def as_shown(name: str, values: list[float]) -> np.ndarray:
    """Base-10 logarithms of what is positive."""
    return np.log10(values) if name in POSITIVE else np.asarray(values)


def label(name: str) -> str:
    return f"log10 {name}" if name in POSITIVE else name


def histogram(ax: Axes, row: Row, name: str, edges: list[float]) -> None:
    look = LOOKS[kind(row)]
    ax.hist(as_shown(name, row["sample"][name]), edges, histtype="step", density=True, color=look["color"],
            label=look["label"])  # fmt: skip
    ax.set_yticks([])


def edges(rows: list[Row], name: str, bins: int) -> list[float]:
    together = np.concatenate([as_shown(name, row["sample"][name]) for row in rows])
    return np.linspace(together.min(), together.max(), bins + 1).tolist()
