"""Programs: functions of arrays that JAX writes down once, with derivatives, and that are substituted into graphs.

JAX writes down f, df[a] and d2f[a, b] for directions a, b that are inputs too. A column of a Jacobian is df[a] with a
unit vector for a, an entry of a Hessian d2f with two. Derivatives are linear in their directions: a node to which a
unit vector does not reach is zero, and is not looked at; and gradients come from transposing them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pathfold.program.graph import Graph, Node
from pathfold.program.interpret import Nodes, input_nodes
from pathfold.program.node_arrays import NodeArray, graph_of, nodes_in
from pathfold.program.trace import Traceable, differentiating, second_derivative, trace

NONE = -1  # in the place of the unit vector that is a first direction


class Program:
    """A function of arrays of given shapes, which JAX writes down once, when it is first needed."""

    def __init__(self, function: Callable, shapes: Sequence[tuple[int, ...]]) -> None:
        self.function, self.shapes = function, tuple(shapes)
        sizes = [math.prod(shape) for shape in shapes]
        self.offsets = [0, *accumulate(sizes)]  # of the arguments among all coordinates
        self.written: dict[Any, Traceable] = {}  # what JAX has written down of a large program

    @cached_property
    def graph(self) -> Graph:
        return self._traced[0]

    @cached_property
    def _traced(self) -> tuple[Graph, dict[str, Nodes]]:
        """Return the graph with the nodes of value, first, second and mixed derivatives."""
        graph, shapes = Graph(), self.shapes
        given = [input_nodes(graph, str(i), shape) for i, shape in enumerate(3 * shapes)]
        with differentiating():
            (value, first), (second, mixed) = trace(graph, second_derivative(self.function, len(shapes)), *given)
        found = {"value": value, "first": first, "second": second, "mixed": mixed}
        return graph, {name: np.asarray(nodes) for name, nodes in found.items()}

    @property
    def out(self) -> dict[str, Nodes]:
        return self._traced[1]

    @cached_property
    def text(self) -> str:
        """The program and its derivatives: nodes, loops over arrays in memory, results."""
        return repr((self.graph.ops, self.graph.statements, [nodes.tolist() for nodes in self.out.values()]))

    @cached_property
    def reach(self) -> list[tuple[int, int]]:
        """The coordinates of the first and of the second direction that reach each node, as bits."""
        count, reach = len(self.shapes), list[tuple[int, int]]()
        for op in self.graph.ops:
            a = b = 0
            if op[0] == "input":
                kind, argument = divmod(int(op[1]), count)
                bit = 1 << (self.offsets[argument] + op[2])
                a, b = (bit if kind == 1 else 0), (bit if kind == 2 else 0)
            elif op[0] != "const":
                for node in op[1:]:
                    a, b = a | reach[node][0], b | reach[node][1]
            reach.append((a, b))
        return reach

    @cached_property
    def needed(self) -> dict[str, list[int]]:
        """The nodes that each result is made of, in order."""
        return {name: self._needed(nodes) for name, nodes in self.out.items()}

    def _needed(self, out: Nodes) -> list[int]:
        seen: set[int] = set()
        stack = out.ravel().tolist()
        while stack:
            n = stack.pop()
            if n not in seen:
                seen.add(n)
                op = self.graph.ops[n]
                if op[0] not in ("const", "input"):
                    stack.extend(op[1:])
        return sorted(seen)

    def coordinates(self, argument: int) -> range:
        """Return the numbers of an argument's coordinates among those of all arguments."""
        return range(self.offsets[argument], self.offsets[argument + 1])

    def __call__(self, *arguments: Any) -> Applied:
        """Substitute arrays of nodes for the arguments."""
        g = graph_of(*arguments)
        nodes = [np.broadcast_to(nodes_in(g, a), s) for a, s in zip(arguments, self.shapes, strict=True)]
        key = id(self), *(n for each in nodes for n in each.ravel().tolist())
        if (known := g.applied.get(key)) is None:
            known = g.applied[key] = (LargeApplied if self.graph.statements else Applied)(self, g, nodes)
        return known


class Applied:
    """A program with nodes of a graph in the place of its arguments: its value and its derivatives."""

    def __init__(self, program: Program, g: Graph, nodes: Sequence[Nodes]) -> None:
        self.program, self.g, self.nodes = program, g, nodes
        self._values: dict[int, Node] = {}  # of the nodes that no direction reaches
        self._along: dict[int, dict[int, Node]] = {}  # of those that a unit vector reaches as the first direction
        self._zero = g.const(0.0)

    def _array(self, nodes: Any) -> NodeArray:
        return NodeArray(self.g, np.asarray(nodes, dtype=np.int64))

    def value(self) -> Any:
        p = self.program
        self._compute(p.needed["value"])
        return self._array([self._values[n] for n in p.out["value"].ravel().tolist()]).reshaped(p.out["value"].shape)

    def jacobian(self, argument: int) -> Any:
        """Return the derivatives by an argument, whose axis comes last."""
        p = self.program
        out = p.out["first"].ravel().tolist()
        columns = []
        for i in p.coordinates(argument):
            values = self._first(i)
            columns.append([self._at(n, values, i) for n in out])
        shape = (*p.out["first"].shape, len(columns))
        return self._array(np.array(columns, dtype=np.int64).reshape(len(columns), len(out)).T.reshape(shape))

    def jacobians(self, *arguments: int) -> list[Any]:
        return [self.jacobian(argument) for argument in arguments]

    def hessians(self, *arguments: int) -> Any:
        """Return the lower triangles of the second derivatives by all these arguments, one after the other."""
        p, at = self.program, [i for a in arguments for i in self.program.coordinates(a)]
        out = p.out["mixed"].ravel().tolist()
        place = {c: k for k, c in enumerate(at)}
        found = np.full((len(out), len(at), len(at)), self._zero, dtype=np.int64)
        for i in at:
            below = [j for j in at if place[j] <= place[i]]
            for j, values in self._mixed(i, below).items():
                found[:, place[i], place[j]] = [values.get(n, self._zero) for n in out]
        return self._array(found)

    def pulled(self, weights: Any, *arguments: int) -> list[Any]:
        """Return <weights, df> as a linear function of the direction: the gradients by the arguments."""
        seeds = zip(
            self.program.out["second"].ravel().tolist(), nodes_in(self.g, weights).ravel().tolist(), strict=True
        )
        return self._transposed([(n, NONE, w) for n, w in seeds], arguments)

    def contracted(self, weights: Sequence[Any], *arguments: int) -> list[Any]:
        """Return the gradients by the arguments of sum_k <weights_k, derivative by argument k>."""
        p, seeds = self.program, []
        out = p.out["mixed"].ravel().tolist()
        for argument, weight in zip(arguments, weights, strict=True):
            columns = nodes_in(self.g, weight).reshape(len(out), len(p.coordinates(argument)))
            for k, i in enumerate(p.coordinates(argument)):
                seeds += [(n, i, int(w)) for n, w in zip(out, columns[:, k].tolist(), strict=True)]
        return self._transposed(seeds, arguments)

    def contracted_hessian(self, weights: Any, *arguments: int) -> Any:
        """Return the second derivatives of <weights, f> by all these arguments, one after the other."""
        nodes = nodes_in(self.g, weights).ravel().tolist()
        seeds, rows = list(zip(self.program.out["mixed"].ravel().tolist(), nodes, strict=True)), list[Nodes]()
        for i in (i for argument in arguments for i in self.program.coordinates(argument)):
            row = self._transposed([(n, i, w) for n, w in seeds], arguments)
            rows.append(np.concatenate([each.nodes for each in row]))
        return self._array(np.stack(rows))

    def _compute(self, needed: Iterable[int]) -> None:
        """Find the values of the nodes that no direction reaches."""
        g, values, p = self.g, self._values, self.program
        for n in needed:
            if n in values or p.reach[n] != (0, 0):
                continue
            op = p.graph.ops[n]
            if op[0] == "const":
                values[n] = g.const(op[1])
            elif op[0] == "input":
                values[n] = int(self.nodes[int(op[1])].flat[op[2]])
            else:
                values[n] = g.op(op[0], *[values[a] for a in op[1:]])

    def _first(self, i: int) -> dict[int, Node]:
        """Return the values of the nodes that the first direction alone reaches, for the i-th unit vector."""
        if i in self._along:
            return self._along[i]
        p, g, base = self.program, self.g, self._values
        self._compute(p.needed["first"])
        self._compute(p.needed["mixed"])
        values = self._along[i] = {}
        bit, one = 1 << i, g.const(1.0)
        for n in sorted({*p.needed["first"], *p.needed["mixed"]}):
            a, b = p.reach[n]
            if b or not a & bit:
                continue
            op = p.graph.ops[n]
            values[n] = (
                one
                if op[0] == "input"
                else g.op(op[0], *[base[m] if p.reach[m] == (0, 0) else values.get(m, self._zero) for m in op[1:]])
            )
        return values

    def _at(self, n: int, values: dict[int, Node], i: int) -> Node:
        return values.get(n, self._zero) if self.program.reach[n][0] else self._values.get(n, self._zero)

    def _mixed(self, i: int, along: Sequence[int]) -> dict[int, dict[int, Node]]:
        """Return the values of the nodes that both directions reach, for the i-th unit vector and several others."""
        p, g, base, first = self.program, self.g, self._values, self._first(i)
        one, zero, bit = g.const(1.0), self._zero, 1 << i
        found: dict[int, dict[int, Node]] = {}
        for j in along:
            values, other = {}, 1 << j
            for n in p.needed["mixed"]:
                a, b = p.reach[n]
                if not b & other or (a and not a & bit):
                    continue
                op = p.graph.ops[n]
                if op[0] == "input":
                    values[n] = one
                    continue
                of = []
                for m in op[1:]:
                    ma, mb = p.reach[m]
                    of.append(values.get(m, zero) if mb else first.get(m, zero) if ma else base[m])
                values[n] = g.op(op[0], *of)
            found[j] = values
        return found

    def _transposed(self, seeds: Sequence[tuple[int, int, Node]], arguments: Sequence[int]) -> list[Any]:
        """Transpose what is linear in the second direction: return the weight of each of its coordinates.

        A seed is a node, the unit vector that is its first direction (NONE: it has none) and its weight.
        """
        p, g, zero = self.program, self.g, self._zero
        self._compute(p.needed["second"])
        self._compute(p.needed["mixed"])
        weights: dict[int, dict[int, Node]] = {}  # of a node, by its first direction

        def push(n: int, i: int, weight: Node) -> None:
            a, b = p.reach[n]
            if not b or weight == zero or (a and not a >> i & 1):
                return
            key = i if a else NONE
            mine = weights.setdefault(n, {})
            mine[key] = g.op("add", mine[key], weight) if key in mine else weight

        def value(n: int, i: int) -> Node:
            return self._values[n] if p.reach[n] == (0, 0) else self._first(i).get(n, zero)

        for n, i, weight in seeds:
            push(n, i, weight)
        result = {}
        for n in sorted({*p.needed["second"], *p.needed["mixed"]}, reverse=True):
            op = p.graph.ops[n]
            for i, weight in weights.get(n, {}).items():
                match op:
                    case ("input", argument, k):
                        result[p.offsets[int(argument) % len(p.shapes)] + k] = weight
                    case ("add", a, b):
                        push(a, i, weight)
                        push(b, i, weight)
                    case ("sub", a, b):
                        push(a, i, weight)
                        push(b, i, g.op("neg", weight))
                    case ("neg", a):
                        push(a, i, g.op("neg", weight))
                    case ("mul", a, b):
                        linear, factor = (a, b) if p.reach[a][1] else (b, a)
                        push(linear, i, g.op("mul", weight, value(factor, i)))
                    case ("select", c, a, b):
                        chosen = value(c, i)
                        push(a, i, g.op("select", chosen, weight, zero))
                        push(b, i, g.op("select", chosen, zero, weight))
                    case _:
                        raise NotImplementedError(f"{op[0]} is not linear in a direction")
        return [self._array([result.get(c, zero) for c in p.coordinates(a)]) for a in arguments]


class LargeApplied(Applied):
    """The same where the program has loops over arrays in memory: JAX writes each derivative down, once."""

    def __init__(self, program: Program, g: Graph, nodes: Sequence[Nodes]) -> None:
        super().__init__(program, g, nodes)
        self._jacobians: dict[tuple[int, ...], Any] = {}  # by the arguments

    def _of(self, key: Any, function: Callable, *weights: Any) -> Any:
        """Apply a function of the arguments and weights; it is written down under this key."""
        given = [*self.nodes, *(nodes_in(self.g, each) for each in weights)]
        written = self.program.written
        if key not in written:
            with differentiating():
                written[key] = Traceable(function, *given)
        return jax.tree.map(self._array, written[key](self.g, *given))

    def value(self) -> Any:
        return self._of("value", self.program.function)

    def jacobian(self, argument: int) -> Any:
        return self.jacobians(argument)[0]

    def jacobians(self, *arguments: int) -> list[Any]:
        """Those that came with second derivatives, where there are any: what is large is in the code once."""
        if arguments not in self._jacobians:
            jacobians = jax.jacfwd(self.program.function, argnums=arguments)
            self._jacobians[arguments] = self._of(("jacobians", *arguments), jacobians)
        return list(self._jacobians[arguments])

    def hessians(self, *arguments: int) -> Any:
        def function(*values):
            at, of_one = self._of_one(values, arguments)

            def jacobian(q):
                found = jax.jacfwd(of_one)(q)
                return found, found

            hessians, found = jax.jacfwd(jacobian, has_aux=True)(at)
            ends = [*accumulate(values[a].size for a in arguments)][:-1]
            return hessians.reshape(-1, at.size, at.size), jnp.split(found, ends, axis=-1)

        hessians, self._jacobians[arguments] = self._of(("hessians", *arguments), function)
        return hessians

    def contracted_hessian(self, weights: Any, *arguments: int) -> Any:
        def function(*values):
            at, of_one = self._of_one(values[:-1], arguments)
            return jax.jacfwd(jax.grad(lambda q: jnp.sum(values[-1] * of_one(q))))(at)

        return self._of(("contracted_hessian", *arguments), function, weights)

    def _of_one(self, values: Sequence[Any], arguments: Sequence[int]) -> tuple[Any, Callable]:
        """Return some of the arguments as one vector, and the function of that."""
        ends = [*accumulate(values[a].size for a in arguments)][:-1]

        def of_one(q):
            parts = dict(zip(arguments, jnp.split(q, ends), strict=True))
            given = (parts[k].reshape(v.shape) if k in parts else v for k, v in enumerate(values))
            return self.program.function(*given)

        return jnp.concatenate([jnp.ravel(values[a]) for a in arguments]), of_one

    def pulled(self, weights: Any, *arguments: int) -> list[Any]:
        def function(*values):
            *values, weight = values
            return jax.grad(lambda *v: jnp.sum(weight * self.program.function(*v)), argnums=arguments)(*values)

        return list(self._of(("pulled", *arguments), function, weights))

    def contracted(self, weights: Sequence[Any], *arguments: int) -> list[Any]:
        count = len(self.nodes)

        def function(*values):
            def total(*v):
                parts = jax.jacfwd(self.program.function, argnums=arguments)(*v)
                return sum(jnp.sum(w * part) for w, part in zip(values[count:], parts, strict=True)), parts

            return jax.grad(total, argnums=arguments, has_aux=True)(*values[:count])

        gradients, self._jacobians[arguments] = self._of(("contracted", *arguments), function, *weights)
        return list(gradients)
