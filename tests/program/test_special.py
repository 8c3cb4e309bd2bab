"""Special functions over their whole range, against SciPy and JAX."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest
import scipy.special
from jax import lax

from pathfold.program.graph import Graph
from pathfold.program.interpret import input_nodes
from pathfold.program.trace import trace
from pathfold.program.unsupported import UnsupportedPrimitive
from tests.program.kernels import check, evaluate


def agrees(function, expected, x, rtol):
    x = np.asarray(x, dtype=float)
    np.testing.assert_allclose(evaluate(function, x)[0], expected(x), rtol=rtol)


def derivatives(function):
    first, second = jax.grad(function), jax.grad(jax.grad(function))
    return lambda x: [first(x), second(x), jax.grad(second)(x)]


TAILS = np.concatenate([10.0 ** -np.arange(1.0, 301.0, 23.0), [0.02425, 0.074, 0.0751, 0.3, 0.5]])


def test_normal_quantile_down_to_the_smallest_probabilities():
    agrees(jsp.special.ndtri, scipy.special.ndtri, TAILS, rtol=2e-15)
    agrees(jsp.special.ndtri, scipy.special.ndtri, 1.0 - TAILS[TAILS > 1e-12], rtol=2e-15)


def test_normal_quantile_at_and_beyond_the_ends():
    ends = evaluate(jsp.special.ndtri, np.array([0.0, 1.0, -0.1, 1.1, np.nan, 0.5]))[0]
    np.testing.assert_array_equal(ends, [-np.inf, np.inf, np.nan, np.nan, np.nan, 0.0])


def test_inverse_error_function():
    x = np.array([1e-300, 1e-10, 0.1, 0.8499, 0.8501, 0.99, 1 - 1e-10, 1 - 2.0**-53])
    agrees(lax.erf_inv, scipy.special.erfinv, x, rtol=3e-15)
    agrees(lax.erf_inv, scipy.special.erfinv, -x, rtol=3e-15)
    ends = evaluate(lax.erf_inv, np.array([-1.0, 1.0, 1.1, np.nan, 0.0]))[0]
    np.testing.assert_array_equal(ends, [-np.inf, np.inf, np.nan, np.nan, 0.0])


def test_higher_derivatives_of_the_error_functions():
    functions = lax.erf, lax.erfc, lax.erf_inv, jsp.stats.norm.cdf, jsp.stats.norm.logcdf
    x = np.array([-0.9, -0.3, 0.0, 0.45, 0.97])
    check(lambda x: [derivatives(function)(x) for function in functions], x, rtol=1e-11)


def test_higher_derivatives_of_the_normal_quantile():
    check(derivatives(jsp.stats.norm.ppf), np.array([1e-3, 0.2, 0.5, 0.7, 0.995]), rtol=1e-11)


def test_error_function_far_out():
    x = np.array([-30.0, -6.0, -1e-12, 5.0, 20.0, 26.0])
    agrees(lax.erf, scipy.special.erf, x, rtol=1e-15)
    agrees(lax.erfc, scipy.special.erfc, x, rtol=1e-14)
    agrees(jax.grad(lax.erfc), lambda x: -2 / np.sqrt(np.pi) * np.exp(-x * x), x, rtol=1e-12)


def test_log_of_the_normal_distribution_function_far_out():
    x = np.array([-200.0, -40.0, -19.0, -5.0, 0.0, 3.0, 9.0])
    agrees(jsp.special.log_ndtr, scipy.special.log_ndtr, x, rtol=1e-6)  # JAX's own series at -20 is no better
    check(jsp.special.log_ndtr, x)
    check(jax.grad(jsp.special.log_ndtr), x, rtol=1e-10)


POSITIVE = np.array([1e-8, 1e-3, 0.3, 1.0, 1.4616321449683622, 2.0, 3.7, 19.5, 20.5, 1e3, 1e8])
NEGATIVE = np.array([-0.3, -1.5, -4.2, -9.9])


def test_log_gamma():
    agrees(lax.lgamma, scipy.special.gammaln, [1e-8, 1e-3, 0.3, 1.5, 3.7, 19.5, 1e3, 1e8, -0.3, -1.5, -4.2], rtol=2e-14)


@pytest.mark.parametrize("order", range(5))
def test_polygamma(order):
    def ours(x):
        return jsp.special.polygamma(order, x) if order else lax.digamma(x)

    x, rtol, atol = POSITIVE, 2e-14, 2e-15  # digamma has a zero
    np.testing.assert_allclose(evaluate(ours, x)[0], scipy.special.polygamma(order, x), rtol=rtol, atol=atol)


def test_digamma_of_negative_numbers():
    x = NEGATIVE
    np.testing.assert_allclose(evaluate(lax.digamma, x)[0], scipy.special.digamma(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(evaluate(lax.digamma, np.array([-12.5, np.nan]))[0], np.nan)


def test_derivatives_of_log_gamma():
    x = np.array([0.2, 1.3, 4.0, 17.0, 60.0])
    expected = [scipy.special.polygamma(order, x) for order in range(3)]
    np.testing.assert_allclose(evaluate(derivatives(lax.lgamma), x), expected, rtol=1e-13)


def test_functions_of_log_gamma():
    x = np.array([0.2, 1.3, 4.0, 17.0, 60.0])
    functions = [jsp.special.gammaln, lambda x: jsp.special.betaln(x, 2.5), lambda x: jsp.stats.gamma.logpdf(1.3, x)]
    functions += [jsp.special.factorial, lambda x: jsp.stats.t.logpdf(0.4, x), jsp.special.gamma]
    check(lambda x: [f(x) for f in functions], x, rtol=1e-11, atol=1e-12)


def test_order_of_polygamma_must_be_constant():
    g = Graph()
    x = input_nodes(g, "x", (2,))
    with pytest.raises(UnsupportedPrimitive, match="constant order"):
        trace(g, lambda x: lax.polygamma(x[0], x[1]), x)


def test_logistic_far_out():
    x = np.array([-700.0, -40.0, 0.0, 40.0, 700.0])
    agrees(lax.logistic, scipy.special.expit, x, rtol=1e-15)
    agrees(jax.nn.log_sigmoid, scipy.special.log_expit, x, rtol=1e-15)
    agrees(jax.nn.softplus, lambda x: np.logaddexp(x, 0.0), x, rtol=1e-15)


def test_constants_fold_to_the_same_values():
    """What the graph computes itself is what the machine would."""
    values = np.array([0.3, 0.45, 0.7, 0.9])
    functions = [jsp.special.ndtri, lax.erf_inv, lax.digamma, lax.logistic, jnp.sinh, jnp.cbrt, jnp.exp2, lax.lgamma]

    def all_of(x):
        return jnp.stack([f(x) for f in functions])

    g = Graph()
    folded = trace(g, lambda: all_of(jnp.asarray(values)))
    computed = evaluate(all_of, values)[0]
    found = np.array([[g.value(int(n)) for n in row] for row in folded], dtype=float)
    np.testing.assert_allclose(found, computed.T, rtol=1e-14)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="there is no longer float to compare with")
def test_exponential_is_right_to_the_last_bit_but_one():
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [rng.uniform(-708.0, 709.7, 4000), rng.uniform(-1.0, 1.0, 4000), 10.0 ** rng.uniform(-20, 0, 500)]
    )
    exact = np.exp(x.astype(np.longdouble))
    errors = (evaluate(jnp.exp, x)[0] - exact) / np.spacing(exact.astype(float))
    assert np.abs(errors).max() < 1.0


def test_logarithm_is_right_to_the_last_bit_but_one():
    rng = np.random.default_rng(1)
    small = 10.0 ** rng.uniform(-18.0, -1.0, 2000)
    wide, near = np.exp(rng.uniform(-740.0, 709.0, 4000)), rng.uniform(0.3, 3.0, 4000)
    x = np.concatenate([wide, near, 1.0 + small, 1.0 - small])
    exact = np.log(x.astype(np.longdouble))
    errors = (evaluate(jnp.log, x)[0] - exact) / np.spacing(np.abs(exact).astype(float))
    assert np.abs(errors).max() < 1.0


def test_logarithm_at_the_ends_of_its_range():
    x = np.array([0.0, -0.0, 1.0, 5e-324, 2.0**-1022, 1.7e308, np.inf, -1.0, -1e-320, -np.inf, np.nan, 2.0**0.5])
    found = evaluate(jnp.log, x)[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.log(x)
    np.testing.assert_allclose(found, expected, rtol=2e-16)


def test_exponential_at_the_ends_of_its_range():
    x = np.array([0.0, -0.0, 709.78, 709.79, 1e3, 1e300, np.inf, -745.0, -745.2, -1e3, -1e300, -np.inf, np.nan, -720.0])
    found = evaluate(jnp.exp, x)[0]
    with np.errstate(over="ignore", under="ignore"):
        expected = np.exp(x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, rtol=4e-16, atol=5e-324)
    assert found[0] == found[1] == 1.0
