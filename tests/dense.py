"""The oracle: everything the engine computes, by plain dense Jacobians and automatic differentiation.

Nothing here knows of filters, lanes or lifted paths. Positions are flat vectors [u; v0; w; v] in natural order (by
series, by interval, by step).
"""

from __future__ import annotations

from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.model import DiffusionModel, TimeGrid


class Dense:
    """Constraint, Jacobian, Gram matrix and potential of a model on a grid; `states` (N, X) are conditioned on where
    they are not NaN, and `mask` says which observations count."""

    def __init__(self, model: DiffusionModel, grid: TimeGrid, *, states=None, mask=None) -> None:
        self.model, self.grid = model, grid
        self.N, self.S, self.K = len(grid.starts), grid.steps, len(grid.first)
        self.mask = np.asarray(grid.mask if mask is None else mask, dtype=bool)
        self.states = np.full((self.N, model.state_dim), np.nan) if states is None else np.asarray(states)
        self.sizes = (
            model.parameters.size,
            self.K * model.initial_state.size,
            self.N * model.observation_noise_dim,
            self.N * self.S * model.noise_dim,
        )

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
            v0.reshape(self.K, m.initial_state.size),
            w.reshape(self.N, m.observation_noise_dim),
            v.reshape(self.N, self.S, m.noise_dim),
        )

    def rows(self, q):
        """Node states as generated (N, X) and predicted observations (N, Y)."""
        m, grid = self.model, self.grid
        u, v0, w, v = self.split(q)
        z = m.parameters.unflatten(m.parameters.push(u))
        starts = jax.vmap(lambda v0: m.initial_state.push(z, v0))(v0)
        owner = np.searchsorted(np.asarray(grid.first), np.arange(self.N), side="right") - 1
        is_first = np.isin(np.arange(self.N), np.asarray(grid.first))

        def interval(x, inputs):
            start, first, v_n, w_n, t0, t1, delta, state, conditioned = inputs
            x = jnp.where(first, start, x)

            def step(x, sv):
                s, v_s = sv
                return m.step(z, x, v_s, delta, t0 + s * delta), None

            end, _ = jax.lax.scan(step, x, (jnp.arange(self.S) * 1.0, v_n))
            seen = jnp.where(conditioned, state, end)
            return seen, (end, m.observe(z, seen, w_n, t1))

        inputs = (
            starts[owner],
            jnp.asarray(is_first),
            v,
            w,
            jnp.asarray(grid.starts),
            jnp.asarray(grid.ends),
            jnp.asarray(grid.delta),
            jnp.asarray(np.nan_to_num(self.states)),
            jnp.asarray(self.given),
        )
        _, (states, predicted) = jax.lax.scan(interval, starts[0], inputs)
        return states, predicted

    def _constraint(self, q):
        states, predicted = self.rows(q)
        given = self.given
        parts = []
        for n in range(self.N):
            observed = np.flatnonzero(self.mask[n])
            parts.append(predicted[n, observed] - self.grid.values[n, observed])
            if given[n]:
                parts.append(states[n] - self.states[n])
        return jnp.concatenate(parts)

    @cached_property
    def _jitted(self):
        with jax.enable_x64(True):
            jacobian = jax.jacrev(self._constraint)
            return (
                jax.jit(self._constraint),
                jax.jit(jacobian),
                jax.jit(jax.grad(lambda q, weight: jnp.sum(weight * jacobian(q)))),
                jax.jit(self.rows),
                jax.jit(jax.value_and_grad(self._excess)),
                jax.jit(lambda q, change: jax.jvp(lambda q: self.rows(q)[0], (q,), (change,))),
            )

    def _excess(self, q):
        m = self.model
        u, v0, _, _ = self.split(q)
        z = m.parameters.unflatten(m.parameters.push(u))
        total = jnp.asarray(0.0)
        if m.parameters.excess is not None:
            total += m.parameters.excess(u)
        if m.initial_state.excess is not None:
            total += sum(m.initial_state.excess(z, v0[k]) for k in range(self.K))
        return total

    def _call(self, which: int, *args) -> np.ndarray:
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, self._jitted[which](*args))

    def constraint(self, q) -> np.ndarray:
        return self._call(0, q)

    def jacobian(self, q) -> np.ndarray:
        return self._call(1, q)

    def node_states(self, q) -> np.ndarray:
        """What the intervals after each node start from."""
        states = self._call(3, q)[0]
        return np.where(np.isnan(self.states), states, self.states)

    def predicted(self, q) -> np.ndarray:
        """The observations that q generates (N, Y)."""
        return self._call(3, q)[1]

    def moved_states(self, q, change) -> tuple[np.ndarray, np.ndarray]:
        """Node states, and how they move with q to first order."""
        states, moved = self._call(5, q, change)
        return states, moved

    def log_det_gram(self, q) -> float:
        """log|J J^T| from the triangular factor of J^T: accurate to the condition of J, not of the Gram matrix."""
        r = np.linalg.qr(self.jacobian(q).T, mode="r")
        return float(2.0 * np.log(np.abs(np.diag(r))).sum())

    def log_det_gradient(self, q) -> np.ndarray:
        """Gradient of (1/2) log|G| = <G^{-1} J, dJ>, the weight G^{-1} J being the transposed pseudo-inverse."""
        return self._call(2, q, np.linalg.pinv(self.jacobian(q)).T)

    def excess(self, q) -> float:
        return float(self._call(4, q)[0])

    def h1_gradient(self, q, *, verlet: bool) -> np.ndarray:
        return self.log_det_gradient(q) + self._call(4, q)[1] + (q if verlet else 0.0)

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
