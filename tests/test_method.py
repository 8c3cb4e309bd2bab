"""docs/method.md and the code agree: sections that are cited exist, and so does all code that the page names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pathfold as pf

ROOT = Path(__file__).parents[1]
METHOD = (ROOT / "docs" / "method.md").read_text()

CITATION = re.compile(r"method\.md(.{0,60})", re.DOTALL)
SECTIONS = re.compile(r",\s+sections?\s+(\d+)(?:\s+and\s+(\d+))?")
NAME = re.compile(r"`(\w+)\.([A-Za-z_]\w*)`")
FILE = re.compile(r"`([\w/]+/\w+(?:\.py)?)`")


def headings(page: str) -> set[str]:
    """The numbers of the sections of a page."""
    return set(re.findall(r"^## (\d+)\. \S", page, re.MULTILINE))


def wrong_citations(source: str, sections: set[str]) -> list[str]:
    """What a source says of method.md that names no section it has."""
    found = []
    for match in CITATION.finditer(source):
        cited = SECTIONS.match(match[1])
        if cited is None or not {number for number in cited.groups() if number} <= sections:
            found.append(" ".join(match[0].split()))
    return found


def defined(files: Iterable[Path]) -> set[tuple[str, str]]:
    """(module, name) of everything that files define at their top, and (class, name) of all that classes do."""
    names: set[tuple[str, str]] = set()
    for file in files:
        for node in ast.parse(file.read_text()).body:
            names |= {(file.stem, name) for name in _names(node)}
            if isinstance(node, ast.ClassDef):
                names |= {(node.name, name) for each in node.body for name in _names(each)}
    return names


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    return []


def unknown_names(page: str, known: set[tuple[str, str]]) -> list[str]:
    """Code that a page names, `module.name` or `Class.name`, and that does not exist."""
    return [f"{module}.{name}" for module, name in NAME.findall(page) if (module, name) not in known]


def code() -> set[tuple[str, str]]:
    return defined((ROOT / "src").rglob("*.py")) | {("pf", name) for name in pf.__all__}


def test_sections_are_numbered_without_a_gap():
    assert re.findall(r"^## (\d+)\. \S", METHOD, re.MULTILINE) == [str(i + 1) for i in range(len(headings(METHOD)))]
    own = re.findall(r"(?<!its )(?<!paper's )sections? (\d+)(?!\.\d)\b", METHOD)
    assert len(own) > 12
    assert set(own) <= headings(METHOD)


def test_cited_sections_exist():
    sources = [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    wrong = {
        str(path.relative_to(ROOT)): problems
        for path in sources
        if path != Path(__file__) and (problems := wrong_citations(path.read_text(), headings(METHOD)))
    }
    assert wrong == {}


def test_code_that_is_named_exists():
    assert len(NAME.findall(METHOD)) > 80
    assert unknown_names(METHOD, code()) == []


def test_files_that_are_named_exist():
    for name in FILE.findall(METHOD):
        assert (ROOT / name).exists() or (ROOT / "src" / "pathfold" / name).exists(), name


def test_what_does_not_exist_is_caught():
    wrong = ["(method.md, section 99)", "method.md, sections 2 and 40", "see method.md"]
    right = ["(method.md, section 4)", "method.md, sections 4\n    and 5."]
    assert [len(wrong_citations(text, headings(METHOD))) for text in (*wrong, *right)] == [1, 1, 1, 0, 0]
    names = ["gram.factorize", "pf.NoSampler", "ModelFunctions.nothing", "nowhere.run"]
    assert unknown_names(" ".join(f"`{name}`" for name in names), code()) == names
