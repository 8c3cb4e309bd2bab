"""What is kept of draws: chosen by name, thinned, streamed to a folder, read while the run goes on."""

from __future__ import annotations

import functools
import pickle
import re
import shutil
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr

import pathfold as pf
from pathfold.results.checkpointed import open_checkpoint
from pathfold.results.diagnostics import of_left_out, troubles
from pathfold.sampling.hamiltonian_chain import HamiltonianChain
from tests.sampling.small_run import assert_same_draws, model_and_data, small_run

SHORT: dict[str, Any] = {"chains": 2, "warmup": 20, "threads": 1}


@functools.cache
def whole() -> xr.DataTree:
    """60 draws with their paths, all in memory."""
    return small_run(draws=60, **SHORT)


@pytest.fixture
def tiny(monkeypatch) -> None:
    """Buffers of a few draws, results that stay on file."""
    monkeypatch.setattr("pathfold.sampling.draws.BUFFER", 5_000)
    monkeypatch.setattr("pathfold.results.variables.IN_MEMORY", 0)
    monkeypatch.setattr("pathfold.results.variables.BLOCK", 3_000)


@pytest.mark.parametrize("thin", [3, 7, 12])
def test_a_thinned_run_has_every_nth_draw_and_its_noise(thin):
    long = small_run(draws=5 * thin, **SHORT)
    few = small_run(draws=5, thin=thin, **SHORT)
    for group in ("posterior", "sample_stats"):
        expected = long[group].to_dataset().isel(draw=slice(thin - 1, None, thin))
        for name in expected.data_vars:
            assert few[group].to_dataset()[name].values.tobytes() == expected[name].values.tobytes(), name
    assert few.attrs["thin"] == thin
    assert few.noise["draw"].values.tolist() == [4]
    noise, last = few.noise.isel(draw=-1), long.noise.isel(draw=-1)
    assert noise["path_noise"].values.tobytes() == last["path_noise"].values.tobytes()
    assert np.array_equal(noise["state"].values, few.posterior["state"].values[:, -1, 3::4])
    assert min(few.attrs["main_seconds"]) > 0.0


def test_a_thinned_run_resumes_within_a_draw(tmp_path, monkeypatch):
    """It is stopped after every few transitions, and made again, until it has ended."""
    once = small_run(draws=12, thin=7, **SHORT)
    advance, turns = HamiltonianChain.advance, []

    def interrupted(self, monitor):
        advance(self, monitor)
        turns.append(self.draws.since)
        if len(turns) % 4 == 0:
            monitor.stop[0] = 1

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "max_seconds were spent|.*were left out")
        patch.setattr(HamiltonianChain, "advance", interrupted)
        patch.setattr("pathfold.sampling.chain.PIECE", 3)
        tree = small_run(draws=12, thin=7, checkpoint=tmp_path, **SHORT)
        while tree.posterior.sizes["draw"] < 12:
            tree = small_run(draws=12, thin=7, checkpoint=tmp_path, **SHORT)
    assert any(turns), "it was stopped between draws"
    assert_same_draws(tree, once)
    with pytest.raises(pf.SettingsError, match=r"not the same: thin\)"):
        small_run(draws=12, thin=3, checkpoint=tmp_path, **SHORT)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("keep", [["sigma"], ["tau", 0], 0])
def test_what_is_named_is_kept_and_the_same(tmp_path, keep, checkpoint):
    some = small_run(draws=60, keep=keep, checkpoint=tmp_path if checkpoint else None, **SHORT)
    named = [keep] if isinstance(keep, int) else keep
    states = {"initial_state", "state"} if 0 in named else set()
    assert set(some.posterior.data_vars) == {name for name in named if name != 0} | states
    for group in ("posterior", "warmup_posterior", "sample_stats", "noise"):
        found, expected = some[group].to_dataset(), whole()[group].to_dataset()
        for name in found.data_vars:
            assert found[name].values.tobytes() == expected[name].values.tobytes(), name
    assert pf.check(some).table.equals(pf.check(whole()).table)
    if checkpoint:
        sizes = {name: (tmp_path / f"chain_0.{name}").exists() for name in ("z", "nodes", "path")}
        assert sizes == {"z": isinstance(keep, list), "nodes": 0 in named, "path": 0 in named}


def test_later_functions_say_what_was_not_kept():
    model, data = model_and_data()
    some, none = (small_run(draws=10, keep=keep, **SHORT) for keep in (["tau", 0], list(model.priors)))
    with pytest.raises(pf.SettingsError, match="no draws of 'sigma', which keep leaves out"):
        pf.predict(model, some, [20.0])
    with pytest.raises(pf.SettingsError, match=r"no states, or not all components of them \(keep\): .*ahead=True"):
        pf.log_likelihood(model, data, none)
    with pytest.raises(pf.SettingsError, match=r"\(keep\): say given='parameters'"):
        pf.posterior_predictive(model, none)
    with pytest.raises(pf.ModelError, match="'a' is a function of the path, but keep leaves out components"):
        small_run(keep=["tau"], deterministics={"a": lambda z, path: path[0]})
    for keep, sentence in (
        ([], "keep must be a list of names"),
        ({"tau": 1}, "keep must be a list of names"),
        (
            ["tau", "rho"],
            "keep names 'rho', which is no parameter and no component of the state; there are .*'tau'.* 0",
        ),
        (True, "keep names True"),
    ):
        with pytest.raises(pf.SettingsError, match=sentence):
            small_run(keep=keep)
    with pytest.raises(pf.SettingsError, match=r"write pf.GuidedProposals\(thin=4\)"):
        small_run("guided", thin=4)
    again = small_run(draws=10, start=none, **SHORT)
    assert again.posterior.sizes["draw"] == 10, "where chains ended is known whatever is kept"


@pytest.mark.usefixtures("tiny")
def test_a_streamed_run_is_the_same_and_is_read_in_parts(tmp_path):
    folder = tmp_path / "run"
    streamed = small_run(draws=60, checkpoint=folder, **SHORT)
    assert not streamed.posterior["state"].variable._in_memory
    assert_same_draws(streamed, whole())
    lazy, there = streamed.posterior["state"], whole().posterior["state"].values
    rng = np.random.default_rng(3)
    places = rng.integers(60, size=9)
    for read, expected in (
        (lazy[1], there[1]),
        (lazy[:, 7], there[:, 7]),
        (lazy[0, -1, :, 0], there[0, -1, :, 0]),
        (lazy[:, ::7, 3:9:2], there[:, ::7, 3:9:2]),
        (lazy[:, places][:, :, [4, 1]], there[:, places][:, :, [4, 1]]),
        (lazy[:, ::-1, -2], there[:, ::-1, -2]),
        (lazy[:, 60:], there[:, 60:]),
        (lazy.sel(draw=[3, 50]).isel(time=5), there[:, [3, 50], 5]),
    ):
        assert np.array_equal(read.values, expected)
    assert np.array_equal(pickle.loads(pickle.dumps(streamed)).posterior["state"].values, there)
    assert np.array_equal(streamed.copy(deep=True).posterior["state"].values, there)
    changed = streamed.posterior["sigma"].copy()
    changed[0, 0] = 5.0
    assert changed.values[0, 0] == 5.0
    assert streamed.posterior["sigma"].values[0, 0] != 5.0
    shutil.rmtree(folder)
    with pytest.raises(pf.SettingsError, match="cannot be read: No such file or directory; keep the folder"):
        lazy.values  # noqa: B018


@pytest.mark.usefixtures("tiny")
def test_functions_of_streamed_results_are_those_of_results_in_memory(tmp_path):
    model, data = model_and_data()
    functions = {"late": lambda z, path: z["sigma"] * path[-3:, 0], "twice": lambda z: 2.0 * z["tau"]}
    streamed, plain = (
        small_run(draws=60, checkpoint=folder, deterministics=functions, **SHORT) for folder in (tmp_path, None)
    )
    assert_same_draws(streamed, plain)
    times = data.times[-1] + np.array([1.0, 2.0])
    for draws in (7, None):
        one, other = (pf.predict(model, tree, times, draws=draws) for tree in (streamed, plain))
        assert one.predictions.to_dataset().equals(other.predictions.to_dataset())
    one, other = (pf.log_likelihood(model, data, tree) for tree in (streamed, plain))
    assert one["log_likelihood"].to_dataset().equals(other["log_likelihood"].to_dataset())


@pytest.mark.usefixtures("tiny")
def test_streamed_results_are_joined_without_being_read(tmp_path):
    parts = [
        small_run(checkpoint=tmp_path / str(seed), seed=seed, chains=seed, warmup=20, draws=20 + seed)
        for seed in (1, 2)
    ]
    with pytest.warns(UserWarning, match="run more draws"):
        joined = pf.combine(parts)
    assert joined.posterior.sizes["chain"] == 3
    assert joined.posterior.sizes["draw"] == 21
    for group in ("posterior", "sample_stats", "noise"):
        found = joined[group].to_dataset()
        separate = [part[group].to_dataset().sel(draw=found["draw"]) for part in parts]
        for name in found.data_vars:
            values = [each[name].values for each in separate]
            expected = np.concatenate(values) if "chain" in found[name].dims else values[0]
            assert np.array_equal(found[name].values, expected), name
    path, both = parts[1].posterior["state"].values, joined.posterior["state"]
    assert np.array_equal(both[2, ::4, [5, 2]].values, path[1, :21:4, [5, 2]].swapaxes(0, 1))
    assert np.array_equal(both[1:, 3].values, path[:, 3])


@pytest.mark.usefixtures("tiny")
def test_draws_are_seen_while_the_run_goes_on(tmp_path, monkeypatch):
    """After every save of the first chain, which the second has not joined yet; and at the end."""
    seen, save = [], HamiltonianChain.save

    def watched(self, checkpoint):
        save(self, checkpoint)
        seen.append(open_checkpoint(tmp_path))

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "chains that were behind the others")
        patch.setattr(HamiltonianChain, "save", watched)
        patch.setattr("pathfold.sampling.chain.time.monotonic", iter(np.arange(0.0, 1e6, 3.0)).__next__)
        small_run(draws=60, checkpoint=tmp_path, **SHORT)
    counts = [tree.posterior.sizes["draw"] for tree in seen]
    assert counts[0] == 0
    assert len(set(counts)) > 5
    end = open_checkpoint(str(tmp_path))
    for tree in [*seen, end]:
        draws, chains = tree.posterior.sizes["draw"], tree.posterior.sizes["chain"]
        for group in ("posterior", "sample_stats", "warmup_sample_stats", "observed_data", "constant_data"):
            expected = whole()[group].to_dataset()
            if "chain" in expected.dims:
                expected = expected.isel(chain=slice(chains))
            if not group.startswith(("warmup", "observed", "constant")):
                expected = expected.isel(draw=slice(draws))
            if not group.startswith("warmup") or draws:
                xr.testing.assert_identical(tree[group].to_dataset().load(), expected)
    assert end.posterior.sizes["draw"] == 60
    assert {*whole().attrs} - {*end.attrs} == {"compile_seconds", "run_seconds"}


def test_chains_that_are_left_out_are_numbered_and_told(tmp_path, monkeypatch):
    """The first of three is slow, and elsewhere: the others keep their own numbers, and where it was is said."""
    advance = HamiltonianChain.advance

    def slow(self, monitor):
        before = self.draws.made
        advance(self, monitor)
        if self.task.index == 0:
            self.draws.z[before - self.draws.begin : self.draws.made - self.draws.begin] += 50.0
            self.draws.seconds += 1000.0 * (self.draws.made > 35)

    monkeypatch.setattr(HamiltonianChain, "advance", slow)
    sentence = (
        r"behind the others were left out, and slow can mean .*: chain 0 in \d+ draws has (\w+) about (5\d\.?\d*) "
        r"where those kept have ([\d.]+) \((\d+)\.\d of its standard deviations away\), .*Give them the time"
    )
    settings: dict[str, Any] = {**SHORT, "chains": 3, "draws": 60, "max_seconds": 500.0, "checkpoint": tmp_path}
    with (
        pytest.warns(UserWarning, match=sentence),
        pytest.warns(UserWarning, match="60 of 60 draws are kept, of 2 of 3"),
    ):
        tree = small_run(**settings)
    with pytest.warns(UserWarning, match=sentence):
        opened = open_checkpoint(tmp_path)
    for each in (tree, opened):
        ((name, mean, usual, away),) = re.findall(sentence, of_left_out(each.attrs["left_out"]))
        kept = each.posterior[name].values
        assert float(usual) == pytest.approx(kept.mean(), rel=0.01)
        assert int(away) == pytest.approx((float(mean) - kept.mean()) / kept.std(), abs=1.5)
        for group in ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats"):
            assert each[group].to_dataset()["chain"].values.tolist() == [1, 2], group
    assert tree.noise["chain"].values.tolist() == [1, 2]
    complete = small_run("static", **SHORT | {"chains": 3, "draws": 60})
    assert np.array_equal(tree.posterior["sigma"], complete.posterior["sigma"][1:])
    assert next(troubles(tree, ["sigma"])) == of_left_out(tree.attrs["left_out"]), "the report has it too"
    monkeypatch.undo()
    with pytest.warns(UserWarning, match=r"were left out, .*: of results 1 chain 0 in \d+ draws has"):
        pf.combine([small_run(draws=60, seed=8, **SHORT), tree])


def test_chains_that_have_not_begun_are_told(tmp_path):
    small_run(draws=60, checkpoint=tmp_path, **SHORT)
    for file in tmp_path.glob("chain_0*"):
        file.unlink()
    with pytest.warns(UserWarning, match="were left out, .* chain 0 has no draws yet"):
        tree = open_checkpoint(tmp_path)
    assert tree.posterior["chain"].values.tolist() == [1]


def test_what_is_no_checkpoint_is_not_opened(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(pf.SettingsError, match=r"is no checkpoint folder .* with the file results\.json"):
            pf.open_checkpoint(folder)
    small_run(draws=5, checkpoint=tmp_path, **SHORT)
    for file in tmp_path.glob("chain_*.npz"):
        file.unlink()
    with pytest.raises(pf.SettingsError, match="has no draws yet; wait"):
        pf.open_checkpoint(tmp_path)


def test_draws_that_do_not_fit_on_the_disk_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**30))
    sentence = r"the draws would take [\d.]+ GiB of the disk, and .* has room for 1.0 GiB: take .*, or another folder"
    with pytest.raises(pf.SettingsError, match=sentence):
        small_run(draws=10**7, checkpoint=tmp_path, **SHORT)


def test_damaged_draws_are_not_shown(tmp_path):
    small_run(checkpoint=tmp_path)
    file = tmp_path / "chain_1.z"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(pf.SettingsError, match=r"chain_1\.z cannot be used: its bytes are not those that were written"):
        pf.open_checkpoint(tmp_path)
