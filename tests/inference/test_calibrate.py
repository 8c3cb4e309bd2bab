"""pf.calibrate: ranks of small runs, what it says of ranks that are not uniform, going on where it ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import pathfold as pf
from pathfold.example_models import EXAMPLES
from pathfold.inference.calibrate import LEVEL, RANKS, _ranked, bins_for, calibration_of
from tests.thorough import thorough

TIMES = 0.5 * np.arange(1, 6)
TINY: dict[str, Any] = {"steps_per_interval": 2, "warmup": 40, "draws": 99}


@cache
def model() -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z: -z["rates"][0] * x,
        diffusion=lambda x, z: z["rates"][1] * jnp.eye(1),
        parameters={"rates": dist.LogNormal(jnp.zeros(2), 0.4), "unused": 2.0},
        initial_state=dist.Normal(jnp.zeros(1), 1.0),
        observation=pf.GaussianNoise(lambda x, z: x, 0.3),
    )


def test_a_fit_is_calibrated_as_draws_are():
    """Quantities are matched by name, of a panel and of what varies too: another order would give ranks at the ends."""
    varied = pf.DiffusionModel(
        drift=lambda x, z: -z["theta"] * (x - z["level"]),
        diffusion=lambda x, z: 0.5 * jnp.eye(2),
        parameters={
            "centre": dist.Normal(3.0, 1.0),
            "theta": dist.LogNormal(0.0, 0.4),
            "level": pf.Varying(lambda z: dist.Normal(z["centre"], 0.3)),
        },
        initial_state=dist.Normal(jnp.array([0.0, 8.0]), 0.2),
        observation=pf.GaussianNoise(lambda x, z: x, 0.3),
    )
    designs = [TIMES, TIMES[:4]]
    found = pf.calibrate(varied, designs, method="fit", runs=8, steps_per_interval=2, draws=99, threads=1)
    sampled = pf.calibrate(varied, designs, runs=1, threads=1, **TINY)
    assert [*found.ranks] == [*sampled.ranks]
    assert found.failed == 0
    assert ((found.ranks > 0) & (found.ranks < RANKS - 1)).mean().min() > 0.5
    refused: list[dict[str, Any]] = [{"sampler": pf.DynamicHMC()}, {"warmup": 100}, {"executor": ThreadPoolExecutor(1)}]
    for setting in refused:
        with pytest.raises(pf.SettingsError, match=rf"pf\.fit runs no chains: leave {next(iter(setting))}="):
            pf.calibrate(varied, designs, method="fit", **setting, runs=1, steps_per_interval=2)


def test_a_network_whose_species_have_no_order_is_calibrated():
    example = EXAMPLES["lotka_volterra"]
    found = pf.calibrate(example.model(), TIMES, runs=2, threads=1, **TINY)
    assert [*found.ranks][:3] == [*example.model().priors]


def test_of_steps_that_leap_in_some_runs_it_does_not_warn():
    """The prior has a rate now and then that the steps are too long for."""
    fast = pf.DiffusionModel(
        drift=lambda x, z: -z["rate"] * x,
        diffusion=lambda x, z: 0.3 * jnp.eye(1),
        parameters={"rate": dist.Uniform(6.5, 7.5)},
        initial_state=[dist.Normal(4.0, 0.1)],
        observation=pf.GaussianNoise(lambda x, z: x, 0.3),
    )
    with pytest.warns(UserWarning, match="one fine step changes"):
        pf.simulate(fast, {"rate": 7.0}, TIMES, steps_per_interval=2)
    assert pf.calibrate(fast, TIMES, runs=2, threads=2, **TINY).failed == 0


def ranks_of(draw, runs: int = 400) -> pf.Calibration:
    """Of truths that are draw(rng) where the posterior is standard normal."""
    rng = np.random.default_rng(3)
    return calibration_of([{"a": [int(np.sum(rng.normal(size=99) < draw(rng))), 99.0]} for _ in range(runs)])


def test_words_for_ranks():
    right = ranks_of(lambda rng: rng.normal())
    assert right.passed
    assert "uniform as far as these tell" in right.verdict
    for draw, words in (
        (lambda rng: rng.normal() + 0.4, "the posterior lies too low"),
        (lambda rng: rng.normal() - 0.4, "the posterior lies too high"),
        (lambda rng: 1.6 * rng.normal(), "the posterior is too narrow"),
        (lambda rng: 0.5 * rng.normal(), "the posterior is too wide"),
    ):
        found = ranks_of(draw)
        assert not found.passed
        assert found.table["p_value"].iloc[0] < LEVEL
        assert f"ranks of a are not uniform (adjusted p-value {found.table['adjusted'].iloc[0]:.2g}" in found.verdict
        assert words in found.verdict
    rng = np.random.default_rng(4)
    dependent = calibration_of([{"a": [int(rng.choice([0, 99])), 12.0]} for _ in range(100)])
    assert "depend on each other too much" in dependent.verdict
    lost = calibration_of([{"a": [i, 99.0]} for i in range(100)] + [{}, {}])
    assert (lost.failed, lost.passed) == (2, False)
    assert "2 of the runs found no starting point" in lost.verdict
    for runs, words in ((1, "1 run is too few to tell"), (19, "19 runs are too few to tell")):
        few = ranks_of(lambda rng: rng.normal(), runs)
        assert not few.passed
        assert words in few.verdict
    assert ranks_of(lambda rng: rng.normal(), 20).passed
    with pytest.raises(pf.SettingsError, match="none of the 2 runs"):
        calibration_of([{}, {}])


@pytest.mark.parametrize(("runs", "count"), thorough([(199, 2000), (199, 8000), (133, 8000)], (199, 2000)))
def test_uniform_ranks_raise_no_more_alarms_than_stated(runs, count):
    """Also when runs have failed, so that a number of bins that is one in ten of them would not divide the ranks."""
    rng = np.random.default_rng(5)
    tried = [rng.integers(RANKS, size=(runs, 50)) for _ in range(count // 50)]
    tables = [
        calibration_of([{str(k): [int(rank), 99.0] for k, rank in enumerate(row)} for row in each]).table
        for each in tried
    ]
    alarms = sum(int((table["p_value"] < LEVEL).sum()) for table in tables)
    assert stats.binomtest(alarms, count, LEVEL).pvalue > 1e-3, alarms


def test_bins_are_equally_likely():
    for runs in (1, 25, 40, 99, 100, 150, 199, 200, 1000):
        counts = np.bincount(np.arange(RANKS) * bins_for(runs) // RANKS)
        assert len(counts) == bins_for(runs)
        assert np.ptp(counts) == 0


def test_draws_that_are_not_finite_are_a_run_that_failed():
    x = np.arange(99.0)
    assert _ranked({"a": x, "b": x}, np.zeros(2))
    assert _ranked({"a": x, "b": np.where(x == 3.0, np.nan, x)}, np.zeros(2)) == {}


def test_the_same_ranks_whatever_runs_them(tmp_path):
    """In threads, in an executor, or interrupted and taken up again; more runs add to those there are."""
    plain = pf.calibrate(model(), TIMES, runs=4, threads=2, seed=5, **TINY)
    assert list(plain.ranks.columns) == ["rates[0]", "rates[1]", "initial_state[0]"]
    assert plain.ranks.shape == (4, 3)
    assert plain.failed == 0
    assert ((plain.ranks >= 0) & (plain.ranks <= 99)).all().all()
    with ThreadPoolExecutor(2) as pool:
        assert pf.calibrate(model(), TIMES, runs=2, executor=pool, seed=5, **TINY).ranks.equals(plain.ranks.iloc[:2])
    folder = tmp_path / "runs"
    pf.calibrate(model(), TIMES, runs=1, threads=1, seed=5, checkpoint=folder, **TINY)
    file = folder / "runs.jsonl"
    file.write_text(file.read_text() + '\n{"run": 1, "fou')  # as a process leaves it that is killed while it writes
    before = file.read_text()
    again = pf.calibrate(model(), TIMES, runs=4, threads=2, seed=5, checkpoint=folder, **TINY)
    assert again.ranks.equals(plain.ranks)
    assert file.read_text().startswith(before), "what is there is not made again"
    with pytest.raises(pf.SettingsError, match="not the same: seed"):
        pf.calibrate(model(), TIMES, runs=2, seed=6, checkpoint=folder, **TINY)


def closing_over(k: float) -> pf.DiffusionModel:
    return pf.DiffusionModel(
        drift=lambda x, z, t, inputs: inputs["u"] - k * z["a"] * x,
        diffusion=lambda x, z: jnp.eye(1),
        parameters={"a": dist.LogNormal()},
        initial_state=jnp.zeros(1),
        observation=pf.GaussianNoise(lambda x, z: x, 0.3),
        inputs={"u": pf.Input([0.0, 9.0], [0.0, 0.0])},
    )


def driven(by: float) -> pf.Observations:
    return pf.Observations(TIMES, TIMES, inputs={"u": pf.Input([0.0, 9.0], [by, by])})


def clipped(at: float):
    return lambda data: pf.Observations(data.times, np.minimum(data.values, at), inputs=data.inputs)


def test_ranks_of_other_models_are_not_taken_up(tmp_path):
    """What a closure holds, the values of an input and a function of one's own make another run."""
    same: dict[str, Any] = {"runs": 1, "threads": 1, "checkpoint": tmp_path, **TINY}
    pf.calibrate(closing_over(1.0), driven(0.0), as_seen=clipped(50.0), **same)
    pf.calibrate(closing_over(1.0), driven(0.0), as_seen=clipped(50.0), **same)
    with pytest.raises(pf.SettingsError, match=r"not the same: drift\)"):
        pf.calibrate(closing_over(9.0), driven(0.0), as_seen=clipped(50.0), **same)
    with pytest.raises(pf.SettingsError, match=r"not the same: data\)"):
        pf.calibrate(closing_over(1.0), driven(2.0), as_seen=clipped(50.0), **same)
    with pytest.raises(pf.SettingsError, match=r"not the same: as_seen\)"):
        pf.calibrate(closing_over(1.0), driven(0.0), as_seen=clipped(40.0), **same)


def test_a_panel_and_its_picture():
    found = pf.calibrate(model(), [TIMES, TIMES[:3]], runs=2, seed=1, **TINY)
    assert list(found.ranks.columns)[2:] == ["initial_state[0][0]", "initial_state[1][0]"]
    figure = pf.plot_calibration(found, ["rates[1]", 2])
    titles = [ax.get_title().split(",")[0] for ax in figure.axes]
    assert titles == ["rates[1]", "initial_state[0][0]"]


def test_the_data_to_be_analysed_are_a_design():
    """Their times and missing entries; `as_seen` says what is known of a simulated series."""
    seen = []

    def below_zero_censored(data: pf.Observations) -> pf.Observations:
        seen.append(data)
        below = data.values < 0.0
        return pf.Observations(data.times, np.where(below, 0.0, data.values), censored=np.where(below, -1, 0))

    design = pf.Observations(TIMES, [0.1, np.nan, 0.3, np.nan, 0.2])
    found = pf.calibrate(model(), design, runs=2, threads=1, seed=1, as_seen=below_zero_censored, **TINY)
    assert found.failed == 0
    assert all(np.array_equal(np.isnan(each.values), np.isnan(design.values)) for each in seen)
    assert any((each.values < 0.0).any() for each in seen), "something is censored"
    with pytest.raises(pf.SettingsError, match=r"as_seen must return pf\.Observations at the times"):
        pf.calibrate(model(), TIMES, runs=1, as_seen=lambda data: None, **TINY)  # type: ignore[arg-type,return-value]
    with pytest.raises(pf.DataError, match="values have 2 columns"):
        pf.calibrate(model(), pf.Observations(TIMES, np.ones((5, 2))), runs=1, **TINY)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"runs": 0}, "runs must be a whole number of at least 1"),
        ({"draws": 50}, "draws must be a whole number of at least 99"),
        ({"threads": 0}, "threads must be a whole number of at least 1"),
        ({"sampler": "static"}, "sampler must be"),
    ],
)
def test_settings_are_checked(settings, sentence):
    with pytest.raises(pf.SettingsError, match=sentence):
        pf.calibrate(model(), TIMES, **{"steps_per_interval": 2} | settings)
