"""The documentation: links lead somewhere, every public name and argument is described, and examples run."""

from __future__ import annotations

import doctest
import inspect
import re
import runpy
import textwrap
import warnings
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest

import pathfold as pf
from pathfold.example_models import EXAMPLES
from pathfold.model import build_parameters
from pathfold.model.check_data import check_data, check_panel
from scripts import logo
from tests.notebooks import CELL
from tests.sampling.small_run import model_and_data

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULES = {"datasets": [f"datasets.{name}" for name in pf.datasets.__all__]}
PUBLIC = [each for name in pf.__all__ for each in MODULES.get(name, [name])]
WIDEST_CODE, WIDEST_EXAMPLE = 80, 100  # columns: the site shows about 85


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


def listed(page: Path) -> set[Path]:
    """The pages in the tables of contents of a page."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    entries = [line.strip() for tree in trees for line in tree.splitlines() if line.strip() and line[0] != ":"]
    return {(page.parent / re.sub(r".*<(.*)>$", r"\1", entry)).with_suffix(".md").resolve() for entry in entries}


def code_lines(text: str) -> list[str]:
    """The lines of code that a page shows, in cells, fences or indented; formulas and directives are not code."""
    fence = re.compile(r"^```(.*?)\n(.*?)^```", re.DOTALL | re.MULTILINE)
    cells, rest = [cell["code"] for cell in CELL.finditer(text)], CELL.sub("", text)
    fenced = [code for kind, code in fence.findall(rest) if kind != "math" and not kind.startswith("{")]
    indented = re.findall(r"(?<=\n\n)(?: {4}.+\n)+", fence.sub("", rest))
    return "".join([*cells, *fenced, *map(textwrap.dedent, indented)]).splitlines()


def example_lines(source: str) -> list[str]:
    """The lines of the examples in docstrings of a source."""
    return re.findall(r"^ *(?:>>>|\.\.\.) .*$", source, re.MULTILINE)


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


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert dead_links(page, page.read_text()) == []


@pytest.mark.parametrize(
    "link", ["[a](nowhere.md)", "[a](sampling.md#nothing)", "![a](figures/none.png)", "[a](#none)"]
)
def test_a_dead_link_is_caught(link):
    assert len(dead_links(DOCS / "index.md", link)) == 1


def test_links_that_lead_somewhere_are_let_through():
    assert dead_links(DOCS / "index.md", "[a](sampling.md#checkpoints) [b](https://jax.dev) [c](../README.md)") == []


@pytest.mark.parametrize(
    "page", [page for page in TEXTS if page.parent.name != "gallery"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_code_is_no_wider_than_the_page(page):
    assert [line for line in code_lines(page.read_text()) if len(line) > WIDEST_CODE] == []


def test_examples_of_docstrings_are_not_wide():
    lines = [line for source in SOURCES for line in example_lines(source.read_text())]
    assert len(lines) > len(PUBLIC)
    assert [line for line in lines if len(line) > WIDEST_EXAMPLE] == []


def test_lines_of_code_are_found():
    page = (
        "```python\na = 1\n```\n\n```math\nb\n```\n\n```{toctree}\nc\n```\n\n    make d\n    make e\n\n1. f\n     g\n"
        "```{code-cell} python\n---\nh: i\n---\nj = 2\n```\n"
    )
    assert code_lines(page) == ["j = 2", "a = 1", "make d", "make e"]
    assert example_lines('"""A.\n\n    >>> b(\n    ...     c\n    ... )\n    d\n"""\n') == [
        "    >>> b(",
        "    ...     c",
        "    ... )",
    ]


def test_every_page_is_in_a_table_of_contents():
    reached, new = set(), {DOCS / "index.md"}
    while new:
        reached |= new
        new = {page for each in new for page in listed(each)} - reached
    assert reached == set(PAGES)


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
    def function(a, b, c):
        """Nothing.

        Parameters
        ----------
        a
            Described.
        d
            Not there.

        Returns
        -------
        b
            Not an argument.
        """

    assert undescribed("f", function) == ["f(b)", "f(c)", "f has no d"]


@pytest.mark.parametrize("name", [*PUBLIC, "Observations.from_frame"])
def test_examples_of_docstrings_run(name):
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


def test_the_front_page_is_the_text_of_the_readme():
    readme, front = (ROOT / "README.md").read_text(), (DOCS / "index.md").read_text()
    marks = re.findall(r"^:(?:start-after|end-before): (.*)$", front, re.MULTILINE)
    assert [readme.index(f"\n{mark}\n") for mark in marks] == sorted(readme.index(f"\n{mark}\n") for mark in marks)
    assert len(marks) == 4


def test_the_bar_at_the_top_is_short():
    assert len(listed(DOCS / "index.md")) == 6


def test_the_logo_is_what_its_script_draws():
    assert logo.FILE.read_text() == logo.drawn()


def test_examples_on_models_and_data(monkeypatch):
    calls = []
    monkeypatch.setattr(pf, "sample", lambda *given, **settings: calls.append(settings))
    names: dict[str, Any] = {}
    exec(blocks("models.md"), names)
    assert [*calls[0]["deterministics"]] == ["half_life", "highest", "time_of_highest"]
    assert [*names["model"].inputs] == ["heating", "outside"]
    assert [*names["panel"]] == ["plant 0", "plant 1", "plant 2", "plant 3"]
    assert names["outbreak"].states == names["network"].species == ("S", "I")


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


def take_few_draws(monkeypatch, **sizes: int) -> None:
    """Let pf.sample make chains of these sizes, whether they converge or not."""
    sample = pf.sample

    def short(*given, **settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sample(*given, **(settings | sizes | {"progress": False}))

    monkeypatch.setattr(pf, "sample", short)


def test_the_page_start_runs(monkeypatch, tmp_path):
    take_few_draws(monkeypatch, chains=2, warmup=100, draws=250)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {}
    exec(blocks("start.md"), names)
    assert names["hidden"].dims == ("chain", "draw", "time")
    assert names["band"].shape == (2, 100)


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


def test_every_page_says_where_it_is_edited(monkeypatch):
    """In a file that a person writes: not in a page that shows another file, or that a script wrote."""
    pytest.importorskip("sphinx")
    jinja = pytest.importorskip("jinja2")
    origin = SimpleNamespace(stdout="git@github.com:someone/pathfold.git\n")
    monkeypatch.setattr("subprocess.run", lambda *command, **settings: origin)
    monkeypatch.setattr("shutil.which", lambda name: name)
    context = runpy.run_path(str(DOCS / "conf.py"))["html_context"]
    template = jinja.Template(context["edit_page_url_template"])
    begin = "https://github.com/someone/pathfold/edit/main/"
    edited = {}
    for page in PAGES:
        file = page.relative_to(DOCS)
        address = template.render(pagename=str(file.with_suffix("")), file_name=str(file), **context)
        assert address.startswith(begin)
        edited[str(file)] = address.removeprefix(begin)
    assert all((ROOT / file).is_file() for file in edited.values())
    assert edited["index.md"] == "README.md"
    assert edited["tutorials/neuron.md"] == "docs/tutorials/neuron.md"
    assert edited["gallery/nile.md"] == "src/pathfold/example_models/nile.py"
