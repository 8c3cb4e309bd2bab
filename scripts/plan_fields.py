"""Draws up what the plans of the engine read and write, from the kernels themselves: docs/plans.md.

python -m scripts.plan_fields
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pathfold.data import Observations, TimeGrid
from pathfold.engine import Engine, GuidedEngine, IntegratedEngine, LaplaceEngine, UnconstrainedEngine, plans
from pathfold.engine.compile import SEGMENTED_METHOD
from pathfold.engine.native.common_kernels import KERNELS
from pathfold.engine.plans import Plan, names_of
from pathfold.example_models import ornstein_uhlenbeck
from pathfold.program.kernel import Kernel, Tracing

PAGE = Path(__file__).parents[1] / "docs" / "plans.md"
NAMES = {plan: name for name, plan in vars(plans).items() if isinstance(plan, Plan)}
HEAD = """# Plans

What the engine does at a point of the manifold, or between two, as lists of stages (`engine/plans.py`); a stage names
kernels, which are called one after the other. `scripts/plan_fields.py` writes this page from the kernels: a plan
*takes* the fields that it reads before it writes them, and *leaves* those that it writes. Fields are named by the block
where kernels find them, `point`, `scratch` or `other` (the vector, the gradient or the moving point beside it), and by
their record (`engine/records.py`). What belongs to the problem (settings, data, inputs) is not listed.
"""

type Fields = dict[str, tuple[set[str], set[str]]]  # of a kernel, those it reads and those it writes


def engines() -> dict[str, Engine]:
    """Return one engine of every method, with series in segments where there can be any."""
    model, times = ornstein_uhlenbeck.noisy(), 0.2 * np.arange(1, 38)
    grid = TimeGrid.build(Observations(times, np.zeros(times.size)), steps_per_interval=2)
    return {
        "constrained": Engine(model, grid, longest=5),
        "unconstrained": UnconstrainedEngine(model, grid),
        "guided": GuidedEngine(model, grid),
        "laplace": LaplaceEngine(model, grid),
        "integrated": IntegratedEngine(model, grid),
    }


def kernels_of(engine: Engine) -> list[Kernel]:
    method = SEGMENTED_METHOD if engine.longest else engine.method
    return [kernel for part in method.kernels for kernel in part(engine.functions, engine.records, engine.sizes)]


def fields_of(engine: Engine) -> Fields:
    """Return the fields that each kernel reads and writes, as "point.sums.C"."""
    kernels, found = kernels_of(engine), {}
    tracing = Tracing(kernels, abreast=engine.abreast)
    for traced in map(tracing, kernels):
        uses = [{name: traced.use_of(name) for name in names} for names in names_of(traced)]
        found[traced.kernel.name] = tuple(
            {f"{use.block}.{use.record.name}.{name.removesuffix(use.suffix)}" for name, use in each.items()}
            for each in uses
        )
    return found | {name: (set(kernel.reads.split()), set(kernel.writes.split())) for name, kernel in KERNELS.items()}


def flow(plan: Plan, fields: Fields) -> tuple[set[str], set[str]]:
    """Return what a plan takes and what it leaves; what only reads of kernels that the method has are counted."""
    taken: set[str] = set()
    left: set[str] = set()
    for stage in plan.stages:
        for reads, writes in (fields[name] for name in stage.kernels if name in fields):
            if stage.of_other:
                reads, writes = ({f.replace("point.", "other.", 1) for f in each} for each in (reads, writes))
            taken |= {field for field in reads if not field.startswith("problem.")} - left
            left |= writes
    return taken, left


def page() -> str:
    every: Fields = {}
    for engine in engines().values():
        every = fields_of(engine) | every
    lines = [HEAD]
    for plan, name in NAMES.items():
        taken, left = flow(plan, every)
        lines += [f"## {name}\n"]
        lines += [f"- {_over(stage)}: " + ", ".join(f"`{kernel}`" for kernel in stage.kernels) for stage in plan.stages]
        lines += [f"- *takes* {_listed(taken)}", f"- *leaves* {_listed(left)}\n"]
    return "\n".join(lines)


def _over(stage: plans.Stage) -> str:
    name = {plans.ONCE: "once"} | {getattr(plans.at, f"BY_{each.upper()}"): each for each in OVER}
    other, refines = " of the other point" * stage.of_other, ", while the multipliers are not accurate" * stage.refines
    return name[stage.over] + other + refines


OVER = ("chunk", "series", "node", "share", "segment")


def _listed(fields: set[str]) -> str:
    """Return fields by record: "point.sums (C, log_det)"."""
    by_record: dict[str, list[str]] = {}
    for field in sorted(fields):
        record, name = field.rsplit(".", 1)
        by_record.setdefault(record, []).append(name)
    return ", ".join(f"{record} ({', '.join(names)})" for record, names in by_record.items()) or "nothing"


if __name__ == "__main__":
    PAGE.write_text(page())
