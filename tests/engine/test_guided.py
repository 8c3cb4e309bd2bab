"""Guides and guided paths: exact for linear models, an identity for all others, whatever the guide and the noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import pathfold as pf
from pathfold.data import Seen, TimeGrid
from pathfold.engine import GuidedEngine, UnconstrainedEngine
from pathfold.engine.native.run import Machine
from pathfold.model import DiffusionModel
from pathfold.schemes import CustomScheme
from tests.by_numpy import by_numpy
from tests.flat import flat
from tests.once import once
from tests.plain import compiled_native
from tests.sampling.linear_gaussian import Exact, Process, integrated_ornstein_uhlenbeck, ornstein_uhlenbeck

LOG_2PI = np.log(2 * np.pi)
STEPS = 3

# Numbers that single precision holds, which numpyro gives to the arguments of a distribution.
LINEAR: dict[str, Process] = {
    "noisy": replace(ornstein_uhlenbeck(noisy=True), start_scale=np.array([1.25])),
    "exact": replace(ornstein_uhlenbeck(noisy=False), start_scale=np.array([1.25])),
    "exact, smooth": replace(
        integrated_ornstein_uhlenbeck(), start_mean=np.array([0.25, -0.25]), start_scale=np.array([1.0, 0.75])
    ),
}


def panel(*, at_start: bool) -> list[pf.Observations]:
    """Irregular times, missing values, trailing times without any; an observation at the initial time."""
    rng, found = np.random.default_rng(3), []
    for length in (7, 3):
        times = 0.3 + np.cumsum(rng.uniform(0.2, 0.9, size=length))
        times[0] = 0.3 if at_start else times[0]
        values = np.sin(2.0 * times)
        values[[1, -1]] = np.nan
        found.append(pf.Observations(times, values, initial_time=0.3))
    return found


class Guided:
    """An engine with one point, filled with an arbitrary path to linearise along and arbitrary noise."""

    def __init__(self, model: DiffusionModel, grid: TimeGrid, values: dict[str, Any], seed: int = 0) -> None:
        self.engine = e = GuidedEngine(model, grid)
        self.rng, self.point, self.scratch = np.random.default_rng(seed), e.block("point"), e.block("scratch")
        self.z = flat(e.model, values)
        e.set("point", self.point, "theta", "z", self.z)

    def fill(self, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Random reference path and random (omega_0, omega), which are returned."""
        e, X = self.engine, self.engine.sizes.X
        for field in ("x_start", "x_node"):
            e.set("point", self.point, "node", field, scale * self.rng.normal(size=(e.intervals, X)))
        omega0, omega = (self.rng.normal(size=size) for size in ((e.series, e.sizes.V0), (e.intervals, e.sizes.V)))
        e.set("point", self.point, "v0", "v0", omega0)
        e.set("point", self.point, "v", "v", omega)
        return omega0, omega

    def log_weight(self) -> float:
        """Of the path that guides along the reference make of omega; they are computed first."""
        for k in range(len(self.engine.first_pieces)):
            compiled_native.guided_paths.guide_series(*self.blocks, k)
        return self.follow()

    def follow(self, *, inverse: bool = False) -> float:
        follow_series = compiled_native.guided_paths.follow_series
        return sum(follow_series(*self.blocks, k, inverse) for k in range(len(self.engine.first_pieces)))

    @property
    def blocks(self) -> tuple[Machine, np.ndarray]:
        return self.engine.machine(self.scratch), self.point

    def get(self, record: str, field: str) -> np.ndarray:
        return self.engine.get("point", self.point, record, field)


@pytest.mark.parametrize("name", LINEAR)
def test_the_weight_of_a_linear_model_is_its_likelihood(name):
    """For every path that it is linearised along and every noise: the guide is the exact one."""
    process, data = LINEAR[name], panel(at_start=name == "noisy")
    guided = Guided(process.model(known=False), TimeGrid.build(data, steps_per_interval=STEPS), process.values)
    z = {key: np.full(1, value) for key, value in process.values.items()}
    exact = sum(Exact(process, each, STEPS).conditional(z)[0][0] for each in data)
    for _ in range(3):
        guided.fill()
        assert guided.log_weight() == pytest.approx(exact, abs=1e-9)
    assert np.all(guided.get("piece", "missed") < 1e-13)


def test_a_guide_that_is_no_number_is_none():
    process = LINEAR["noisy"]
    guided = Guided(
        process.model(known=False), TimeGrid.build(panel(at_start=False), steps_per_interval=2), process.values
    )
    _, omega = guided.fill()
    guided.engine.set("point", guided.point, "node", "x_node", np.full((guided.engine.intervals, 1), np.nan))
    assert np.isfinite(guided.log_weight())
    pieces = guided.engine.pieces
    first = np.append(guided.engine.first, guided.engine.intervals)
    for begin, node in zip(first[pieces], first[pieces + 1], strict=True):
        np.testing.assert_array_equal(guided.get("node", "noise")[begin:node], omega[begin:node])


@once
def bent_model() -> DiffusionModel:
    """Nothing is linear or Gaussian: a step that is not affine in its noise, a start with a density, counts."""

    def drift(x, z):
        return jnp.array([jnp.sin(x[1]) - z["a"] * x[0], -x[0] * x[1]])

    def step(x, z, v, delta, t):
        noise = jnp.array([0.4 * v[0] + 0.1 * v[0] ** 2, z["a"] * v[1] * jnp.cos(x[0])])
        return x + delta * drift(x, z) + jnp.sqrt(delta) * noise

    return pf.DiffusionModel(
        drift=drift,
        diffusion=lambda x, z: jnp.eye(2),
        parameters={"a": dist.LogNormal(0.0, 0.5)},
        initial_state=lambda z: [dist.Normal(0.5 * z["a"], 0.5), dist.Gamma(2.0, 2.0)],
        observation=[
            pf.GaussianNoise(lambda x, z: jnp.array([x[0] ** 2, x[0] + x[1]]), [0.5, 0.25]),
            pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(x[1]))),
        ],
        scheme=CustomScheme(step, 2),
    )


def bent_data() -> list[pf.Observations]:
    nan = np.nan
    return [
        pf.Observations([0.0, 0.5, 0.9, 1.2], [[0.3, 1.0, 2.0], [nan, nan, nan], [nan, nan, nan], [0.5, nan, 4.0]]),
        pf.Observations([0.4, 0.5], [[nan, 0.2, 0.0], [nan, nan, nan]]),
    ]


class Twin:
    """The guided map and the guide in plain JAX with dense matrices; the log density of what it makes."""

    def __init__(self, guided: Guided) -> None:
        self.engine, self.model, self.grid = guided.engine, guided.engine.model, guided.engine.grid
        self.values = np.where(self.grid.mask, self.grid.values, 1.0)  # which every likelihood can take
        self.z: dict[str, Any] = {"a": float(guided.z[0])}
        self.H, self.F = guided.get("guide", "H"), guided.get("guide", "F")
        self.begin = guided.get("piece", "H_begin"), guided.get("piece", "F_begin")
        # Traced once, whoever calls them.
        self.step = jax.jit(lambda x, v, delta, t: self.model.step(self.z, x, v, delta, t))
        self.slopes = jax.jit(jax.jacfwd(self.step, argnums=(0, 1)))
        self.rows = jax.jit(self._rows)
        self.row_slopes = jax.jit(jax.jacfwd(self._rows, argnums=(0, 1)))

    def seen(self, n):
        return Seen(self.values[n], self.grid.mask[n].astype(float), jnp.zeros(0), jnp.zeros(0))

    def _rows(self, x, w, y):
        return self.model.misfit(self.z, x, w, 0.0, Seen(y, jnp.ones(3), jnp.zeros(0), jnp.zeros(0)))

    def linear_rows(self, n, x):
        at, on = (x, jnp.zeros(3), self.values[n]), np.flatnonzero(self.grid.mask[n])
        D, E = self.row_slopes(*at)
        return self.rows(*at)[on], D[on], E[on]

    def linear_step(self, n, x):
        at = (x, jnp.zeros(self.model.noise_dim), self.grid.delta[n], self.grid.starts[n])
        return self.step(*at), *self.slopes(*at)

    def path(self, omega0, omega):
        """Noise of the starts, and of the steps, and the states at their ends."""
        noise0, noise, states, x = [], [], [], jnp.zeros(2)
        for g, piece in enumerate(self.engine.pieces):
            if self.engine.starts[g]:
                nothing = jnp.zeros(self.model.start_dim)
                m, L = self.model.start(self.z, nothing), jax.jacfwd(lambda v: self.model.start(self.z, v))(nothing)
                noise0.append(_drawn(m, L, self.begin[0][piece], self.begin[1][piece], omega0[len(noise0)]))
                x = self.model.start(self.z, noise0[-1])
            for n in range(self.engine.first[piece], self.engine.nodes[g] + 1):
                m, _, L = self.linear_step(n, x)
                rows = self.linear_rows(n, m) if n == self.engine.nodes[g] else None
                noise.append(_drawn(m, L, self.H[n], self.F[n], omega[len(noise)], rows))
                x = self.step(x, noise[-1], self.grid.delta[n], self.grid.starts[n])
                states.append(x)
        return jnp.concatenate([*noise0, *noise]), states

    def slope(self, omega0, omega):
        """Of all noise by all of omega, and that noise."""
        free, size = jnp.concatenate([omega0.ravel(), omega.ravel()]), omega0.size

        def noise(free):
            v, _ = self.path(free[:size].reshape(omega0.shape), free[size:].reshape(omega.shape))
            return v, v

        return jax.jacfwd(noise, has_aux=True)(free)

    def log_weight(self, omega0, omega):
        """Log density of the noise and the data, over that of the noise as it was drawn, by the slope of the map."""
        free, size = jnp.concatenate([omega0.ravel(), omega.ravel()]), omega0.size
        slope, v = self.slope(omega0, omega)
        _, states = self.path(omega0, omega)
        total = 0.5 * free @ free - 0.5 * v @ v + jnp.linalg.slogdet(slope)[1]
        for v0 in v[:size].reshape(omega0.shape):
            total -= self.model.start_excess(self.z, v0)
        for n, x in zip(self.steps, states, strict=True):
            if n in self.engine.nodes:
                total += jnp.nansum(self.model.observation.log_density(x, self.z, 0.0, self.seen(n)))
        return total

    @property
    def steps(self) -> list[int]:
        """Those that are followed, in their order."""
        e = self.engine
        return [n for p, node in zip(e.pieces, e.nodes, strict=True) for n in range(e.first[p], node + 1)]

    def guide(self, starts, nodes):
        """H, F after every step: of all rows ahead in its series as one Gaussian vector, linear in the state there."""
        e, found = self.engine, {}
        series = np.cumsum(e.starts)[np.searchsorted(e.nodes, self.steps)]
        linear = {n: [np.asarray(each) for each in self.linear_step(n, starts[n])] for n in self.steps}
        rows = {n: [np.asarray(each) for each in self.linear_rows(n, nodes[n])] for n in e.nodes}
        for i, after in enumerate(self.steps):
            ahead = [n for n, k in zip(self.steps, series, strict=True) if n > after and k == series[i]]
            mean, slope, noise, own = np.zeros(2), np.eye(2), np.zeros((2, 5 * len(ahead))), 2 * len(ahead)
            c, M, N = [np.zeros(0)], [np.zeros((0, 2))], [noise[:0]]
            for j, n in enumerate(ahead):
                m, A, L = linear[n]
                mean, slope, noise = m + A @ (mean - starts[n]), A @ slope, A @ noise
                noise[:, 2 * j : 2 * j + 2] = L
                if n in rows:
                    r, D, E = rows[n]
                    c, M, N = [*c, r + D @ (mean - nodes[n])], [*M, D @ slope], [*N, D @ noise]
                    N[-1][:, own + 3 * j : own + 3 * j + 3] = E
            c, M, N = (np.concatenate(each) for each in (c, M, N))
            weighted = np.linalg.solve(N @ N.T, M).T
            found[after] = weighted @ M, -weighted @ c
        return found


def _drawn(m, L, H, F, omega, rows=None):
    """The noise by the posterior of v ~ N(0, I) given guide and rows: its mean, and omega by the square root that the
    native code takes, C^{-T} (I - B^T Sig^{-T/2} (Sig^{1/2} + R^{1/2})^{-1} B)."""
    C = jnp.linalg.cholesky(jnp.eye(L.shape[1]) + L.T @ H @ L)
    spread = jnp.linalg.inv(C.T)
    mean = spread @ spread.T @ L.T @ (F - H @ m)
    if rows is None:
        return mean + spread @ omega
    r, D, E = rows
    covariance, B = spread @ spread.T, D @ L @ spread
    S = jnp.linalg.cholesky(B @ B.T + E @ E.T)
    gain = covariance @ (D @ L).T @ jnp.linalg.inv(S @ S.T)
    left = omega - B.T @ jnp.linalg.inv(S.T) @ jnp.linalg.inv(S + jnp.linalg.cholesky(E @ E.T)) @ (B @ omega)
    return mean - gain @ (r + D @ L @ mean) + spread @ left


@pytest.fixture(scope="module")
def bent() -> Guided:
    grid = TimeGrid.build(bent_data(), steps_per_interval=1)
    return Guided(bent_model(), grid, {"a": 0.8}, seed=4)


def test_guide_and_weight_against_dense_algebra(bent):
    """The guide is the Gaussian likelihood of the linearised path ahead; the weight is a ratio of densities."""
    omega0, omega = bent.fill(0.5)
    starts, nodes = bent.get("node", "x_start"), bent.get("node", "x_node")
    weight, twin, grid = bent.log_weight(), Twin(bent), bent.engine.grid
    with jax.enable_x64(True):
        guide = twin.guide(starts, nodes)
    assert len(guide) == 5
    for n, (H, F) in guide.items():
        np.testing.assert_allclose(bent.get("guide", "H")[n], H, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(bent.get("guide", "F")[n], F, rtol=1e-9, atol=1e-10)
    # Powers of 2 pi of Gaussian rows and factorials of counts are left to the host.
    counts = grid.values[:, 2][grid.mask[:, 2]]
    host = stats.poisson.logpmf(counts, counts).sum() - 0.5 * LOG_2PI * grid.mask[:, :2].sum()
    first = bent.engine.pieces[bent.engine.starts == 1]
    expected = by_numpy(twin.log_weight)(omega0[first], omega[twin.steps])
    assert weight + host == pytest.approx(float(expected), abs=1e-9)


def test_innovations_are_the_inverse(bent):
    """omega from the noise that it made, after the last observation too, with the same weight and path."""
    omega0, omega = bent.fill(0.5)
    weight, states = bent.log_weight(), bent.get("node", "x_node")
    e = bent.engine
    e.set("point", bent.point, "v", "v", np.zeros_like(omega))
    e.set("point", bent.point, "v0", "v0", np.zeros_like(omega0))
    assert bent.follow(inverse=True) == pytest.approx(weight, abs=1e-10)
    np.testing.assert_allclose(bent.get("v", "v"), omega, atol=1e-10)
    np.testing.assert_allclose(bent.get("v0", "v0")[e.first_pieces], omega0[e.first_pieces], atol=1e-10)
    np.testing.assert_allclose(bent.get("node", "x_node"), states, atol=1e-12)
    tail = slice(e.first[-1], e.intervals)
    assert tail.stop > tail.start
    np.testing.assert_array_equal(bent.get("node", "noise")[tail], omega[tail])


def test_the_density_is_that_of_the_baseline_along_any_reference(bent):
    """A renewed reference gives the same noise another omega, whose density and slope make up for each other."""
    e, rng = bent.engine, np.random.default_rng(8)
    bent.fill(0.5)
    bent.log_weight()
    noise0, noise = bent.get("piece", "noise0")[e.first_pieces], bent.get("node", "noise")
    u = np.log(bent.z) / 0.5  # of a log-normal parameter
    baseline = UnconstrainedEngine(bent_model(), TimeGrid.build(bent_data(), steps_per_interval=1))
    point = baseline.block("point")
    baseline.set_vector(point, u, noise0, np.zeros((e.intervals, 0)), noise)
    compiled_native.dynamics.prepare(baseline.machine(), point)
    expected = -compiled_native.dynamics.potential(baseline.layout, point)
    e.set("point", bent.point, "u", "u", u)
    omegas = []
    for _ in range(2):
        reference = e.block("point")
        for field in ("x_start", "x_node"):
            e.set("point", reference, "node", field, rng.normal(size=(e.intervals, 2)))
        compiled_native.metropolis.remake_paths(bent.blocks[0], reference, bent.point, True)
        omega0, omega = bent.get("v0", "v0")[e.first_pieces], bent.get("v", "v")
        e.set_vector(
            bent.point, u, omega0, np.zeros((e.intervals, 0)), omega
        )  # of what begins no series nothing is known
        twin = Twin(bent)
        slope, made = by_numpy(twin.slope)(omega0, omega[twin.steps])
        np.testing.assert_allclose(made, np.concatenate([noise0.ravel(), noise[twin.steps].ravel()]), atol=1e-9)
        found = compiled_native.metropolis.log_density(e.layout, bent.point) - np.linalg.slogdet(slope)[1]
        assert found == pytest.approx(expected, abs=1e-9)
        omegas.append(omega)
    assert np.abs(omegas[1] - omegas[0]).max() > 0.1, "the references are not the same"
