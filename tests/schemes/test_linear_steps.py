"""Steps that use the Jacobian of the drift: exact for linear drifts, linearly implicit for stiff ones."""

from __future__ import annotations

from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.linalg import block_diag, expm

import pathfold as pf
from pathfold.data import TimeGrid
from pathfold.engine import Engine
from pathfold.engine.equations import linearise, log_det
from pathfold.errors import ModelError
from pathfold.program.arrays import Outcome
from pathfold.program.kernel import INNER, OUTER, Traced
from pathfold.program.sections import levels_of, needed
from pathfold.results.noise_group import NOTHING
from pathfold.schemes import SDE, EulerMaruyama, ExactLinearDrift, LinearlyImplicit, Scheme, StrongOrder1p5
from pathfold.schemes.small_matrices import cholesky, integrals, inverse, inverse_factor
from tests.by_numpy import by_numpy
from tests.inference.test_marginal import marginal_of, multivariate
from tests.once import once
from tests.schemes.test_schemes import brownian_path, final_state, measured_order
from tests.thorough import thorough


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


decimals = np.vectorize(Decimal, otypes=[object])


def exact(A, S, delta):
    """int e^{As} ds, int (delta - s) e^{As} ds and int e^{As} S e^{A^T s} ds, by series and doublings to 60 digits.

    A and S are of floats, or of decimals.
    """
    with localcontext() as context:
        context.prec = 60
        A, S = decimals(A), decimals(S)
        rate = float(np.abs(A).sum(axis=1).max()) * delta
        doublings = int(np.ceil(np.log2(max(rate, 1.0)))) + 10
        h, one = Decimal(delta) / 2**doublings, decimals(np.eye(len(A)))
        once, twice, spread = terms = [h * one, h * h / 2 * one, h * S]
        for k in range(1, 15):
            terms = [
                A @ terms[0] * h / (k + 1),
                A @ terms[1] * h / (k + 2),
                (A @ terms[2] + terms[2] @ A.T) * h / (k + 1),
            ]
            once, twice, spread = once + terms[0], twice + terms[1], spread + terms[2]
        for _ in range(doublings):
            across = one + A @ once
            spread, twice = spread + across @ spread @ across.T, twice + across @ twice + h * once
            once, h = once + across @ once, 2 * h
        return once, twice, spread


def floats(*arrays):
    return [np.asarray(array, dtype=float) for array in arrays]


MATRICES = {
    "relaxation": np.array([[-1.3]]),
    "growth": np.array([[0.8]]),
    "integrators": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
    "defective": np.array([[-1.0, 1.0], [0.0, -1.0]]),
    "oscillator": np.array([[0.0, 1.0], [-4.0, -0.3]]),
    "compartments": np.array([[-1.5, 0.0, 0.0], [1.5, -0.7, 0.2], [0.0, 0.4, -0.2]]),
    "full": np.array([[-1.0, 0.4, 0.2, 0.1], [0.3, -0.8, 0.2, -0.5], [-0.6, 0.1, -0.9, 0.3], [0.2, 0.5, -0.2, -1.1]]),
}


def rotated(*blocks):
    """The matrix with these blocks on its diagonal, in coordinates in which everything depends on everything."""
    separate = block_diag(*blocks)
    turned = np.random.default_rng(len(blocks)).normal(size=separate.shape) + 2.0 * np.eye(len(separate))
    return turned @ separate @ np.linalg.inv(turned)


def oscillator(frequency, damping=0.0):
    return np.array([[-damping, frequency], [-frequency, -damping]])


FAST = {
    "5.2 periods a step": oscillator(5.2 * 2 * np.pi),
    "16.3 periods": oscillator(16.3 * 2 * np.pi),
    "100.3 periods": oscillator(100.3 * 2 * np.pi),
    "2000.3 periods": oscillator(2000.3 * 2 * np.pi),
    "periods and relaxation": rotated(oscillator(16.3 * 2 * np.pi, 0.1), [[-1.0]]),
    "damped": rotated(oscillator(300.0, 40.0), oscillator(3.0, 0.1)),
    "stiff": rotated([[-2000.0]], [[-1.0]]),
    "three scales": rotated([[-5000.0]], [[-0.5]], [[-30.0]]),
    "unstable": rotated([[8.0]], [[-3.0]], oscillator(4.0, -1.0)),
    "unstable and stiff": rotated([[30.0]], [[-300.0]]),
    "units": np.array([[-1.0, 1e5], [-1e-5, -0.5]]),
    "very stiff": np.diag([-1e6, -3.0]),
    "nothing": np.zeros((2, 2)),
}


@by_numpy
def of_the_exponential(A, delta, S):
    found = integrals(A, delta, S[None], twice=True)
    return found.once, found.twice, found.spread[0]


def assert_digits(found, expected, A, delta, what, share=1e-15):
    """An error of 1e-15 times |A| delta and the condition of the eigenvectors, where there are such."""
    condition = min(np.linalg.cond(np.linalg.eig(A)[1]), 1e3)
    digits = share * (10.0 + np.linalg.norm(delta * A, 2)) * condition
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=digits * np.abs(expected).max(), err_msg=what)


def times(matrices):
    return [(name, delta) for name in matrices for delta in ([1.0] if matrices is FAST else [1e-6, 0.1, 1.5])]


@pytest.mark.parametrize(("name", "delta"), times(MATRICES) + times(FAST))
def test_integrals_of_the_exponential(name, delta):
    A = (MATRICES | FAST)[name]
    root = np.random.default_rng(1).standard_normal(A.shape)
    S = root @ root.T
    found = of_the_exponential(A, delta, S)
    for computed, expected, what in zip(found, floats(*exact(A, S, delta)), ("once", "twice", "spread"), strict=True):
        assert_digits(computed, expected, A, delta, what)


@by_numpy
def with_derivatives(A, E, S):
    def moved(shift):
        found = integrals(A + shift * E, 1.0, ((1.0 + shift) * S)[None], twice=True)
        return found.once, found.twice, found.spread[0]

    slopes = jax.jacfwd(moved)
    return slopes(0.0), jax.jacfwd(slopes)(0.0)


@pytest.mark.parametrize(
    "name", ["16.3 periods", "periods and relaxation", "stiff", "unstable", "defective", "nothing"]
)
def test_first_and_second_derivatives_of_the_integrals(name):
    """Against differences of decimals with 60 digits, where A moves within its own scale; with one digit fewer."""
    A, rng = (MATRICES | FAST)[name], np.random.default_rng(1)
    E, S = A * rng.normal(size=A.shape) + 0.1 * rng.normal(size=A.shape), np.eye(len(A))
    shift = Decimal("1e-15")
    with localcontext() as context:
        context.prec = 60
        low, mid, high = (
            exact(decimals(A) + k * shift * decimals(E), (1 + k * shift) * decimals(S), 1.0) for k in (-1, 0, 1)
        )
        first = [(b - a) / (2 * shift) for a, b in zip(low, high, strict=True)]
        second = [(a - 2 * m + b) / shift**2 for a, m, b in zip(low, mid, high, strict=True)]
    for found, expected in zip(with_derivatives(A, E, S), (first, second), strict=True):
        for each, other in zip(found, floats(*expected), strict=True):
            assert_digits(each, other, A, 1.0, name, share=1e-14)


def test_inverse_with_its_derivatives():
    matrix = jnp.asarray(MATRICES["full"] + 3.0 * np.eye(4))
    np.testing.assert_allclose(inverse(matrix), np.linalg.inv(matrix), rtol=1e-12)
    for found, expected in ((jax.jacfwd(f), jax.jacfwd(g)) for f, g in _with_slopes(inverse, jnp.linalg.inv)):
        np.testing.assert_allclose(found(matrix), expected(matrix), rtol=1e-9, atol=1e-12)


def _with_slopes(f, g):
    return [(f, g), (jax.jacfwd(f), jax.jacfwd(g))]


def test_the_factor_of_a_singular_covariance_has_zeros_and_finite_derivatives():
    root = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.5, 0.3, 0.0]])
    factor = cholesky(jnp.asarray(root @ root.T))
    np.testing.assert_allclose(factor @ factor.T, root @ root.T, atol=1e-14)
    assert np.count_nonzero(np.abs(factor) > 0.0) == 4
    slopes = jax.jacfwd(lambda scale: cholesky(scale * (root @ root.T)))(2.0)
    np.testing.assert_allclose(slopes, factor * 2**0.5 / 4, atol=1e-14)


@pytest.mark.parametrize("rank", thorough([3, 2], 2))
def test_the_factor_with_its_derivatives(rank):
    """Against those of the algorithm, where a covariance moves and keeps its rank."""
    rng = np.random.default_rng(rank)
    roots = rng.normal(size=(3, 4, rank))
    roots[:, 0] = 0.0  # noise does not reach the first

    def covariance(z):
        root = roots[0] + z[0] * roots[1] + z[0] * z[1] * roots[2]
        return root @ root.T

    point = jnp.array([0.3, -0.8])
    found, expected = (lambda z: cholesky(covariance(z))), (lambda z: cholesky.__wrapped__(covariance(z)))
    for _ in range(3):
        np.testing.assert_allclose(by_numpy(found)(point), by_numpy(expected)(point), rtol=1e-9, atol=1e-9)
        found, expected = jax.jacfwd(found), jax.jacfwd(expected)
    factor = cholesky(covariance(point))
    np.testing.assert_allclose(inverse_factor(factor) @ factor, np.diag(np.diag(factor) > 0.0), atol=1e-12)


@pytest.mark.parametrize("name", MATRICES)
def test_one_step_is_the_exact_transition(name):
    """Mean and covariance of x(1.5), with noise that enters the last state alone, from the step's map of the noise."""
    A, delta = MATRICES[name], 1.5
    n = len(A)
    b, x, B = np.linspace(0.5, -1.0, n), np.linspace(1.0, 2.0, n), np.eye(n, 1, k=-(n - 1)) * 0.7
    sde = SDE(lambda x, z, t: A @ x + b, lambda x, z, t: jnp.asarray(B))
    scheme = ExactLinearDrift()
    scheme.check(sde, [(x, {}, 0.0)])
    size = scheme.noise_dim(1, n)
    once, _, covariance = floats(*exact(A, B @ B.T, delta))

    def step(x, v):
        return scheme.step(sde, {}, x, v, delta, 0.0)

    mean, root = (by_numpy(each)(x, np.zeros(size)) for each in (step, jax.jacfwd(step, 1)))
    np.testing.assert_allclose(mean, x + once @ (A @ x + b), rtol=0.0, atol=1e-13 * np.abs(once).max())
    np.testing.assert_allclose(root @ root.T, covariance, rtol=0.0, atol=1e-13 * np.abs(covariance).max())


def test_a_drift_that_changes_at_a_steady_rate_is_followed_exactly():
    """dx = (t - x) dt from x(1) = 2 over a step of 3; and the same with the time as a linear input."""
    sde = SDE(lambda x, z, t: t - x, lambda x, z, t: jnp.ones((1, 1)))
    step = ExactLinearDrift().step(sde, {}, jnp.array([2.0]), jnp.zeros(1), 3.0, 1.0)
    np.testing.assert_allclose(step, [3.0 + 2.0 * np.exp(-3.0)], rtol=1e-10)
    model = pf.DiffusionModel(
        drift=lambda x, z, t, inputs: inputs["ramp"] - x,
        diffusion=lambda x, z: jnp.ones((1, 1)),
        parameters={},
        initial_state=[2.0],
        observation=pf.Noiseless(lambda x, z: x),
        scheme=ExactLinearDrift(),
        inputs={"ramp": pf.Input([0.0, 9.0], [0.0, 9.0], kind="linear")},
    )
    grid = TimeGrid.build(pf.Observations([4.0], [0.0], initial_time=1.0), steps_per_interval=1)
    clock = model.clock(1.0, jnp.asarray(model.forcing(grid)[0][0, 0]))
    np.testing.assert_allclose(model.step({}, jnp.array([2.0]), jnp.zeros(1), 3.0, clock), step, rtol=1e-12)


@pytest.mark.parametrize("level", [0.8, 0.0])
def test_the_halves_of_an_exact_step_are_normals_that_lead_to_its_end(level):
    """Noise that enters the second of two states alone, in proportion to it: the first has a normal without effect, and
    where the amount is zero both have. Two halves with the diffusion that the step had end where it does."""
    A, x, delta = np.array([[-0.9, 0.0], [0.9, -0.3]]), jnp.array([2.0, level]), 1.7
    frozen = SDE(lambda x, z, t: A @ x, lambda y, z, t: jnp.array([[0.0], [0.4 * level]]))
    sde = SDE(frozen.drift, lambda x, z, t: jnp.array([[0.0], [0.4 * x[1]]]))
    scheme, rng = ExactLinearDrift(), np.random.default_rng(2)

    @by_numpy
    def halved(v, fresh):
        return scheme.halve(v, fresh, lambda halves: halves(sde, {}, x, v, fresh, delta, 0.0))

    @by_numpy
    def ends(v, first, second):
        middle = scheme.step(frozen, {}, x, first, delta / 2, 0.0)
        return scheme.step(frozen, {}, middle, second, delta / 2, 0.0), scheme.step(sde, {}, x, v, delta, 0.0)

    v, fresh = rng.standard_normal((2, 2))
    np.testing.assert_allclose(*ends(v, *halved(v, fresh)), rtol=1e-12)
    rows = np.array([np.concatenate(halved(each[:2], each[2:])) for each in np.eye(4)])
    np.testing.assert_allclose(rows @ rows.T, np.eye(4), atol=1e-12)


def hypoelliptic() -> pf.DiffusionModel:
    """An oscillator that noise pushes, of which the position is seen through noise."""
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.array([x[1], -z["k"] * x[0] - z["c"] * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"]]]),
        parameters={"k": dist.LogNormal(0, 0.5), "c": dist.LogNormal(-1, 0.5), "sigma": dist.LogNormal(-1, 0.5)},
        initial_state=[dist.Normal(0.0, 0.5), dist.Normal(0.2, 0.3)],
        observation=pf.GaussianNoise(lambda x, z: x[:1], 0.2),
        scheme=ExactLinearDrift(),
    )


def test_one_step_between_observations_gives_the_kalman_likelihood():
    times, y = [0.4, 0.9, 1.3, 3.2, 3.6], np.array([0.3, 0.9, 0.4, -0.2, 0.1])
    marginal, origin = marginal_of(hypoelliptic(), pf.Observations(times, y), 1, prior=False)
    u = np.random.default_rng(1).normal(size=(6, 3))
    expected = []
    for k, c, sigma in np.exp([0.0, -1.0, -1.0] + 0.5 * u):
        A, S = np.array([[0.0, 1.0], [-k, -c]]), np.diag([0.0, sigma**2])
        mean, moves, before = np.array([0.0, 0.2]), [], 0.0
        covariances = [np.diag([0.25, 0.09])]
        means = []
        for t in times:
            over, Q = expm(A * (t - before)), floats(*exact(A, S, t - before))[2]
            mean, before = over @ mean, t
            moves.append(over)
            covariances.append(over @ covariances[-1] @ over.T + Q)
            means.append(mean[0])
        cov = 0.04 * np.eye(len(y))
        for i in range(len(y)):
            across = covariances[i + 1]
            for j in range(i, len(y)):
                across = moves[j] @ across if j > i else across
                cov[i, j] += across[0, 0]
                cov[j, i] = cov[i, j] if j > i else cov[i, i]
        expected.append(multivariate(y - np.array(means), cov))
    np.testing.assert_allclose(marginal.values(u, origin), expected, rtol=0.0, atol=1e-8)


def test_strong_order_of_exact_linear_drift_with_noise_that_depends_on_the_state():
    """dx = -k x dt + s x dW: v is the integral of e^{-k (delta - s)} dW over the step, scaled to a standard normal."""
    k, sigma, fine = 1.5, 0.8, 4096
    sde = SDE(lambda x, z, t: -k * x, lambda x, z, t: sigma * x[:, None])
    dw = brownian_path(1, fine, 1, 1000)
    solution = np.exp(-k - sigma**2 / 2 + sigma * dw.sum(axis=1))
    errors, all_steps = [], (16, 32, 64, 128)
    for steps in all_steps:
        left = (np.arange(fine // steps)[::-1] + 0.5) / fine
        v = dw.reshape(1000, steps, -1) @ np.exp(-k * left) / np.sqrt(-np.expm1(-2 * k / steps) / (2 * k))
        errors.append(np.mean(np.abs(final_state(ExactLinearDrift(), sde, np.ones(1), v[..., None]) - solution)))
    assert -np.polyfit(np.log(all_steps), np.log(errors), 1)[0] == pytest.approx(0.5, abs=0.1)


NOT_LINEAR = {
    "saturation": lambda x, z, t: -x / (1.0 + jnp.abs(x)),
    "threshold": lambda x, z, t: -jnp.where(x > 0.0, 2.0 * x, x),
    "root": lambda x, z, t: -jnp.sqrt(x),
    "product": lambda x, z, t: -x * x[::-1],
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_a_drift_that_is_not_linear_is_refused(name):
    sde = SDE(NOT_LINEAR[name], lambda x, z, t: jnp.eye(2))
    with pytest.raises(ModelError, match=r"linear in the state.*StrongOrder1p5.*stiff.*LinearlyImplicit"):
        ExactLinearDrift().check(sde, [(np.array([0.4, 0.9]), {}, 0.3)])


def test_strong_order_of_the_linearly_implicit_step():
    sde = SDE(lambda x, z, t: 0.5 * x, lambda x, z, t: x[:, None])
    dw = brownian_path(1, 4096, 1, 1000)
    solution = np.exp(dw.sum(axis=1))
    assert measured_order(LinearlyImplicit(), sde, np.ones(1), solution, dw) == pytest.approx(0.5, abs=0.1)
    sde = SDE(lambda x, z, t: jnp.sin(x) - x**3 + jnp.cos(3 * t), lambda x, z, t: 0.5 * jnp.ones((1, 1)))
    fine = final_state(StrongOrder1p5(), sde, np.ones(1), _wiener_with_integral(dw))
    assert measured_order(LinearlyImplicit(), sde, np.ones(1), fine, dw) == pytest.approx(1.0, abs=0.1)


def _wiener_with_integral(dw):
    """The normals of strong order 1.5 for steps of two increments each."""
    pairs = dw.reshape(dw.shape[0], -1, 2)
    delta = 2.0 / dw.shape[1]
    v = pairs.sum(axis=2) / np.sqrt(delta)
    dz = pairs @ np.array([0.75, 0.25]) * delta
    return np.stack([v, np.sqrt(3) * (2 * dz / delta**1.5 - v)], axis=-1)


def test_linearly_implicit_steps_stay_where_explicit_ones_explode():
    """A state that follows sin(t) at a rate of 1000, in steps of 0.1."""
    sde = SDE(lambda x, z, t: -1000.0 * (x - jnp.sin(t)), lambda x, z, t: jnp.ones((1, 1)))
    v = np.zeros((1, 10, 1))
    assert np.abs(final_state(EulerMaruyama(), sde, np.ones(1), v)) > 1e10
    np.testing.assert_allclose(final_state(LinearlyImplicit(), sde, np.ones(1), v), [[np.sin(1.0)]], atol=1e-2)
    np.testing.assert_allclose(final_state(ExactLinearDrift(), sde, np.ones(1), v), [[np.sin(1.0)]], atol=1e-2)


@once
def absorbed() -> pf.DiffusionModel:
    """A drug that is absorbed and cleared, with rates of each subject's own."""
    return pf.DiffusionModel(
        drift=lambda x, z: jnp.array([-z["ka"] * x[0], z["ka"] * x[0] - jnp.exp(z["log_k"]) * x[1]]),
        diffusion=lambda x, z: jnp.array([[0.0], [z["sigma"] * x[1]]]),
        parameters={
            "ka": dist.LogNormal(),
            "sigma": dist.LogNormal(-2.0, 0.5),
            "log_k": pf.Varying(dist.Normal(-1.0, 0.5)),
        },
        initial_state=[1.0, 0.1],
        observation=pf.GaussianNoise(lambda x, z: x[1:], 0.1),
        scheme=ExactLinearDrift(),
    )


def statement_of(graph, n):
    op = graph.ops[n]
    return graph.statements[op[2]] if op[:2] == ("input", "array") else None


def test_exponentials_are_computed_once_an_interval_though_rates_vary_between_series():
    """No kernel over fine steps computes an exponential or a reciprocal of the matrices in its innermost loop."""
    panel = [pf.Observations([1.0, 2.5], [0.5, 0.3]), pf.Observations([0.5, 1.5], [0.4, 0.6])]
    engine = Engine(absorbed(), TimeGrid.build(panel, steps_per_interval=3))
    f, records, sizes = engine.functions, engine.records, engine.sizes
    kernels = {kernel.name: kernel for part in (linearise, log_det) for kernel in part.kernels(f, records, sizes)}
    for name in ("simulate", "linearise", "spread", "curvature"):
        traced = Traced(kernels[name])
        levels, live = levels_of(traced), needed(traced.graph, [n for _, _, n in traced.changes()], {})
        costly = [(traced.graph.ops[n][0], levels[n]) for n in live if traced.graph.ops[n][0] in ("exp", "recip")]
        assert {level for op, level in costly if op == "exp"} == {OUTER}, name
        assert sum(level == INNER for _, level in costly) <= 4, name  # of the root of a variance that depends on x
        loops = [n for n in live if isinstance(statement_of(traced.graph, n), Outcome)]
        assert {levels[n] for n in loops} == {OUTER}, name


@pytest.mark.filterwarnings("ignore:.*few effective draws", "ignore:.*not converged")
def test_results_say_which_state_each_normal_drives():
    """Two processes push one state, whose step has one normal; one pushes the second of two, whose step has two."""
    pushed = pf.DiffusionModel(
        drift=lambda x, z: -z["k"] * x,
        diffusion=lambda x, z: jnp.array([[0.5, 0.3]]),
        parameters={"k": dist.LogNormal(0.0, 0.3)},
        initial_state=[0.0],
        observation=pf.GaussianNoise(lambda x, z: x, 0.2),
        scheme=ExactLinearDrift(),
    )
    data = pf.Observations([0.5, 1.0, 2.0], [0.3, 0.1, -0.2])
    for model, drives in ((pushed, [0]), (absorbed(), [NOTHING, 1])):
        found = pf.sample(model, data, steps_per_interval=1, chains=1, warmup=10, draws=8, threads=1, progress=False)
        assert found.noise["drives"].values.tolist() == drives
        assert pf.check(found).passed


def test_every_scheme_says_whether_it_is_explicit():
    schemes = [
        each
        for each in (getattr(pf, name) for name in pf.__all__)
        if isinstance(each, type) and issubclass(each, Scheme)
    ]
    assert {each.__name__ for each in schemes if not each.explicit} == {"ExactLinearDrift", "LinearlyImplicit"}
