"""Emits the code of statements, loops over arrays in memory.

In a scan over lanes, or over the nodes of series abreast, an entry is a vector of lanes. In a scan over the nodes of
one series it is one number, and the entries of a row that are neighbours in memory form vectors.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from pathfold.program.arrays import (
    Elimination,
    Fill,
    Memory,
    Outcome,
    Product,
    Repeat,
    Scalar,
    SparseProduct,
    Term,
    View,
    needs,
)
from pathfold.program.assembly import Function
from pathfold.program.kernel import Traced
from pathfold.program.sections import Section


@dataclass(frozen=True)
class Place:
    """The place of a part of memory: its base address, the number of its first entry, how far apart its entries are."""

    base: str
    first: int = 0
    apart: int = 1
    shared: bool = False  # by all lanes


ROW, NEIGHBOURS = 4, 8  # the tile of a product in a scan over nodes: rows, and entries of a row in a vector
TILE = (2, 4)  # the tile of a product in a scan over lanes: rows and columns


def tiles(length: int, size: int) -> list[tuple[int, int, int]]:
    """Cut a length into tiles, returned as (first, number of tiles, their length).

    All are equal if a length near `size` divides; otherwise a shorter tile comes last.
    """
    for near in range(size, size // 2, -1):
        if length % near == 0:
            return [(0, length // near, near)]
    whole, rest = divmod(length, size)
    return [(0, whole, size)] * (whole > 0) + [(whole * size, 1, rest)]


def vectors(length: int) -> list[tuple[int, int, int]]:
    """Cut a length into vectors of NEIGHBOURS, then of smaller powers of two: (first, number of them, their size)."""
    parts, first, size = [], 0, NEIGHBOURS
    while first < length:
        number = (length - first) // size
        if number:
            parts.append((first, number, size))
        first, size = first + number * size, size // 2
    return parts


class Loops(Section):
    """A section with arrays, which it computes when they are first needed."""

    def __init__(
        self,
        traced: Traced,
        f: Function,
        places: dict[Memory, Place],
        live: Mapping[int, Container[int]],
        triangles: Container[int],
        s: str = "",
    ) -> None:
        super().__init__(traced, f, {}, self._input)
        self.places, self.live, self.triangles, self.s = dict(places), live, triangles, s
        self.stored: set[int] = set()  # arrays that were computed, here or inside
        self.alone = True  # a value is one number, and neighbours in memory form vectors

    def inside(self, places: dict[Memory, Place], s: str = "") -> Loops:
        """Return a section for the inside of a loop, which begins with all values and arrays of this one."""
        section = Loops(self.traced, self.f, {**self.places, **places}, self.live, self.triangles, s)
        section.scope, section.ready = dict(self.scope), set(self.ready)
        section.stored, section.alone = self.stored, self.alone
        return section

    def _input(self, op: tuple) -> str:
        if op[1] == "s":
            return self.f.spread(self.f.value(f"sitofp i64 {self.s} to double"))
        if op[1] == "array" and op[2] not in self.ready:
            self.ready.add(op[2])
            self.stored.add(op[2])
            self._run(op[2], self.places["array", op[2]])
        return self._read(View(op[1:3], op[3], ()), ())

    # Addresses

    def _address(self, place: Place, start: int, strides: Sequence[int], index: Sequence[str]) -> str:
        """Return the address of the entry at start + strides . index."""
        f, at = self.f, str((place.first + start) * place.apart)
        for stride, i in zip(strides, index, strict=True):
            if stride and i != "0":
                at = f.integer("add", at, f.integer("mul", i, str(stride * place.apart)))
        return f.address(place.base, at)

    def entry(self, place: Place, i: str) -> str:
        """Return the address of the i-th entry of a part of memory."""
        return self._address(place, 0, (1,), (i,))

    def _read(self, view: View, index: Sequence[str], *, same: bool = False) -> str:
        """Load an entry; one that lanes share, or with `same`, is a single number that is copied into the vector."""
        place = self.places[view.memory]
        address = self._address(place, view.start, view.strides, index)
        if not (same or (place.shared and not self.alone)):
            return self.f.load(address)
        with self.f.abreast(1):
            value = self.f.load(address)
        return self.f.spread(value)

    @contextmanager
    def _loop(self, count: int | str, first: int = 0, step: int = 1) -> Iterator[str]:
        """Loop over `count` numbers first, first + step, ..."""
        if count == 1:
            yield str(first)
            return
        with self.f.loop(str(count)) as (i, _, _):
            yield self._plus(i if step == 1 else self.f.integer("mul", i, str(step)), first)

    def _plus(self, i: str, more: int) -> str:
        if more == 0:
            return i
        return str(int(i) + more) if i.isdigit() else self.f.integer("add", i, str(more))

    # Statements

    def _run(self, number: int, target: Place) -> None:
        statement = self.graph.statements[number]
        if isinstance(statement, Fill):
            self.fill(statement, target)
        elif isinstance(statement, Product):
            self._product(statement, target, number in self.triangles)
        elif isinstance(statement, SparseProduct):
            self._sparse_product(statement, target)
        elif isinstance(statement, Outcome):
            self._repeat(statement.loop)
        elif isinstance(statement, Elimination):
            self._eliminate(statement, target)

    def _repeat(self, loop: Repeat) -> None:
        f, statements = self.f, self.graph.statements
        numbers = {s.memory: k for k, s in enumerate(statements) if isinstance(s, Outcome) and s.loop is loop}
        wanted = {memory: self.live[number] for memory, number in numbers.items() if number in self.live}
        self.ready |= {numbers[memory] for memory in wanted}
        self.stored |= {numbers[memory] for memory in wanted}
        targets = {memory: self.places["array", numbers[memory]] for memory in wanted}
        first, following = (
            [(memory, filling.part(wanted[memory])) for memory, filling in fillings if memory in wanted]
            for fillings in (loop.first, loop.following)
        )
        results = [(memory, filling) for memory, filling in loop.results if memory in wanted]
        for memory, filling in first:
            self.fill(filling, targets[memory])
        with f.loop(str(loop.length)) as (turn, _, _):
            if loop.reverse:
                turn = f.integer("sub", str(loop.length - 1), turn)
            over = {memory: self._of_turn(self.places[view.memory], view, turn) for memory, view in loop.over}
            inside = self.inside({memory: targets[memory] for memory, _ in following} | over, self.s)
            inside.ready |= {number for _, number in (*over, *(memory for memory, _ in following))}
            if loop.condition is not None:
                f.leave_unless(f.any(*inside.compute([loop.condition])))
            inside.compute(node for _, filling in (*results, *following) for node in needs(self.graph, filling))
            for memory, filling in results:
                inside.fill(filling, self._of_turn(targets[memory], View((), 0, (filling.size,)), turn))
            for memory, filling in following:
                inside.fill(filling, targets[memory])

    def _of_turn(self, place: Place, view: View, turn: str) -> Place:
        """Return the place of the entries of a turn."""
        return replace(place, base=self._address(place, view.start, view.strides[:1], (turn,)), first=0)

    def fill(self, statement: Fill, target: Place) -> None:
        for box in statement.boxes:
            with ExitStack() as loops:
                index: list[str] = []
                for k, length in enumerate(box.shape):
                    below = self._plus(index[-1], 1) if box.mirror and k == len(box.shape) - 1 else length
                    index.append(loops.enter_context(self._loop(below)))
                value = self._term(box.term, index)
                for strides in filter(None, (box.strides, box.mirror)):
                    self.f.store(value, self._address(target, box.start, strides, index))
        for at, node in statement.entries:
            self.f.store(self.scope[node], self._address(target, at, (), ()))

    def _term(self, term: Term, index: Sequence[str]) -> str:
        if isinstance(term, Scalar):
            return self.scope[term.node]
        if isinstance(term, View):
            return self._read(term, index)
        name, first = self.graph.ops[term.node][:2]
        return self.f.operation(
            name, self.kinds[term.node], self.kinds[first], [self._term(part, index) for part in term.terms]
        )

    def _product(self, statement: Product, target: Place, triangle: bool) -> None:
        """Emit a product tile by tile; of a triangle, only the tiles that reach the diagonal or below."""
        n, m, _ = statement.shape
        rows, columns = TILE if min(n, m) > 1 else (ROW, ROW)
        neighbours = self._in_row(statement)
        across = vectors(m) if neighbours else tiles(m, columns)
        for row, number, height in tiles(n, ROW if neighbours else rows):
            for column, times, width in across:
                with self._loop(number, row, height) as i:
                    begun = self._begun(i, height, width, times) if triangle and column == 0 and times > 1 else times
                    with self._loop(begun, column, width) as j:
                        self._tile(statement, target, (i, height), (j, width))

    def _begun(self, i: str, height: int, width: int, times: int) -> str:
        """Count the tiles that begin at or before column i + height - 1, where the last row meets the diagonal."""
        f = self.f
        f.declared.add("declare i64 @llvm.umin.i64(i64, i64)")
        begun = self._plus(f.integer("udiv", self._plus(i, height - 1), str(width)), 1)
        return f.value(f"call i64 @llvm.umin.i64(i64 {begun}, i64 {times})")

    def _tile(self, statement: Product, target: Place, rows: tuple[str, int], columns: tuple[str, int]) -> None:
        """Emit a few rows and columns of the product, summed in registers."""
        f, neighbours = self.f, self._in_row(statement)
        _, m, inner = statement.shape
        (i, height), (j, width) = rows, columns
        starts = [self._plus(j, c) for c in range(1 if neighbours else width)]
        down = [self._plus(i, r) for r in range(height)]
        with f.abreast(width if neighbours else f.width):
            zeros = [f.constant(0.0)] * (len(down) * len(starts))
            with f.loop(str(inner), zeros) as (k, sums, results):
                left = [self._read(statement.a, (r, k), same=neighbours) for r in down]
                right = [self._read(statement.b, (k, c)) for c in starts]
                pairs = ((a, b) for a in left for b in right)
                results += [self._add_product(total, a, b) for total, (a, b) in zip(sums, pairs, strict=True)]
            for value, (r, c) in zip(results, ((r, c) for r in down for c in starts), strict=True):
                f.store(value, self._address(target, 0, (m, 1), (r, c)))

    def _add_product(self, total: str, a: str, b: str) -> str:
        product = self.f.operation("mul", "double", "double", (a, b))
        return self.f.operation("add", "double", "double", (total, product))

    def _in_row(self, statement: Product | SparseProduct) -> bool:
        """Tell whether entries of a row of the second factor form vectors."""
        b = statement.b
        beside = b.strides[-1] == 1 and self.places[b.memory].apart == 1
        return statement.neighbours or (self.alone and self.graph.abreast and beside)

    def _across(self, length: int, neighbours: bool) -> Iterator[str]:
        """Loop over the entries of a row, by vectors where they are neighbours in memory, otherwise one by one."""
        for first, number, width in vectors(length) if neighbours else [(0, length, 1)]:
            with self._loop(number, first, width) as j, self.f.abreast(width if neighbours else self.f.width):
                yield j

    def _sparse_product(self, statement: SparseProduct, target: Place) -> None:
        f = self.f
        used = sorted({k for row in statement.rows for k, _ in row})
        for j in self._across(statement.columns, self._in_row(statement)):
            b = {k: self._read(statement.b, (str(k), j)) for k in used}
            for i, row in enumerate(statement.rows):
                total = f.constant(0.0)
                for k, node in row:
                    factor = self._wide(self.scope[node])
                    total = self._add_product(total, factor, b[k])
                f.store(total, self._address(target, i * statement.columns, (1,), (j,)))

    def _eliminate(self, statement: Elimination, target: Place) -> None:
        """Emit an elimination in place: column by column, the inverse replaces the matrix."""
        f, n, neighbours = self.f, statement.order, self.alone
        entry = lambda i, j: self._address(target, 0, (n, 1), (i, j))  # noqa: E731
        with self._loop(n) as i, self._loop(n) as j:
            f.store(self._read(statement.matrix, (i, j)), entry(i, j))
        with f.loop(str(n)) as (k, _, _):
            pivot = f.load(entry(k, k))
            f.store(pivot, self._address(target, n * n, (1,), (k,)))
            inverse = f.operation("recip", "double", "double", (pivot,))
            f.store(f.constant(1.0), entry(k, k))
            for j in self._across(n, neighbours):
                f.store(f.operation("mul", "double", "double", (f.load(entry(k, j)), self._wide(inverse))), entry(k, j))
            with f.loop(str(n)) as (i, _, _):
                is_pivot = f.value(f"icmp eq i64 {i}, {k}")
                chosen = f"select i1 {is_pivot}, {f.type()}"
                below = f.load(entry(i, k))
                factor = f.value(f"{chosen} {f.constant(0.0)}, {f.type()} {below}")
                f.store(f.value(f"{chosen} {below}, {f.type()} {f.constant(0.0)}"), entry(i, k))
                factor = f.operation("neg", "double", "double", (factor,))
                for j in self._across(n, neighbours):
                    f.store(
                        self._add_product(f.load(entry(i, j)), self._wide(factor), f.load(entry(k, j))), entry(i, j)
                    )

    def _wide(self, value: str) -> str:
        """Return a value of the section in the current width: without lanes it is one number, copied into a vector."""
        return self.f.spread(value) if self.alone else value
