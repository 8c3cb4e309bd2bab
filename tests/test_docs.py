"""The documentation: links lead somewhere, every public name and argument is described, and examples run."""

from __future__ import annotations

import doctest
import inspect
import re
import warnings
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import jax
import pytest

import pathfold as pf
from pathfold.example_models import EXAMPLES
from pathfold.model import build_parameters
from pathfold.model.check_data import check_data, check_panel
from tests.once import once
from tests.sampling.small_run import model_and_data

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]
MODULES = {"datasets": [f"datasets.{name}" for name in pf.datasets.__all__]}
PUBLIC = [each for name in pf.__all__ for each in MODULES.get(name, [name])]


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```(?!\{(?!code-cell)).*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as forges and Sphinx make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path, text: str) -> list[str]:
    """Links from a page to files or headings that are not there."""
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"https?://|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(link)
    return dead


def undescribed(name: str, thing: Any) -> list[str]:
    """Arguments of a function or class that its docstring does not describe, and described ones that it lacks."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", inspect.getdoc(thing) or "", re.DOTALL | re.MULTILINE
    )
    described = re.findall(r"^(\w+)\n    \S", section[1], re.MULTILINE) if section else []
    given = [each for each in inspect.signature(thing).parameters if each != "self" and not each.startswith("_")]
    return [f"{name}({each})" for each in given if each not in described] + [
        f"{name} has no {each}" for each in described if each not in given
    ]


def test_links_lead_somewhere():
    assert {page: dead for page in TEXTS if (dead := dead_links(page, page.read_text()))} == {}


def test_a_dead_link_is_caught():
    dead = ["nowhere.md", "sampling.md#nothing", "figures/none.png", "#none"]
    page = "".join(f"[a]({link})" for link in (*dead, "sampling.md#checkpoints", "https://jax.dev", "../README.md"))
    assert dead_links(DOCS / "index.md", page) == dead


def test_every_public_name_is_in_the_reference():
    reference = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    described = re.findall(
        r"^\.\. auto(?:class|function|exception):: (?:pathfold\.)?([\w.]+)$", reference, re.MULTILINE
    )
    assert sorted(described) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_is_described(name):
    thing = attrgetter(name)(pf)
    assert inspect.getdoc(thing)
    if not (isinstance(thing, type) and issubclass(thing, Exception)):
        assert undescribed(name, thing) == []


@pytest.mark.parametrize("method", [pf.DiffusionModel.transform, pf.Observations.from_frame])
def test_public_methods_are_described(method):
    assert undescribed(method.__name__, method) == []


def test_an_argument_without_description_is_caught():
    def function(a, b):
        """Nothing.

        Parameters
        ----------
        a
            Described.
        d
            Not there.
        """

    assert undescribed("f", function) == ["f(b)", "f has no d"]


def take_few_draws(monkeypatch, **sizes: int) -> None:
    """Let pf.sample make chains of these sizes, whether they converge or not."""
    sample = pf.sample

    def short(*given, **settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sample(*given, **(settings | sizes | {"progress": False}))

    monkeypatch.setattr(pf, "sample", short)


SHARED = {name: replace(example, model=once(example.model)) for name, example in EXAMPLES.items()}


@pytest.mark.parametrize("name", [*PUBLIC, "Observations.from_frame"])
def test_examples_of_docstrings_run(name, monkeypatch):
    """With a shorter warm-up, which nothing of what they print depends on, and with the same models."""
    take_few_draws(monkeypatch, warmup=20)
    monkeypatch.setattr("pathfold.example_models.EXAMPLES", SHARED)
    tests = doctest.DocTestFinder(recurse=False).find(attrgetter(name)(pf), name, globs={"pf": pf})
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0


def test_every_example_model_is_in_the_table():
    named = re.findall(r"^\| \[`(\w+)`\]\(gallery/\1\.md\) \|", (DOCS / "examples.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(EXAMPLES)


def blocks(page: str) -> str:
    """The Python code of a page."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL))


def test_the_front_page_prints_what_it_says(capsys):
    """The same means, up to Monte Carlo errors: five of them, and half a digit."""
    names: dict[str, Any] = {}
    exec(blocks("../README.md"), names)
    printed = capsys.readouterr().out.splitlines()
    (shown,) = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert printed[0].split() == shown.splitlines()[0].split()
    draws = names["posterior"].posterior
    for line in shown.splitlines()[1:]:
        name, mean, *_, error, _ = line.split()
        digit = 10.0 ** -len(mean.partition(".")[2])
        assert abs(draws[name].mean() - float(mean)) < 5.0 * 2**0.5 * float(error) + 0.5 * digit


def test_examples_on_models_and_data(monkeypatch):
    calls = []
    monkeypatch.setattr(pf, "sample", lambda *given, **settings: calls.append(settings))
    names: dict[str, Any] = {}
    exec(blocks("models.md"), names)
    assert [*calls[0]["deterministics"]] == ["half_life", "highest", "time_of_highest"]
    assert [*names["model"].inputs] == ["heating", "outside"]
    assert [*names["panel"]] == ["plant 0", "plant 1", "plant 2", "plant 3"]
    assert names["outbreak"].states == names["network"].species == ("S", "I")


@pytest.mark.slow
def test_examples_on_populations(monkeypatch):
    """Only the second model is sampled, a little: predictions are made of it."""
    given, sample = [], pf.sample

    def short(model, data, **settings):
        given.append((model, data))
        if "of_subject" in model.priors:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return sample(model, data, **settings, warmup=50, draws=100, chains=2, progress=False)

    monkeypatch.setattr(pf, "sample", short)
    names: dict[str, Any] = {}
    exec(blocks("populations.md"), names)
    (growth, seedlings), (model, patients), _ = given
    check_panel(growth, seedlings)
    check_panel(model, patients)
    check_data(names["many"], names["anna"])
    assert names["results"].posterior["of_subject"].dims == ("chain", "draw", "subject")
    assert names["forecast"].predictions["rate"].shape == names["unseen"].predictions["rate"].shape == (2, 100)
    assert patients[2].censored[:, 0].tolist()[-1] == -1.0
    with jax.enable_x64(True):
        _, varying = build_parameters(names["parameters"])
    assert varying.shapes == {"effects": (2,), "CL": (), "V": ()}


def test_the_page_start_runs(monkeypatch, tmp_path):
    take_few_draws(monkeypatch, chains=2, warmup=100, draws=250)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {}
    exec(blocks("start.md"), names)
    assert names["hidden"].dims == ("chain", "draw", "time")
    assert names["band"].shape == (2, 100)


@pytest.mark.slow
def test_the_page_first_look_runs(monkeypatch, capsys):
    take_few_draws(monkeypatch, chains=1, warmup=10, draws=10)
    names: dict[str, Any] = {}
    exec(blocks("first_look.md"), names)
    assert names["fit"].attrs["verdict"] == "good"
    assert [*names["table"].index] == ["returns", "wanders"], "two models that differ"
    assert names["table"]["difference"].iloc[1] < -3.0
    assert "sigma" in capsys.readouterr().out


def test_the_page_sampling_runs(monkeypatch, tmp_path):
    """On a small model."""
    monkeypatch.chdir(tmp_path)
    take_few_draws(monkeypatch, chains=1, warmup=10, draws=10)
    model, data = model_and_data()
    names: dict[str, Any] = {"pf": pf, "model": model, "data": data}
    exec(blocks("sampling.md"), names)
    assert names["guided"].attrs["thin"] == 20
    assert names["so_far"].posterior["state"].equals(names["posterior"].posterior["state"])
