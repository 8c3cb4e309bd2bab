"""The report: what it says, that it needs nothing else, and that a browser has no complaint."""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr

import pathfold as pf
from pathfold.analysis.report import _without_tails
from pathfold.cli import main
from pathfold.model.model_text import model_text, text_of
from tests.thorough import thorough

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
ONCE = 1.0
TIMES = 0.5 * np.arange(1, 31)


def pull_back(x, z):
    """Towards zero; <not> a tag."""
    return -z["rate"] * ONCE * x


@cache
def model() -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=pull_back,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={"rate": dist.LogNormal(0.0, 0.5), "sigma": dist.LogNormal(-0.5, 0.5)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, 0.2),
    )


def one_series() -> pf.Observations:
    return pf.Observations(TIMES, np.random.default_rng(1).normal(size=30))


@cache
def results(kind: str) -> xr.DataTree:
    """Of one series, of a panel with a missing value, of data with a jump that the model does not have."""
    data: Any = one_series()
    values = data.values[:, 0].copy()
    if kind == "panel":
        values[3] = np.nan
        data = [pf.Observations(TIMES, values), pf.Observations(TIMES[:12], values[:12])]
    elif kind == "jump":
        data = pf.Observations(TIMES, 0.1 * values + 12.0 * (TIMES > 7.0))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*)(has (not converged|few effective draws)|things are amiss)")
        return pf.sample(model(), data, steps_per_interval=2, chains=2, warmup=80, draws=60, seed=1, progress=False)


class Page(HTMLParser):
    """Text, tags that were not closed, and everything that the page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.open, self.references, self.ids = "", [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "link"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                self.references.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "link"):
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Callable[[str], Path]:
    """Writes the report of results of a kind, once."""
    folder = tmp_path_factory.mktemp("reports")

    @cache
    def write(kind: str) -> Path:
        file = pf.report(results(kind), folder / f"{kind}.html")
        assert file == folder / f"{kind}.html"
        return file

    return write


def page(file: Path) -> Page:
    return Page(file.read_text())


def test_it_has_everything_and_needs_nothing(written):
    found = page(written("one"))
    assert not found.open
    assert all(each.startswith(("#", "data:,")) for each in found.references), "it refers to itself alone"
    assert len(found.ids) == len(set(found.ids)), "no two pictures have a name in common"
    inside = {each[1:] for each in found.references if each.startswith("#")}
    assert inside <= set(found.ids)
    source = written("one").read_text()
    assert set(re.findall(r"url\(#([^)]*)\)", source)) <= set(found.ids)
    assert "<script" not in source
    assert not re.findall(r"@import|url\((?!#)", source)
    for words in (
        'return -z["rate"] * ONCE * x',
        "ONCE = 1.0",
        "Towards zero; <not> a tag.",
        'lambda x, z: z["sigma"] * jnp.eye(1)',
        "rate: LogNormal(loc=0, scale=0.5)\nsigma: LogNormal(loc=-0.5, scale=0.5)",
        "EulerMaruyama",
        "30 values at 30 times from 0.5 to 15.",
        "R-hat",
        "steps_per_interval",
        "jax_version",
        "few effective draws",
        "No sign of misfit was found",
    ):
        assert words in found.text, words
    assert source.count("<svg") == 3
    assert "model_key" not in found.text


def call_in(text: str) -> dict[str, Any]:
    """The settings of the call that a report says repeats it."""
    code = text.split("To repeat it")[1].split("How it was sampled")[0]
    calls: list[dict[str, Any]] = []
    verbs = SimpleNamespace(sample=lambda *given, **settings: calls.append(settings), fit=None)
    exec(code.replace("import pathfold as pf", ""), {"pf": verbs, "model": None, "data": None})
    return calls[0]


def test_the_call_that_repeats_it_does(written):
    settings = call_in(page(written("one")).text)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(.*)(has (not converged|few effective draws)|things are amiss)")
        again = pf.sample(model(), one_series(), **settings, progress=False)
    assert again.posterior["rate"].equals(results("one").posterior["rate"])


def test_data_are_drawn_that_no_component_shows(tmp_path):
    """Alone, or with draws that replicate them."""
    seen_squared = pf.DiffusionModel(
        drift=pull_back,
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={"rate": dist.LogNormal(0.0, 0.5), "sigma": dist.LogNormal(-0.5, 0.5)},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.Likelihood(lambda x, z: dist.Poisson(jnp.exp(x))),
    )
    counts = pf.Observations(TIMES, np.arange(30.0) % 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = pf.sample(seen_squared, counts, steps_per_interval=1, chains=1, warmup=20, draws=20, progress=False)
    alone = pf.report(tree, tmp_path / "alone.html").read_text()
    assert alone.count("<svg") == 4
    assert "data replicated" not in alone
    replicated = pf.posterior_predictive(seen_squared, tree)
    forecast = pf.predict(seen_squared, replicated, [15.5, 16.0])
    with_them = pf.report(forecast, tmp_path / "with.html").read_text()
    assert with_them.count("<svg") == 3 + 1, "of the data one picture less, and the forecast"
    assert "median of the data replicated" in with_them
    assert "var(--purple-outer)" in with_them


def test_a_panel_and_a_model_that_does_not_fit(written):
    assert "40 values at 40 times from 0.5 to 15, of 2 series." in page(written("panel")).text
    amiss = page(written("jump")).text
    assert "The model does not fit the data" in amiss
    for finding in pf.check(results("jump")).findings:
        assert finding[1:] in amiss


@pytest.mark.filterwarnings("ignore:this fit should not be relied on")
@pytest.mark.parametrize("flat", thorough([False, True], False))
def test_a_report_says_why_the_prior_is_not_judged(tmp_path, flat):
    """Of a fit whose draws are few distinct points, and where the prior is uniform."""
    rate, sigma, mean = dist.LogNormal(0.0, 0.5), dist.LogNormal(-0.5, 0.5), dist.Normal(0.0, 1.0)
    if flat:
        rate, sigma, mean = dist.Uniform(0.0, 9.0), dist.Uniform(0.1, 9.0), 0.0
    parts: dict[str, Any] = model().written | {"drift": lambda x, z: -z["rate"] * (x - z["mean"])}
    other = pf.DiffusionModel(**parts, parameters={"rate": rate, "mean": mean, "sigma": sigma})
    ten = pf.Observations(np.arange(1.0, 11.0), [0.3, 0.5, 0.2, -0.1, 0.4, 0.8, 0.6, 0.1, 0.0, 0.2])
    fitted = pf.fit(other, ten, steps_per_interval=2, points=16, draws=400, progress=False)
    text = page(pf.report(fitted, tmp_path / "report.html")).text
    (same,) = map(int, re.findall(r"prior cannot be computed: (\d+) of 400 draws have the same prior density", text))
    assert same == 400 if flat else 37 <= same < 400


def test_where_nothing_stands_against_it_sensitivity_is_computed():
    """Whatever share of the draws is one point: ArviZ's condition depends on efficiency, ours must imply it."""
    stats = pytest.importorskip("arviz_stats")
    rng, computed = np.random.default_rng(1), 0
    for draws in (100, 109, 400, 4000):
        for share in (0.0, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2):
            for end in (-9.0, 9.0):
                density = rng.normal(size=draws)
                density[rng.permutation(draws)[: round(share * draws)]] = end
                if not _without_tails(density):
                    group = xr.Dataset({"a": (("chain", "draw"), density[None])})
                    tree = xr.DataTree.from_dict({"posterior": group, "log_prior": group})
                    assert np.isfinite(stats.psense(tree, group="prior")["a"])
                    computed += 1
    assert 20 < computed < 50
    assert _without_tails(np.append(density, -np.inf)) == "its density is not finite at 1 draws"


def test_from_the_command_line_with_a_title_of_ones_own(written, tmp_path, capsys):
    file = tmp_path / "results.nc"
    results("one").to_netcdf(file)
    assert main(["report", str(file), "--title", "Trial <7>"]) == 0
    assert f"report: {tmp_path / 'results.html'}" in capsys.readouterr().out
    assert (tmp_path / "results.html").read_text().count("Trial &lt;7&gt;") == 2  # of the window and of the page
    files = tmp_path / "results.html", written("one")
    again, usual = (page(each).text.split("How it was sampled")[0] for each in files)
    assert "Calibration with" not in again
    heading = re.findall(r"<h1>(.*)</h1>", written("one").read_text())[0]
    assert again == usual.replace(heading, "Trial <7>")
    assert main(["report", str(tmp_path / "none.nc")]) == 1
    assert "No report of" in capsys.readouterr().err
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "other.nc")
    assert main(["report", str(tmp_path / "other.nc")]) == 1
    assert "posterior must be what pf.sample returned" in capsys.readouterr().err


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(pf.SettingsError, match="the report cannot be written to"):
        pf.report(results("one"), tmp_path / "no folder" / "report.html")


def test_functions_as_they_were_written():
    first, second = lambda x, z: x + 1.0, lambda x, z: x * 2.0
    assert text_of(first) == "lambda x, z: x + 1.0"
    assert text_of(second) == "lambda x, z: x * 2.0"
    long = lambda x: jnp.array(  # noqa: E731
        [x, 2.0]
    )
    assert text_of(long).startswith("lambda x: jnp.array(")
    assert text_of(long).endswith("[x, 2.0]\n    )")
    hidden = eval("lambda x: x")
    assert "whose source is not at hand" in text_of(hidden)
    assert text_of(dist.Normal(jnp.zeros(2), 1.0)) == "Normal(loc=[0., 0.], scale=[1.])"
    assert text_of([dist.Normal(0.0, 2.0), 3.0]) == "[Normal(loc=0, scale=2), 3.0]"


HALF, UNUSED = 0.5, 7.0
WEIGHTS = jnp.arange(2.0)


def helper(x):
    return HALF * deeper(x)


@jax.jit
def deeper(x):
    return np.sum([WEIGHTS[0] * each for each in x])


def test_helpers_and_constants_that_functions_refer_to_are_written():
    """In their own files, one time each, whatever refers to them: by name, in a closure, within another function."""
    power, inner = 3.0, lambda x: x**power
    model = SimpleNamespace(
        written={
            "drift": lambda x, z: inner(x),
            "observation": pf.GaussianNoise(lambda x, z: helper(x), HALF),
        },
        priors={"a": lambda z: dist.Normal(deeper(z["b"]), 1.0)},
        inputs={},
        covariates={},
    )
    found = model_text(model)["helpers and constants"]  # type: ignore[arg-type]
    assert sorted(line for line in found.splitlines() if line and line[0] != " ") == [
        "@jax.jit",
        "HALF = 0.5",
        "WEIGHTS = [0., 1.]",
        "def deeper(x):",
        "def helper(x):",
        "inner = lambda x: x**power",
        "power = 3.0",
    ]
    assert "helpers and constants" not in model_text(SimpleNamespace(written={}, priors={}, inputs={}, covariates={}))  # type: ignore[arg-type]


def test_a_network_is_written_as_it_was_given():
    network = pf.Reactions({"decay": "A -> 0", "birth": "0 -> A"}, {"birth": lambda y, z: helper(y["A"])})
    model = SimpleNamespace(written={"drift": network.drift}, priors={}, inputs={}, covariates={})
    text = model_text(model)  # type: ignore[arg-type]
    assert text["drift"].splitlines()[:2] == ["Reactions", "    network = {decay: 'A -> 0', birth: '0 -> A'}"]
    assert 'rates = {birth: lambda y, z: helper(y["A"])}' in text["drift"]
    assert "HALF = 0.5" in text["helpers and constants"]


def test_a_script_that_was_edited_while_it_ran_costs_the_text_alone(tmp_path):
    """Its lines are others by then, and may end in the middle of a string."""
    script = tmp_path / "script.py"
    script.write_text("\ndef pull(x, z):\n    return -x\n")
    names: dict[str, Any] = {}
    exec(compile(script.read_text(), str(script), "exec"), names)
    script.write_text('\n"""Words, and the\nend of the string is missing.\n')
    assert text_of(names["pull"]) == "pull, whose source is not at hand"


def complaints(file: Path, *options: str) -> list[str]:
    """What a browser writes to its console when it opens a page."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--dump-dom",
            *options,
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "</html>" in done.stdout, done.stderr
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine to open the report in")
def test_a_browser_has_no_complaint(written, tmp_path):
    for options in (("--window-size=1200,900",), ("--window-size=390,800", "--force-dark-mode")):
        assert complaints(written("one"), *options) == []
    broken = tmp_path / "broken.html"
    broken.write_text("<!doctype html><html><body><script>undefined_function()</script></body></html>")
    assert complaints(broken), "a fault is seen"


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine to open the report in")
def test_nothing_is_larger_than_a_sheet_of_paper(tmp_path):
    """Each picture, table and text goes on a sheet of A4 with a heading above it, and so need not be cut in two."""
    six = pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: jnp.eye(6),
        parameters={"rate": dist.LogNormal(0.0, 0.5)},
        initial_state=dist.Normal(jnp.zeros(6), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x[:1], 0.2),
    )
    fitted = pf.fit(six, one_series(), steps_per_interval=1, seed=1, progress=False)
    printed = pf.report(fitted, tmp_path / "report.html").read_text().replace("@media print", "@media all")
    measured = """<script>for (const each of document.querySelectorAll(".picture svg, table, pre")) {
        const {width, height} = each.getBoundingClientRect();
        if (width > 680 || height > 850) console.log(each.tagName, width, height);
    }</script>"""
    (tmp_path / "printed.html").write_text(printed.replace("</body>", f"{measured}</body>"))
    assert complaints(tmp_path / "printed.html", "--window-size=680,1000") == []
