"""Ito operators against hand derivations, schemes against formulas, and measured strong orders."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pathfold.errors import ModelError
from pathfold.example_models import fitzhugh_nagumo
from pathfold.schemes import (
    SDE,
    CustomScheme,
    EulerMaruyama,
    ExactLinearDrift,
    LinearlyImplicit,
    Milstein,
    StrongOrder1p5,
    noise_operator,
    time_operator,
)


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def brownian_path(seed, fine_steps, wiener_dim, paths):
    """Increments dW of `paths` Wiener paths on [0, 1], (paths, fine_steps, B)."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((paths, fine_steps, wiener_dim)) / np.sqrt(fine_steps)


def normals(scheme, dw, steps):
    """The scheme's standard normals for `steps` coarse steps of the paths dw: dW, or dW and its time integral dZ."""
    paths, fine_steps, wiener_dim = dw.shape
    ratio, delta = fine_steps // steps, 1.0 / steps
    dw = dw.reshape(paths, steps, ratio, wiener_dim)
    v1 = dw.sum(axis=2) / np.sqrt(delta)
    if not isinstance(scheme, StrongOrder1p5):
        return v1
    # the trapezium rule for dZ = int (W_s - W_0) ds, exact given the increments up to terms of order fine^(3/2)
    time_left = (ratio - np.arange(ratio) - 0.5) / fine_steps
    dz = np.einsum("psrb,r->psb", dw, time_left)
    return np.concatenate([v1, np.sqrt(3) * (2 * dz / delta**1.5 - v1)], axis=-1)


def final_state(scheme, sde, x0, v):
    """x(1) by the scheme for all paths, with v (paths, steps, V)."""
    steps = v.shape[1]

    def path(v):
        def step(x, item):
            return scheme.step(sde, {}, x, item[1], 1.0 / steps, item[0] / steps), None

        return jax.lax.scan(step, jnp.asarray(x0), (jnp.arange(float(steps)), v))[0]

    return np.asarray(jax.jit(jax.vmap(path))(v))


def measured_order(scheme, sde, x0, exact, dw, all_steps=(16, 32, 64, 128)):
    """The slope of log E|x(1) - exact| against log delta."""
    errors = [np.mean(np.abs(final_state(scheme, sde, x0, normals(scheme, dw, n)) - exact)) for n in all_steps]
    return -np.polyfit(np.log(all_steps), np.log(errors), 1)[0]


@pytest.mark.parametrize(("scheme", "order"), [(EulerMaruyama(), 0.5), (Milstein(), 1.0), (StrongOrder1p5(), 1.5)])
def test_strong_order_on_geometric_brownian_motion(scheme, order):
    mu, sigma = 0.5, 1.0
    sde = SDE(lambda x, z, t: mu * x, lambda x, z, t: sigma * x[:, None])
    dw = brownian_path(1, 4096, 1, 1000)
    exact = np.exp(mu - sigma**2 / 2 + sigma * dw.sum(axis=1))
    assert measured_order(scheme, sde, np.ones(1), exact, dw) == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize(("scheme", "order"), [(Milstein(), 1.0), (StrongOrder1p5(), 1.5)])
def test_strong_order_with_additive_time_dependent_noise(scheme, order):
    """A non-linear model with two noises, against the order 1.5 scheme on a grid 32 times finer."""
    mixing = jnp.array([[1.0, 0.4], [-0.3, 0.8]])
    sde = SDE(
        lambda x, z, t: jnp.array([x[1] - jnp.sin(2 * x[0]), jnp.cos(x[0]) * x[1]]),
        lambda x, z, t: mixing * (1 + jnp.sin(3 * t)),
    )
    dw, x0 = brownian_path(2, 4096, 2, 250), np.array([0.3, -0.2])
    fine = StrongOrder1p5()
    exact = final_state(fine, sde, x0, normals(fine, dw, 2048))
    assert measured_order(scheme, sde, x0, exact, dw, (8, 16, 32, 64)) == pytest.approx(order, abs=0.1)


def test_strong_order_of_milstein_with_commutative_noise_in_two_dimensions():
    """dx = x * (S dW) elementwise with a full matrix S: each x_k a geometric Brownian motion, L^i b_j symmetric."""
    loading = np.array([[0.7, 0.4], [-0.3, 0.6]])
    sde = SDE(lambda x, z, t: 0.3 * x, lambda x, z, t: x[:, None] * loading)
    Milstein().check(sde, [(np.array([1.0, 2.0]), {}, 0.0)])
    dw = brownian_path(3, 1024, 2, 1000)
    exact = np.exp(0.3 - 0.5 * (loading**2).sum(axis=1) + dw.sum(axis=1) @ loading.T)
    assert measured_order(Milstein(), sde, np.ones(2), exact, dw) == pytest.approx(1.0, abs=0.1)


def test_ito_operators_match_a_hand_derivation():
    """a = [x_0 x_1, sin x_0], b = [[x_1, 0], [1, x_0^2]], f = t x_0^2 x_1."""
    sde = SDE(
        lambda x, z, t: jnp.array([x[0] * x[1], jnp.sin(x[0])]),
        lambda x, z, t: jnp.array([[x[1], 0.0], [1.0, x[0] ** 2]]),
    )

    def f(x, z, t):
        return t * x[0] ** 2 * x[1]

    p, q, t = 0.7, -1.3, 0.4
    x = jnp.array([p, q])
    gradient = np.array([2 * t * p * q, t * p**2])
    hessian = np.array([[2 * t * q, 2 * t * p], [2 * t * p, 0.0]])
    b = np.array([[q, 0.0], [1.0, p**2]])
    l0 = p**2 * q + gradient @ [p * q, np.sin(p)] + 0.5 * np.trace(b.T @ hessian @ b)
    np.testing.assert_allclose(time_operator(sde, f)(x, {}, t), l0, rtol=1e-14)
    for j in range(2):
        np.testing.assert_allclose(noise_operator(sde, j, f)(x, {}, t), gradient @ b[:, j], rtol=1e-14)


def test_order_1p5_step_is_the_papers_forward_operator_for_fitzhugh_nagumo():
    model, truth = fitzhugh_nagumo.noiseless(), fitzhugh_nagumo.TRUTH
    sigma, epsilon, gamma, beta = truth["sigma"], truth["epsilon"], truth["gamma"], truth["beta"]
    rng = np.random.default_rng(4)
    for _ in range(5):
        x, v, delta = rng.standard_normal(2), rng.standard_normal(2), 0.2 / 25
        a = np.array([(x[0] - x[0] ** 3 - x[1]) / epsilon, gamma * x[0] - x[1] + beta])
        jacobian = np.array([[(1 - 3 * x[0] ** 2) / epsilon, -1 / epsilon], [gamma, -1.0]])
        b = np.array([0.0, sigma])
        expected = x + delta * a + 0.5 * delta**2 * jacobian @ a + np.sqrt(delta) * b * v[0]
        expected += 0.5 * delta**1.5 * jacobian @ b * (v[0] + v[1] / np.sqrt(3))
        z = {name: jnp.asarray(value) for name, value in truth.items()}
        np.testing.assert_allclose(model.step(z, jnp.asarray(x), jnp.asarray(v), delta, 0.0), expected, rtol=1e-13)


def test_milstein_for_scalar_noise_is_the_textbook_formula():
    sde = SDE(lambda x, z, t: -x, lambda x, z, t: jnp.sin(x)[:, None])
    x, v, delta = 0.8, 1.7, 0.1
    dw = np.sqrt(delta) * v
    expected = x - delta * x + np.sin(x) * dw + 0.5 * np.sin(x) * np.cos(x) * (dw**2 - delta)
    step = Milstein().step(sde, {}, jnp.array([x]), jnp.array([v]), delta, 0.0)
    np.testing.assert_allclose(step, [expected], rtol=1e-14)


POINTS = [(np.array([0.4, -0.9]), {}, 0.3), (np.array([1.2, 0.1]), {}, 1.0)]
ADDITIVE = SDE(lambda x, z, t: -x, lambda x, z, t: jnp.array([[1.0, t], [0.5, 2.0]]))
DIAGONAL = SDE(lambda x, z, t: -x, lambda x, z, t: jnp.diag(jnp.exp(x)))
SCALAR = SDE(lambda x, z, t: -x, lambda x, z, t: (x * x[::-1])[:, None])
HEISENBERG = SDE(lambda x, z, t: -x, lambda x, z, t: jnp.array([[1.0, 0.0], [0.0, x[0]]]))
UNDEFINED = SDE(lambda x, z, t: -x, lambda x, z, t: jnp.diag(jnp.log(-jnp.abs(x))))


@pytest.mark.parametrize("sde", [ADDITIVE, DIAGONAL, SCALAR])
def test_milstein_accepts_commutative_noise(sde):
    Milstein().check(sde, POINTS)


@pytest.mark.parametrize("sde", [ADDITIVE, SCALAR])
def test_order_1p5_accepts_additive_or_scalar_noise(sde):
    StrongOrder1p5().check(sde, POINTS)


@pytest.mark.parametrize(
    ("scheme", "sde", "words"),
    [
        (Milstein(), HEISENBERG, ("commut", "pf.EulerMaruyama()")),
        (StrongOrder1p5(), DIAGONAL, ("additive", "pf.Milstein()")),
        (StrongOrder1p5(), HEISENBERG, ("additive", "pf.EulerMaruyama()")),
        (Milstein(), UNDEFINED, ("not finite", "pf.EulerMaruyama()")),
    ],
)
def test_a_scheme_refuses_noise_it_is_not_made_for(scheme, sde, words):
    with pytest.raises(ModelError) as caught:
        scheme.check(sde, POINTS)
    assert all(word in str(caught.value) for word in words)


def test_a_custom_scheme_calls_the_users_step():
    scheme = CustomScheme(lambda x, z, v, delta, t: x + delta * v[1] + t, noise_dim=3)
    assert scheme.noise_dim(1, 2) == 3
    np.testing.assert_allclose(
        scheme.step(ADDITIVE, {}, jnp.zeros(2), jnp.array([0.0, 2.0, 0.0]), 0.5, 0.25), [1.25] * 2
    )


@pytest.mark.parametrize(("step", "noise_dim", "word"), [(3, 1, "function"), (lambda *a: a, 0, "positive integer")])
def test_a_custom_scheme_refuses_nonsense(step, noise_dim, word):
    with pytest.raises(ModelError, match=word):
        CustomScheme(step, noise_dim)


SCHEMES = [EulerMaruyama(), LinearlyImplicit(), Milstein(), StrongOrder1p5(), ExactLinearDrift()]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_half_steps_follow_the_same_wiener_path(scheme):
    """Of dx_0 = x_1 dt + dW_1, dx_1 = dW_2 the increments, and with higher orders the integral of x_1, are the same."""
    sde = SDE(lambda x, z, t: jnp.array([x[1], 0.0]), lambda x, z, t: jnp.eye(2))
    rng, size, delta = np.random.default_rng(8), scheme.noise_dim(2, 2), 0.7
    v, fresh, x = rng.standard_normal(size), rng.standard_normal(size), jnp.array([0.3, -0.4])

    def halved(v, fresh):
        return scheme.halve(v, fresh, lambda halves: halves(sde, {}, x, v, fresh, delta, 0.0))

    y = x
    for half in halved(v, fresh):
        y = scheme.step(sde, {}, y, half, delta / 2, 0.0)
    exact = slice(0, 2) if isinstance(scheme, StrongOrder1p5 | ExactLinearDrift) else slice(1, 2)
    np.testing.assert_allclose(y[exact], scheme.step(sde, {}, x, v, delta, 0.0)[exact], rtol=1e-12)
    both = np.eye(2 * size)  # an orthogonal map keeps standard normals standard normal
    rows = np.array([np.concatenate(halved(each[:size], each[size:])) for each in both])
    np.testing.assert_allclose(rows @ rows.T, both, atol=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_parts_of_a_step_follow_the_same_wiener_path(scheme):
    """Half of a step is its first half, a quarter half of that; standard normals stay standard normal."""
    sde = SDE(lambda x, z, t: jnp.array([x[1], -0.4 * x[0]]), lambda x, z, t: jnp.array([[1.0, 0.0], [0.5, 0.8]]))
    size, delta, x = scheme.noise_dim(2, 2), 0.7, jnp.array([0.3, -0.4])

    def part(v, fresh, share, delta=delta):
        return scheme.part(sde, {}, x, v, fresh, delta, 0.0, share)

    v, fresh = np.random.default_rng(8).standard_normal((2, size))
    first = scheme.halve(v, fresh, lambda halves: halves(sde, {}, x, v, fresh, delta, 0.0))[0]
    np.testing.assert_allclose(part(v, fresh, 0.5), first, rtol=1e-12)
    one, nothing = np.eye(size), np.zeros(size)
    quarter, half = (np.array([part(e, nothing, share) for e in one]) for share in (0.25, 0.5))
    of_half = np.array([part(e, nothing, 0.5, 0.5 * delta) for e in one])
    np.testing.assert_allclose(quarter, half @ of_half, rtol=1e-11, atol=1e-13)
    of_fresh = np.array([part(nothing, e, 0.25) for e in one])
    np.testing.assert_allclose(quarter.T @ quarter + of_fresh.T @ of_fresh, one, atol=1e-12)
