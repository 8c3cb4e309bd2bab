"""Kernels with loops over arrays in memory do what the same kernels do written out, and what NumPy does."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathfold.program.arrays import Fill, Product, SparseProduct
from pathfold.program.emit import emit
from pathfold.program.graph import Graph
from pathfold.program.kernel import Kernel, LaneScan, NodeScan, Traced
from pathfold.program.layout import Record
from pathfold.program.matrices import eliminate, lower_mirrored
from pathfold.program.roll import fill
from pathfold.program.statements import tiles, vectors
from tests.program.kernels import Memory

WRITTEN_OUT = 10**9  # no product is as large


def assert_close(found, expected, message=""):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=message)


# Random kernels: instructions on a pool of matrices, by jax.numpy in a kernel and by NumPy in plain loops.


def mirrored(xp, a):
    return lower_mirrored(a) if xp is jnp else np.tril(a) + np.tril(a, -1).T


def inverse(xp, a):
    if xp is jnp:
        return eliminate(a)
    minors = [np.linalg.det(a[:k, :k]) for k in range(len(a) + 1)]
    return np.linalg.inv(a), np.array(minors[1:]) / np.array(minors[:-1])


def product(xp, a, b):
    for left in (a, a.T):
        for right in (b, b.T):
            if left.shape[1] == right.shape[0]:
                return left @ right / left.shape[1]
    return None


def combined(xp, a, b):
    return a - 0.5 * b if a.shape == b.shape else a * b[0, 0]


def chosen(xp, a, b):
    return xp.where(a < b, xp.exp(-a * a), xp.tanh(b)) if a.shape == b.shape else xp.maximum(a, b[-1, -1])


def banded(xp, a, b):
    return xp.tril(xp.triu(a, -1), 1)


def shifted(xp, a, b):
    return a + b[0, 0] * xp.eye(*a.shape)


def shuffled(xp, a, b):
    return xp.concatenate([a[::2], a[1::2]])[:, ::-1]


def joined(xp, a, b):
    return xp.concatenate([a, b], axis=1)[:, : a.shape[1]] if len(a) == len(b) else a


def symmetric(xp, a, b):
    return mirrored(xp, a @ a.T / a.shape[1] + xp.eye(len(a)))


def inverted(xp, a, b):
    found, pivots = inverse(xp, symmetric(xp, a, b))
    return found + xp.diag(pivots)


OPERATIONS = [product, product, combined, chosen, banded, shifted, shuffled, joined, symmetric, inverted]


def apply(xp, instructions, matrices):
    """All matrices of the pool after the instructions."""
    pool = list(matrices)
    for operation, i, j in instructions:
        result = operation(xp, pool[i % len(pool)], pool[j % len(pool)])
        if result is not None:
            pool.append(result)
    return pool


def last_of_order(pool, n):
    return next(a for a in reversed(pool) if a.shape == (n, n))


def turn(xp, instructions, P, A, S, B):
    """The next P, what is kept of this turn, and a sum."""
    pool = apply(xp, instructions, [A, S, B, P])
    return xp.sin(last_of_order(pool, len(P))), last_of_order(pool, len(P)).T + P, xp.sum(pool[-1])


@dataclass(frozen=True)
class RandomKernel:
    n: int
    m: int
    instructions: tuple
    lanes: int
    nodes: bool
    reverse: bool

    def memory(self) -> Memory:
        n, m = self.n, self.m
        memory = Memory(
            [
                Record("shared", "shared", {"S": (m, n)}),
                Record("interval", "series" if self.nodes else "lane", {"A": (n, n), "end": (n, n), "total": ()}),
                Record("turn", "lane" if self.nodes else "step", {"B": (n, m), "kept": (n, n)}),
            ],
            lanes=self.lanes,
            chunks=2,
            steps=2,
            first=(0, 1, min(3, 2 * self.lanes)),
        )
        rng = np.random.default_rng(1)
        for record, name in [("shared", "S"), ("interval", "A"), ("turn", "B")]:
            memory[record, name] = rng.normal(size=memory[record, name].shape)
        return memory

    def kernel(self, memory: Memory) -> Kernel:
        def init(A, S):
            return {"P": A + A @ A.T / self.n, "sum": 0.0}

        def body(P, sum, A, S, B):
            following, kept, more = turn(jnp, self.instructions, P, A, S, B)
            return {"P": following, "kept": kept, "sum": sum + more}

        def final(P, sum, A):
            return {"end": lower_mirrored(P @ A.T), "total": sum}

        scan = NodeScan if self.nodes else LaneScan
        return scan("random", memory.uses(), init=init, body=body, final=final, reverse=self.reverse)

    def expect(self, memory: Memory) -> None:
        """The same by plain loops, in the memory."""
        A, S, B = memory["interval", "A"], memory["shared", "S"], memory["turn", "B"]
        kept, end, total = (memory[key].copy() for key in (("turn", "kept"), ("interval", "end"), ("interval", "total")))
        for k in range(len(A)):
            places = [(i,) for i in range(memory.first[k], memory.first[k + 1])] if self.nodes else [(k, 0), (k, 1)]
            P, total[k] = A[k] + A[k] @ A[k].T / self.n, 0.0
            for place in reversed(places) if self.reverse else places:
                P, kept[place], more = turn(np, self.instructions, P, A[k], S, B[place])
                total[k] += more
            end[k] = mirrored(np, P @ A[k].T)
        memory["turn", "kept"], memory["interval", "end"], memory["interval", "total"] = kept, end, total


instructions = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=7
)
random_kernels = st.builds(
    RandomKernel,
    n=st.integers(1, 7),
    m=st.integers(1, 9),
    instructions=instructions.map(tuple),
    lanes=st.sampled_from([1, 2, 4, 5, 8]),
    nodes=st.booleans(),
    reverse=st.booleans(),
)


@settings(max_examples=60)
@given(random_kernels, st.sampled_from([0, 0, 20, 100]))
def test_random_kernels(random, largest):
    expected, found = random.memory(), random.memory()
    random.expect(expected)
    found.run(random.kernel(found), largest=largest)
    for name, array in expected.arrays.items():
        assert_close(found.arrays[name], array, f"{name}, {largest}")


@settings(max_examples=8)
@given(random_kernels)
def test_written_out_they_are_the_same(random):
    expected, found = random.memory(), random.memory()
    expected.run(random.kernel(expected), largest=WRITTEN_OUT)
    found.run(random.kernel(found), largest=0)
    for name, array in expected.arrays.items():
        assert_close(found.arrays[name], array, name)
