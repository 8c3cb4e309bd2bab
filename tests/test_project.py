"""What stands beside the code: one version, and commands that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import pathfold as pf

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


def test_the_citation_names_what_its_format_needs():
    keys = set(re.findall(r"^([a-z-]+):", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert keys >= {"cff-version", "message", "title", "authors"}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_that_are_named_exist(path):
    assert missing_targets(path.read_text()) == set()


@pytest.mark.parametrize("text", ["`make everything`", "      - run: make tset PYTHON=python", "    make nothing"])
def test_a_command_that_does_not_exist_is_caught(text):
    assert len(missing_targets(text)) == 1


def test_types_are_shipped():
    assert (ROOT / "src" / "pathfold" / "py.typed").exists()
