"""The oracle: everything the engine computes, by plain dense Jacobians and automatic differentiation.

Nothing here knows of filters, lanes or lifted paths. Positions are flat vectors [u; v0; w; v] in natural order (by
series, by interval, by step).
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.data import Seen, TimeGrid
from pathfold.model import DiffusionModel
from tests.by_numpy import by_numpy

KEPT = 8  # results


class Structure:
    """All that the functions of a `Dense` depend on but for their arguments; of the same one they are traced once."""

    def __init__(self, dense: Dense, *others: np.ndarray) -> None:
        self.dense = dense  # which keeps the parts of the grid, so that no other has their identity
        grid = (id(getattr(dense.grid, each.name)) for each in fields(dense.grid) if each.name != "values")
        self.key = (type(dense), *grid, *(each.tobytes() for each in (dense.mask, dense.given, *others)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def traced(structure: Structure) -> dict[str, Any]:
    return {name: by_numpy(function) for name, function in structure.dense.functions.items()}


class Dense:
    """Constraint, Jacobian, Gram matrix and potential of a model on a grid; `states` (N, X) are conditioned on where
    they are not NaN, and `mask` says which observations count."""

    def __init__(self, model: DiffusionModel, grid: TimeGrid, *, states=None, mask=None) -> None:
        self.model, self.grid = model, grid
        self.N, self.S, self.K = len(grid.starts), grid.steps, len(grid.first)
        self.mask = np.asarray(grid.mask if mask is None else mask, dtype=bool)
        self.states = np.full((self.N, model.augmented_dim), np.nan) if states is None else np.asarray(states)
        self.sizes = (
            model.parameters.size,
            self.K * model.start_dim,
            self.N * model.observation_noise_dim,
            self.N * self.S * model.noise_dim,
        )
        self._known: dict[Any, Any] = {}

    @property
    def dim(self) -> int:
        return sum(self.sizes)

    @property
    def given(self) -> np.ndarray:
        """At which nodes the state is conditioned on."""
        return ~np.isnan(self.states).any(axis=1)

    def split(self, q):
        m = self.model
        u, v0, w, v = jnp.split(q, np.cumsum(self.sizes)[:-1])
        return (
            u,
            v0.reshape(self.K, m.start_dim),
            w.reshape(self.N, m.observation_noise_dim),
            v.reshape(self.N, self.S, m.noise_dim),
        )

    def seen(self, values) -> Seen:
        bounds = (self.grid.censored, self.grid.upper) if self.grid.censored.any() else 2 * (np.zeros((self.N, 0)),)
        return Seen(values, self.mask.astype(float), *bounds)

    def rows(self, q, values, states):
        """Node states as generated (N, X), misfits of the observations (N, Y) and excesses of the nodes (N,)."""
        m, grid = self.model, self.grid
        u, v0, w, v = self.split(q)
        z = m.parameters.unflatten(m.parameters.push(u))
        times, node_times = m.clocks(grid)
        series = np.searchsorted(grid.first, np.arange(self.N), side="right") - 1
        starts = self.of_each_series(m.start, z, v0)

        def interval(x, at):
            begins, start, noise, delta, t, given, state, *node = at
            x = jnp.where(begins, start, x)
            x, _ = jax.lax.scan(lambda x, at: (m.step(z, x, at[0], delta, at[1]), None), x, (noise, t))
            kept = jnp.where(given, state, x)
            excess = jnp.asarray(m.node_excess(z, kept, *node), dtype=float)
            return kept, (x, m.misfit(z, kept, *node), excess)

        begins, begun = np.isin(np.arange(self.N), grid.first), starts[series]
        nodes = (self.given, states, w, node_times, self.seen(values))
        return jax.lax.scan(interval, starts[0], (begins, begun, v, grid.delta, times, *nodes))[1]

    def of_each_series(self, function, z, v0):
        """A function of the parameters, as each series has them, and of what it begins with."""
        m = self.model
        return jax.vmap(lambda own, v0: function(m.of_series(z, own), v0))(m.covariates_of(self.grid), v0)

    def _flat(self, q, values, states):
        """By node, the misfits of the observations and the state; the constraint is made of some of these."""
        generated, misfits, _ = self.rows(q, values, states)
        return jnp.concatenate([misfits, generated], axis=1).ravel()

    @cached_property
    def _counted(self) -> np.ndarray:
        """Which of all rows those of the constraint are."""
        given = np.repeat(self.given[:, None], self.model.augmented_dim, axis=1)
        return np.flatnonzero(np.concatenate([self.mask, given], axis=1))

    @property
    def functions(self) -> dict[str, Any]:
        return {
            "rows": self._flat,
            "jacobian": jax.jacrev(self._flat),
            "weighted": self._weighted,
            "excess": jax.value_and_grad(self._excess),
        }

    @cached_property
    def _traced(self) -> dict[str, Any]:
        return self.model.kept.get(traced, Structure(self))

    def _weighted(self, q, rows, weight, *given):
        """Gradient of <weight, J(q)>, as the sum over the rows of their Hessians times their weights."""

        def row(select, direction):
            return jax.jvp(lambda q: jax.vjp(lambda q: self._flat(q, *given), q)[1](select)[0], (q,), (direction,))[1]

        return jnp.sum(jax.vmap(row)(rows, weight), axis=0)

    def _excess(self, q, *given):
        m = self.model
        u, v0, _, _ = self.split(q)
        z = m.parameters.unflatten(m.parameters.push(u))
        total = jnp.asarray(0.0)
        if m.parameters.excess is not None:
            total += m.parameters.excess(u)
        total += jnp.sum(self.of_each_series(m.start_excess, z, v0))
        return total + jnp.sum(self.rows(q, *given)[2])

    def _call(self, name: str, *args: np.ndarray) -> Any:
        """A function of NumPy arrays; what was asked last, which is asked again soon, is not evaluated again."""
        key = (name, *(each.tobytes() for each in args))
        if key not in self._known:
            if len(self._known) == KEPT:
                self._known.clear()
            self._known[key] = self._traced[name](*args, self.grid.values, np.nan_to_num(self.states))
        return self._known[key]

    def _by_node(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Misfits of the observations and states."""
        by_node = rows.reshape(self.N, -1)
        return by_node[:, : self.mask.shape[1]], by_node[:, self.mask.shape[1] :]

    def constraint(self, q) -> np.ndarray:
        wanted = np.concatenate([np.zeros_like(self.grid.values), self.states], axis=1).ravel()
        return (self._call("rows", q) - wanted)[self._counted]

    def jacobian(self, q) -> np.ndarray:
        return self._call("jacobian", q)[self._counted]

    def node_states(self, q) -> np.ndarray:
        """What the intervals after each node start from."""
        return np.where(np.isnan(self.states), self._by_node(self._call("rows", q))[1], self.states)

    def predicted(self, q) -> np.ndarray:
        """The observations that q generates (N, Y), where they are a function of the state and the noise."""
        return self._by_node(self._call("rows", q))[0] + self.grid.values

    def moved_states(self, q, change) -> tuple[np.ndarray, np.ndarray]:
        """Node states as generated, and how they move with q to first order."""
        return self._by_node(self._call("rows", q))[1], self._by_node(self._call("jacobian", q) @ change)[1]

    def log_det_gram(self, q) -> float:
        """log|J J^T| from the triangular factor of J^T: accurate to the condition of J, not of the Gram matrix."""
        r = np.linalg.qr(self.jacobian(q).T, mode="r")
        return float(2.0 * np.log(np.abs(np.diag(r))).sum())

    def log_det_gradient(self, q) -> np.ndarray:
        """Gradient of (1/2) log|G| = <G^{-1} J, dJ>, the weight G^{-1} J being the transposed pseudo-inverse."""
        basis, r = np.linalg.qr(self.jacobian(q).T)
        rows = np.eye(self.N * (self.mask.shape[1] + self.model.augmented_dim))[self._counted]
        return self._call("weighted", q, rows, np.linalg.solve(r, basis.T))

    def excess(self, q) -> float:
        return float(self._call("excess", q)[0])

    def h1_gradient(self, q, *, verlet: bool) -> np.ndarray:
        return self.log_det_gradient(q) + self._call("excess", q)[1] + (q if verlet else 0.0)

    def project(self, q, p) -> np.ndarray:
        basis, _ = np.linalg.qr(self.jacobian(q).T)
        p = p - basis @ (basis.T @ p)
        return p - basis @ (basis.T @ p)

    def solve_pushed(self, q, p) -> np.ndarray:
        """lam = G^{-1} J p, as the least-squares solution of J^T lam = p."""
        basis, r = np.linalg.qr(self.jacobian(q).T)
        return np.linalg.solve(r, basis.T @ p)

    def newton_change(self, q, moving) -> tuple[np.ndarray, np.ndarray]:
        """-J(q)^T lam and lam with J(q') J(q)^T lam = c(q'): one Newton iteration of the projection along J(q)."""
        basis, r = np.linalg.qr(self.jacobian(q).T)
        y = np.linalg.solve(self.jacobian(moving) @ basis, self.constraint(moving))
        return -basis @ y, np.linalg.solve(r, y)

    def conditions(self, q) -> tuple[float, float]:
        """What rounding errors of the filter grow by: the largest condition number of an innovation covariance Sig_n,
        and the largest eigenvalue of the Woodbury matrix C = I + U_y^T D^{-1} U_y, with G = D + U_y U_y^T."""
        J = self.jacobian(q)
        columns, noise = J[:, : self.sizes[0]], J[:, self.sizes[0] :]
        lower = np.linalg.qr(noise.T, mode="r").T  # D = lower @ lower.T, its diagonal blocks give the Sig_n
        ends = np.cumsum(self.mask.sum(axis=1) + self.given * self.model.augmented_dim)
        blocks = [lower[a:b, a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True) if b > a]
        white = np.linalg.svd(np.linalg.solve(lower, columns), compute_uv=False)
        return max(np.linalg.cond(block) ** 2 for block in blocks), 1.0 + float(np.max(white, initial=0.0)) ** 2

    def start_condition(self, q) -> float:
        """What a filter's covariance falls by, at most, from the starts to what the noise leaves of them: the largest
        eigenvalue of D_v^{-1} J_0 J_0^T, where J_0 are the starts' columns and D_v = J_v J_v^T those of the noise."""
        J, (U, V0, *_) = self.jacobian(q), self.sizes
        noise = np.linalg.qr(J[:, U + V0 :].T, mode="r").T
        white = np.linalg.svd(np.linalg.solve(noise, J[:, U : U + V0]), compute_uv=False)
        return float(np.max(white, initial=0.0)) ** 2

    def amplification(self, q) -> float:
        """How much the path changes with q, both relatively: rounding errors on the way grow as much."""
        norm = np.linalg.norm
        return float(norm(self._call("jacobian", q)) * norm(q) / norm(self._call("rows", q)))

    def mixed_condition(self, q, moving) -> float:
        """Condition number of J(q') on the normal space at q, whose rows a Newton iteration moves along."""
        basis, _ = np.linalg.qr(self.jacobian(q).T)
        return float(np.linalg.cond(self.jacobian(moving) @ basis))


class InCoordinates(Dense):
    """The same with the parameters in coordinates q, u = centre + factor q: as if it were another model."""

    def __init__(self, model: DiffusionModel, grid: TimeGrid, centre, factor, **conditions) -> None:
        super().__init__(model, grid, **conditions)
        self.centre, self.factor = centre, factor

    def split(self, q):
        u, v0, w, v = super().split(q)
        return self.centre + self.factor @ u, v0, w, v

    @cached_property
    def _traced(self) -> dict[str, Any]:
        return self.model.kept.get(traced, Structure(self, self.centre, self.factor))

    def _excess(self, q, *given):
        u, *_ = self.split(q)
        return super()._excess(q, *given) + 0.5 * (u @ u - jnp.sum(q[: u.size] ** 2))
