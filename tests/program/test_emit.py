"""Kernels do what the same loops do in NumPy."""

import re

import numpy as np
import pytest

from pathfold.program.emit import emit
from pathfold.program.kernel import LAYOUT_HEAD, LaneScan, NodeScan, Traced, Tracing
from pathfold.program.layout import Record, Use
from pathfold.program.machine import optimised, target_machine
from tests.program.kernels import LANES, Memory

RNG = np.random.default_rng(0)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


def lane_memory(chunks: int = 2, steps: int = 7) -> Memory:
    """A damped walk: decay is shared, push belongs to the interval, noise and path to the step."""
    memory = Memory(
        [
            Record("constants", "shared", {"decay": (2,)}),
            Record("interval", "lane", {"push": (2,), "begin": (2,), "end": (2,), "total": ()}),
            Record("fine", "step", {"noise": (2,), "path": (2,)}),
        ],
        chunks=chunks,
        steps=steps,
    )
    for record, name in [("constants", "decay"), ("interval", "push"), ("interval", "begin"), ("fine", "noise")]:
        memory[record, name] = RNG.normal(size=memory[record, name].shape)
    return memory


def walk(memory: Memory, reverse: bool):
    """Paths, ends and totals of all intervals by plain loops."""
    decay, push, noise = memory["constants", "decay"], memory["interval", "push"], memory["fine", "noise"]
    path = np.empty_like(noise)
    state, total = memory["interval", "begin"].copy(), np.zeros(len(push))
    for s in reversed(range(memory.steps)) if reverse else range(memory.steps):
        path[:, s] = state
        state = np.sin(decay) * state + np.exp(push) * noise[:, s] + s
        total = total + state[:, 0] * state[:, 1]
    return path, state, total


def walk_kernel(memory: Memory, reverse: bool = False) -> LaneScan:
    def init(begin):
        return {"state": begin, "sum": 0.0}

    def body(decay, push, noise, state, sum, s):
        after = np.sin(decay) * state + np.exp(push) * noise + s
        return {"path": state, "state": after, "sum": sum + after[0] * after[1]}

    def final(state, sum):
        return {"end": state, "total": sum}

    return LaneScan("walk", memory.uses(), init=init, body=body, final=final, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("chunks", "steps"), [(1, 1), (1, 7), (3, 4)])
def test_lane_scan(reverse, chunks, steps):
    memory = lane_memory(chunks, steps)
    path, end, total = walk(memory, reverse)
    memory.run(walk_kernel(memory, reverse))
    assert_close(memory["fine", "path"], path)
    assert_close(memory["interval", "end"], end)
    assert_close(memory["interval", "total"], total)


@pytest.mark.parametrize("lanes", [1, 2, 8, 16])
def test_any_number_of_lanes(lanes):
    memory = Memory(lane_memory().records, lanes=lanes, chunks=2, steps=3)
    for name, array in memory.arrays.items():
        memory.arrays[name] = RNG.normal(size=array.shape)
    path, end, _ = walk(memory, reverse=False)
    memory.run(walk_kernel(memory))
    assert_close(memory["fine", "path"], path)
    assert_close(memory["interval", "end"], end)


def test_loops_over_lanes_are_vectors_and_nothing_else():
    """Their number is a multiple of what is in a vector, and not 0: else LLVM writes each loop twice."""
    text = str(optimised(emit(Traced(walk_kernel(lane_memory())), 8), target_machine()))
    if "<8 x double>" in text:
        pytest.skip("vectors of this machine are longer than what the number of lanes is a multiple of")
    arithmetic = re.findall(r"= f(?:add|mul)\b[^,]*", text)
    assert len(arithmetic) > 5
    assert [each for each in arithmetic if " x double>" not in each] == []


def test_what_a_kernel_reads_stays_as_it_is():
    memory = lane_memory()
    kept = [("constants", "decay"), ("interval", "push"), ("interval", "begin"), ("fine", "noise")]
    before = [memory[key].copy() for key in kept]
    memory.run(walk_kernel(memory))
    for key, value in zip(kept, before, strict=True):
        np.testing.assert_array_equal(memory[key], value)


def test_idle_lanes_do_not_reach_the_others():
    memory = lane_memory(chunks=1)
    path, _, _ = walk(memory, reverse=False)
    memory.arrays["fine"][..., -2:] = np.nan
    memory.arrays["interval"][..., -2:] = np.inf
    memory.run(walk_kernel(memory))
    assert_close(memory["fine", "path"][: LANES - 2], path[: LANES - 2])


def test_invariant_parts_leave_the_loop():
    """The sine of a shared quantity comes before all loops, the exponential of the interval's before the steps."""
    memory = lane_memory()
    text = emit(Traced(walk_kernel(memory)), LANES).text
    blocks = re.split(r"\n\w+(?:\.end)?:\n", text)[1:]
    where = {name: [i for i, b in enumerate(blocks) if name in b] for name in ("@llvm.sin.f64", "@pathfold.exp")}
    assert where == {"@llvm.sin.f64": [0], "@pathfold.exp": [1]}
    assert sum("fmul" in b for b in blocks[:2]) == 0


def test_carried_quantities_that_no_step_changes_leave_the_loop_with_what_depends_on_them():
    memory = lane_memory()

    def init(begin, push):
        return {"state": begin, "rate": np.sin(push)}

    def body(noise, state, rate):
        return {"path": state, "state": np.exp(rate) * state + noise, "rate": rate}

    def final(state, rate):
        return {"end": state * rate}

    kernel = LaneScan("held", memory.uses(), init=init, body=body, final=final)
    blocks = re.split(r"\n\w+(?:\.end)?:\n", emit(Traced(kernel), LANES).text)[1:]
    where = {name: [i for i, b in enumerate(blocks) if name in b] for name in ("@llvm.sin.f64", "@pathfold.exp")}
    assert where["@pathfold.exp"] == where["@llvm.sin.f64"]  # in the loop that makes the first values
    state, rate = memory["interval", "begin"].copy(), np.sin(memory["interval", "push"])
    for s in range(memory.steps):
        state = np.exp(rate) * state + memory["fine", "noise"][:, s]
    memory.run(kernel)
    assert_close(memory["interval", "end"], state * rate)


def test_hoisted_quantities_have_room_beside_the_carried():
    memory = lane_memory()
    assert emit(Traced(walk_kernel(memory)), LANES).carried == 3 + 2  # state, sum; the exponential of push


def test_step_fields_change_in_place():
    memory = lane_memory(chunks=2, steps=3)
    noise = memory["fine", "noise"].copy()

    def body(noise, decay):
        return {"noise": noise[::-1] * decay}

    memory.run(LaneScan("in_place", memory.uses(), body=body))
    assert_close(memory["fine", "noise"], noise[..., ::-1] * memory["constants", "decay"])


def test_kernels_run_one_after_the_other():
    memory = lane_memory()
    path, _, _ = walk(memory, reverse=False)

    def init():
        return {"best": np.full(2, -np.inf)}

    def body(path, best):
        return {"best": np.maximum(best, path)}

    def final(best):
        return {"end": best}

    memory.run(walk_kernel(memory), LaneScan("largest", memory.uses(), init=init, body=body, final=final))
    assert_close(memory["interval", "end"], path.max(axis=1))


def test_carried_quantities_swap_in_lanes():
    memory = lane_memory(steps=3)

    def init(begin, push):
        return {"a": begin, "b": push}

    def body(a, b, noise):
        return {"a": b, "b": a, "path": a + 0 * noise}

    def final(a, b):
        return {"end": a, "total": b[0]}

    begin, push = memory["interval", "begin"].copy(), memory["interval", "push"].copy()
    memory.run(LaneScan("swap", memory.uses(), init=init, body=body, final=final))
    assert_close(memory["interval", "end"], push)
    assert_close(memory["interval", "total"], begin[:, 0])


def test_truth_values_between_sections():
    """A comparison of interval quantities that the steps use."""
    memory = lane_memory(steps=2)
    push, noise, decay = memory["interval", "push"], memory["fine", "noise"].copy(), memory["constants", "decay"]

    def body(push, noise, decay):
        chosen = np.where((push[0] > 0) == (decay[0] > 0), noise, -noise)
        return {"path": np.where((push[1] > 0) & (noise[0] > 0), chosen, decay)}

    memory.run(LaneScan("choose", memory.uses(), body=body))
    same = (push[:, 0] > 0) == (decay[0] > 0)
    chosen = np.where(same[:, None, None], noise, -noise)
    expected = np.where(((push[:, 1] > 0)[:, None] & (noise[..., 0] > 0))[..., None], chosen, decay)
    assert_close(memory["fine", "path"], expected)


FIRST = (0, 3, 4, 13)  # three series; the last crosses chunks of five lanes


def node_memory() -> Memory:
    memory = Memory(
        [
            Record("constants", "shared", {"matrix": (2, 2)}),
            Record("series", "series", {"start": (2,), "stop": (2,)}),
            Record("node", "lane", {"input": (2,), "level": (2,), "turned": ()}),
        ],
        chunks=3,
        first=FIRST,
    )
    for record, name in [("constants", "matrix"), ("series", "start"), ("node", "input")]:
        memory[record, name] = RNG.normal(size=memory[record, name].shape)
    return memory


@pytest.mark.parametrize("reverse", [False, True])
def test_node_scan(reverse):
    memory = node_memory()

    def init(start):
        return {"state": start, "fixed": start[0]}

    def body(matrix, state, fixed, input, start):
        after = np.tanh(matrix @ state) + input + start[1]
        return {"state": after, "fixed": fixed, "level": state, "turned": after[0] * fixed}

    def final(state, fixed, matrix):
        return {"stop": matrix @ state + fixed}

    start, given, matrix = memory["series", "start"], memory["node", "input"], memory["constants", "matrix"]
    level, turned, stop = np.full((3 * LANES, 2), np.nan), np.full(3 * LANES, np.nan), np.empty((3, 2))
    for k in range(3):
        state = start[k]
        nodes = range(FIRST[k], FIRST[k + 1])
        for n in reversed(nodes) if reverse else nodes:
            level[n] = state
            state = np.tanh(matrix @ state) + given[n] + start[k, 1]
            turned[n] = state[0] * start[k, 0]
        stop[k] = matrix @ state + start[k, 0]
    memory.run(NodeScan("nodes", memory.uses(), init=init, body=body, final=final, reverse=reverse))
    assert_close(memory["node", "level"], level)  # nodes without a series are not touched
    assert_close(memory["node", "turned"], turned)
    assert_close(memory["series", "stop"], stop)


@pytest.mark.parametrize("largest", [None, 0], ids=["in registers", "in memory"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("abreast", "lanes"), [(2, 2), (2, 6), (4, 4), (4, 8)])
def test_series_abreast(abreast, lanes, reverse, largest):
    """Series of different lengths in two groups, the last with fewer series than lanes; what is idle is NaN."""
    lengths = [5, 4, 4, 2][:abreast], [3, 1][: abreast - 1]
    first = (0, 5, 8)
    active = [sum(n > row for n in group) for group in lengths for row in range(group[0])]
    memory = Memory(
        [
            Record("constants", "shared", {"matrix": (2, 2), "total": (2, 2), "most": (), "bound": ()}),
            Record("series", "series", {"start": (2,), "stop": (2,)}),
            Record("node", "lane", {"input": (2,), "level": (2,)}),
        ],
        lanes=lanes,
        chunks=-(-8 * abreast // lanes),
        first=first,
        abreast=abreast,
        active=active,
    )
    slots = [memory.slots_of(place) for place in range(2 * abreast)]
    present = [place for place, nodes in enumerate(slots) if nodes and place < abreast + len(lengths[1])]
    start, given = (np.full_like(memory[key], np.nan) for key in (("series", "start"), ("node", "input")))
    start[present] = RNG.normal(size=(len(present), 2))
    for place in present:
        given[[n for (n,) in slots[place]]] = RNG.normal(size=(len(slots[place]), 2))
    matrix, total, most = RNG.normal(size=(2, 2)), RNG.normal(size=(2, 2)), 0.1
    values = {("constants", "matrix"): matrix, ("constants", "total"): total, ("constants", "most"): most}
    for key, value in {**values, ("series", "start"): start, ("node", "input"): given}.items():
        memory[key] = value

    def init(start, total, most):
        return {"state": start, "total": total, "most": most}

    def body(matrix, state, total, most, input, start):
        after = np.tanh(matrix @ state) + input + start[1]
        outer = after[:, None] * state
        return {"state": after, "level": state, "total": total + outer @ matrix, "most": np.maximum(most, after[0])}

    def final(matrix, state, total, most, start):
        return {"stop": matrix @ state + start, "total": total + np.diag(start), "most": most}

    level, stop = np.where(np.isnan(given), 0.0, np.nan), np.zeros_like(start)
    for place in present:
        state = start[place]
        for (n,) in reversed(slots[place]) if reverse else slots[place]:
            level[n], before = state, state
            state = np.tanh(matrix @ state) + given[n] + start[place, 1]
            total, most = total + np.outer(state, before) @ matrix, max(most, state[0])
        stop[place], total = matrix @ state + start[place], total + np.diag(start[place])
    kernel = NodeScan("group", memory.uses(), init=init, body=body, final=final, reverse=reverse, largest=("most",))
    memory.run(kernel, largest=largest)
    assert_close(memory["node", "level"][: 8 * abreast], level[: 8 * abreast])
    assert_close(memory["series", "stop"], stop)
    assert_close(memory["constants", "total"], total)
    assert_close(memory["constants", "most"], most)


def test_carried_quantities_swap():
    memory = node_memory()

    def init(start):
        return {"a": start, "b": 10.0 * start}

    def body(a, b):
        return {"a": b, "b": a, "level": a}

    def final(a):
        return {"stop": a}

    memory.run(NodeScan("swap", memory.uses(), init=init, body=body, final=final))
    start = memory["series", "start"]
    for k in range(3):
        count = FIRST[k + 1] - FIRST[k]
        factors = np.where(np.arange(count + 1) % 2, 10.0, 1.0)[:, None]
        assert_close(memory["node", "level"][FIRST[k] : FIRST[k + 1]], start[k] * factors[:-1])
        assert_close(memory["series", "stop"][k], (start[k] * factors)[-1])


def test_final_alone():
    memory = node_memory()

    def final(start, matrix):
        return {"stop": matrix @ start}

    memory.run(NodeScan("alone", memory.uses(), final=final))
    assert_close(memory["series", "stop"], memory["series", "start"] @ memory["constants", "matrix"].T)


def test_constant_entries_reach_the_readers():
    memory = lane_memory(chunks=1)

    def write(push):
        return {"end": np.stack([push[0], 2.0])}

    def read(end):
        return {"total": np.log(end[1]) * end[0]}

    writer = LaneScan("write", memory.uses(), final=write, fixes=("end",))
    reader = LaneScan("read", memory.uses(), final=read)
    assert "pathfold.log" in emit(Traced(reader), LANES).text
    for order in ([writer, reader], [reader, writer]):
        assert "pathfold.log" not in emit(Tracing(order)(reader), LANES).text
    memory.run(writer, reader)
    known = Traced(writer).fixed("end")
    assert np.isnan(known[0])
    assert known[1] == 2.0
    assert_close(memory["interval", "total"], np.log(2.0) * memory["interval", "push"][:, 0])
    assert_close(memory["interval", "end"][:, 1], 2.0)  # written all the same


def test_constants_that_kernels_alone_read_are_not_written():
    memory = lane_memory(chunks=1)
    writer = LaneScan("write", memory.uses(), final=lambda push: {"end": np.stack([push[0], 2.0])}, fixes=("end",))
    again = LaneScan("again", memory.uses(), final=lambda push: {"end": np.stack([3.0 * push[0], 2.0])})
    tracing = Tracing([writer, again], inside={("interval", "end")})

    def written(kernel) -> list[bool]:
        traced = tracing(kernel)
        return [traced.is_needed("end", i, int(traced.final["end"][i])) for i in range(2)]

    assert written(writer) == written(again) == [True, False]
    assert emit(tracing(again), LANES).text.count("store") < emit(Traced(again), LANES).text.count("store")


@pytest.mark.parametrize("scan", [LaneScan, NodeScan])
def test_carried_entries_that_stay_at_a_constant_are_constants(scan):
    """A triangular matrix stays triangular; what moves up by one turn after the other is none."""
    memory = lane_memory(chunks=1)

    def init():
        return {"matrix": np.eye(2), "moving": np.zeros(3)}

    def body(matrix, moving, push):
        step = np.stack([push[:2], [0.0, 1.0]])
        return {"matrix": matrix @ step, "moving": np.stack([moving[1], moving[2], push[0]])}

    def final(matrix, moving):
        return {"end": matrix[1], "total": matrix[0, 1] + moving[0]}

    traced = Traced(scan("triangular", memory.uses(), init=init, body=body, final=final, fixes=("end",)))
    assert traced.fixed("end").tolist() == [0.0, 1.0]
    assert np.isnan(traced.fixed("total"))
    left = {(name, i) for name, i, _ in traced.changes()}
    assert left == {("matrix", 0), ("matrix", 1), *(("moving", i) for i in range(3))}


def test_a_scan_with_constant_entries_gives_the_same_numbers():
    memory = lane_memory(chunks=2, steps=5)

    def init():
        return {"matrix": np.eye(2), "late": np.zeros(2)}

    def body(matrix, late, noise):
        step = np.stack([noise[:2], [0.0, 1.0]])
        return {"path": matrix[0], "matrix": matrix @ step, "late": np.stack([late[1], noise[0]])}

    def final(matrix, late):
        return {"end": matrix @ np.array([1.0, 2.0]), "total": late[0]}

    memory.run(LaneScan("triangular", memory.uses(), init=init, body=body, final=final, fixes=("end",)))
    noise = memory["fine", "noise"]
    matrix = np.broadcast_to(np.eye(2), (len(noise), 2, 2))
    for s in range(5):
        assert_close(memory["fine", "path"][:, s], matrix[:, 0])
        step = np.zeros_like(matrix)
        step[:, 0], step[:, 1, 1] = noise[:, s], 1.0
        matrix = matrix @ step
    assert_close(memory["interval", "end"], matrix @ [1.0, 2.0])
    assert_close(memory["interval", "total"], noise[:, 3, 0])


def test_constant_entries_of_a_suffixed_field():
    record = Record("point", "lane", {"value": (2,)})
    uses = [Use(record, "other", LAYOUT_HEAD, "_new"), Use(record, "point", LAYOUT_HEAD)]
    writer = LaneScan("write", uses, final=lambda: {"value_new": np.array([1.0, 2.0])}, fixes=("value_new",))
    reader = LaneScan("read", uses, final=lambda value: {"value_new": np.log(value)})
    assert "pathfold.log" in emit(Traced(reader), LANES).text
    assert "pathfold.log" not in emit(Tracing([reader, writer])(reader), LANES).text


def test_suffixes_tell_records_apart():
    old, new = Record("point", "lane", {"value": (2,)}), Record("point2", "lane", {"value": (2,)})
    memory = Memory([old, new], chunks=2)
    memory["point", "value"] = RNG.normal(size=(2 * LANES, 2))
    uses = [Use(old, "point", LAYOUT_HEAD), Use(new, "point", LAYOUT_HEAD + 1, "_new")]
    memory.run(LaneScan("copy", uses, final=lambda value: {"value_new": 2.0 * value}))
    assert_close(memory["point2", "value"], 2.0 * memory["point", "value"])


@pytest.mark.parametrize("scan", [LaneScan, NodeScan])
def test_wrong_shapes_are_refused(scan):
    uses = lane_memory().uses()

    def init():
        return {"state": np.zeros(2)}

    def grown(state):
        return {"state": np.zeros(3)}

    def misfit(push):
        return {"end": push[0]}

    with pytest.raises(ValueError, match=r"'state' has shape \(3,\), expected \(2,\)"):
        emit(Traced(scan("grown", uses, init=init, body=grown)), LANES)
    with pytest.raises(ValueError, match=r"'end' has shape \(\), expected \(2,\)"):
        emit(Traced(scan("misfit", uses, final=misfit)), LANES)
    with pytest.raises(KeyError, match="no field 'nowhere'"):
        emit(Traced(scan("nowhere", uses, final=lambda push: {"nowhere": push})), LANES)


def test_constants_and_copies_are_written():
    memory = lane_memory(steps=2)

    def body(push):
        return {"path": np.stack([-1.5, push[0]])}

    def final(decay):
        return {"end": decay, "total": np.inf}

    memory.run(LaneScan("plain", memory.uses(), body=body, final=final))
    assert_close(memory["fine", "path"][..., 0], -1.5)
    assert_close(memory["fine", "path"][..., 1], np.repeat(memory["interval", "push"][:, :1], 2, axis=1))
    assert_close(memory["interval", "end"], np.broadcast_to(memory["constants", "decay"], (2 * LANES, 2)))
    assert np.all(np.isposinf(memory["interval", "total"]))
