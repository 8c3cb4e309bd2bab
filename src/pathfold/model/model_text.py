"""The text of a model, printed and kept with the results: the source of its functions, its priors, its scheme."""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import sysconfig
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro.distributions as dist

from pathfold.data.inputs import Input
from pathfold.errors import shorter, told
from pathfold.model.functions import OfTime
from pathfold.model.reactions import ReactionFunction

if TYPE_CHECKING:
    from pathfold.model.diffusion_model import DiffusionModel

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
    referred = _referred([*model.written.values(), *model.priors.values()])
    return texts | ({"helpers and constants": referred} if referred else {})


def text_of(given: Any) -> str:
    """Write what the user gave, as far as possible: functions by their source, distributions and numbers by value."""
    if isinstance(given, ReactionFunction):
        parts = (f"    {name} = {text_of(value)}" for name, value in given.network.written.items())
        return "\n".join(["Reactions", *parts])
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


def _referred(given: Sequence[Any]) -> str:
    """Write the constants, and the functions in the user's own files, that these functions refer to, and so on."""
    functions = [function for each in given for function in _functions(each)]
    seen, constants, helpers = {function.__code__ for function in functions}, dict[str, None](), list[str]()
    while functions:
        for name, value in _names_in(functions.pop(0)):
            value = inspect.unwrap(value) if callable(value) else value
            if inspect.isfunction(value) and value.__code__ not in seen and _is_own(value.__code__):
                seen.add(value.__code__)
                functions.append(value)
                helpers.append(f"{name} = {_source(value)}" if value.__name__ == "<lambda>" else _source(value))
            elif not callable(value) and not inspect.ismodule(value):
                constants[f"{name} = {shorter(text_of(value))}"] = None
    return "\n".join([*constants, *helpers])


def _functions(given: Any) -> Iterator[Any]:
    """Yield the user's functions in what was given."""
    given = given.network.written if isinstance(given, ReactionFunction) else given
    if inspect.isfunction(given):
        yield given
    elif is_dataclass(given) and not isinstance(given, type | OfTime):
        yield from _functions([getattr(given, f.name) for f in fields(given) if not f.name.startswith("_")])
    elif isinstance(given, list | tuple | dict):
        for part in given.values() if isinstance(given, dict) else given:
            yield from _functions(part)


def _names_in(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names of variables outside a function that it, or functions within it, read, with their values."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it has no value yet
            yield name, cell.cell_contents
    codes = [function.__code__]
    while codes:
        code = codes.pop(0)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        names = dict.fromkeys(each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL")
        yield from ((name, function.__globals__[name]) for name in names if name in function.__globals__)


def _is_own(code: CodeType) -> bool:
    """Tell whether code is the user's: of no package that is installed, nor of Python's own library."""
    file = Path(code.co_filename)
    library = [Path(sysconfig.get_path("stdlib")), Path(__file__).parents[1]]
    return "site-packages" not in file.parts and not any(file.is_relative_to(folder) for folder in library)


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
