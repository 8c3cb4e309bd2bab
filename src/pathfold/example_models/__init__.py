"""Models of the literature, ready to use: functions that return a DiffusionModel, and the values it is studied at.

`EXAMPLES` has them by name, each with data to calibrate it to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from typing import Any

from pathfold.example_models.example import Example

_NAMES = """
    ornstein_uhlenbeck integrated_ornstein_uhlenbeck cox_ingersoll_ross double_well fitzhugh_nagumo
    lorenz63 lorenz96 heston sir lotka_volterra autoregulation pharmacokinetics doses seir redstart
    learning hare_lynx nile interest_rate optical_trap van_der_pol jansen_rit toggle_switch
    repressilator kuramoto heat_rod tumour_growth spike_counts glucose building
""".split()


class _Examples(Mapping[str, Example]):
    """The examples by name; each is imported, and JAX with it, when it is looked up."""

    def __getitem__(self, name: str) -> Example:
        if name not in _NAMES:
            raise KeyError(name)
        return import_module(f"{__name__}.{name}").EXAMPLE

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


EXAMPLES = _Examples()


def described() -> Iterator[tuple[str, str, str]]:
    """Yield name, summary and reference of every example from its file, which ends with them and is not imported."""
    for name in EXAMPLES:
        example: Any = ast.parse(files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")).body[-1]
        texts = {each.arg: each.value for each in example.value.keywords}
        yield name, ast.literal_eval(texts["summary"]), ast.literal_eval(texts["reference"])


__all__ = ["EXAMPLES", "Example"]
