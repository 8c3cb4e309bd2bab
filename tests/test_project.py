"""What stands beside the code: one version, and commands that exist."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pathfold as pf
from pathfold import doctor

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
# An sdist does not carry the workflows.
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob(".github/**/*.yml")), *ROOT.glob("docs/*.md")]


def missing_targets(text: str) -> set[str]:
    """Targets of make that a text names, as code or as a line of its own, and that the Makefile does not have."""
    text = re.sub(r"\$\{\{ matrix\.end \}\}", "lowest", text)
    named = re.findall(r"(?:^ {4}|`|run: )make\s+([a-z-]+)", text, re.MULTILINE)
    return set(named) - set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_the_version_stands_in_one_place():
    assert pf.__version__ == PROJECT["version"]
    assert f"\n## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text()
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text()


def test_commands_that_are_named_exist():
    assert missing_targets("\n".join(path.read_text() for path in TEXTS)) == set()
    wrong = "`make everything`\n      - run: make tset PYTHON=python\n    make nothing"
    assert missing_targets(wrong) == {"everything", "tset", "nothing"}


def named(requirements: list[str]) -> set[str]:
    """The packages that requirements name."""
    return {re.split(r"[^\w-]", each)[0] for each in requirements}


DEPENDENCIES = named(PROJECT["dependencies"])
EXTRAS = {extra: named(requirements) for extra, requirements in PROJECT["optional-dependencies"].items()}


def imported_packages(code: str) -> set[str]:
    """Other packages than those of Python and ours that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found - sys.stdlib_module_names - {"pathfold"}


def test_dependencies_are_what_the_code_imports():
    files = (ROOT / "src").rglob("*.py")
    imported = {name.replace("_", "-") for file in files for name in imported_packages(file.read_text())}
    assert imported - EXTRAS["plots"] == DEPENDENCIES


def test_the_doctor_tells_the_versions_of_all_dependencies():
    assert set(doctor.NEEDED) == DEPENDENCIES | {"jaxlib"}
    assert set(doctor.OPTIONAL) <= EXTRAS["plots"] | EXTRAS["files"]


def pins(file: str) -> dict[str, str]:
    return dict(line.split("==") for line in (ROOT / file).read_text().splitlines())


def test_all_dependencies_are_pinned():
    assert DEPENDENCIES | set().union(*EXTRAS.values()) <= {name.lower() for name in pins("constraints.txt")}


def test_the_lowest_versions_that_are_pinned_are_those_that_are_claimed():
    lowest = pins("constraints-lowest.txt")
    for requirement in PROJECT["dependencies"]:
        name, claimed = requirement.split(">=")
        assert f"{lowest[name]}.".startswith(f"{claimed}."), requirement
