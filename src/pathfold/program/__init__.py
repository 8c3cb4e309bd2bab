"""Scalar programs: trace a JAX function, simplify it, emit code: straight lines, and loops where they would be long."""
