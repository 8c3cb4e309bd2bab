"""Scans of many turns are loops over memory, and do what JAX does."""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pathfold.program import repeat
from pathfold.program.arrays import Outcome
from pathfold.program.emit import emit
from pathfold.program.graph import Graph
from pathfold.program.kernel import Kernel, LaneScan, NodeScan, Traced
from pathfold.program.layout import Kind, Record
from pathfold.program.roll import fill
from pathfold.program.trace import trace
from tests.by_numpy import by_numpy
from tests.program.kernels import Memory, in_jax
from tests.thorough import thorough

N, TURNS = 6, 12


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def doubled(a, count):
    """e^a - 1 in so many doublings, of a piece that is a series; turns beyond the count leave it as it is."""

    def double(carried, k):
        change, other = carried
        new = 2.0 * change + change @ change, other @ other / 2.0 + a
        return tuple(jnp.where(k < count, x, y) for x, y in zip(new, carried, strict=True)), None

    z = a / 2.0**count
    return jax.lax.scan(double, (z + z @ z / 2.0, a), np.arange(float(TURNS)))[0][0]


def recorded(a, count):
    """A scan from the last entry to the first, of a matrix, a vector and a truth value, that keeps every turn."""

    def turn(carried, entry):
        matrix, vector, above, same = carried
        weight, row = entry
        vector = jnp.tanh(matrix @ vector + weight * row)
        matrix = jnp.where(above, matrix.T, matrix) + weight * jnp.outer(vector, row)
        return (matrix, vector, vector[0] > 0.0, same), (vector, matrix[0], above, same)

    first = (a @ a / N, a[0], count > 2.0, 3.0 * jnp.eye(N))
    last, (vectors, rows, above, same) = jax.lax.scan(
        turn, first, (np.linspace(0.5, 1.0, TURNS), jnp.tile(a, (2, 1)) + count), reverse=True
    )
    kept = vectors.T @ rows + jnp.sum(jnp.where(above[:, None], vectors, 0.0))
    return last[0] + kept + jnp.sum(same, axis=0)


def directions(a):
    return jnp.stack([a.T, jnp.eye(N), jnp.tril(a)])


def first_derivatives(f):
    def derivatives(a, count):
        return jnp.einsum("j...->...", jax.vmap(lambda b: jax.jvp(lambda x: f(x, count), (a,), (b,))[1])(directions(a)))

    return derivatives


def second_derivatives(f):
    first = first_derivatives(f)

    def derivatives(a, count):
        moves = directions(a)[:2]
        return jnp.sum(jax.vmap(lambda b: jax.jvp(lambda x: first(x, count), (a,), (b,))[1])(moves), axis=0)

    return derivatives


def gradient(f):
    return lambda a, count: jax.grad(lambda x: jnp.sum(a.T * f(x, count)))(a)


def gradient_of_derivatives(f):
    return gradient(first_derivatives(f))


ORDERS = [lambda f: f, first_derivatives, second_derivatives, gradient, gradient_of_derivatives]
COUNTS = [1.0, 2.0, 3.0, 5.0]


def memory_of(kind: Kind, n: int = N) -> Memory:
    into: Kind = "series" if kind == "series" else "lane"
    records = [Record("given", kind, {"a": (n, n), "count": ()}), Record("made", into, {"found": (n, n)})]
    memory = Memory(records, lanes=4, first=(0, 1, 2, 3, 4))
    memory["given", "a"] = 0.6 * np.random.default_rng(1).normal(size=memory["given", "a"].shape) / np.sqrt(n)
    counts = memory["given", "count"]
    memory["given", "count"] = np.reshape(COUNTS, counts.shape) if counts.size == len(COUNTS) else 3.0 + 0.0 * counts
    return memory


CASES = [*product([doubled, recorded], ORDERS, ["lane", "series", "shared"])]
QUICK = [*product([doubled, recorded], ORDERS, ["lane"]), *product([recorded], [gradient], ["series", "shared"])]


@pytest.mark.parametrize(("f", "order", "kind"), thorough(CASES, *QUICK))
def test_a_loop_does_what_the_scan_does(f, order, kind, monkeypatch):
    """With lanes abreast, every lane has a count of its own; without; and computed once for all lanes."""
    monkeypatch.setattr(repeat, "LARGEST", 0)
    function, memory = order(f), memory_of(kind)
    oracle = by_numpy(function)
    scan: type[Kernel] = NodeScan if kind == "series" else LaneScan
    kernel = scan("looped", memory.uses(), final=in_jax(lambda a, count: {"found": function(a, count)}))
    assert any(isinstance(statement, Outcome) for statement in Traced(kernel).graph.statements)
    memory.run(kernel)
    found, a, counts = (np.asarray(memory[each]) for each in (("made", "found"), ("given", "a"), ("given", "count")))
    for k, each in enumerate(found.reshape(-1, N, N)):
        given = (a, counts) if kind == "shared" else (a.reshape(-1, N, N)[k], counts.reshape(-1)[k])
        expected = oracle(*given)
        np.testing.assert_allclose(each, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def kernel_of(final, n: int = N) -> Kernel:
    return LaneScan("kernel", memory_of("lane", n).uses(), final=in_jax(final))


def test_code_does_not_grow_with_turns_or_directions():
    def lines(turns, n_directions):
        def final(a):
            def f(x):
                return jax.lax.scan(lambda b, _: (a @ b + x * b, None), a, length=turns)[0]

            moves = jnp.arange(1.0, n_directions + 1)[:, None, None] * a
            return {"found": jnp.sum(jax.vmap(lambda b: jax.jvp(f, (a,), (b,))[1])(moves), axis=0)}

        return emit(Traced(kernel_of(final)), 4).text.count("\n")

    assert lines(100, 3) == lines(20, 3)
    assert lines(100, 24) - lines(100, 12) < 12 * 2 * N**2  # an entry's product alone would be 2 N lines


def test_what_nobody_reads_is_not_computed():
    def final(a, both):
        def turn(carried, _):
            x, y = carried
            return (x @ x, y @ x), None

        x, y = jax.lax.scan(turn, (a, a), length=20)[0]
        return {"found": x + y if both else x}

    def products(both):
        return emit(Traced(kernel_of(lambda a: final(a, both), 9)), 4).text.count("fadd")

    assert products(True) > 1.5 * products(False)


def test_small_scans_are_written_out_and_so_are_those_that_need_constants():
    def summed(a):
        return {"found": jax.lax.scan(lambda total, row: (total + row, None), a[0], a)[0] + a}

    def powers(a):
        def turn(carried, i):
            return jax.lax.fori_loop(0, i, lambda _, b: jnp.tanh(b @ a), carried), None

        return {"found": jax.lax.scan(turn, a, np.arange(4))[0]}

    for final in (summed, powers):
        graph = Traced(kernel_of(final)).graph
        assert not any(isinstance(statement, Outcome) for statement in graph.statements)
    memory = memory_of("lane")
    memory.run(kernel_of(powers))
    for given, found in zip(memory["given", "a"], memory["made", "found"], strict=True):
        np.testing.assert_allclose(found, jax.jit(powers)(given)["found"], rtol=1e-9)


def test_axes_that_were_merged_are_one_box():
    """Sums over two arrays whose axes are in another order each, with three axes merged into one."""
    graph = Graph()
    graph.sizes |= {("field", "a"): 7 * 8 * 5 * 7, ("field", "b"): 7 * 8 * 5 * 7}
    a, b = (np.array([graph.input("field", name, i) for i in range(7 * 8 * 5 * 7)]) for name in "ab")
    a, b = a.reshape(8, 5, 7, 7).transpose(2, 0, 1, 3), b.reshape(8, 7, 5, 7).transpose(1, 0, 2, 3)
    nodes = trace(graph, lambda a, b: a + b, a.reshape(7, -1), b.reshape(7, -1))
    filling = fill(graph, nodes)
    assert [np.prod(box.shape) for box in filling.boxes] == [nodes.size]
    assert not filling.entries
