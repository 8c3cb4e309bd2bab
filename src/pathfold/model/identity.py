"""Identifies a model by short hashes of all that it computes, part by part.

A function is identified by its computation, as JAX traces it, with the values of all constants in it: closures with
other constants are other functions, and the same function in another file is the same. Numbers are compared to nine
digits, since machines differ in the last ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import jax
import numpy as np

from pathfold.model.conditional import ConditionalMap
from pathfold.model.diffusion_model import DiffusionModel

DIGITS = 16  # hexadecimal digits of a hash
PLAIN_VALUES = (bool, int, float, str, tuple, np.ndarray, jax.Array)


def identity(model: DiffusionModel) -> dict[str, str]:
    """Return a hash of every part of a model, by a name that a person recognises."""
    return model.kept.get(_hashes, model)


def _hashes(model: DiffusionModel) -> dict[str, str]:
    return {name: digest(words) for name, words in _parts(model).items()}


def _parts(model: DiffusionModel) -> dict[str, Any]:
    functions = model.user_functions()
    del functions["scheme"]  # it calls drift and diffusion, and what it adds to them is known without tracing
    misfit, excess = model.observation.misfit, model.observation.excess
    functions["observation"] = (lambda *node: (misfit(*node), excess(*node)), functions["observation"][1])
    for name, prior in {"initial_state": model.initial_state, **_priors(model)}.items():
        functions[name] = (_map_with_excess(prior), functions[name][1])
    parts: dict[str, Any] = {name: computation(function, *shapes) for name, (function, shapes) in functions.items()}
    given = {name: (own.kind, own.times, own.values) if own else () for name, own in model.inputs.items()}
    parts |= {f"input {name!r}": own for name, own in given.items()}
    groups: dict[str, Any] = {name: (each.levels, model.groups) for name, each in model.covariates.items()}
    parts |= {f"covariate {name!r}": each for name, each in groups.items()}
    labels = {"names of the states": model.states, "names of the observed components": model.observed}
    return parts | labels | {"scheme": model.scheme, "accumulators": model.jumps.accumulators}


def _priors(model: DiffusionModel) -> dict[str, ConditionalMap]:
    return {f"prior of {name!r}": prior for name, prior in (model.parameters.maps | model.varying.maps).items()}


def _map_with_excess(prior: ConditionalMap) -> Callable[..., Any]:
    return lambda z, v: (prior.push(z, v), () if prior.excess is None else prior.excess(z, v))


def computation(function: Callable[..., Any], *shapes: Any) -> Any:
    """Trace a function of arrays of these shapes, and return its computation in a form that `digest` takes."""
    with jax.enable_x64(True):
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*shapes)
    return closed, str(jax.tree.structure(shape))


def digest(value: Any) -> str:
    """Return a hash of numbers, arrays, text, jaxprs, Python functions, or tuples, lists and dicts of these."""
    hashed = hashlib.sha256()
    for word in _words(value):
        hashed.update(word if isinstance(word, bytes) else word.encode())
        hashed.update(b"\0")
    return hashed.hexdigest()[:DIGITS]


def _words(value: Any) -> Iterator[str | bytes]:
    """Write a value as a sequence of words that is the same on every machine and in every process."""
    if hasattr(value, "eqns"):
        yield from _words(list(getattr(value, "consts", ())))
        yield from _equations(getattr(value, "jaxpr", value))
    elif isinstance(value, FunctionType):
        yield from _function(value)
    elif isinstance(value, partial):
        yield from _words([value.func, value.args, value.keywords])
    elif isinstance(value, CodeType):
        yield from (value.co_code, repr(value.co_names))
        yield from _words(value.co_consts)
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__
        yield from _words([getattr(value, field.name) for field in fields(value)])
    elif isinstance(value, Mapping):
        yield from _words([word for name in sorted(value, key=str) for word in (str(name), value[name])])
    elif isinstance(value, tuple | list):
        yield f"{len(value)} of"
        for entry in value:
            yield from _words(entry)
    elif isinstance(value, np.ndarray | np.generic | jax.Array | float):
        yield from _numbers(np.asarray(value))
    else:
        text = repr(value)
        yield type(value).__name__ if " at 0x" in text else text  # the text contains an address, which says nothing


def _numbers(array: np.ndarray) -> Iterator[str | bytes]:
    yield f"{array.dtype} {array.shape}"
    if array.dtype.kind in "fc":
        mantissa, exponent = np.frexp(array.astype(np.float64))
        yield np.round(mantissa * 2.0**30).tobytes()
        yield exponent.tobytes()
    else:
        yield array.tobytes()


def _equations(jaxpr: Any) -> Iterator[str | bytes]:
    """Write a jaxpr with its variables numbered in order, without rules of derivatives, which follow from the rest."""
    numbers = {variable: str(i) for i, variable in enumerate([*jaxpr.constvars, *jaxpr.invars])}

    def read(atom: Any) -> Iterator[str | bytes]:
        if hasattr(atom, "val"):
            yield from _words(atom.val)
        else:
            yield numbers[atom]

    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for atom in equation.invars:
            yield from read(atom)
        for name, value in sorted(equation.params.items()):
            if name != "name" and not isinstance(value, FunctionType):
                yield name
                yield from _words(value)
        for variable in equation.outvars:
            numbers[variable] = str(len(numbers))
            yield str(variable.aval)
    for atom in jaxpr.outvars:
        yield from read(atom)


def _function(function: FunctionType) -> Iterator[str | bytes]:
    """Write a Python function that JAX does not trace.

    Its words are its code, its defaults, the values it closes over, and the numbers and texts among the global
    variables that it names.
    """
    code, known = function.__code__, function.__globals__
    yield from _words(code)
    yield from _words(function.__defaults__ or ())
    for cell in function.__closure__ or ():
        yield from _words(cell.cell_contents)
    yield from _words([known[name] for name in code.co_names if isinstance(known.get(name), PLAIN_VALUES)])
