"""Discretisations of an SDE, each in a file of its own, and the Ito calculus that they are derived with."""

from pathfold.schemes.custom import CustomScheme
from pathfold.schemes.euler_maruyama import EulerMaruyama
from pathfold.schemes.exact_linear_drift import ExactLinearDrift
from pathfold.schemes.ito import SDE, noise_operator, time_operator
from pathfold.schemes.linearly_implicit import LinearlyImplicit
from pathfold.schemes.milstein import Milstein
from pathfold.schemes.scheme import Scheme
from pathfold.schemes.strong_order_1p5 import StrongOrder1p5

__all__ = [
    "SDE",
    "CustomScheme",
    "EulerMaruyama",
    "ExactLinearDrift",
    "LinearlyImplicit",
    "Milstein",
    "Scheme",
    "StrongOrder1p5",
    "noise_operator",
    "time_operator",
]
