"""pf.modes: the modes there are by name, with shares that are right, and none where there is one mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from scipy.stats import chi2

import pathfold as pf
from pathfold.analysis.modes import errors_by_lives, errors_by_moves, modes
from tests.sampling.test_replicas import STEPS, run, target, well
from tests.thorough import thorough

FALSE_ALARMS = 1e-3


@pytest.fixture(scope="module")
def short() -> xr.DataTree:
    """Results with 4 chains of 500 draws, whose draws a test puts others in place of."""
    known = target("counts")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pf.sample(
            known.model, known.data, steps_per_interval=STEPS, warmup=30, draws=500, keep_path="none",
            sampler=pf.StaticHMC(), progress=False,
        )  # fmt: skip


def with_draws(tree: xr.DataTree, m: np.ndarray, **variables: np.ndarray) -> xr.DataTree:
    """The results with other draws of the parameter, whose other variables have one mode."""
    changed, rng = tree.copy(), np.random.default_rng(0)
    drawn = {name: (("chain", "draw"), values) for name, values in {"m": m, **variables}.items()}
    calm = rng.normal(size=tree.posterior["initial_state"].shape)
    changed["posterior"] = tree.posterior.to_dataset().assign(
        initial_state=(("chain", "draw", "component"), calm), **drawn
    )
    return changed


def autoregressive(rng: np.random.Generator, memory: float) -> np.ndarray:
    x = rng.normal(size=(4, 500))
    for i in range(1, 500):
        x[:, i] = memory * x[:, i - 1] + np.sqrt(1.0 - memory**2) * x[:, i]
    return x


def random_walk(rng: np.random.Generator, width: float) -> np.ndarray:
    """Metropolis' algorithm on a Cauchy distribution, which stays far out for long."""
    x, at = np.zeros((4, 500)), np.zeros(4)
    for i in range(500):
        proposed = at + width * rng.normal(size=4)
        at = np.where(rng.random(4) < (1.0 + at**2) / (1.0 + proposed**2), proposed, at)
        x[:, i] = at
    return x


SIZE = (4, 500)
ONE_MODE: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda rng: rng.normal(size=SIZE),
    "uniform": lambda rng: rng.random(SIZE),
    "skewed": lambda rng: np.exp(2.0 * rng.normal(size=SIZE)),
    "heavy": lambda rng: rng.standard_cauchy(SIZE),
    "spiked": lambda rng: rng.gamma(0.1, size=SIZE),
    "slow": lambda rng: autoregressive(rng, 0.99),
    "slow and skewed": lambda rng: np.exp(2.0 * autoregressive(rng, 0.99)),
    "short walk": lambda rng: random_walk(rng, 1.0),
    "rejecting walk": lambda rng: random_walk(rng, 50.0),
    "constant": lambda rng: np.ones(SIZE),
    "counts": lambda rng: rng.poisson(3.0, size=SIZE).astype(float),
}


@pytest.mark.parametrize("kind", ONE_MODE)
def test_nothing_is_said_where_there_is_one_mode(short, kind):
    rng = np.random.default_rng(1)
    for _ in range(20):
        assert modes(with_draws(short, ONE_MODE[kind](rng))).empty


@pytest.mark.parametrize("gap", [8.0, 30.0])
def test_modes_are_named_by_what_tells_them_apart(short, gap):
    """By the sign where zero is between them, else by where they are, and by what else differs."""
    rng = np.random.default_rng(2)
    second = rng.random(SIZE) < 0.1
    m = rng.normal(size=SIZE) + gap * (second - 0.5)
    table = modes(with_draws(short, m))
    assert table.index.tolist() == ["m < 0", "m > 0"]
    np.testing.assert_allclose(table["share"], [1.0 - second.mean(), second.mean()], atol=1e-2)
    table = modes(with_draws(short, 100.0 + m))
    assert np.allclose(
        [float(name.removeprefix("m about ")) for name in table.index], 100.0 + gap * np.array([-0.5, 0.5]), atol=0.5
    )


def test_three_modes(short):
    rng = np.random.default_rng(3)
    of_mode = rng.choice(3, size=SIZE, p=[0.5, 0.3, 0.2])
    table = modes(with_draws(short, np.array([0.0, 10.0, 40.0])[of_mode] + rng.normal(size=SIZE)))
    assert table["draws"].tolist() == [int(np.sum(of_mode == k)) for k in range(3)]


def test_shares_of_chains_that_do_not_move_mean_nothing(short):
    m = np.random.default_rng(4).normal(size=SIZE) + np.array([0.0, 0.0, 0.0, 50.0])[:, None]
    table = modes(with_draws(short, m))
    assert table["draws"].tolist() == [1500, 500]
    assert np.isnan(table[["share", "standard_error"]].values).all()


def test_a_share_by_few_moves_has_a_large_error(short):
    """Four stays of 15 draws in a mode: if their lengths are exponential, the share is 0.03 +- 0.02 at least."""
    m, rng = np.random.default_rng(6).normal(size=SIZE), np.random.default_rng(7)
    for chain in range(4):
        m[chain, 100:115] = 50.0 + rng.normal(size=15)
    table = modes(with_draws(short, m))
    assert table["share"].tolist() == pytest.approx([0.97, 0.03])
    np.testing.assert_allclose(table["standard_error"], table["standard_error"].iloc[0])
    assert 0.021 < table["standard_error"].iloc[0] < 0.15


def moving(rng: np.random.Generator, leave: np.ndarray) -> np.ndarray:
    """Runs of four chains, their modes: they leave each with this probability, for any other, and begin anywhere."""
    chains, p = RUNS * SIZE[0], (1.0 / leave) / (1.0 / leave).sum()
    of_mode = np.zeros((chains, SIZE[1]), dtype=int)
    of_mode[:, 0] = rng.choice(len(leave), size=chains, p=p)
    for i in range(1, SIZE[1]):
        leaves = rng.random(chains) < leave[of_mode[:, i - 1]]
        of_mode[:, i] = (of_mode[:, i - 1] + leaves * rng.integers(1, len(leave), size=chains)) % len(leave)
    return of_mode.reshape(RUNS, *SIZE)


def replicas_below(rng: np.random.Generator, p: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The modes of four chains, the replicas that draws are of, and round trips so far.

    One of three replicas has each draw. Then it may go for a trip, from which it comes back in mode 1 with probability
    p, so that lives have geometric lengths.
    """
    of_mode, replica, trips = (np.zeros(SIZE, dtype=int) for _ in range(3))
    for chain in range(4):
        modes_of, made, back = 1 * (rng.random(3) < p), 0, np.zeros(3, dtype=bool)
        for i in range(500):
            each = rng.integers(3)
            made, back[each] = made + back[each], False
            of_mode[chain, i], replica[chain, i], trips[chain, i] = modes_of[each], each, made
            if rng.random() < 0.1:
                modes_of[each], back[each] = rng.random() < p, True
    return of_mode, replica, trips


RUNS = 300  # so that a root of a mean square is known to 0.04, a third of what it may differ by


@pytest.mark.parametrize("leave", [(0.04, 0.04), (0.03, 0.09), (0.5, 0.5), (0.1, 0.15, 0.2)])
def test_errors_by_moves_are_those_of_a_markov_chain(leave):
    """If a move to a mode and back counted as an independent draw, scores would be 0.5 to 0.7 in the square mean."""
    rng, stays = np.random.default_rng(8), 1.0 / np.array(leave)
    runs = moving(rng, 1.0 / stays)
    shares = np.array([[np.mean(run == k) for k in range(len(stays))] for run in runs])
    scores = (shares - stays / stays.sum()) / np.array([errors_by_moves(run) for run in runs])
    np.testing.assert_allclose(np.sqrt(np.mean(scores**2, axis=0)), 1.0, atol=0.12)


def test_errors_by_lives_have_the_variance_of_their_lengths():
    """If every life counted as an independent draw, scores would be sqrt(2) in the square mean."""
    rng = np.random.default_rng(8)
    runs = [replicas_below(rng, 0.3) for _ in range(RUNS)]
    scores = [(np.mean(run[0]) - 0.3) / errors_by_lives(*run)[1] for run in runs]
    assert np.sqrt(np.mean(np.square(scores))) == pytest.approx(1.0, abs=0.12)


@pytest.mark.parametrize("by", ["moves", "lives"])
def test_the_table_has_these_errors(short, by):
    rng = np.random.default_rng(9)
    of_mode, replica, trips = replicas_below(rng, 0.4)
    results = with_draws(short, 20.0 * of_mode + rng.normal(size=SIZE))
    if by == "lives":
        added = {"replica": (("chain", "draw"), replica), "round_trips": (("chain", "draw"), trips)}
        results["sample_stats"] = short.sample_stats.to_dataset().assign(added)
    table = modes(results)
    assert table["share"].tolist() == pytest.approx([1.0 - of_mode.mean(), of_mode.mean()])
    expected = errors_by_lives(of_mode, replica, trips) if by == "lives" else errors_by_moves(of_mode)
    assert table["standard_error"].tolist() == expected.tolist()


def test_one_excursion_is_no_mode(short):
    m = np.random.default_rng(5).normal(size=SIZE)
    m[0, 100:180] += 50.0
    assert modes(with_draws(short, m)).empty
    m[1, 300:380] += 50.0
    assert modes(with_draws(short, m))["draws"].tolist() == [1840, 160]


def test_a_state_tells_modes_apart_where_no_parameter_does():
    model, data = well(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = pf.sample(
            model, data, steps_per_interval=10, chains=2, draws=400, sampler=pf.ReplicaExchange(), progress=False
        )
    table = modes(tree)
    assert [name.split(", ")[-1] for name in table.index] == ["0] < 0", "0] > 0"]
    assert all(name.startswith("state[") for name in table.index)


@pytest.mark.parametrize("kind", thorough(("square", "counts"), "square"))
def test_shares_and_their_errors_are_right(kind):
    """The error by round trips is neither too small nor too large, in short runs."""
    share, scores = target(kind).exact()[1]["share"], []
    for seed in range(6):
        table = modes(run(kind, seed=seed, chains=2, draws=400))
        assert table.index.tolist() == ["m < 0", "m > 0"]
        found = table.loc["m > 0"]
        scores.append((found["share"] - share) / max(found["standard_error"], 1e-9))
    total = float(np.sum(np.square(scores)))
    assert chi2.isf(1.0 - 0.5 * FALSE_ALARMS, len(scores)) < total < chi2.isf(0.5 * FALSE_ALARMS, len(scores))


@pytest.mark.parametrize("kind", thorough(["sign", "positive"], "positive"))
def test_nothing_is_said_of_posteriors_that_chains_go_through(kind):
    assert modes(run(kind, chains=2, draws=400)).empty


def test_results_without_statistics_are_refused(short):
    with pytest.raises(pf.SettingsError, match="no group 'sample_stats'"):
        modes(short.drop_nodes(["sample_stats"]))
