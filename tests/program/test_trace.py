"""Every primitive that model functions use gives, compiled, what JAX gives; the others say what to do instead."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jax import lax
from jax.flatten_util import ravel_pytree

from pathfold.errors import ModelError
from pathfold.program.graph import Graph
from pathfold.program.interpret import input_nodes
from pathfold.program.trace import check_compilable, trace
from tests.program.kernels import LANES, check, evaluate

EXACT = 4e-15  # a few roundings: sums of products may be reordered and contracted


def draw(shape: tuple[int, ...] = (), low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """Uniform numbers, others in every lane."""
    return np.random.default_rng(seed).uniform(low, high, (LANES, *shape))


X = draw(low=-2.0, high=2.0)
POSITIVE = draw(low=0.1, high=3.0, seed=1)
UNIT = draw(low=-0.95, high=0.95, seed=2)
VECTOR = draw((3,), seed=3)
MATRIX = draw((3, 3), seed=4)
HALVES = np.array([-2.5, -0.5, 0.5, 1.5, 2.4])


BINARY = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "divide": jnp.divide,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "arctan2": jnp.arctan2,
    "hypot": jnp.hypot,
    "logaddexp": jnp.logaddexp,
    "rem": lax.rem,
    "mod": jnp.mod,
    "floor_divide": jnp.floor_divide,
    "copysign-like": lambda x, y: jnp.abs(x) * jnp.sign(y),
    "mixed": lambda x, y: (x + 2.0 * y) * (x - y) / (1.0 + y * y) - 3.0 / x,
}


def test_arithmetic():
    check(lambda x, y: {name: f(x, y) for name, f in BINARY.items()}, X, draw(seed=9), rtol=EXACT, atol=EXACT)


POWERS = {
    "square": lambda x: x**2,
    "fifth": lambda x: x**5,
    "negative": lambda x: x**-3,
    "zero": lambda x: x**0,
    "fractional": lambda x: x**1.7,
    "negative fractional": lambda x: x**-0.3,
    "half": lambda x: x**0.5,
    "minus half": lambda x: x**-0.5,
    "float integer": lambda x: jnp.power(x, 3.0),
    "large integer": lambda x: x**21,
    "constant base": lambda x: 2.0**x + 10.0**x + 0.3**x,
    "traced": lambda x: x ** jnp.sin(x),
    "square function": lax.square,
}


def with_derivatives(function, x):
    return [function(x), jax.grad(function)(x), jax.grad(jax.grad(function))(x)]


def test_powers_and_their_derivatives():
    check(lambda x: {name: with_derivatives(f, x) for name, f in POWERS.items()}, POSITIVE, rtol=1e-13)


def test_integer_powers_of_negative_numbers():
    check(lambda x: [x**2, x**3, x**-1, x**-2, jnp.power(x, 4.0)], X, rtol=EXACT)


SMOOTH = {  # with arguments where they and their derivatives are finite
    "exp": (jnp.exp, X),
    "exp2": (jnp.exp2, X),
    "expm1": (jnp.expm1, X * 1e-3),
    "log": (jnp.log, POSITIVE),
    "log2": (jnp.log2, POSITIVE),
    "log10": (jnp.log10, POSITIVE),
    "log1p": (jnp.log1p, POSITIVE * 1e-3),
    "sqrt": (jnp.sqrt, POSITIVE),
    "rsqrt": (lax.rsqrt, POSITIVE),
    "cbrt": (jnp.cbrt, X),
    "sin": (jnp.sin, X),
    "cos": (jnp.cos, X),
    "sin and cos": (lambda x: jnp.sin(x) * jnp.cos(x), X),
    "tan": (jnp.tan, UNIT),
    "arcsin": (jnp.arcsin, UNIT),
    "arccos": (jnp.arccos, UNIT),
    "arctan": (jnp.arctan, X),
    "sinh": (jnp.sinh, X),
    "cosh": (jnp.cosh, X),
    "tanh": (jnp.tanh, X),
    "arcsinh": (jnp.arcsinh, X),
    "arccosh": (jnp.arccosh, 1.0 + POSITIVE),
    "arctanh": (jnp.arctanh, UNIT),
    "sinc": (jnp.sinc, X),
    "logistic": (lax.logistic, 5 * X),
    "logit": (jsp.special.logit, 0.5 + 0.5 * UNIT),
    "erf": (lax.erf, X),
    "erfc": (lax.erfc, X),
    "erf_inv": (lax.erf_inv, UNIT),
    "norm.cdf": (jsp.stats.norm.cdf, X),
    "norm.ppf": (jsp.stats.norm.ppf, 0.5 + 0.5 * UNIT),
    "norm.logpdf": (jsp.stats.norm.logpdf, X),
    "norm.logcdf": (jsp.stats.norm.logcdf, 3 * X),
    "norm.sf": (jsp.stats.norm.sf, X),
    "xlogy": (lambda x: jsp.special.xlogy(x, x), POSITIVE),
    "entr": (jsp.special.entr, POSITIVE),
    "softplus": (jax.nn.softplus, 5 * X),
    "swish": (jax.nn.swish, X),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), X),
    "log_sigmoid": (jax.nn.log_sigmoid, 5 * X),
    "soft_sign": (jax.nn.soft_sign, X),
    "squareplus": (jax.nn.squareplus, X),
    "mish": (jax.nn.mish, X),
    "polyval": (lambda x: jnp.polyval(jnp.array([1.0, -2.0, 0.5]), x), X),
}


def test_elementary_functions_and_their_derivatives():
    check(
        lambda *args: {name: with_derivatives(f, x) for (name, (f, _)), x in zip(SMOOTH.items(), args, strict=True)},
        *(x for _, x in SMOOTH.values()),
    )


PIECEWISE = {
    "abs": jnp.abs,
    "sign": jnp.sign,
    "clip": lambda x: jnp.clip(x, -1.0, 0.7),
    "clamp": lambda x: lax.clamp(-0.3, x, 1.0),
    "relu": jax.nn.relu,
    "relu6": lambda x: jax.nn.relu6(5 * x),
    "leaky_relu": jax.nn.leaky_relu,
    "elu": jax.nn.elu,
    "selu": jax.nn.selu,
    "hard_tanh": jax.nn.hard_tanh,
    "hard_sigmoid": jax.nn.hard_sigmoid,
    "where": lambda x: jnp.where(x > 0.5, x**2, jnp.sin(x)),
    "where without value": lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0),
    "piecewise": lambda x: jnp.piecewise(x, [x < -1, x > 1], [lambda x: -x, lambda x: x**2, 0.5]),
    "select": lambda x: jnp.select([x < -1, x < 1], [x, x**2], 3.0),
    "heaviside": lambda x: x * jnp.heaviside(x, 0.5),
}


def test_piecewise_functions_and_their_derivatives():
    x = np.array([-1.9, -0.4, 0.2, 0.8, 1.6])
    check(lambda x: {name: [f(x), jax.grad(f)(x)] for name, f in PIECEWISE.items()}, x)


COMPARISONS = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "and": lambda x, y: (x > 0) & (y > 0),
    "or": lambda x, y: (x > 0) | (y > 0),
    "xor": lambda x, y: (x > 0) ^ (y > 0),
    "not": lambda x, y: ~(x > y),
    "equal truths": lambda x, y: (x > 0) == (y > 0),
    "unequal truths": lambda x, y: (x > 0) != (y > 0),
    "ordered truths": lambda x, y: jnp.array([lax.lt(x > 0, y > 0), lax.le(x > 0, y > 0)]),
    "maximum of truths": lambda x, y: jnp.maximum(x > 0, y > 0),
    "product of truths": lambda x, y: (x > 0) * (y > 0),
    "sum of truths": lambda x, y: (x > 0) + (y > 0),
    "where on truths": lambda x, y: jnp.where(x > 0, y > 0, x < y),
    "count": lambda x, y: jnp.sum(jnp.stack([x, y, x * y]) > 0),
    "all": lambda x, y: jnp.all(jnp.stack([x, y]) > 0),
    "any": lambda x, y: jnp.any(jnp.stack([x, y]) > 0),
    "isfinite": lambda x, y: jnp.isfinite(x) & ~jnp.isnan(y) & ~jnp.isinf(x),
}


def test_comparisons_and_logic():
    x, y = np.array([-1.0, -0.5, 0.3, 0.7, 0.7]), np.array([-1.0, 0.5, -0.3, 0.9, 0.2])
    check(
        lambda x, y: {name: jnp.asarray(f(x, y), dtype=float) for name, f in COMPARISONS.items()}, x, y, rtol=0, atol=0
    )


def test_rounding():
    functions = [jnp.floor, jnp.ceil, jnp.round, jnp.trunc, jnp.rint, lax.round, lambda x: lax.rem(x, 2.0)]
    check(lambda x: [f(x) for f in functions], HALVES, rtol=0, atol=0)
    check(lax.round, np.array([0.49999999999999994, -0.49999999999999994, 4503599627370497.0, -0.0, -1.2]), atol=0)


INDEX = np.array([2, 0, -1])

ARRAYS = {
    "reshape": lambda x, a: a.reshape(9, 1),
    "ravel": lambda x, a: a.ravel(order="F"),
    "transpose": lambda x, a: a.T * x,
    "broadcast": lambda x, a: jnp.broadcast_to(x, (2, 3)) + x[:, None].T,
    "slice": lambda x, a: a[1:, :2],
    "strides": lambda x, a: a[::2, 1::2],
    "negative strides": lambda x, a: a[::-1, ::-2],
    "negative index": lambda x, a: a[-1, -2] * x[0],
    "new axis": lambda x, a: x[None, :, None],
    "ellipsis": lambda x, a: a[..., 1],
    "concatenate": lambda x, a: jnp.concatenate([x, a[0], x[:1]]),
    "stack": lambda x, a: jnp.stack([x, a[1]], axis=1),
    "unstack": lambda x, a: sum(jnp.unstack(a, axis=1)),
    "unpack": lambda x, a: (lambda p, q, r: p * q - r)(*x),
    "split": lambda x, a: jnp.split(a, [1, 2], axis=1)[1],
    "append": lambda x, a: jnp.append(x, 2.0),
    "pad": lambda x, a: jnp.pad(x, (1, 2), constant_values=3.0),
    "negative pad": lambda x, a: lax.pad(a, 0.5, [(-1, 2, 0), (1, -2, 0)]),
    "interior pad": lambda x, a: lax.pad(x, 0.5, [(-1, 1, 2)]),
    "roll": lambda x, a: jnp.roll(a, 1, axis=0),
    "flip": lambda x, a: jnp.flip(a, 1),
    "tile": lambda x, a: jnp.tile(a, (2, 1)),
    "repeat": lambda x, a: jnp.repeat(x, 2),
    "squeeze": lambda x, a: jnp.squeeze(a[:1], 0),
    "expand_dims": lambda x, a: jnp.expand_dims(x, 1),
    "swapaxes": lambda x, a: jnp.swapaxes(a[None], 0, 2),
    "diag": lambda x, a: jnp.diag(x) + jnp.diag(jnp.diag(a, 1), -1),
    "diagonal": lambda x, a: jnp.diagonal(a),
    "trace": lambda x, a: jnp.trace(a),
    "tril": lambda x, a: jnp.tril(a, -1),
    "triu": lambda x, a: jnp.triu(a),
    "eye": lambda x, a: jnp.eye(3) * x,
    "zeros and ones": lambda x, a: jnp.zeros_like(x) + jnp.ones(3) * x + jnp.full(3, 2.0),
    "arange": lambda x, a: jnp.arange(3) * x + jnp.linspace(0.0, 1.0, 3),
    "outer": lambda x, a: jnp.outer(x, a[0]),
    "kron": lambda x, a: jnp.kron(a, x),
    "cross": lambda x, a: jnp.cross(x, a[0]),
    "meshgrid": lambda x, a: jnp.meshgrid(x, a[0])[0],
    "constant indices": lambda x, a: x[INDEX],
    "constant pairs": lambda x, a: a[INDEX, np.array([0, 1, 1])],
    "constant columns": lambda x, a: a[:, INDEX],
    "constant mask": lambda x, a: x[np.array([True, False, True])],
    "take": lambda x, a: jnp.take(a, INDEX, axis=1),
    "take_along_axis": lambda x, a: jnp.take_along_axis(a, np.array([[0], [2], [1]]), 1),
    "outside filled": lambda x, a: x.at[np.array([1, 5])].get(mode="fill", fill_value=7.0),
    "outside clipped": lambda x, a: x.at[np.array([1, 5])].get(mode="clip"),
    "outside": lambda x, a: x.at[np.array([1, 5])].get(mode="fill"),
    "set": lambda x, a: x.at[1].set(a[0, 0]),
    "set row": lambda x, a: a.at[0].set(x),
    "set block": lambda x, a: a.at[1:, :2].set(x[:2]),
    "set many": lambda x, a: a.at[INDEX, INDEX].set(x),
    "set outside": lambda x, a: x.at[5].set(1.0),
    "add": lambda x, a: x.at[1].add(a[0, 0]),
    "add twice": lambda x, a: x.at[np.array([0, 0, 2])].add(a[0]),
    "add columns": lambda x, a: a.at[:, np.array([1, 1])].add(x[:, None]),
    "subtract": lambda x, a: x.at[np.array([0, 0])].subtract(a[0, :2]),
    "multiply": lambda x, a: x.at[np.array([0, 2])].multiply(a[0, :2], unique_indices=True),
    "multiply twice": lambda x, a: lax.stop_gradient(x).at[np.array([0, 0, 2])].multiply(lax.stop_gradient(a[0])),
    "divide": lambda x, a: x.at[1].divide(a[0, 0]),
    "max": lambda x, a: x.at[:2].max(a[0, :2]),
    "min": lambda x, a: x.at[:2].min(a[0, :2]),
    "dynamic_slice": lambda x, a: lax.dynamic_slice(a, (1, 0), (2, 2)),
    "dynamic_update_slice": lambda x, a: lax.dynamic_update_slice(a, x[None, :2], (2, 1)),
    "dynamic_index": lambda x, a: lax.dynamic_index_in_dim(a, 1, 0),
    "one_hot": lambda x, a: jax.nn.one_hot(1, 3) * x,
    "block": lambda x, a: jnp.block([[a, x[:, None]], [x, jnp.ones(1)]]),
    "vander": lambda x, a: jnp.vander(x, 3),
    "diff": lambda x, a: jnp.diff(x),
    "gradient": lambda x, a: jnp.gradient(x),
    "empty": lambda x, a: jnp.sum(x[:0]) + jnp.prod(a[:, :0], axis=1) + a[:, :0] @ jnp.zeros((0, 3)),
    "matmul": lambda x, a: a @ a.T,
    "matvec": lambda x, a: a @ x,
    "vdot": lambda x, a: jnp.vdot(x, x),
    "tensordot": lambda x, a: jnp.tensordot(a, a, axes=([0], [1])),
    "einsum": lambda x, a: jnp.einsum("ij,j,kj->ik", a, x, a),
    "einsum trace": lambda x, a: jnp.einsum("ii->", a),
    "batched": lambda x, a: jnp.einsum("bij,bj->bi", jnp.stack([a, 2 * a]), jnp.stack([x, a[0]])),
    "vmap": lambda x, a: jax.vmap(lambda row: jnp.dot(row, x) * row)(a),
    "sum": lambda x, a: [jnp.sum(a), jnp.sum(a, axis=0), jnp.sum(a, axis=1, keepdims=True)],
    "prod": lambda x, a: jnp.prod(a, axis=0),
    "extrema": lambda x, a: [jnp.max(a), jnp.min(a, axis=1), jnp.max(a, axis=(0, 1)), jnp.ptp(x)],
    "argument": lambda x, a: [x * jnp.argmax(x), jnp.argmin(a, axis=1) * 1.0, x[jnp.argmax(a[0])], jnp.argmax(a) * 1.0],
    "moments": lambda x, a: [jnp.mean(a, axis=0), jnp.var(x), jnp.std(x), jnp.linalg.norm(x)],
    "logsumexp": lambda x, a: [jsp.special.logsumexp(a, axis=1), jax.nn.softmax(x), jax.nn.log_softmax(x)],
    "cumulative": lambda x, a: [jnp.cumsum(a, axis=1), jnp.cumprod(x), lax.cummax(x), lax.cummin(x, reverse=True)],
    "cumlogsumexp": lambda x, a: [lax.cumlogsumexp(x), lax.cumlogsumexp(a, axis=1, reverse=True)],
    "reverse cumsum": lambda x, a: lax.cumsum(x, reverse=True),
    "det": lambda x, a: jnp.linalg.det(lax.stop_gradient(a)),
    "average": lambda x, a: jnp.average(x, weights=jnp.exp(a[0])),
    "polynomial": lambda x, a: lax.polynomial(x[0], [a[0, 0], x[1], 2.0]),
    "ravel_pytree": lambda x, a: ravel_pytree({"x": x, "a": a})[0],
    "single precision": lambda x, a: jnp.asarray(np.arange(3, dtype=np.float32)) * x,
    "constant sort": lambda x, a: jnp.sort(jnp.array([3.0, 1.0, 2.0])) * x,
    "constant solve": lambda x, a: jnp.linalg.inv(jnp.array([[2.0, 1.0], [0.5, 3.0]])) @ x[:2],
    "constant bits": lambda x, a: x * (jnp.arange(3) & 1) + (jnp.arange(3) << 1),
}


@pytest.mark.parametrize("part", range(8))  # several to a kernel: compiling takes the time
def test_array_functions_and_their_gradients(part):
    def with_gradient(function, x, a):
        def weighted(x, a):
            leaves = jax.tree.leaves(function(x, a))
            return sum(jnp.sum(jnp.sin(1.0 + jnp.arange(v.size, dtype=float)).reshape(v.shape) * v**2) for v in leaves)

        return [function(x, a), jax.grad(weighted, argnums=(0, 1))(x, a)]

    functions = dict([*ARRAYS.items()][part::8])
    check(
        lambda x, a: {name: with_gradient(function, x, a) for name, function in functions.items()},
        VECTOR, MATRIX, rtol=1e-12, atol=1e-13,
    )  # fmt: skip


def test_indices_that_depend_on_comparisons():
    grid = jnp.array([-1.0, 0.0, 0.5, 2.0])
    table = jnp.array([3.0, -1.0, 2.0, 5.0])
    x = np.array([-1.5, -1.0, 0.2, 0.5, 3.0])

    def interpolate(x):
        return jnp.interp(x, grid, table)

    check(lambda x: [interpolate(x), jax.grad(interpolate)(x)], x)
    check(lambda x: jnp.interp(jnp.stack([x, x + 0.1]), grid, table), x)
    check(lambda x: jnp.interp(x, grid, table, left=0.0, right=jnp.nan), x)
    check(lambda x: [jnp.searchsorted(grid, x), jnp.searchsorted(grid, x, side="right"), jnp.digitize(x, grid)], x)
    check(lambda x: table[jnp.searchsorted(grid, x)], x)  # beyond the last: NaN or clipped, as JAX has it
    check(lambda x: table[jnp.searchsorted(grid, jnp.stack([x, -x])) - 1], x)
    check(lambda x: jnp.outer(table, table)[(x > 0).astype(int), 1 + (x > 1).astype(int)], x)
    check(lambda x: lax.dynamic_slice(table, ((x > 0).astype(int) * 3,), (2,)), x)


def positive_definite(a):
    return a @ a.T + jnp.eye(3)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solves(lower, trans, unit):
    def solve(a, b):
        return jsp.linalg.solve_triangular(a + 3 * jnp.eye(3), b, lower=lower, trans=trans, unit_diagonal=unit)

    check(lambda a, b: [solve(a, b), solve(a, b[:, 0]), jax.jacfwd(solve)(a, b)], MATRIX, draw((3, 2), seed=5))


@pytest.mark.parametrize("transpose", [True, False])
def test_triangular_solves_from_the_right(transpose):
    def solve(a, b):
        return lax.linalg.triangular_solve(a + 3 * jnp.eye(3), b, left_side=False, lower=True, transpose_a=transpose)

    check(solve, MATRIX, draw((2, 3), seed=5))


def test_cholesky():
    def solve(a, b):
        return jsp.linalg.cho_solve(jsp.linalg.cho_factor(positive_definite(a)), b)

    def log_det(a):
        return 2 * jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(positive_definite(a)))))

    check(lambda a, b: [solve(a, b), jax.jacrev(solve)(a, b)], MATRIX, VECTOR, rtol=1e-11, atol=1e-12)
    check(lambda a: [log_det(a), jax.grad(log_det)(a)], MATRIX, rtol=1e-11)
    check(lambda a: jnp.linalg.cholesky(positive_definite(a), upper=True), MATRIX)
    check(lambda a: jax.vmap(jnp.linalg.cholesky)(jnp.stack([positive_definite(a), 2 * positive_definite(a)])), MATRIX)


@jax.custom_jvp
def with_tangent(x):
    return jnp.sin(x)


@with_tangent.defjvp
def _(primals, tangents):
    return with_tangent(primals[0]), 3.0 * tangents[0] * jnp.cos(primals[0])


@jax.custom_jvp
def with_truths(x):
    """Closes over truth values, which have no derivative."""
    return jnp.where(np.array([True, False]), jnp.stack([x, x]), 0.0).sum()


@with_truths.defjvp
def _(primals, tangents):
    return with_truths(*primals), tangents[0] * jnp.cos(with_truths(*primals))


@jax.custom_vjp
def with_cotangent(x):
    return x**3


with_cotangent.defvjp(lambda x: (x**3, x), lambda x, g: (2.0 * g * x,))


@jax.custom_jvp
def exp_neg_sq(x):
    """Has the name of a function of JAX, and is another."""
    return jnp.cos(x)


@exp_neg_sq.defjvp
def _(primals, tangents):
    return exp_neg_sq(*primals), -jnp.sin(primals[0]) * tangents[0]


def scanned(x, reverse=False, length=None):
    xs = x * jnp.arange(1.0, 4.0)
    carry, ys = lax.scan(lambda c, y: (jnp.sin(c + y), c * y), x, xs, reverse=reverse, length=length)
    return carry + jnp.sum(ys * jnp.arange(3.0))


def newton_square_root(x):
    return lax.fori_loop(0, 6, lambda _, y: 0.5 * (y + x / y), 1.0 + x)


CALLS = {
    "jit": lambda x: jax.jit(lambda y: jax.jit(jnp.sin)(y) * y)(x),
    "custom_jvp": with_tangent,
    "custom_vjp": with_cotangent,
    "custom_jvp by an occupied name": exp_neg_sq,
    "checkpoint": jax.checkpoint(lambda x: jnp.sin(x) ** 2),
    "stop_gradient": lambda x: x * lax.stop_gradient(x),
    "scan": scanned,
    "reverse scan": lambda x: scanned(x, reverse=True),
    "scan without inputs": lambda x: lax.scan(lambda c, _: (c * x, None), x, None, length=3)[0],
    "scan of nothing": lambda x: lax.scan(lambda c, y: (c + y, c), x, jnp.zeros(0))[0] * x,
    "scan of structures": lambda x: lax.scan(
        lambda c, y: ({"a": c["b"], "b": c["a"] + y[0]}, (c["a"], y[1])),
        {"a": x, "b": x**2},
        (jnp.arange(3.0), jnp.arange(3) * x),
    )[0]["a"],
    "associative_scan": lambda x: jnp.sum(lax.associative_scan(jnp.multiply, x + jnp.arange(4.0))),
    "map": lambda x: jnp.sum(lax.map(lambda y: jnp.sin(x * y), jnp.arange(3.0))),
    "fori_loop": newton_square_root,
    "fori_loop with index": lambda x: lax.fori_loop(0, 3, lambda i, c: c.at[i].set(c[i - 1] * x), jnp.ones(3)).sum(),
    "cond": lambda x: lax.cond(x > 1.0, jnp.sin, lambda x: x**2, x),
    "constant cond": lambda x: lax.cond(jnp.array(True), jnp.sin, jnp.cos, x),
    "nested cond": lambda x: lax.cond(x > 1.0, jnp.sin, lambda y: lax.cond(y > 0.5, jnp.cos, jnp.tan, y), x),
    "constant switch": lambda x: lax.switch(jnp.array(7), [jnp.sin, jnp.cos, jnp.tan], x),
    "switch": lambda x: lax.switch(
        (x > 0.5).astype(int) + (x > 1.5), [lambda x: (x, x), lambda x: (x, x**2), lambda x: (jnp.sin(x), x)], x
    )[1],
    "select_n": lambda x: lax.select_n((x > 0.5).astype(jnp.int32) + (x > 1.5), x, x**2, x**3),
    "custom_root-like": lambda x: jnp.sqrt(x) * jax.named_call(jnp.sin, name="inner")(x),
    "custom_jvp with constants": lambda x: jax.grad(jax.jit(with_truths))(x),
    "linearize": lambda x: jax.linearize(jnp.sin, x)[1](2.0 * x),
    "hessian": lambda x: jax.hessian(lambda v: jnp.prod(jnp.sin(v)))(x * jnp.arange(1.0, 3.0))[0, 1],
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_within_functions(name):
    function = CALLS[name]
    check(lambda x: [function(x), jax.grad(function)(x)], POSITIVE)


def test_while_loop_that_constants_decide():
    def doubled(x):
        return lax.while_loop(lambda c: c[0] < 20, lambda c: (2 * c[0] + 1, c[1] * x), (1, x))

    check(doubled, X)


def test_pytrees_go_in_and_come_out():
    g = Graph()
    given = {"b": input_nodes(g, "b", (2,)), "a": input_nodes(g, "a", ())}
    out = trace(g, lambda tree: (tree["b"] + tree["a"], {"c": tree["a"]}), given)
    assert out[0].shape == (2,)
    assert out[1]["c"] == given["a"]


def callback(x):
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), x.dtype), x[0])


def printing(x):
    jax.debug.print("{}", x)
    return x


KEY = jax.random.key(0)

UNSUPPORTED = {  # operation that is named, a word of the advice
    "sort": (jnp.sort, "sort", "jnp.minimum"),
    "solve": (lambda x: jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(3), x), "lu", "cholesky"),
    "eigh": (lambda x: jnp.linalg.eigh(jnp.outer(x, x))[0], "eigh", "cholesky"),
    "svd": (lambda x: jnp.linalg.svd(jnp.outer(x, x))[1], "svd", "cholesky"),
    "qr": (lambda x: jnp.linalg.qr(jnp.outer(x, x))[1], "", "cholesky"),
    "random": (lambda x: x + jax.random.normal(jax.random.key(0)), "random", "deterministic"),
    "random with a key from outside": (lambda x: x + jax.random.normal(KEY), "random", "deterministic"),
    "random with an old key": (lambda x: x + jax.random.normal(jax.random.PRNGKey(0)), "random", "deterministic"),
    "print": (printing, "debug_print", "take jax.debug.print out"),
    "callback": (callback, "pure_callback", "jax.numpy"),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: 2 * c, x), "while", "fori_loop"),
    "fori_loop": (lambda x: lax.fori_loop(0, jnp.sum(x > 0), lambda i, c: 2 * c, x), "while", "fori_loop"),
    "index": (lambda x: x[x[0].astype(int)], "convert_element_type", "jnp.where"),
    "set at index": (lambda x: x.at[jnp.sum(x > 0)].set(1.0), "scatter", "jnp.where"),
    "complex": (lambda x: jnp.real((x * 1j) ** 2), "complex", "real"),
    "complex constant": (lambda x: jnp.abs(jnp.array([1j]) + x), "complex", "real"),
    "made complex": (lambda x: jnp.real(lax.complex(x, x)), "complex", "real"),
    "bessel": (jsp.special.i0e, "bessel_i0e", "elementary functions"),
    "fft": (lambda x: jnp.fft.fft(x).real, "", ""),
    "bits": (lambda x: lax.bitcast_convert_type(x, jnp.int64) * 1.0, "bitcast_convert_type", ""),
    "bits of a count": (lambda x: (x > 0).astype(int) & 1, "and", ""),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_operations_are_named(name):
    function, operation, advice = UNSUPPORTED[name]
    with pytest.raises(ModelError) as error:
        check_compilable("drift", function, (jax.ShapeDtypeStruct((3,), np.float64),))
    message = str(error.value)
    assert message.startswith("drift cannot be compiled")
    assert operation in message
    assert advice in message


def test_unsupported_derivatives_are_named():
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * jsp.special.i0e(primals[0])))
    with pytest.raises(ModelError, match=r"a derivative of drift cannot be compiled.*bessel_i0e"):
        check_compilable("drift", f, (jax.ShapeDtypeStruct((), np.float64),))
    with pytest.raises(ModelError, match=r"diffusion cannot be differentiated twice.*custom_jvp"):
        check_compilable("diffusion", with_cotangent, (jax.ShapeDtypeStruct((), np.float64),))


def test_supported_functions_pass():
    shapes = (jax.ShapeDtypeStruct((2,), np.float64), {"a": jax.ShapeDtypeStruct((), np.float64)})
    check_compilable("drift", lambda x, z: {"f": z["a"] * jnp.sin(x), "g": x > 0}, shapes)


def test_nan_and_infinity_pass_through():
    nan, inf = np.nan, np.inf
    x = np.array([nan, inf, -inf, -1.0, 800.0])
    functions = [
        jnp.log,
        jnp.exp,
        jnp.sqrt,
        lambda x: jnp.maximum(x, 1.0),
        lambda x: jnp.minimum(1.0, x),
        lambda x: jnp.clip(x, -2.0, 2.0),
        lambda x: jnp.where(x > 0, x, 2.0),
        lambda x: jnp.where(jnp.isnan(x), 5.0, x),
        lambda x: jnp.where(x > 0, jnp.log(x), -1.0),
        jnp.abs,
        jnp.sign,
        jnp.floor,
        lambda x: x * 2.0 + 1.0,
        lambda x: x - x * x,
        lambda x: 1.0 / x,
        lambda x: jnp.max(jnp.stack([x, x * x, 0.5])),
        lambda x: jsp.special.logsumexp(jnp.stack([x, 0.0])),
        lambda x: lax.cumlogsumexp(jnp.stack([x, x])),
        lambda x: jnp.argmax(jnp.stack([1.0, x, x * x, -x])),
        lambda x: jnp.argmin(jnp.stack([1.0, x, x * x, -x])),
        lambda x: x == x,
        lambda x: x != x,
        lambda x: ~(x < 1.0),
        lambda x: jnp.isfinite(x),
        lambda x: x ** jnp.abs(x),
        lambda x: jnp.exp(-x * x),
        jax.nn.sigmoid,
    ]
    check(lambda x: [jnp.asarray(f(x), dtype=float) for f in functions], x)
    ours = evaluate(lambda x: [jnp.log(x), jnp.exp(x), jnp.maximum(x, 1.0)], x)
    assert np.isnan(ours[0][3])
    assert np.isinf(ours[1][4])
    assert np.isnan(ours[2][0])


OPERATIONS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "recip": lambda a: np.divide(1.0, a),
    "abs": np.abs,
    "sin": np.sin,
    "exp": lambda a: np.exp(a),
    "select": lambda a, b, c: np.where(a < b, a, c),
    "pow": np.power,
    "square": np.square,
    "div": np.divide,
}
ARITY = {"neg": 1, "recip": 1, "abs": 1, "sin": 1, "exp": 1, "square": 1, "select": 3, "pow": 1}
INPUTS = 3


def expressions():
    leaves = st.one_of(st.integers(0, INPUTS - 1), st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 0.5]), st.floats(-3, 3))

    def extend(inner):
        def one(name):
            extra = (st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 1.3]),) if name == "pow" else ()
            return st.tuples(st.just(name), *[inner] * ARITY.get(name, 2), *extra)

        return st.sampled_from(sorted(OPERATIONS)).flatmap(one)

    return st.recursive(leaves, extend, max_leaves=14)


def build(g, inputs, expression):
    if isinstance(expression, int):
        return inputs[expression]
    if isinstance(expression, float):
        return g.const(expression)
    name, *args = expression
    nodes = [build(g, inputs, a) for a in args]
    match name:
        case "select":
            return g.op("select", g.op("lt", nodes[0], nodes[1]), nodes[0], nodes[2])
        case "square":
            return g.integer_power(nodes[0], 2)
        case "div":
            return g.div(*nodes)
    return g.op(name, *nodes)


def direct(expression, inputs):
    """The expression's value, and the largest finite size met on the way (NaN where anything is not finite)."""
    if isinstance(expression, int):
        return inputs[expression], abs(inputs[expression])
    if isinstance(expression, float):
        return expression, abs(expression)
    name, *args = expression
    values, sizes = zip(*(direct(a, inputs) for a in args), strict=True)
    value = OPERATIONS[name](*values)
    return value, max(*sizes, abs(value), 0.0) if np.isfinite(value) and np.all(np.isfinite(sizes)) else np.nan


def interpret(g, root, inputs):
    """The simplified graph's value, from its operations alone."""
    from pathfold.program.graph import _VALUE

    values = {}
    for n, op in enumerate(g.ops[: root + 1]):
        if op[0] == "const":
            values[n] = op[1]
        elif op[0] == "input":
            values[n] = inputs[op[2]]
        else:
            values[n] = _VALUE[op[0]](*(values[a] for a in op[1:]))
    return values[root]


@settings(max_examples=200, deadline=None)
@given(expressions(), st.lists(st.floats(-2, 2), min_size=INPUTS, max_size=INPUTS))
def test_simplification_changes_no_value(expression, inputs):
    inputs = np.asarray(inputs)
    g = Graph()
    root = build(g, input_nodes(g, "x", (INPUTS,)).tolist(), expression)
    with np.errstate(all="ignore"):
        expected, size = direct(expression, inputs)
        wiggled = [direct(expression, inputs * (1 + e))[0] for e in (1e-9, -1e-9)]
        found = interpret(g, root, inputs)
    # Where values are infinite, or sway with their inputs, rounding alone decides.
    assume(np.isfinite(size) and size < 1e6 and np.ptp(wiggled) < 1e-5 * (1 + abs(expected)))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * (1 + size))


def test_every_pair_of_simple_operations_keeps_its_value():
    leaves = [0, 1, 0.0, 1.0, -1.0, 2.5]
    unary = [(name, a) for name in ("neg", "recip", "abs", "square") for a in (0, 1)]
    binary = [(name, a, b) for name in ("add", "sub", "mul", "div") for a, b in ((0, 1), (1, 0), (0, 2.5), (2.5, 0))]
    inner = [*leaves, *unary, *binary]
    outer = [(name, a) for name in ("neg", "recip", "abs", "square") for a in inner]
    outer += [(name, a, b) for name in ("add", "sub", "mul", "div", "max", "min") for a in inner for b in inner]
    outer += [("pow", a, p) for a in inner for p in (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0)]
    outer += [("neg", e) for e in outer if e[0] in ("add", "sub", "mul", "neg")]
    inputs = np.array([0.7, 1.9, 0.0])
    for expression in outer:
        g = Graph()
        root = build(g, input_nodes(g, "x", (INPUTS,)).tolist(), expression)
        with np.errstate(all="ignore"):
            expected, size = direct(expression, inputs)
            found = interpret(g, root, inputs)
        if np.isfinite(size):
            assert found == pytest.approx(expected, rel=1e-12, abs=1e-14), expression


def test_the_same_expression_is_one_node():
    g = Graph()
    x = input_nodes(g, "x", (3,))
    first = trace(g, lambda x: jnp.sin(x[0] * x[1]) + jnp.exp(x[2]), x)
    count = len(g.ops)
    assert trace(g, lambda x: jnp.exp(x[2]) + jnp.sin(x[1] * x[0]), x) == first
    assert len(g.ops) == count
    a, b = x[:2].tolist()
    assert g.op("sub", a, g.op("neg", b)) == g.op("add", b, a)
    assert g.op("mul", g.op("neg", a), g.op("neg", b)) == g.op("mul", a, b)
    assert g.op("neg", g.op("neg", a)) == a
    assert g.op("recip", g.op("recip", a)) == a
    assert g.op("mul", g.const(2.0), g.op("mul", g.const(3.0), a)) == g.op("mul", g.const(6.0), a)


def test_constants_fold():
    g = Graph()
    out = trace(g, lambda: jnp.linalg.cholesky(jnp.diag(jnp.arange(1.0, 4.0))).sum() + jnp.sin(0.3))
    assert g.value(int(out)) == pytest.approx(1 + 2**0.5 + 3**0.5 + np.sin(0.3), rel=1e-15)
    assert g.value(g.div(g.const(49.0), g.const(49.0))) == 1.0
    assert g.value(g.op("lt", g.const(1.0), g.const(2.0))) is True
    assert g.const(1.0) != g.const(True)
    assert g.const(0.0) != g.const(-0.0)
    assert g.const(np.nan) == g.const(np.nan)


def test_zeros_and_ones_vanish():
    g = Graph()
    x = input_nodes(g, "x", (3,))

    def same(x):
        return jnp.eye(3) @ (x + 0.0) * 1.0 - jnp.zeros((3, 3)) @ x + 0.0 * x[::-1] / 1.0 + (x[0] ** 0 - 1.0)

    assert trace(g, same, x).tolist() == x.tolist()
    assert trace(g, lambda x: jax.jacfwd(lambda y: 2.0 * y)(x), x).tolist() == [
        [g.const(2.0 * (i == j)) for j in range(3)] for i in range(3)
    ]
    assert trace(g, lambda x: jnp.where(jnp.arange(3) < 3, x, jnp.sin(x)), x).tolist() == x.tolist()
    assert trace(g, lambda x: x - x, x).tolist() == [g.const(0.0)] * 3
