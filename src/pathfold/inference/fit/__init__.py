"""The fit: the marginal density of the parameters by Laplace's method, explored, corrected, and judged."""

from pathfold.inference.fit.fit import fit

__all__ = ["fit"]
