"""What scalar programs cannot express, and what to do instead."""

from __future__ import annotations

ADVICE = {
    "lu": "solve small systems through jnp.linalg.cholesky and triangular solves, or write the inverse out",
    "sort": "write the order out with jnp.minimum and jnp.maximum",
    "while": "use a loop whose number of turns is a constant (jax.lax.fori_loop with constant bounds, or jax.lax.scan)",
    "eigh": "use jnp.linalg.cholesky, or write the decomposition of the small matrix out",
    "qr": "use jnp.linalg.cholesky",
    "svd": "use jnp.linalg.cholesky",
    "pure_callback": "model functions are differentiated and compiled: write the computation in jax.numpy",
    "io_callback": "model functions are differentiated and compiled: take prints and callbacks out",
    "debug_callback": "model functions are compiled: take jax.debug.print out",
    "random_bits": "model functions must be deterministic: noise enters through the scheme and the observation",
    "threefry2x32": "model functions must be deterministic: noise enters through the scheme and the observation",
    "argmax": "use jnp.max, or jnp.where on comparisons",
    "argmin": "use jnp.min, or jnp.where on comparisons",
}


class UnsupportedPrimitive(Exception):
    """A primitive the scalar program cannot express; carries its name and what to do instead."""

    def __init__(self, name: str, advice: str | None = None) -> None:
        self.name = name
        self.advice = advice or ADVICE.get(name, "write it with arithmetic, elementary functions and jnp.where")
        super().__init__(name)
