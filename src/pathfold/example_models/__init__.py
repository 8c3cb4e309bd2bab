"""Models of the literature, ready to use: functions that return a DiffusionModel, and the values it is studied at.

`EXAMPLES` lists them by name, each with data to calibrate it to.
"""

from pathfold.example_models import (
    autoregulation,
    building,
    cox_ingersoll_ross,
    doses,
    double_well,
    fitzhugh_nagumo,
    glucose,
    hare_lynx,
    heat_rod,
    heston,
    integrated_ornstein_uhlenbeck,
    interest_rate,
    jansen_rit,
    kuramoto,
    learning,
    lorenz63,
    lorenz96,
    lotka_volterra,
    nile,
    optical_trap,
    ornstein_uhlenbeck,
    pharmacokinetics,
    redstart,
    repressilator,
    seir,
    sir,
    spike_counts,
    toggle_switch,
    tumour_growth,
    van_der_pol,
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
        nile,
        interest_rate,
        optical_trap,
        van_der_pol,
        jansen_rit,
        toggle_switch,
        repressilator,
        kuramoto,
        heat_rod,
        tumour_growth,
        spike_counts,
        glucose,
        building,
    )
}

__all__ = ["EXAMPLES", "Example"]
