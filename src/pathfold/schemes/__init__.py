"""Discretisations of an SDE, one a file, and the Ito calculus they are derived by."""

from pathfold.schemes.custom import CustomScheme
from pathfold.schemes.euler_maruyama import EulerMaruyama
from pathfold.schemes.ito import SDE, noise_operator, time_operator
from pathfold.schemes.milstein import Milstein
from pathfold.schemes.scheme import Scheme
from pathfold.schemes.strong_order_1p5 import StrongOrder1p5

__all__ = [
    "SDE",
    "CustomScheme",
    "EulerMaruyama",
    "Milstein",
    "Scheme",
    "StrongOrder1p5",
    "noise_operator",
    "time_operator",
]
