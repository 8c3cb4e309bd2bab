"""FitzHugh-Nagumo observed without noise: the grid of runs that three figures show (paper, section 7.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes

from experiments.drawing import by_kind, curve, level
from experiments.runner import Row
from experiments.setting import Scale, Setting

PARAMETERS = ("sigma", "epsilon", "gamma", "beta")
MEANING = {
    "R": "observations per block R",
    "S": "fine steps per interval S",
    "T": "observations T",
}


def settings(scale: Scale) -> list[Setting]:
    """R, S and T varied one at a time: dynamic HMC with both splittings, and our default, without blocks."""
    R, S, T = scale.base
    sizes = {(R, S, T) for R in scale.R} | {(R, S, T) for S in scale.S} | {(R, S, T) for T in scale.T}
    chosen: list[dict[str, Any]] = []
    for R, S, T in sizes:
        for splitting in ("gaussian", "stormer-verlet"):
            chosen.append({"sampler": "dynamic", "splitting": splitting, "R": R, "S": S, "T": T})
        chosen.append({"sampler": "static", "splitting": "gaussian", "R": None, "S": S, "T": T})
    return sorted(
        {
            Setting(
                model="fitzhugh_nagumo",
                **each,
                chains=scale.chains,
                warmup=scale.warmup,
                draws=scale.draws,
                seed=seed,
            )
            for each in chosen
            for seed in scale.seeds
        },
        key=lambda setting: setting.order,
    )


def along(rows: list[Row], over: str, scale: Scale) -> list[Row]:
    """The rows where the other two sizes stay; our default has no R."""
    stays = {name: size for name, size in zip("RST", scale.base, strict=True) if name != over}
    return [row for row in rows if all(row["setting"][name] in (size, None) for name, size in stays.items())]


def panel(ax: Axes, rows: list[Row], over: str, scale: Scale, value: Callable[[Row], float]) -> None:
    """A curve for each kind of chains."""
    for each in by_kind(along(rows, over, scale)).values():
        if each[0]["setting"][over] is None:
            level(ax, each, value)
        else:
            curve(ax, each, over, value)
