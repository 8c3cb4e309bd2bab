"""Scalar programs: trace a JAX function, simplify it, emit straight-line source."""
