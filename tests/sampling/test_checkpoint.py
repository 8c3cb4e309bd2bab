"""Checkpoints: what is appended, what damage is noticed, who may write, how a run is made longer."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pickle
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathfold as pf
from pathfold.sampling import checkpoint
from pathfold.sampling.checkpoint import FORMAT, Checkpoint, claim_folder, make_folder, sole_use
from pathfold.sampling.draws import ARRAYS, Draws, Shape
from tests.processes import fork_and_end, hold, imported
from tests.sampling.small_run import assert_same_draws, small_run

SHAPE = Shape(
    total=50,
    unkept=10,
    z_size=2,
    series=1,
    state_dim=3,
    augmented_dim=3,
    steps=2,
    intervals=4,
    nodes=4,
    path=0,
    statistics=5,
)
STATE = {"point": np.arange(3.0), "rng": np.array("{}")}
SHORT: dict[str, Any] = {"chains": 2, "warmup": 20, "threads": 1}


def drawn(made: int, shape: Shape = SHAPE) -> Draws:
    """Draws of random numbers in memory, the same for each row however many there are."""
    draws = Draws.empty(shape)
    rng = np.random.default_rng(1)
    for name in ARRAYS:
        array = getattr(draws, name)
        array[:] = rng.normal(size=array.shape)
    draws.made = made
    return draws


def loaded(folder: Path) -> tuple[Draws, dict[str, Any]]:
    """Draws and state of what was saved; to begin with there is nothing."""
    draws = Draws.empty(SHAPE, folder)
    state = Checkpoint(folder, 0).load(draws)
    assert state is not None
    return draws, state


def saved(folder: Path, *counts: int) -> Checkpoint:
    checkpoint = Checkpoint(folder, 0)
    for made in counts:
        checkpoint.save(drawn(made), STATE)
    return checkpoint


def test_what_was_saved_in_pieces_is_what_is_loaded(tmp_path):
    assert Checkpoint(tmp_path, 0).load(Draws.empty(SHAPE, tmp_path)) is None
    saved(tmp_path, 5, 10, 12, 12, 40)
    draws, state = loaded(tmp_path)
    assert draws.made == draws.begin == 40
    for name in ARRAYS:
        for begin, end in ((0, 40), (7, 12), (39, 40), (12, 12)):
            np.testing.assert_array_equal(draws.rows(name, begin, end), drawn(40).rows(name, begin, end))
    np.testing.assert_array_equal(state["point"], STATE["point"])


def test_a_save_writes_what_is_new_and_nothing_else(tmp_path):
    checkpoint = saved(tmp_path, 20)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for file in tmp_path.iterdir():
        file.write_bytes(bytes(len(before[file.name])))
    checkpoint.save(drawn(25), STATE)
    for name in ("z", "x0", "statistics", "nodes"):
        after, past = checkpoint.rows_file(name).read_bytes(), len(before[f"chain_0.{name}"])
        assert after[:past] == bytes(past), "it is not written again"
        assert after[past:] == drawn(25).rows(name, 20, 25).tobytes()


def test_draws_beyond_the_count_are_written_over(tmp_path):
    checkpoint = saved(tmp_path, 20)
    with checkpoint.rows_file("z").open("ab") as stream:
        stream.write(b"left by a process that was killed")
    again, draws = Checkpoint(tmp_path, 0), Draws.empty(SHAPE, tmp_path)
    assert again.load(draws) is not None
    assert draws.made == 20
    again.save(drawn(30), STATE)
    np.testing.assert_array_equal(loaded(tmp_path)[0].rows("z", 0, 30), drawn(30).z[:30])


def test_a_failing_save_leaves_the_last_one(tmp_path, monkeypatch):
    checkpoint = saved(tmp_path, 20)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            checkpoint.save(drawn(30), STATE)
    assert loaded(tmp_path)[0].made == 20
    checkpoint.save(drawn(35), STATE)
    np.testing.assert_array_equal(loaded(tmp_path)[0].rows("z", 0, 35), drawn(35).z[:35])


def test_draws_that_the_disk_does_not_take_stay_in_memory(tmp_path, monkeypatch):
    """More of them than there is room for, until it takes them: what is kept is the same as without a folder."""
    monkeypatch.setattr("pathfold.sampling.draws.BUFFER", 8 * 40)
    draws, checkpoint, whole = Draws.empty(SHAPE, tmp_path), Checkpoint(tmp_path, 0), drawn(50)
    assert len(draws.z) < 5

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for begin in range(0, 50, 5):
        draws.add({name: whole.rows(name, begin, begin + 5) for name in ARRAYS})
        with monkeypatch.context() as patch:
            if begin in (15, 20, 25):
                patch.setattr(os, "fsync", full)
            with suppress(OSError):
                checkpoint.append(draws)
        assert draws.begin == (15 if begin in (15, 20, 25) else begin + 5)
        for name in ARRAYS:
            np.testing.assert_array_equal(draws.rows(name, 3, draws.made), whole.rows(name, 3, draws.made))
    short = draws.first(12)
    np.testing.assert_array_equal(short.rows("nodes", 0, 50), whole.rows("nodes", 0, 12))


class Payload:
    def __reduce__(self):
        return (print, ("unpickled",))


def pickled(file: Path) -> None:
    file.write_bytes(pickle.dumps(Payload()))


def pickled_array(file: Path) -> None:
    with file.open("wb") as stream:
        np.savez(stream, made=np.array([Payload()], dtype=object))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 16
    file.write_bytes(content)


def removed(file: Path) -> None:
    file.unlink()


def another(file: Path) -> None:
    with file.open("wb") as stream:
        np.savez(stream, other=np.zeros(3))


def text(file: Path) -> None:
    file.write_text("notes of mine")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("npz", damage) for damage in (pickled, pickled_array, cut, emptied, another, text)),
        *(("z", damage) for damage in (cut, emptied, flipped, removed, text)),
        *(("nodes", damage) for damage in (cut, flipped, removed)),
    ],
)
def test_damage_is_told_in_one_sentence(tmp_path, capsys, name, damage):
    saved(tmp_path, 20)
    damage(tmp_path / f"chain_0.{name}")
    with pytest.raises(pf.SettingsError) as caught:
        loaded(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"the checkpoint file {tmp_path / f'chain_0.{name}'} cannot be used: ")
    assert "give another folder to start afresh" in message
    assert not any(word in message.lower() for word in ("pickle", "zip", "magic", "allow_"))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "unpickled" not in capsys.readouterr().out


def test_every_flipped_bit_of_the_draws_is_noticed(tmp_path):
    file = saved(tmp_path, 20).rows_file("z")
    content = file.read_bytes()
    for place in range(0, len(content), 37):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(pf.SettingsError, match="not those that were written"):
            loaded(tmp_path)


def test_a_flipped_bit_of_the_state_is_noticed_or_does_not_matter(tmp_path):
    file = saved(tmp_path, 20).file
    content, refused = file.read_bytes(), 0
    for place in range(0, len(content), 7):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            draws, state = loaded(tmp_path)
        except pf.SettingsError:
            refused += 1
            continue
        assert draws.made == 20
        assert all(np.array_equal(state[name], STATE[name]) for name in STATE)
    assert refused > len(content) / 7 / 3


FINGERPRINT = {"seed": 1, "warmup": 20, "model": "abc"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ("run is damaged", "another folder")),
        ("{", ("run is damaged",)),
        ("[1, 2]", ("run is damaged",)),
        ('{"seed": 1}', ("no checkpoint of this version",)),
        (json.dumps({"format": FORMAT, **FINGERPRINT, "seed": 2}), ("belongs to a run with", "not the same: seed)")),
        (json.dumps({"format": FORMAT, "seed": 1, "model": "x"}), ("not the same: model, warmup)",)),
    ],
)
def test_a_folder_of_another_run_is_refused(tmp_path, content, words):
    (tmp_path / "run").write_text(content)
    with pytest.raises(pf.SettingsError) as caught:
        claim_folder(tmp_path, FINGERPRINT)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_folder_is_claimed_once_and_known_again(tmp_path):
    claim_folder(tmp_path, FINGERPRINT)
    claim_folder(tmp_path, FINGERPRINT)
    (tmp_path / "run").unlink()
    saved(tmp_path, 20)
    with pytest.raises(pf.SettingsError, match="holds chains, but not the file 'run'"):
        claim_folder(tmp_path, FINGERPRINT)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    for folder in (file, file / "below", Path("/proc/pathfold"), Path("a\0b")):
        with pytest.raises(pf.SettingsError, match=r"cannot be used: .*; give a folder that can be written to"):
            make_folder(folder)


def test_a_lock_is_held_by_one_process_and_vanishes_with_it(tmp_path):
    file, held = tmp_path / "lock", imported.Event()
    other = imported.Process(target=hold, args=(sole_use, file, held))
    other.start()
    try:
        assert held.wait(60.0)
        with pytest.raises(pf.SettingsError, match="in use by another run; wait until that has ended"), sole_use(file):
            pass
    finally:
        other.kill()
        other.join()
    with sole_use(file):
        pass


def test_those_who_share_a_lock_make_sure_that_nobody_holds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "PASSING", 0.1)
    file = tmp_path / "lock"
    with sole_use(file, shared=True), sole_use(file, shared=True), sole_use(file):
        pass
    with sole_use(file), pytest.raises(pf.SettingsError, match="in use by another run"), sole_use(file, shared=True):
        pass


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_keeps_out_nobody(tmp_path, monkeypatch, code):
    def flock(file, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    with sole_use(tmp_path / "lock"), sole_use(tmp_path / "lock"):
        pass


def test_a_worker_that_outlives_a_killed_run_does_not_hold_its_lock(tmp_path):
    forked = imported.Event()
    host = imported.Process(target=fork_and_end, args=(sole_use, tmp_path / "lock", forked))
    host.start()
    try:
        assert forked.wait(60.0)
        host.join()
        assert host.exitcode == 1
        with sole_use(tmp_path / "lock"):
            pass
    finally:
        assert host.pid is not None
        os.killpg(host.pid, signal.SIGKILL)


def test_a_run_whose_folder_is_in_use_is_refused(tmp_path):
    with sole_use(tmp_path / "lock"), pytest.raises(pf.SettingsError, match="in use by another run"):
        small_run(checkpoint=tmp_path, draws=5, **SHORT)
    small_run(checkpoint=tmp_path, draws=5, **SHORT)
    with (
        sole_use(tmp_path / "chain_1.lock"),
        pytest.raises(pf.SettingsError, match="in use by another run"),
    ):
        small_run(checkpoint=tmp_path, draws=5, **SHORT)


def test_a_run_without_the_states_of_warm_up_can_be_taken_up_and_made_longer(tmp_path):
    given: dict[str, Any] = {"warmup": 20, "chains": 2, "keep_warmup": False, "keep_path": "all"}
    small_run(checkpoint=tmp_path, draws=3, **given)
    longer, once = small_run(checkpoint=tmp_path, draws=12, **given), small_run(draws=12, **given)
    for name in once.posterior.data_vars:
        assert longer.posterior[name].values.tobytes() == once.posterior[name].values.tobytes()
    with pytest.raises(pf.SettingsError, match=r"not the same: keep_warmup\)"):
        small_run(checkpoint=tmp_path, draws=12, **given | {"keep_warmup": True})  # pyright: ignore[reportArgumentType]


def test_a_finished_run_can_be_made_longer(tmp_path):
    small_run(checkpoint=tmp_path, draws=7, **SHORT)
    first = (tmp_path / "chain_0.z").read_bytes()
    longer = small_run(checkpoint=tmp_path, draws=30, **SHORT)
    assert (tmp_path / "chain_0.z").read_bytes().startswith(first)
    assert_same_draws(longer, small_run(draws=30, **SHORT))
    state = (tmp_path / "chain_0.npz").read_bytes()
    fewer = small_run(checkpoint=tmp_path, draws=11, **SHORT)
    assert_same_draws(fewer, small_run(draws=11, **SHORT), held=slice(-1))  # the position at its end is gone
    assert (tmp_path / "chain_0.npz").read_bytes() == state, "asking for fewer takes none away"
    with pytest.raises(pf.SettingsError, match=r"not the same: warmup\)"):
        small_run(checkpoint=tmp_path, draws=30, chains=2, warmup=21)


def test_a_damaged_checkpoint_stops_the_run_and_not_its_files(tmp_path):
    small_run(checkpoint=tmp_path, draws=5, **SHORT)
    another(tmp_path / "chain_0.npz")
    content = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(pf.SettingsError, match=r"chain_0\.npz cannot be used"):
        small_run(checkpoint=tmp_path, draws=5, **SHORT)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == content


def test_a_state_without_its_parts_is_refused(tmp_path):
    small_run(checkpoint=tmp_path, draws=5, **SHORT)
    file = tmp_path / "chain_0.npz"
    whole = dict(np.load(file))
    for change in ({"point": whole["point"][:-1]}, {"rng": np.array("{}")}, {"seconds": np.zeros(3)}):
        with file.open("wb") as stream:
            np.savez(stream, **whole | change)  # pyright: ignore[reportArgumentType]
        with pytest.raises(pf.SettingsError, match="lacks something that a chain of this run needs"):
            small_run(checkpoint=tmp_path, draws=5, **SHORT)


def test_draws_are_returned_when_the_disk_is_full(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "append", full)
        sentence = r"checkpoint .* could not be written \(No space left on device\): the draws are all here"
        with pytest.warns(UserWarning, match=sentence):
            tree = small_run(checkpoint=tmp_path, draws=9, **SHORT)
    assert_same_draws(tree, small_run(draws=9, **SHORT))
    assert_same_draws(tree, small_run(checkpoint=tmp_path, draws=9, **SHORT))
