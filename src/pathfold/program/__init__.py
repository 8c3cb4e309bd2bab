"""Scalar programs: a JAX function is traced, simplified and emitted as LLVM code, with loops where it would be long."""
