"""The tutorials run from top to bottom, and what they say of their numbers holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.notebooks import PAGES, run

# Pages have few draws, so that they take seconds; what chains say of that is not what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:(.*)(has (not converged|few effective draws)|things are amiss)")


@pytest.fixture
def run_page(monkeypatch, tmp_path) -> Callable[[str], dict[str, Any]]:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    return lambda name: run(PAGES / f"{name}.md")


def test_every_page_is_tested_here():
    tested = {name.removeprefix("test_page_") for name in globals() if name.startswith("test_page_")}
    assert tested == {page.stem for page in PAGES.glob("*.md")} - {"index"}


def test_an_error_names_the_line_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```{code-cell} python\n---\na: 1\n---\nx = 1\n```\n\n```{code-cell} python\nx = y\n```\n"
    )
    with pytest.raises(NameError) as caught:
        run(page)
    assert caught.traceback[-1].lineno == 10  # counted from 0


def within(posterior: Any, truth: dict[str, float], sds: float = 4.0) -> bool:
    """Whether all true values are where the posterior has them."""
    draws = posterior.posterior
    return all(abs(float(draws[name].mean()) - value) < sds * float(draws[name].std()) for name, value in truth.items())


def test_page_coming_from(run_page):
    names = run_page("coming_from")
    assert names["gap"] < 1e-8
    assert list(names["table"].index) == ["theta", "mu", "sigma"]


@pytest.mark.slow
def test_page_neuron(run_page):
    names = run_page("neuron")
    assert names["fit"].attrs["verdict"] == "good"
    posterior, times, unseen = names["posterior"], names["times"], names["unseen"]
    assert within(posterior, names["truth"])
    states = posterior.posterior["state"].sel(time=times).values
    assert np.abs(states[..., 0] - names["recording"][:, 0]).max() < 1e-6  # through every value
    low, high = np.quantile(states[..., 1], [0.025, 0.975], axis=(0, 1))
    assert np.mean((low < unseen[:, 1]) & (unseen[:, 1] < high)) == names["inside"].mean() > 0.75
    assert np.median(high - low) < 0.3  # a tenth up or down
    assert names["found"].passed
    assert names["chance_excitable"] > 0.95
    assert names["chances"][1.0] > 0.6 > 0.5 > names["chances"][0.5] > 0.2 > 0.15 > names["chances"][0.25]


@pytest.mark.slow
def test_page_epidemic(run_page):
    names = run_page("epidemic")
    assert names["fit"].attrs["verdict"] == "good"
    assert "the posterior of gamma is as wide as the prior" in str(names["fit"].attrs["identifiability"])
    assert names["found"].passed
    assert names["whole_found"].passed
    five, whole = (names[name].posterior["gamma"] for name in ("posterior", "whole"))
    assert float(five.std()) > 0.1 > 0.05 > float(whole.std())
    assert list(names["chances"]) == [0.0, 0.25, 0.5, 0.75]
    as_it_is, quarter, half, most = names["chances"].values()
    assert 0.9 > as_it_is > 0.75 > quarter > 0.55 > 0.45 > half > 0.2 > 0.13 > most > 0.05
    assert names["worst"](names["forecast"]).equals(names["shares"][0.0])
    assert 500.0 < names["beds"] < 630.0
    assert names["inside"] == names["came"].size == 9
    assert np.all(names["came"] < names["middle"])
    assert names["expected"] > 360.0
    assert 700.0 < float(names["ill"].mean()) < 763.0
    assert 1.7 < float(names["days"].mean()) < 2.0
    assert names["in_bed"].sum() / 512 == 3.0
    assert abs(float(names["hindsight"].median()) - names["came"].max()) < 50.0


@pytest.mark.slow
def test_page_patients(run_page):
    names = run_page("patients")
    assert names["fit"].attrs["verdict"] == "good"
    assert within(names["posterior"], names["truth"])
    assert any(np.any(each.censored) for each in names["panel"].values())
    assert names["hours_above"]["200 mg twice a day"] > 23.0
    assert 17.0 < names["hours_above"]["400 mg once a day"] < 21.0
    assert 0.6 < names["chance"] < 0.8
    assert 300.0 < names["needed"] < 450.0  # 345; 380 and 384 with other seeds and more draws


@pytest.mark.slow
def test_page_theophylline(run_page):
    names = run_page("theophylline")
    published = {"absorption": 1.57, "clearance": 0.040, "volume": 0.46}
    for name, value in published.items():
        assert abs(names["middle"][name] - value) < float(names["posterior"].posterior[name].std())
    assert not (names["posterior"].sample_stats["status"].values != 0).any()
    assert "in the first half of the time" in names["found"].findings[0]
    assert any("where gut is high" in finding for finding in names["found"].findings)
    assert names["shrunk"]["shrinkage"].max() < 0.3
    assert 3.0 < names["dose"] < 5.0
    assert names["helped"] > 0.8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto distribution")  # the page speaks of it
def test_page_predators(run_page):
    names = run_page("predators")
    assert set(names["table"]["verdict"]) == {"good"}
    assert names["table"].loc["each alone", "difference"] < -20.0
    assert all(found.passed for found in names["found"].values())
    assert np.all(names["sigma"]["each alone"] > 2.0 * names["sigma"]["predation"])
    assert round(float(names["seen"]), 2) == 0.85
    assert 0.7 > names["usual"]["predation"] > 0.35 > 0.15 > abs(names["usual"]["each alone"])
    assert 0.1 > names["as_strong"]["predation"] > 0.01 > names["as_strong"]["each alone"]
    behind = names["ranking"].loc["each alone"]
    assert -45.0 < behind["elpd_diff"] < -15.0
    assert abs(behind["elpd_diff"]) > 3.0 * behind["dse"]
    assert np.all(2.0 * names["mean_scores"]["predation"] < names["mean_scores"]["each alone"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this fit should not be relied on")  # the page speaks of it
def test_page_volatility(run_page):
    names = run_page("volatility")
    assert names["fit"].attrs["verdict"] == "sample"
    assert names["falling"] > 0.9
    assert names["found"].passed
    assert names["shortfall"] < names["worst"] < names["came"] < names["shortcut"] < 0.0
    assert names["stressed_worst"] < names["worst"]
    assert float(names["today"].mean()) > names["average"]


@pytest.mark.slow
def test_page_rain(run_page):
    names = run_page("rain")
    truth = {name: value for name, value in names["truth"].items() if name != "sigma"}
    assert within(names["posterior"], truth)
    assert names["data"].times.size == 77
    gap = names["hourly"].loc["2026-03-12 12:00":"2026-03-13 18:00"]
    assert len(gap) == 31
    assert np.all(gap["high"] - gap["low"] < 0.5)
    assert names["found"].passed
    assert names["chances"][15.0] < 0.01
    assert 0.05 < names["chances"][30.0] < 0.3
    assert names["chances"][45.0] > 0.95
    assert names["inside"].sum() >= 7
    assert np.nanmax(names["table"]["discharge"]) < 5.0


@pytest.mark.slow
def test_page_seat_belts(run_page):
    names = run_page("seat_belts")
    assert names["posterior"].attrs["method"] == "integrated"
    law = names["posterior"].posterior["law"]
    assert abs(float(law.mean()) + 0.238) < 0.03  # Harvey and Durbin (1986), with the price of petrol
    assert 0.03 < float(law.std()) < 0.08
    assert names["found"].passed
    assert 0.9 < np.mean(names["saved"] > 0.0) < 1.0


@pytest.mark.slow
def test_page_tracks(run_page):
    names = run_page("tracks")
    draws = names["posterior"].posterior
    for name in ("tau", "s"):
        away = (draws[name].mean(("chain", "draw")) - names["truth"][name]) / draws[name].std(("chain", "draw"))
        assert np.all(np.abs(away) < 4.0)
    assert within(names["posterior"], {"error": names["truth"]["error"]})
    assert names["found"].passed
    assert names["chance"] > 0.99
    assert np.all(names["shortcut"] < 0.9 * names["speed"].mean(("chain", "draw")))
    ada = names["seen"].loc["Ada"]
    assert ada["y"].max() < 1.8
    assert 0.15 < names["crossed"] < 0.5


@pytest.mark.slow
def test_page_study(run_page):
    names = run_page("study")
    assert not names["wrong"].passed
    assert "persists" in str(names["wrong"])
    assert names["checked"].passed
    assert [*names["table"].index] == ["linear", "hares", "alone"]
    assert max(abs(each) for each in names["moved"].values()) < 0.2
    assert np.allclose(names["years"], [9.2, 11.2], atol=0.3)
    assert np.allclose(names["wide_years"], names["years"], atol=0.4)
    scores = names["scores"]
    assert abs(scores["linear"] - scores["hares"]) < 0.1
    assert 1.5 * max(scores["linear"], scores["hares"]) < scores["alone"]
    assert names["inside"] >= 13
    assert names["report"].exists()


@pytest.mark.slow
def test_page_particle(run_page):
    names = run_page("particle")
    assert names["fit"].attrs["verdict"] == "good"
    posterior, euler = names["posterior"], names["euler"].table
    assert names["fine"].enough
    assert names["fine"].steps[-1] <= 8 < names["euler"].steps[-1]
    assert within(posterior, names["truth"])
    assert euler.loc[("damping", 2), "mean"] > 2.0 * names["truth"]["damping"] + euler.loc[("damping", 2), "sd"]
    draws = {name: posterior.posterior[name].values for name in names["truth"]}
    spread = {name: each.std() / each.mean() for name, each in draws.items()}
    assert spread["omega"] < 0.03
    assert 0.08 < spread["damping"] < 0.2


@pytest.mark.slow
def test_page_reactions(run_page):
    names = run_page("reactions")
    assert names["fit"].attrs["verdict"] == "good"
    assert within(names["posterior"], names["truth"])
    assert 3.0 * names["uncertain"]["made"] < min(names["uncertain"][name] for name in ("transcription", "burst"))
    chances = list(names["chances"].values())
    assert chances == sorted(chances)
    assert chances[0] < 0.01
    assert 0.35 < names["enough"] < 0.65


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(.*)chains have found different modes")
def test_page_two_modes(run_page):
    names = run_page("two_modes")
    assert set(names["stuck"].tolist()) <= {0.0, 1.0}
    assert 0.1 < names["share"] < 0.3  # 0.20 by particles
    assert min(names["trips"]) > 10
    table = names["modes"]
    slower = next(name for name in table.index if "ka about 0.3" in name)
    assert table.loc[slower, "share"] == pytest.approx(names["share"], abs=0.01)
    assert 0.01 < table.loc[slower, "standard_error"] < 0.1
    assert names["clearance"].std() < 0.1 * names["clearance"].mean()


@pytest.mark.slow
def test_page_warnings(run_page):
    names = run_page("warnings")
    for said, part in {
        "few": "has few effective draws",
        "coarse": "the posterior depends on the time step",
        "modes": "chains have found different modes",
        "stuck": "stood still",
        "diverged": "of the trajectories diverged",
        "short_steps": "enters as a plain factor",
        "impossible": "no start was found",
    }.items():
        assert part in names[said]
    assert "has not converged" in names["few"]
    assert "of the trajectories failed, most often because the projection" in names["stuck"]
    assert names["means"][0] < names["means"][1]
