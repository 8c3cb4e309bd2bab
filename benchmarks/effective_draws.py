"""What an effective draw costs: FitzHugh-Nagumo, noiseless, T = 100, S = 25, one core, after warm-up.

Effective draws are the smaller of bulk and tail ESS; the worst of the four parameters counts. Times are those of the
machine at hand. `--json` adds one last line of figures for machines; `--growth` tables over S and T; `--two` compares
two chains on two cores with one.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

import pathfold as pf
from pathfold.example_models import fitzhugh_nagumo
from pathfold.results.convergence import convergence

PARAMETERS = tuple(fitzhugh_nagumo.TRUTH)


def data(T: int, seed: int) -> pf.Observations:
    return fitzhugh_nagumo.data(fitzhugh_nagumo.noiseless(), T, seed)


def measure(
    observations: pf.Observations, S: int, *, chains: int, warmup: int, draws: int, seed: int, **settings: Any
) -> dict:
    """Costs per step and per effective draw of the main stage of chains run one after another."""
    tree = pf.sample(
        fitzhugh_nagumo.noiseless(),
        observations,
        steps_per_interval=S,
        chains=chains,
        warmup=warmup,
        draws=draws,
        seed=seed,
        threads=1,
        keep_path="none",
        keep_warmup=True,
        progress=False,
        **settings,
    )
    stats = tree.sample_stats
    steps = float(stats["n_steps"].sum())
    seconds = float(np.sum(tree.attrs["main_seconds"]))
    rows = {}
    for name in PARAMETERS:
        x = tree.posterior[name].values
        found = convergence(x)
        squares = convergence((x - x.mean()) ** 2).bulk
        rows[name] = {"bulk": found.bulk, "tail": found.tail, "squares": squares, "rhat": found.rhat}
    fewest = min(min(row["bulk"], row["tail"]) for row in rows.values())
    return {
        "ms_per_effective_draw": 1e3 * seconds / fewest,
        "steps_per_effective_draw": steps / fewest,
        "ms_per_step": 1e3 * seconds / steps,
        "acceptance": float(stats["acceptance_rate"].mean()),
        "failure_rate": float((stats["status"] != 0).mean()),
        "step_size": float(stats["step_size"].mean()),
        "steps_a_draw": float(stats["n_steps"].mean()),
        "parameters": rows,
        "steps": steps,
    }


def show(result: dict) -> None:
    for name, row in result["parameters"].items():
        each = {kind: result["steps"] / row[kind] for kind in ("bulk", "tail", "squares")}
        print(
            f"  {name:8s} steps per effective draw: bulk {each['bulk']:6.1f}  tail {each['tail']:6.1f}  "
            f"squared deviations {each['squares']:6.1f}   R-hat {row['rhat']:.4f}"
        )
    print(
        f"  step size {result['step_size']:.3f}, {result['steps_a_draw']:.1f} steps per draw, "
        f"{result['ms_per_step']:.3f} ms per step, acceptance {result['acceptance']:.3f}, "
        f"failures {100 * result['failure_rate']:.2f} %"
    )
    print(f"  {result['ms_per_effective_draw']:.2f} ms per effective draw")


def grow(letter: str, sizes: list[tuple[int, int]], options: argparse.Namespace) -> None:
    """Step size and cost over S or T, and the exponent of the cost; warm-up is long, for a sharp step size."""
    rows = []
    for T, S in sizes:
        draws = max(300, options.draws // 4)
        r = measure(data(T, options.seed), S, chains=4, warmup=500, draws=draws, seed=options.seed)
        rows.append((T if letter == "T" else S, r["step_size"], r["ms_per_effective_draw"]))
        print(
            f"  T = {T:5d}  S = {S:4d}   step size {r['step_size']:.3f}   failures {100 * r['failure_rate']:.2f} %   "
            f"{r['ms_per_step']:8.3f} ms per step   {r['ms_per_effective_draw']:9.2f} ms per effective draw",
            flush=True,
        )
    size, step, cost = np.array(rows).T
    exponent = np.polyfit(np.log(size), np.log(cost), 1)[0]
    print(f"  over {letter}: step size from {step.min():.3f} to {step.max():.3f}, cost of an effective draw as "
          f"{letter}^{exponent:.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="What an effective draw costs.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--two", action="store_true")
    parser.add_argument("--samplers", action="store_true", help="dynamic trajectories too, with both splittings")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    observations = data(100, options.seed)
    common: dict[str, Any] = {"chains": 4, "warmup": 250, "draws": options.draws, "seed": options.seed}
    print("FitzHugh-Nagumo, noiseless, T = 100, S = 25")
    best = measure(observations, 25, **common)
    show(best)
    if options.samplers:
        for splitting in ("gaussian", "stormer-verlet"):
            print(f"dynamic, {splitting}")
            show(measure(observations, 25, **common, sampler=pf.DynamicHMC(splitting=splitting)))
    if options.two:
        seconds = {}
        for chains in (1, 2):
            runs = []
            for _ in range(3):
                tree = pf.sample(
                    fitzhugh_nagumo.noiseless(),
                    observations,
                    steps_per_interval=25,
                    chains=chains,
                    draws=1000,
                    seed=3,
                    keep_path="none",
                    progress=False,
                )
                runs.append(tree.attrs["run_seconds"])  # by the clock on the wall
            seconds[chains] = min(runs)
        print(f"two chains on two cores take {seconds[2] / seconds[1]:.2f} times as long as one")
    if options.growth:
        grow("S", [(100, S) for S in (25, 50, 100, 200, 400)], options)
        grow("T", [(T, 25) for T in (25, 50, 100, 200, 400, 1600)], options)
    if options.json:
        names = ("ms_per_effective_draw", "steps_per_effective_draw", "ms_per_step", "acceptance", "failure_rate")
        print(json.dumps({name: round(best[name], 5) for name in names}))


if __name__ == "__main__":
    main()
