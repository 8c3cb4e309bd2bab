"""The error for operations that scalar programs cannot express, with advice on what to use instead."""

from __future__ import annotations

from pathfold.errors import ModelError

_NO_NOISE = "model functions must be deterministic: noise enters through the scheme and the observation"

ADVICE = {
    "lu": "use jnp.linalg.cholesky and triangular solves, or write the small inverse or determinant out",
    "sort": "write the order out with jnp.minimum and jnp.maximum",
    "while": "use a loop whose number of turns is a constant (jax.lax.fori_loop with constant bounds, or jax.lax.scan)",
    "eigh": "use jnp.linalg.cholesky, or write the decomposition of the small matrix out",
    "qr": "use jnp.linalg.cholesky",
    "svd": "use jnp.linalg.cholesky",
    "pure_callback": "model functions are differentiated and compiled: write the computation in jax.numpy",
    "io_callback": "model functions are differentiated and compiled: take prints and callbacks out",
    "debug_callback": "model functions are compiled: take jax.debug.print out",
    "debug_print": "model functions are compiled: take jax.debug.print out",
    "random_bits": _NO_NOISE,
    "random_seed": _NO_NOISE,
    "random_wrap": _NO_NOISE,
    "random_fold_in": _NO_NOISE,
    "random_split": _NO_NOISE,
    "threefry2x32": _NO_NOISE,
    "complex": "use real arithmetic",
    "convert_element_type": "integers that depend on the inputs only come from comparisons: use jnp.floor, jnp.where",
}


class UnsupportedPrimitive(ModelError):
    """A primitive that scalar programs cannot express; the message names it and says what to use instead."""

    def __init__(self, name: str, advice: str | None = None) -> None:
        advice = advice or ADVICE.get(name, "write it with arithmetic, elementary functions and jnp.where")
        super().__init__(f"it uses the operation '{name}'; {advice}")
