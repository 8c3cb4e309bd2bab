"""What the tracer takes from JAX and JAX does not promise: all of it is listed here, and named when it moves.

A new version of JAX that renames a primitive, one of its parameters or a function of its own fails here first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import primitives
from jax.scipy.special import ndtri

from pathfold.program import rules_of_functions
from pathfold.program.graph import Graph
from pathfold.program.interpret import RULES, input_nodes
from pathfold.program.trace import trace

OURS = {"eliminate", "mirror"}  # primitives of `matrices.py`


def _doubled(x):
    return 2.0 * x


_batched = jax.custom_batching.custom_vmap(_doubled)
_batched.def_vmap(lambda size, batched, x: (_doubled(x), batched[0]))
_with_vjp = jax.custom_vjp(_doubled)
_with_vjp.defvjp(lambda x: (_doubled(x), None), lambda _, y: (2.0 * y,))
_with_jvp = jax.custom_jvp(_doubled)
_with_jvp.defjvp(lambda x, dx: (_doubled(*x), _doubled(*dx)))

# Primitives with the parameters that their rules read, and a function of an array that has each.
PRIMITIVES: dict[str, tuple[set[str], Callable[[Any], Any]]] = {
    "argmax": ({"axes"}, jnp.argmax),
    "argmin": ({"axes"}, jnp.argmin),
    "broadcast_in_dim": ({"shape", "broadcast_dimensions"}, lambda x: jnp.broadcast_to(x, (2, 3))),
    "call_hi_primitive": ({"_prim"}, lambda x: jnp.searchsorted(jnp.arange(3.0), x)),
    "composite": ({"call_jaxpr"}, jax.lax.composite(_doubled, name="tests.doubled")),
    "concatenate": ({"dimension"}, lambda x: jnp.concatenate([x, x])),
    "cond": ({"branches"}, lambda x: jax.lax.cond(x[0] > 0.0, jnp.sin, jnp.cos, x)),
    "convert_element_type": ({"new_dtype"}, lambda x: (x > 0.0).astype(float)),
    "cumsum": ({"axis", "reverse"}, jnp.cumsum),
    "custom_jvp_call": ({"call_jaxpr"}, _with_jvp),
    "custom_vjp_call": ({"call_jaxpr"}, _with_vjp),
    "custom_vmap_call": ({"call"}, _batched),
    "dot_general": ({"dimension_numbers"}, lambda x: x @ x),
    "dynamic_slice": ({"slice_sizes"}, lambda x: jax.lax.dynamic_slice(x, (1,), (2,))),
    "empty": (set(), lambda x: x + jnp.empty(3)),
    "gather": ({"dimension_numbers", "slice_sizes", "mode", "fill_value"}, lambda x: x[jnp.array([0, 2])]),
    "integer_pow": ({"y"}, lambda x: x**3),
    "iota": ({"shape", "dimension"}, lambda x: x + jnp.arange(3.0)),
    "jit": ({"jaxpr"}, lambda x: jax.jit(jnp.sin)(x)),
    "name": (set(), lambda x: checkpoint_name(x, "x")),
    "pad": ({"padding_config"}, lambda x: jax.lax.pad(x, 0.0, [(1, 0, 0)])),
    "platform_index": ({"platforms"}, lambda x: jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)),
    "reduce_sum": ({"axes"}, jnp.sum),
    "remat2": ({"jaxpr"}, lambda x: jax.checkpoint(jnp.sin)(x)),
    "reshape": ({"new_sizes", "dimensions"}, lambda x: x.reshape(3, 1)),
    "rev": ({"dimensions"}, jnp.flip),
    "round": ({"rounding_method"}, jnp.round),
    "scan": ({"ft_in", "jaxpr", "length", "reverse"}, lambda x: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x)),
    "scatter-add": ({"dimension_numbers", "mode"}, lambda x: x.at[jnp.array([1])].add(1.0)),
    "slice": ({"start_indices", "limit_indices", "strides"}, lambda x: x[1:]),
    "split": ({"sizes", "axis"}, lambda x: jnp.split(x, 3)),
    "stack": ({"axis"}, lambda x: jnp.stack([x, x])),
    "tile": ({"reps"}, lambda x: jnp.tile(x, 2)),
    "transpose": ({"permutation"}, lambda x: x.reshape(3, 1).T),
    "triangular_solve": (
        {"lower", "transpose_a", "left_side", "unit_diagonal"},
        lambda x: jax.lax.linalg.triangular_solve(jnp.eye(3), x[:, None], left_side=True),
    ),
    "unstack": ({"axis"}, lambda x: jnp.unstack(x)),
    "while": (
        {"cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts"},
        lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, 2.0 * c[1]), (0, x)),
    ),
}
# Functions of JAX's own that are found by name, in the trace of a public one.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "_ndtri": ndtri,
    "exp_neg_sq": lambda x: jax.jvp(jax.lax.erfc, (x,), (x,)),
    "signbit": jnp.signbit,
}


def equations(function: Callable) -> list[Any]:
    """Of the function's trace, those of functions within it too."""
    found: list[Any] = []

    def walk(jaxpr: Any) -> None:
        for equation in jaxpr.eqns:
            found.append(equation)
            for value in equation.params.values():
                for each in value if isinstance(value, list | tuple) else [value]:
                    inner = getattr(each, "jaxpr", each)
                    if hasattr(inner, "eqns"):
                        walk(inner)

    with jax.enable_x64(True):
        walk(jax.make_jaxpr(function)(jnp.array([0.1, 0.3, 0.7])).jaxpr)
    return found


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive_has_its_name_and_its_parameters(name):
    parameters, function = PRIMITIVES[name]
    found = {equation.primitive.name: equation.params.keys() for equation in equations(function)}
    assert name in found, f"JAX has renamed {name!r}: the trace has {sorted(found)}"
    missing = parameters - found[name]
    assert not missing, f"JAX has renamed {sorted(missing)} of {name!r}, which has {sorted(found[name])}"
    graph = Graph()
    trace(graph, function, input_nodes(graph, "x", (3,)))


def test_every_rule_is_for_a_primitive_that_jax_has():
    public = [getattr(module, name) for module in (jax.lax, primitives) for name in dir(module) if name.endswith("_p")]
    known = {primitive.name for primitive in public} | PRIMITIVES.keys() | OURS
    assert RULES.keys() <= known, f"JAX does not have {sorted(RULES.keys() - known)} any more"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_jax_is_found_by_its_name(name):
    values = [value for equation in equations(FUNCTIONS[name]) for value in equation.params.values()]
    bodies = [body for body in (getattr(value, "jaxpr", value) for value in values) if hasattr(body, "debug_info")]
    assert name in {body.debug_info.func_name for body in bodies}
    assert any(rules_of_functions._in_our_words(body) is rules_of_functions._BITWISE[name] for body in bodies)
    assert FUNCTIONS.keys() == rules_of_functions._BITWISE.keys()


def test_what_a_search_in_a_sorted_array_tells_of_itself():
    (search,) = [e.params["_prim"] for e in equations(PRIMITIVES["call_hi_primitive"][1]) if "_prim" in e.params]
    assert type(search).__name__ == "SearchSorted"
    for name in ("side", "batch_dims", "in_avals", "in_avals_flat", "in_tree", "expand"):
        assert hasattr(search, name), f"JAX has renamed {name!r} of its primitive SearchSorted"
