"""Models of the literature, ready to use: each a function giving a DiffusionModel, with the values it is studied at.

`EXAMPLES` lists them by name, each with data to calibrate it to.
"""

from pathfold.example_models import (
    autoregulation,
    cox_ingersoll_ross,
    doses,
    double_well,
    fitzhugh_nagumo,
    hare_lynx,
    heston,
    integrated_ornstein_uhlenbeck,
    learning,
    lorenz63,
    lorenz96,
    lotka_volterra,
    ornstein_uhlenbeck,
    pharmacokinetics,
    redstart,
    seir,
    sir,
)
from pathfold.example_models.example import Example

EXAMPLES: dict[str, Example] = {
    module.EXAMPLE.name: module.EXAMPLE
    for module in (
        ornstein_uhlenbeck,
        integrated_ornstein_uhlenbeck,
        cox_ingersoll_ross,
        double_well,
        fitzhugh_nagumo,
        lorenz63,
        lorenz96,
        heston,
        sir,
        lotka_volterra,
        autoregulation,
        pharmacokinetics,
        doses,
        seir,
        redstart,
        learning,
        hare_lynx,
    )
}

__all__ = ["EXAMPLES", "Example"]
