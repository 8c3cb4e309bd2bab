"""Kernels with loops over arrays in memory do what the same kernels do written out, and what NumPy does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathfold.program.arrays import Fill, Product, SparseProduct
from pathfold.program.emit import emit
from pathfold.program.graph import Graph
from pathfold.program.kernel import Kernel, LaneScan, NodeScan, Traced
from pathfold.program.layout import Kind, Record
from pathfold.program.matrices import eliminate, lower_mirrored
from pathfold.program.node_arrays import NodeArray
from pathfold.program.roll import fill
from pathfold.program.statements import tiles, vectors
from tests.program.kernels import Memory

WRITTEN_OUT = 10**9  # no product is as large


def assert_close(found, expected, message=""):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=message)


# Random kernels: instructions on a pool of matrices, of nodes in a kernel and of numbers in plain loops.


def mirrored(a):
    return lower_mirrored(a) if isinstance(a, NodeArray) else np.tril(a) + np.tril(a, -1).T


def inverse(a):
    if isinstance(a, NodeArray):
        return eliminate(a)
    minors = [np.linalg.det(a[:k, :k]) for k in range(len(a) + 1)]
    return np.linalg.inv(a), np.array(minors[1:]) / np.array(minors[:-1])


def product(a, b):
    for left in (a, a.T):
        for right in (b, b.T):
            if left.shape[1] == right.shape[0]:
                return left @ right / left.shape[1]
    return None


def combined(a, b):
    return a - 0.5 * b if a.shape == b.shape else a * b[0, 0]


def chosen(a, b):
    return np.where(a < b, np.exp(-a * a), np.tanh(b)) if a.shape == b.shape else np.maximum(a, b[-1, -1])


def banded(a, b):
    i, j = np.indices(a.shape)
    return np.where(abs(i - j) <= 1, a, 0.0)


def shifted(a, b):
    return a + b[0, 0] * np.eye(*a.shape)


def shuffled(a, b):
    return np.concatenate([a[::2], a[1::2]])[:, ::-1]


def joined(a, b):
    return np.concatenate([a, b], axis=1)[:, : a.shape[1]] if len(a) == len(b) else a


def symmetric(a, b):
    return mirrored(a @ a.T / a.shape[1] + np.eye(len(a)))


def inverted(a, b):
    found, pivots = inverse(symmetric(a, b))
    return found + np.diag(pivots)


OPERATIONS = [product, product, combined, chosen, banded, shifted, shuffled, joined, symmetric, inverted]


def apply(instructions, matrices):
    """All matrices of the pool after the instructions."""
    pool = list(matrices)
    for operation, i, j in instructions:
        result = operation(pool[i % len(pool)], pool[j % len(pool)])
        if result is not None:
            pool.append(result)
    return pool


def last_of_order(pool, n):
    return next(a for a in reversed(pool) if a.shape == (n, n))


def turn(instructions, P, A, S, B):
    """The next P, what is kept of this turn, and a sum."""
    pool = apply(instructions, [A, S, B, P])
    return np.sin(last_of_order(pool, len(P))), last_of_order(pool, len(P)).T + P, np.sum(pool[-1])


@dataclass(frozen=True)
class RandomKernel:
    n: int
    m: int
    instructions: tuple
    lanes: int
    nodes: bool
    reverse: bool
    abreast: int = 1  # series in a group, if it divides the lanes

    def memory(self) -> Memory:
        n, m = self.n, self.m
        together = math.gcd(self.abreast, self.lanes) if self.nodes else 1
        last = min(3, 2 * self.lanes // together)
        memory = Memory(
            [
                Record("shared", "shared", {"S": (m, n)}),
                Record("interval", "series" if self.nodes else "lane", {"A": (n, n), "end": (n, n), "total": ()}),
                Record("turn", "lane" if self.nodes else "step", {"B": (n, m), "kept": (n, n)}),
            ],
            lanes=self.lanes,
            chunks=2,
            steps=2,
            first=(0, 1, last),
            abreast=together,
            active=[together, *[together, max(1, together - 1)][: last - 1]],
        )
        rng = np.random.default_rng(1)
        for record, name in [("shared", "S"), ("interval", "A"), ("turn", "B")]:
            memory[record, name] = rng.normal(size=memory[record, name].shape)
        return memory

    def kernel(self, memory: Memory) -> Kernel:
        def init(A, S):
            return {"P": A + A @ A.T / self.n, "sum": 0.0}

        def body(P, sum, A, S, B):
            following, kept, more = turn(self.instructions, P, A, S, B)
            return {"P": following, "kept": kept, "sum": sum + more}

        def final(P, sum, A, S):
            return {"end": lower_mirrored(P @ A.T + S.T @ S), "total": sum}

        scan = NodeScan if self.nodes else LaneScan
        return scan("random", memory.uses(), init=init, body=body, final=final, reverse=self.reverse)

    def expect(self, memory: Memory) -> None:
        """The same by plain loops, in the memory; what has no node is zero in a group, and left alone without one."""
        A, S, B = memory["interval", "A"], memory["shared", "S"], memory["turn", "B"]
        results = ("turn", "kept"), ("interval", "end"), ("interval", "total")
        kept, end, total = (memory[key].copy() for key in results)
        if self.nodes:
            kept[: memory.first[-1] * memory.abreast] = 0.0
        for k in range(len(A)):
            places = memory.slots_of(k) if self.nodes else [(k, 0), (k, 1)]
            P, total[k] = A[k] + A[k] @ A[k].T / self.n, 0.0
            for place in reversed(places) if self.reverse else places:
                P, kept[place], more = turn(self.instructions, P, A[k], S, B[place])
                total[k] += more
            end[k] = mirrored(P @ A[k].T + S.T @ S)
        for key, value in zip(results, (kept, end, total), strict=True):
            memory[key] = value


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
    abreast=st.sampled_from([1, 2, 4]),
)


@settings(max_examples=30)
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


# What the loops are


def square_memory(n: int, kind: Kind = "lane") -> Memory:
    fields = {name: (n, n) for name in ("a", "b", "c")}
    memory = Memory([Record("given", kind, fields)], lanes=4, first=(0, 2, 4))
    for name in fields:
        memory["given", name] = np.random.default_rng(len(name)).normal(size=memory["given", name].shape)
    return memory


def traced(n: int, final, scan: type[Kernel] = LaneScan, **options) -> Traced:
    return Traced(scan("kernel", square_memory(n).uses(), final=final), **options)


def test_code_does_not_grow_with_the_matrix():
    def final(a, b):
        return {"c": lower_mirrored(a @ b.T + a)}

    def lines(n):
        return emit(traced(n, final), 4).text.count("\n")

    assert lines(40) <= lines(16) + 5
    assert emit(traced(10, final, largest=WRITTEN_OUT), 4).text.count("\n") > 5 * lines(10)


def test_small_products_are_written_out():
    def final(a, b):
        return {"c": a @ b}

    for scan, n in ((LaneScan, 7), (NodeScan, 5)):
        assert not traced(n, final, scan).graph.statements
        assert traced(n + 1, final, scan).graph.statements


@pytest.mark.parametrize("left", [True, False])
def test_a_sparse_factor_costs_its_entries(left):
    """A band of three diagonals times a matrix: 3 n - 2 multiplications written out, in one loop over n columns."""

    def final(a, b):
        band = banded(np.exp(a), None)
        return {"c": band @ b if left else b @ band}

    (statement,) = traced(20, final).graph.statements
    assert isinstance(statement, SparseProduct)
    assert sum(len(row) for row in statement.rows) == 58
    assert statement.columns == 20


def test_a_selection_costs_nothing():
    assert not traced(20, lambda a: {"c": np.eye(20)[::-1] @ a}).graph.statements


def test_a_diagonal_times_a_diagonal_stays_sparse():
    kernel = traced(20, lambda a, b: {"c": np.diag(np.diag(a)) @ (np.diag(np.diag(b)) + np.eye(20, k=1))})
    assert not kernel.graph.statements


def test_a_matrix_in_order_is_not_copied():
    """In lanes, any even distances will do; in nodes, fields are brought into order once and carried ones are."""

    def final(a, b):
        return {"c": a @ b + a.T @ b}

    assert [type(s) for s in traced(9, final).graph.statements] == [Product, Product]
    assert [type(s) for s in traced(9, final, NodeScan).graph.statements] == [Fill, Fill, Product, Fill, Product]


def graph_with(*names: str, size: int = 36) -> tuple[Graph, list[np.ndarray]]:
    graph = Graph()
    for name in names:
        graph.sizes["field", name] = size
    return graph, [np.array([graph.input("field", name, i) for i in range(size)]).reshape(6, 6) for name in names]


def test_a_symmetric_matrix_is_one_box():
    graph, (a,) = graph_with("a")
    filling = fill(graph, np.where(np.tri(6, dtype=bool), a, a.T))
    assert len(filling.boxes) == 1
    assert filling.boxes[0].mirror == (1, 6)
    assert not filling.entries


def test_every_other_column_is_one_box():
    graph, (a, b) = graph_with("a", "b")
    mixed = a.copy()
    mixed[:, 1::2] = b[:, 1::2]
    np.fill_diagonal(mixed, graph.const(1.0))
    filling = fill(graph, mixed)
    assert len(filling.boxes) == 2
    assert len(filling.entries) == 6


def test_a_box_does_not_read_beyond_its_memory():
    """Rows one further down, the last one constant: read at even distances it would lie beyond the array."""
    graph, (a,) = graph_with("a")
    moved = np.full((6, 6), graph.const(0.0))
    moved[:5] = a[1:]
    filling = fill(graph, moved)
    read = [box.term for box in filling.boxes if box.shape == (6, 6)]
    assert not read
    assert sum(np.prod(box.shape) for box in filling.boxes) + len(filling.entries) == 36


@given(st.integers(1, 200), st.integers(1, 8))
def test_tiles_cover_a_length_once(length, size):
    for parts in (tiles(length, size), vectors(length)):
        covered = [first + i for first, number, width in parts for i in range(number * width)]
        assert covered == list(range(length))


@pytest.mark.parametrize("scan", [LaneScan, NodeScan])
def test_carried_matrices_change_places(scan):
    n = 12
    kind = "lane" if scan is LaneScan else "series"
    memory = square_memory(n, kind)
    a, b = memory["given", "a"].copy(), memory["given", "b"].copy()
    node = Record("node", "lane", {"seen": (n, n)})
    memory = Memory([*memory.records, node], lanes=4, steps=3, first=(0, 3, 4))
    memory["given", "a"], memory["given", "b"] = a, b

    def init(a, b):
        return {"p": a, "q": b @ b}

    def body(p, q):
        return {"p": q.T, "q": p} | ({"seen": p} if scan is NodeScan else {})

    def final(p, q):
        return {"c": p, "a": q}

    memory.run(scan("swap", memory.uses(), init=init, body=body, final=final))
    for k in range(len(a)):
        p, q = a[k], b[k] @ b[k]
        for _ in range(3 if scan is LaneScan else memory.first[k + 1] - memory.first[k]):
            p, q = q.T, p
        assert_close(memory["given", "c"][k], p)
        assert_close(memory["given", "a"][k], q)


def test_fields_change_places():
    memory = square_memory(12)
    a, b = memory["given", "a"].copy(), memory["given", "b"].copy()
    memory.run(LaneScan("swap", memory.uses(), final=lambda a, b: {"a": b.T, "b": a, "c": a @ b}))
    assert_close(memory["given", "a"], b.transpose(0, 2, 1))
    assert_close(memory["given", "b"], a)
    assert_close(memory["given", "c"], a @ b)


@pytest.mark.parametrize("scan", [LaneScan, NodeScan])
@pytest.mark.parametrize("n", [1, 2, 4, 5, 9, 20])
def test_elimination(scan, n):
    memory = square_memory(n, "lane" if scan is LaneScan else "series")
    a = memory["given", "a"]
    memory["given", "a"] = a @ a.transpose(0, 2, 1) / n + np.eye(n)

    def final(a):
        found, pivots = eliminate(a)
        return {"b": found, "c": np.diag(pivots)}

    memory.run(scan("eliminate", memory.uses(), final=final))
    for k, matrix in enumerate(memory["given", "a"]):
        expected, pivots = inverse(matrix)
        assert_close(memory["given", "b"][k], expected)
        assert_close(np.diag(memory["given", "c"][k]), pivots)


def test_what_depends_on_the_interval_alone_is_computed_before_the_steps():
    n = 12
    memory = Memory(
        [Record("interval", "lane", {"a": (n, n)}), Record("fine", "step", {"x": (n,), "y": (n,)})], lanes=4, steps=3
    )
    memory["interval", "a"] = np.random.default_rng(0).normal(size=memory["interval", "a"].shape)
    memory["fine", "x"] = np.random.default_rng(1).normal(size=memory["fine", "x"].shape)

    def body(a, x):
        return {"y": (a @ a) @ x}

    kernel = LaneScan("hoisted", memory.uses(), body=body)
    text = emit(Traced(kernel), 4).text
    steps = text.index("load i64", text.index("udiv exact") + 1)  # the number of steps is read where their loop begins
    assert text.index("%array.0") < steps
    memory.run(kernel)
    a = memory["interval", "a"]
    assert_close(memory["fine", "y"], np.einsum("kij,ksj->ksi", a @ a, memory["fine", "x"]))
