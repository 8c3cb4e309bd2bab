"""Examines the user's functions before anything is compiled: how many arguments they take, what they return."""

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import checkify

from pathfold.errors import ModelError, PathfoldError, told
from pathfold.program.trace import computed
from pathfold.schemes.ito import Clock, time_arguments

type Struct = jax.ShapeDtypeStruct

type Compilable = Callable[..., bool]
"""compilable(function, *example structs): whether the layers above can compile the function."""

SCALES = 1.0, -0.37  # of two points far from each other, at which functions are tried


def struct(*shape: int) -> Struct:
    """Return the shape and type of a float64 array, which stands for it in tracing."""
    return jax.ShapeDtypeStruct(shape, np.float64)


def listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "no parameters"


def told_support(support: Any) -> str:
    """Write a constraint of numpyro in words, such as "integer nonnegative" or "integer interval from 0 to 3"."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(support).__name__.strip("_")).lower()
    ends = [getattr(support, end, None) for end in ("lower_bound", "upper_bound")]
    known = all(isinstance(end, int | float) for end in ends)  # arrays may be traced
    return f"{words} from {ends[0]:g} to {ends[1]:g}" if known else words


@dataclass(frozen=True)
class OfTime:
    """A function whose last argument is the time, or the clock of a model with inputs."""

    call: Callable[..., Any]

    def __call__(self, *values: Any) -> Any:
        return self.call(*values)


def apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the function copies of its dicts, so that nothing it writes into z or inputs is seen elsewhere."""
    return lambda *values: function(*(dict(value) if isinstance(value, dict) else value for value in values))


def with_time(name: str, function: Any, arguments: Sequence[str]) -> OfTime:
    """Turn the user's function of `arguments`, of these and t, or of these, t and inputs into a function of time."""
    if isinstance(function, OfTime):
        return function
    without, full, count = ", ".join(arguments), ", ".join((*arguments, "t")), len(arguments)
    if not callable(function) or isinstance(function, type):
        raise ModelError(f"{name} must be a function of ({without}) or ({full}), not {told(function)}")
    function, signature = apart(function), _signature(function)
    if signature is None:
        return OfTime(lambda *values: function(*values[:-1]))
    further = dict(enumerate([*signature.parameters][count : count + 2]))
    if _binds(signature, count) and further.get(0) != "t":
        return OfTime(lambda *values: function(*values[:-1]))
    if _binds(signature, count + 1) and further.get(1) != "inputs":
        return OfTime(lambda *values: function(*values[:-1], time_arguments(values[-1])[0]))
    if not _binds(signature, count + 2):
        raise ModelError(f"{name} takes arguments {signature}, expected ({without}) or ({full}), or ({full}, inputs)")

    def with_inputs(*values):
        if not getattr(values[-1], "inputs", None):
            raise ModelError(
                f"{name} takes arguments {signature}, the last one for inputs, but the model has none: name "
                "them, as in pf.DiffusionModel(..., inputs=('rain',)), or give inputs={name: pf.Input(times, values)}"
            )
        return function(*values[:-1], *time_arguments(values[-1]))

    return OfTime(with_inputs)


def of_state_and_parameters(name: str, function: Any) -> Callable[..., Any]:
    """Turn the user's function of x, or of (x, z), into a function of both."""
    if not callable(function) or isinstance(function, type):
        raise ModelError(f"{name} must be a function of x or (x, z), not {told(function)}")
    function, signature = apart(function), _signature(function)
    if signature is None:
        return lambda x, z: function(x)
    if len([p for p in signature.parameters.values() if p.default is p.empty]) == 2 and _binds(signature, 2):
        return function
    if _binds(signature, 1):
        return lambda x, z: function(x)
    raise ModelError(f"{name} takes arguments {signature}, expected (x) or (x, z)")


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature of a function, or None for built-in functions that do not have one."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def as_float64(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda *values: jnp.asarray(function(*values), jnp.float64)


def result_shape(name: str, function: Callable[..., Any], examples: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape of a user's function's result; raise if it cannot be traced or is not one real array."""
    result = traced(name, function, examples)
    if not hasattr(result, "shape"):
        raise ModelError(f"{name} returned a {type(result).__name__}, expected an array: wrap it in jnp.array(...)")
    if np.issubdtype(result.dtype, np.complexfloating):
        raise ModelError(f"{name} returned {result.dtype} values, expected real ones: take jnp.real(...)")
    if not np.issubdtype(result.dtype, np.floating):
        raise ModelError(f"{name} returned {result.dtype} values, expected floating point: write 1.0 instead of 1")
    return result.shape


def traced(name: str, function: Callable[..., Any], examples: Sequence[Any]) -> Any:
    """Apply jax.eval_shape, turning every failure of a user's function into a sentence."""
    try:
        return jax.eval_shape(function, *examples)
    except PathfoldError:
        raise
    except KeyError as error:
        known = [key for example in examples if isinstance(example, dict) for key in example]
        inputs = [key for example in examples if isinstance(example, Clock) for key in example.inputs]
        what = "parameter or input" if inputs else "parameter"
        sentence = (
            f"{name} asks for {what} {error.args[0]!r}; the model has {listed([*known, *inputs])}. Give it a prior in "
            "parameters, or name it in covariates if it is one"
        )
        raise ModelError(sentence) from error
    except jax.errors.TracerArrayConversionError as error:
        raise ModelError(f"{name} uses a numpy function on a JAX value: use its jax.numpy namesake") from error
    except jax.errors.ConcretizationTypeError as error:
        raise ModelError(f"{name} branches on, or converts, a traced value: use jnp.where and jax.numpy") from error
    except AttributeError as error:
        remedy = f"; write [{error.name!r}] in place of .{error.name}" if isinstance(error.obj, dict) else ""
        raise ModelError(f"{name} raised AttributeError: {error}{remedy}") from error
    except Exception as error:
        raise ModelError(f"{name} raised {type(error).__name__}: {error}") from error


@contextmanager
def at_values(name: str, values: str) -> Iterator[None]:
    """Turn an exception that a user's function raises at concrete values, not while tracing, into a sentence."""
    try:
        yield
    except PathfoldError:
        raise
    except Exception as error:
        raise ModelError(f"{name} raised {type(error).__name__} at {values}: {told(str(error))}") from error


def try_twice(name: str, function: Callable[..., Any], examples: Sequence[Any]) -> None:
    """Call a user's function twice at a concrete point, and raise ModelError for faults that tracing does not show.

    A random number would be drawn once, while tracing, and then be a constant. JAX silently clamps an index that is out
    of range. The point consists of numpy arrays if the function takes them, since that costs the least.
    """
    _refuse_index_out_of_range(name, function, examples)
    for array in (np.asarray, jnp.asarray):
        try:
            with _quiet():
                first, second = (computed(lambda array=array: function(*_point(examples, array))) for _ in range(2))
        except Exception:  # it takes JAX arrays alone, with which it has been traced
            continue
        if not np.array_equal(first, second, equal_nan=True):
            raise ModelError(
                f"{name} gives another value each time that it is called with the same arguments: it is traced once, "
                "so what is random in it would be a constant; leave it out, and let noise come from the diffusion, the "
                "observation or a parameter"
            )
        return


def _refuse_index_out_of_range(name: str, function: Callable[..., Any], examples: Sequence[Any]) -> None:
    """Raise ModelError if an index is out of range, with the same fault at two points far from each other.

    An index that depends on the arguments may be in range at the states and parameters that matter.
    """
    for faults_at in (_faults_of_numpy, _faults_of_jax) if _indexes(function, examples) else (_faults_of_numpy,):
        faults = {*faults_at(function, examples)}
        if len(faults) == 1 and (fault := faults.pop()):
            raise ModelError(f"{name} indexes out of range: {fault}")


def _indexes(function: Callable[..., Any], examples: Sequence[Any]) -> bool:
    """Tell whether JAX arrays are indexed in a way that may be out of range; in most functions none is."""
    trace = str(jax.make_jaxpr(function)(*examples))
    return any(operation in trace for operation in ("gather", "scatter", "dynamic_slice", "dynamic_update"))


def _faults_of_numpy(function: Callable[..., Any], examples: Sequence[Any]) -> Iterator[str]:
    """Give numpy's message about an index of an argument that is out of range, or nothing, at each of `SCALES`."""
    for scale in SCALES:
        try:
            with _quiet():
                jax.make_jaxpr(lambda scale=scale: function(*_point(examples, np.asarray, scale)))()
        except IndexError as error:
            yield str(error)
        except Exception:  # the function needs JAX arrays
            yield ""
        else:
            yield ""


def _faults_of_jax(function: Callable[..., Any], examples: Sequence[Any]) -> Iterator[str]:
    """Give checkify's message about an index of a JAX array that is out of range, or nothing, at each of `SCALES`."""
    checked = jax.jit(checkify.checkify(function, errors=checkify.index_checks))
    for scale in SCALES:
        try:
            with _quiet():
                fault = checked(*_point(examples, np.asarray, scale))[0].get()
        except Exception:  # an operation that checkify does not know
            fault = None
        yield "" if fault is None else fault.splitlines()[0].split(": ", 1)[-1]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings: at points that a model need not be made for, infinities and NaN mean nothing."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _point(examples: Sequence[Any], array: Callable[..., Any], scale: float = 1.0) -> tuple[Any, ...]:
    """Return arguments with values near `scale`, all different within an array."""

    def fill(example: Struct) -> Any:
        size = int(np.prod(example.shape, dtype=int))
        return array(scale * (1.0 + 0.1 * np.arange(size).reshape(example.shape) / max(size, 1)))

    return jax.tree.map(fill, tuple(examples))
