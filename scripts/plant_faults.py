"""Plants faults in the sources, one at a time, and says which test finds each.

    python scripts/plant_faults.py reach [--tests tests/model ...]   # which test file runs which lines: reach.json
    python scripts/plant_faults.py plant [--faults 100] [--seed 0] [--seconds 600] [--processes 2]
    python scripts/plant_faults.py list [--faults 100] [--seed 0]

A fault is one edit: another operator, sign, index or constant, a term or a check left out, two arguments swapped. Files
are drawn in proportion to their lines. Test files that run the line of a fault are run on it, the likeliest first,
until one fails. What Numba compiles has no lines: its faults go to all files that run the engine. Results are appended
to faults.jsonl, so that a run that was stopped goes on; `left` names the files that were not run in the seconds that a
fault has. Both files are in the current folder. `--marked slow` does the same with the slow tests, in another folder.
Every process works on a copy of the tree, in a temporary folder, which is kept for what is compiled there.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[1]
SOURCES = Path("src/pathfold")
COMPILED = "src/pathfold/engine/native/", "src/pathfold/paper/native/"
CALLER = "src/pathfold/engine/engine.py"
OTHER = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Pow: "*", ast.MatMult: "-"}
TURNED = {ast.Lt: ">", ast.Gt: "<", ast.LtE: ">", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "=="}


@dataclass(frozen=True)
class Fault:
    """One edit of a statement that begins at `line`: the bytes from `start` to `end` of the file become `text`."""

    file: str
    line: int
    kind: str
    start: int
    end: int
    text: str


def faults_in(file: Path) -> Iterator[Fault]:
    """All faults that can be planted in a file."""
    source = (ROOT / file).read_bytes()
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    tree = ast.parse(source)
    ignored = {
        id(inner)
        for node in ast.walk(tree)
        for part in (
            getattr(node, "annotation", 0),
            getattr(node, "returns", 0),
            isinstance(node, ast.JoinedStr) and node,
        )
        if isinstance(part, ast.AST)
        for inner in ast.walk(part)
    }
    statement: dict[int, ast.AST] = {}
    for outer in ast.walk(tree):  # the innermost comes last
        if isinstance(outer, ast.stmt):
            statement |= {id(inner): outer for inner in ast.walk(outer)}
    indices = {id(node.slice) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}

    def span(node: ast.AST) -> tuple[int, int]:
        return begins[node.lineno - 1] + node.col_offset, begins[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.AST) -> str:
        return source[slice(*span(node))].decode()

    for node in ast.walk(tree):
        found: list[tuple[str, ast.AST, str]] = []
        match node:
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OTHER:
                found.append(("operator", node, f"(({text(left)}) {OTHER[type(op)]} ({text(right)}))"))
                if isinstance(op, ast.Add | ast.Sub):
                    found.append(("dropped term", node, f"({text(left)})"))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in TURNED:
                found.append(("comparison", node, f"({text(left)} {TURNED[type(op)]} {text(right)})"))
            case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
                found.append(("sign", node, f"({text(operand)})"))
            case ast.Constant(value=bool() | str() | bytes() | None):
                pass
            case ast.Constant(value=int(value)):
                found.append(("index" if id(node) in indices else "constant", node, str(value + 1)))
            case ast.Constant(value=float(value)):
                found.append(("constant", node, repr(2 * value or 1.0)))
            case ast.Call(args=[first, second, *_]) if not any(isinstance(a, ast.Starred) for a in (first, second)):
                between = source[span(first)[1] : span(second)[0]].decode()
                whole = ast.copy_location(ast.Tuple([first, second]), first)
                whole.end_lineno, whole.end_col_offset = second.end_lineno, second.end_col_offset
                found.append(("swapped arguments", whole, text(second) + between + text(first)))
            case ast.If(test=test, body=[ast.Raise()]):
                found.append(("removed check", test, "False"))
        for kind, place, new in found:
            if id(node) not in ignored and new != text(place):
                yield Fault(str(file), statement[id(node)].lineno, kind, *span(place), new)


def drawn(count: int, seed: int) -> list[Fault]:
    """Faults all over src, in proportion to lines; of a file first the kind is drawn, then the place."""
    chance = random.Random(seed)
    files = sorted(path.relative_to(ROOT) for path in (ROOT / SOURCES).rglob("*.py"))
    possible = {file: [*faults_in(file)] for file in files}
    files = [file for file in files if possible[file]]
    lines = [len((ROOT / file).read_text().splitlines()) for file in files]
    chosen: dict[Fault, None] = {}
    while len(chosen) < count:
        faults = possible[chance.choices(files, lines)[0]]
        kind = chance.choice(sorted({fault.kind for fault in faults}))
        chosen[chance.choice([fault for fault in faults if fault.kind == kind])] = None
    return [*chosen]


def in_copies(processes: int, work: Callable[[Path, object], None], items: list) -> None:
    """Call `work(copy of the tree, item)` for all items, each process with a copy of its own, which is kept."""
    copies: SimpleQueue[Path] = SimpleQueue()
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for number in range(processes):
        copy = Path(tempfile.gettempdir(), "pathfold-faults", str(number))
        for folder in ("src", "tests"):  # but for what was compiled, which stands elsewhere
            shutil.rmtree(copy / folder, ignore_errors=True)
        for file in filter(lambda file: (ROOT / file).exists(), files):
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, copy / file)
        copies.put(copy)

    def one(item: object) -> None:
        copy = copies.get()
        try:
            work(copy, item)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(one, items))


def tests(copy: Path, files: list[str], seconds: float, *options: str, **variables: str) -> tuple[int | None, str]:
    """Run test files of a copy; return pytest's exit status, None where it took too long, and what it printed."""
    with tempfile.TemporaryDirectory() as fresh:
        environment = os.environ | {
            "PYTHONPATH": f"{copy / 'src'}:{copy / 'scripts'}:{os.environ.get('PYTHONPATH', '')}"
        }
        environment |= {"PATHFOLD_CACHE": f"{fresh}/models", "NUMBA_CACHE_DIR": str(copy / ".numba")} | variables
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *options, *files]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(command, cwd=copy, env=environment, process_group=0, **pipes) as process:
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return None, ""
        return process.returncode, output


def failed_in(output: str) -> list[str]:
    """The tests that failed, and files that could not be imported; names of cases may have spaces."""
    lines = [line.partition(" ")[2] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return [line.partition(" - ")[0] for line in lines]


def reach(folders: list[Path], marked: str, processes: int) -> None:
    """Write for each test file which lines it runs, its seconds, and what fails without any fault."""
    found: dict[str, dict] = {}

    def one(copy: Path, file: object) -> None:
        log, begin = copy / "lines.json", time.monotonic()
        log.unlink(missing_ok=True)
        _, output = tests(copy, [str(file)], 1800, "-m", marked, "-p", "plant_faults", LINES_RUN=str(log))
        lines = json.loads(log.read_text()) if log.exists() else {}
        found[str(file)] = {"seconds": time.monotonic() - begin, "failed": failed_in(output), "lines": lines}
        print(f"{len(found)} {file} {found[str(file)]['seconds']:.0f} s", *found[str(file)]["failed"], flush=True)

    paths = {path for folder in folders for path in [ROOT / folder, *(ROOT / folder).rglob("*")]}
    files = sorted(str(path.relative_to(ROOT)) for path in paths if path.match("test_*.py"))
    in_copies(processes, one, files)
    Path("reach.json").write_text(json.dumps(found))


def pytest_configure() -> None:
    """As a plugin of pytest: note the lines of src that run."""
    if "LINES_RUN" not in os.environ:
        return
    lines: dict[str, set[int]] = {}
    events, here = sys.monitoring, str(SOURCES)

    def seen(code, line: int):
        if here in code.co_filename:
            lines.setdefault(code.co_filename[code.co_filename.index(here) :], set()).add(line)
        return events.DISABLE

    events.use_tool_id(events.COVERAGE_ID, "lines")
    events.register_callback(events.COVERAGE_ID, events.events.LINE, seen)
    events.set_events(events.COVERAGE_ID, events.events.LINE)
    import atexit

    file = os.environ.pop("LINES_RUN")
    atexit.register(lambda: Path(file).write_text(json.dumps({name: sorted(of) for name, of in lines.items()})))


def who_may_find(fault: Fault, reached: dict[str, dict]) -> list[str]:
    """Test files that run the line of a fault: first the file's own, then its neighbours, then the quickest."""
    module = Path(fault.file)

    def runs(lines: dict[str, list[int]]) -> bool:
        if fault.file.startswith(COMPILED):
            return CALLER in lines or fault.line in lines.get(fault.file, ())
        return fault.line in lines.get(fault.file, ())

    def order(file: str) -> tuple[bool, bool, float]:
        own = Path(file).stem == f"test_{module.stem}"
        return not own, Path(file).parent.name not in module.parts, reached[file]["seconds"]

    return sorted((file for file, of in reached.items() if runs(of["lines"])), key=order)


def plant(count: int, seed: int, seconds: float, marked: str, processes: int) -> None:
    reached = json.loads(Path("reach.json").read_text())
    results = Path("faults.jsonl")
    known = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = {json.dumps(one["fault"]) for one in known}

    def one(copy: Path, fault: object) -> None:
        assert isinstance(fault, Fault)
        file, begin, by = copy / fault.file, time.monotonic(), ""
        source = file.read_bytes()
        file.write_bytes(source[: fault.start] + fault.text.encode() + source[fault.end :])
        candidates, left = who_may_find(fault, reached), seconds
        native = fault.file.startswith(COMPILED) or Path(fault.file).stem in ("table", "status")
        compiled = {"NUMBA_CACHE_DIR": str(copy / ".numba-faulty")} if native else {}
        shutil.rmtree(copy / ".numba-faulty", ignore_errors=True)
        while candidates and not by and left > 0:
            several = [candidates.pop(0)]
            while candidates and sum(reached[name]["seconds"] for name in several) < 30:
                several.append(candidates.pop(0))
            ignored = [f"--deselect={test}" for name in several for test in reached[name]["failed"]]
            usual = sum(reached[name]["seconds"] for name in several)
            status, output = tests(copy, several, left, "-x", "-m", marked, *ignored, **compiled)
            if status is None:
                by = "no end" if usual < 0.2 * left else ""
                candidates = candidates if by else [*several, *candidates]
            elif status not in (0, 5):
                by = (failed_in(output) or [output.strip()[-200:]])[0]
            left = seconds - (time.monotonic() - begin)
        file.write_bytes(source)
        shown = {"fault": vars(fault), "by": by, "left": candidates, "seconds": round(time.monotonic() - begin)}
        with results.open("a") as log:
            log.write(json.dumps(shown) + "\n")
        print(f"{fault.file}:{fault.line} {fault.kind}: {by or 'NOT FOUND'}", flush=True)

    in_copies(processes, one, [fault for fault in drawn(count, seed) if json.dumps(vars(fault)) not in done])
    known = [json.loads(line) for line in results.read_text().splitlines()]
    print(f"{sum(bool(one['by']) for one in known)} of {len(known)} found")
    print(*Counter(one["by"].split("::")[0] for one in known).most_common(), sep="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["reach", "plant", "list"])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--tests", type=Path, nargs="+", default=[Path("tests")])
    parser.add_argument("--marked", default="not slow", help="which tests, as pytest's -m has it")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    match given.what:
        case "reach":
            reach(given.tests, given.marked, given.processes)
        case "plant":
            plant(given.faults, given.seed, given.seconds, given.marked, given.processes)
        case _:
            for fault in drawn(given.faults, given.seed):
                print(fault.file, fault.line, fault.kind, repr(fault.text))
