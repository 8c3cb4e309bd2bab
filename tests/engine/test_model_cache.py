"""Compiled models are kept whole or not at all; what is damaged, foreign or open to others is never used."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest

from pathfold.engine import model_cache, model_file
from pathfold.engine.model_cache import CacheWarning, Damaged, Entry, Header, Unusable
from tests.processes import imported

KEY, OTHER_KEY = (hashlib.sha256(name).hexdigest() for name in (b"a model", b"another model"))
MACHINE, OTHER_MACHINE = "x86_64-linux-gnu, skylake, LLVM 20", "x86_64-linux-gnu, zen4, LLVM 20"
ENTRY = Entry({"gram": b"\x7fELF gram", "empty": b"", "newton": bytes(range(64))}, {"carried": 37, "layout": "lanes"})
OTHER_ENTRY = Entry({"gram": b"\x7fELF another"}, {"carried": 5})
CHECKSUM_SIZE = 32
STRANGER = 54321

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache folder that is not there yet, in a process that has not warned and remembers nothing."""
    monkeypatch.setenv("PATHFOLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PATHFOLD_CACHE_LIMIT", raising=False)
    monkeypatch.setattr(model_cache, "_memory", {})
    monkeypatch.setattr(model_cache, "_unwarned", Lock())
    return tmp_path / "cache"


@pytest.fixture
def path(folder):
    """The file of a model that is kept."""
    model_cache.keep(KEY, MACHINE, ENTRY)
    return folder / f"{KEY}.model"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def assert_mended_by_keeping_again() -> None:
    """Nothing is found, silently; what is kept then is found."""
    assert model_cache.find(KEY, MACHINE) is None
    model_cache.keep(KEY, MACHINE, ENTRY)
    assert model_cache.find(KEY, MACHINE) == ENTRY
    assert not model_cache._memory


def forge(path: Path, *, format: bytes = model_file.FORMAT, text: bytes | None = None, **changes) -> None:
    """Rewrite a file with another format or header, the checksum made right."""
    content = path.read_bytes()[:-CHECKSUM_SIZE].removeprefix(model_file.FORMAT)
    before, _, payload = content.partition(b"\n")
    text = json.dumps(json.loads(before) | changes).encode() if text is None else text
    forged = format + text + b"\n" + payload
    path.write_bytes(forged + hashlib.sha256(forged).digest())


def content() -> Header | model_cache.Refused:
    """What is said of the only file."""
    (stored,) = model_cache.entries()
    return stored.content


# What is kept is found


def test_what_is_kept_is_found(folder):
    assert model_cache.find(KEY, MACHINE) is None
    assert not folder.exists()
    model_cache.keep(KEY, MACHINE, ENTRY)
    assert names(folder) == {f"{KEY}.model"}
    found = model_cache.find(KEY, MACHINE)
    assert found == ENTRY
    assert found is not None
    assert list(found.objects) == list(ENTRY.objects)
    assert model_cache.find(OTHER_KEY, MACHINE) is None


def test_the_last_one_kept_counts(path):
    model_cache.keep(KEY, MACHINE, OTHER_ENTRY)
    assert model_cache.find(KEY, MACHINE) == OTHER_ENTRY


def test_the_header_says_what_made_it(path):
    header = content()
    assert isinstance(header, Header)
    assert (header.key, header.machine, header.facts) == (KEY, MACHINE, ENTRY.facts)
    assert list(header.versions) == ["pathfold", "jax", "llvmlite"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PATHFOLD_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"PATHFOLD_CACHE": "~/a", "HOME": "/c"}, "/c/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/pathfold"),
        ({"PATHFOLD_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/pathfold"),
    ],
)
def test_the_folder_follows_the_environment(monkeypatch, environment, expected):
    for name in ("PATHFOLD_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert model_cache.folder() == Path(expected)


# Damage


def test_a_file_cut_short_is_not_used(path):
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert model_cache.find(KEY, MACHINE) is None, length
        assert not path.exists()
    assert_mended_by_keeping_again()


def test_a_file_grown_longer_is_not_used(path):
    path.write_bytes(path.read_bytes() + b"\0")
    assert_mended_by_keeping_again()


def test_no_flipped_bit_goes_unnoticed(path):
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert model_cache.find(KEY, MACHINE) is None, position
    assert_mended_by_keeping_again()


def test_swapped_files_are_noticed(path):
    model_cache.keep(OTHER_KEY, MACHINE, OTHER_ENTRY)
    other = path.with_name(f"{OTHER_KEY}.model")
    path.rename(path.with_suffix(".moved"))
    other.rename(path)
    path.with_suffix(".moved").rename(other)
    assert model_cache.find(OTHER_KEY, MACHINE) is None
    assert_mended_by_keeping_again()


def test_code_for_another_machine_is_left_alone_and_not_used(path):
    forge(path, machine=OTHER_MACHINE)
    assert model_cache.find(KEY, OTHER_MACHINE) == ENTRY
    assert model_cache.find(KEY, MACHINE) is None
    assert path.exists()
    assert_mended_by_keeping_again()


def test_a_file_of_another_format_is_not_used(path):
    forge(path, format=b"pathfold 1\n")
    assert isinstance(content(), Damaged)
    assert_mended_by_keeping_again()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"{}", b'{"key": ' + b"9" * 5000 + b"}"])
def test_a_header_that_makes_no_sense_is_refused(path, text):
    forge(path, text=text)
    assert isinstance(content(), Damaged)
    assert_mended_by_keeping_again()


@pytest.mark.parametrize(
    "changes",
    [
        {"key": OTHER_KEY},
        {"objects": {"gram": 10**30}},
        {"objects": {"gram": "long"}},
        {"objects": {}},
        {"surplus": 1},
    ],
)
def test_a_header_that_does_not_fit_is_refused(path, changes):
    forge(path, **changes)
    assert isinstance(content(), Damaged)
    assert_mended_by_keeping_again()


def test_forging_alone_does_no_damage(path):
    forge(path)
    assert model_cache.find(KEY, MACHINE) == ENTRY


# Interrupted and simultaneous writing


@pytest.mark.parametrize("function", ["open", "fsync", "replace"])
def test_an_interrupt_leaves_no_draft(path, monkeypatch, function):
    def interrupted(*given, **named):
        if function == "open":
            original(*given, **named)  # the draft is there, but nobody has got to know it yet
        raise KeyboardInterrupt

    original = getattr(os, function)
    with monkeypatch.context() as patch:
        patch.setattr(os, function, interrupted)
        with pytest.raises(KeyboardInterrupt):
            model_cache.keep(OTHER_KEY, MACHINE, OTHER_ENTRY)
    assert names(path.parent) == {path.name}
    assert model_cache.find(KEY, MACHINE) == ENTRY


def test_drafts_of_killed_processes_are_removed_in_time(path):
    old, young = (path.with_name(f"{KEY}.{digit * 16}.draft") for digit in "ab")
    foreign = path.with_name("notes.draft")
    for draft in (old, young, foreign):
        draft.write_bytes(b"half")
    long_ago = time.time() - 2 * model_cache.ABANDONED_AFTER
    for draft in (old, foreign):
        os.utime(draft, (long_ago, long_ago))
    model_cache.keep(OTHER_KEY, MACHINE, OTHER_ENTRY)
    assert names(path.parent) == {path.name, f"{OTHER_KEY}.model", young.name, foreign.name}


def keep_and_find_over_and_over(times: int) -> bool:
    """Whether one of two entries under the same key was found each time, whole."""
    big = [Entry({"gram": bytes([n]) * 100_000}, {"n": n}) for n in (1, 2)]
    good = True
    for n in range(times):
        model_cache.keep(KEY, MACHINE, big[n % 2])
        good &= model_cache.find(KEY, MACHINE) in big
    return good


def test_threads_keep_and_find_the_same_model_at_once(folder):
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(keep_and_find_over_and_over, [20] * 8))
    assert names(folder) == {f"{KEY}.model"}
    assert not model_cache._memory


def in_another_process(folder: Path) -> None:
    warnings.simplefilter("error")
    os.environ["PATHFOLD_CACHE"] = str(folder)
    assert keep_and_find_over_and_over(100)


def test_processes_keep_and_find_the_same_model_at_once(folder):
    other = imported.Process(target=in_another_process, args=(folder,))
    other.start()
    while other.is_alive():
        assert keep_and_find_over_and_over(10)
    assert other.exitcode == 0
    assert names(folder) == {f"{KEY}.model"}


# Folders that cannot be used


def keep_and_find_two_models() -> None:
    model_cache.keep(KEY, MACHINE, ENTRY)
    model_cache.keep(OTHER_KEY, MACHINE, OTHER_ENTRY)
    assert model_cache.find(KEY, MACHINE) == ENTRY
    assert model_cache.find(OTHER_KEY, MACHINE) == OTHER_ENTRY
    assert model_cache.find(KEY, OTHER_MACHINE) is None


def assert_works_from_memory_after_one_warning(match: str) -> None:
    with pytest.warns(CacheWarning, match=match) as caught:
        keep_and_find_two_models()
    (warning,) = caught
    assert len(model_cache._memory) == 2
    assert "PATHFOLD_CACHE names another folder" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_full_disk_is_only_warned_of(folder, monkeypatch, function, error):
    def full(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, function, full)
    assert_works_from_memory_after_one_warning(f"{folder}: {os.strerror(error)}")
    assert names(folder) == set()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_disk_that_is_full_when_written_to_is_only_warned_of(folder, monkeypatch):
    original = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, **mode: original("/dev/full", os.O_WRONLY))
    with pytest.warns(CacheWarning, match="No space left"):
        model_cache.keep(KEY, MACHINE, ENTRY)
    assert names(folder) == set()


def test_a_file_in_the_place_of_the_folder(folder):
    folder.write_text("not a folder")
    assert_works_from_memory_after_one_warning("it is not a folder")
    assert folder.read_text() == "not a folder"


def test_a_file_in_the_place_of_home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.write_text("not a folder")
    monkeypatch.delenv("PATHFOLD_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))
    assert_works_from_memory_after_one_warning(f"{home}/.cache/pathfold: Not a directory")


def test_a_user_without_home(tmp_path, monkeypatch):
    def unknown(*_):
        raise KeyError("this user")

    for name in ("PATHFOLD_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    assert_works_from_memory_after_one_warning("HOME is not set")
    assert names(tmp_path) == set()


def test_a_folder_that_cannot_be_made(folder, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "mkdir", read_only)
    assert_works_from_memory_after_one_warning("Read-only file system")


def test_of_many_threads_one_warns(folder):
    folder.write_text("not a folder")
    with pytest.warns(CacheWarning) as caught, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: model_cache.keep(KEY, MACHINE, ENTRY), range(50)))
    assert len(caught) == 1


# Who may write


def test_folder_and_files_are_for_the_user_alone(folder):
    umask = os.umask(0)
    try:
        model_cache.keep(KEY, MACHINE, ENTRY)
    finally:
        os.umask(umask)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / f"{KEY}.model").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(path, mode):
    path.parent.chmod(mode)
    assert_works_from_memory_after_one_warning("chmod go-w")
    with pytest.raises(Unusable):
        model_cache.clear()
    assert names(path.parent) == {path.name}


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_to_is_not_used(path, mode):
    path.chmod(mode)
    with pytest.warns(CacheWarning, match=f"{path.name}.*chmod go-w") as caught:
        assert [model_cache.find(KEY, MACHINE) for _ in range(3)] == [None] * 3
    assert len(caught) == 1
    assert path.exists()
    assert [file.path for file in model_cache.verify()] == [path]
    assert_mended_by_keeping_again()


def test_a_folder_of_another_user_is_not_used(path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert_works_from_memory_after_one_warning("it belongs to another user")


@needs_root
def test_a_file_of_another_user_is_not_used(path):
    os.chown(path, STRANGER, -1)
    with pytest.warns(CacheWarning, match="it belongs to another user"):
        assert model_cache.find(KEY, MACHINE) is None
    assert path.exists()


def test_a_link_of_the_user_to_the_folder_is_followed(path, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(path.parent)
    monkeypatch.setenv("PATHFOLD_CACHE", str(tmp_path / "link"))
    assert model_cache.find(KEY, MACHINE) == ENTRY


@needs_root
def test_a_link_of_another_user_to_the_folder_is_not_followed(path, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(path.parent)
    os.chown(tmp_path / "link", STRANGER, -1, follow_symlinks=False)
    monkeypatch.setenv("PATHFOLD_CACHE", str(tmp_path / "link"))
    assert_works_from_memory_after_one_warning("symbolic link made by another user")


def test_a_link_in_the_place_of_a_file_is_not_followed(path):
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))
    with pytest.warns(CacheWarning, match="it is a symbolic link"):
        assert model_cache.find(KEY, MACHINE) is None
    assert_mended_by_keeping_again()
    assert not path.is_symlink()


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(path):
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.warns(CacheWarning, match="it is not a file"):
        assert model_cache.find(KEY, MACHINE) is None
    assert_mended_by_keeping_again()


@needs_user
def test_a_file_that_may_not_be_read_is_warned_of(path):
    path.chmod(0)
    with pytest.warns(CacheWarning, match="this user may not read it"):
        assert model_cache.find(KEY, MACHINE) is None


# Size, listing, clearing


def keys(count: int) -> list[str]:
    return [hashlib.sha256(bytes([n])).hexdigest() for n in range(count)]


def test_the_least_recently_used_are_removed_first(folder, monkeypatch):
    large = Entry({"gram": bytes(300 * 1024)}, {})
    for age, key in enumerate(keys(5)):
        model_cache.keep(key, MACHINE, large)
        os.utime(folder / f"{key}.model", (1000 + age, 1000 + age))
    assert model_cache.find(keys(5)[0], MACHINE) == large
    monkeypatch.setenv("PATHFOLD_CACHE_LIMIT", "1")
    model_cache.keep(KEY, MACHINE, large)
    assert names(folder) == {f"{key}.model" for key in (keys(5)[0], keys(5)[4], KEY)}


def test_what_was_just_written_is_never_removed(path, monkeypatch):
    path.with_name("big.model").write_bytes(b"not one of ours")
    monkeypatch.setenv("PATHFOLD_CACHE_LIMIT", "0")
    model_cache.keep(OTHER_KEY, MACHINE, OTHER_ENTRY)
    assert names(path.parent) == {f"{OTHER_KEY}.model", "big.model"}


@pytest.mark.parametrize("given", ["much", "-1", "nan"])
def test_a_limit_that_is_no_number_is_warned_of(monkeypatch, given):
    monkeypatch.setenv("PATHFOLD_CACHE_LIMIT", given)
    assert_works_from_memory_after_one_warning(f"PATHFOLD_CACHE_LIMIT is '{given}'")


def test_a_file_whose_time_cannot_be_changed_is_found_all_the_same(path, monkeypatch):
    def denied(*_):
        raise PermissionError

    monkeypatch.setattr(os, "utime", denied)
    assert model_cache.find(KEY, MACHINE) == ENTRY


def test_listing_says_what_is_valid_and_why_the_rest_is_not(path):
    model_cache.keep(OTHER_KEY, OTHER_MACHINE, OTHER_ENTRY)
    damaged = path.with_name(f"{keys(1)[0]}.model")
    damaged.write_bytes(path.read_bytes())
    for age, file in enumerate((damaged, path)):
        os.utime(file, (1000 - age, 1000 - age))
    stored = model_cache.entries()
    assert [file.path.stem for file in stored] == [OTHER_KEY, keys(1)[0], KEY]
    assert [file.used for file in stored[1:]] == [1000, 999]
    assert [file.size for file in stored[1:]] == 2 * [path.stat().st_size]
    assert [isinstance(file.content, Header) for file in stored] == [True, False, True]
    assert str(stored[1].content) == "it holds another model than its name says"
    assert [file.path for file in model_cache.verify()] == [damaged]


def test_clearing_removes_what_is_ours_and_nothing_else(path):
    size = path.stat().st_size
    path.with_name(f"{KEY}.{'0' * 16}.draft").write_bytes(b"half")
    for name in ("thesis.tex", "sir.model", "a.draft"):
        path.with_name(name).write_text("mine")
    assert model_cache.clear() == (2, size + 4)
    assert names(path.parent) == {"thesis.tex", "sir.model", "a.draft"}
    assert model_cache.clear() == (0, 0)


def test_a_folder_that_is_not_there_is_empty(folder):
    assert model_cache.entries() == model_cache.verify() == []
    assert model_cache.clear() == (0, 0)
    assert not folder.exists()
