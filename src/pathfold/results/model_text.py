"""The text of a model, kept with the results: the source of its functions, its priors, its scheme."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import tokenize
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np
import numpyro.distributions as dist

from pathfold.errors import told
from pathfold.model import DiffusionModel, Input
from pathfold.model.functions import OfTime

LONGEST = 4000  # characters of one function that are kept


def model_text(model: DiffusionModel) -> dict[str, str]:
    """Return each part of the model by name, as text; parameters as "parameter NAME"."""
    texts = {name: text_of(given) for name, given in model.written.items()}
    texts |= {f"parameter {name}": text_of(prior) for name, prior in model.priors.items()}
    texts |= {f"input {name}": _input(given) for name, given in model.inputs.items()}
    texts |= {
        f"covariate {name}": f"one of {len(each.levels)} levels" if each.levels else f"about {each.typical:g}"
        for name, each in model.covariates.items()
    }
    return texts


def text_of(given: Any) -> str:
    """Write what the user gave, as far as possible: functions by their source, distributions and numbers by value."""
    if isinstance(given, OfTime):
        return "made by transform from the functions of another model"
    if isinstance(given, dist.Distribution):
        return _distribution(given)
    if inspect.isfunction(given):
        return _source(given)
    if is_dataclass(given) and not isinstance(given, type):
        parts = [f"{f.name} = {text_of(getattr(given, f.name))}" for f in fields(given) if not f.name.startswith("_")]
        return "\n".join([f"{type(given).__name__}", *(textwrap.indent(part, "    ") for part in parts)])
    if isinstance(given, list | tuple):
        return "[" + ", ".join(text_of(part) for part in given) + "]"
    if isinstance(given, dict):
        return "{" + ", ".join(f"{name}: {text_of(value)}" for name, value in given.items()) + "}"
    if hasattr(given, "shape"):
        return _number(given)
    return repr(given) if isinstance(given, str | int | float) else told(given)


def _input(given: Input | None) -> str:
    if given is None:
        return "given by the data"
    count = given.values.size
    return f"constant, {given.values[0]:g}" if count == 1 else f"{given.kind}, {count} values"


def _distribution(given: dist.Distribution) -> str:
    names = [name for name in given.arg_constraints if name in vars(given)]
    return f"{type(given).__name__}({', '.join(f'{name}={_number(getattr(given, name))}' for name in names)})"


def _number(value: Any) -> str:
    array = np.asarray(value)
    return (
        f"{array.item():.6g}" if array.ndim == 0 else np.array2string(array, precision=6, separator=", ", threshold=20)
    )


def _source(function: Any) -> str:
    """Return the source of a function, or of a lambda alone; a sentence if it is not available."""
    try:
        text = _lambda(function.__code__) if function.__name__ == "<lambda>" else inspect.getsource(function)
    except (OSError, TypeError, SyntaxError, ValueError, tokenize.TokenError):
        text = ""
    return textwrap.dedent(text).strip()[:LONGEST] or f"{function.__qualname__}, whose source is not at hand"


def _lambda(code: CodeType) -> str:
    """Return the text of that lambda in the file whose body begins where the code does."""
    source = "".join(linecache.getlines(code.co_filename))
    places = {(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None}
    for node in _lambdas(source):
        if node.lineno == code.co_firstlineno:
            begin, end = (
                (node.body.lineno, node.body.col_offset),
                (node.body.end_lineno or 0, node.body.end_col_offset or 0),
            )
            inside = [place for place in places if place[1] > 0 or place[0] > code.co_firstlineno]
            if inside and all(begin <= place <= end for place in inside):
                return ast.get_source_segment(source, node) or ""
    return ""


@lru_cache(maxsize=8)  # a model has several, mostly in one file
def _lambdas(source: str) -> list[ast.Lambda]:
    """Return all lambdas of a source."""
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda)]
