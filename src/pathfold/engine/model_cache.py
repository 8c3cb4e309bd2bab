"""The cache of compiled models: kept between processes in a folder of the user.

The checksum of a file finds damage, not malice: code is taken only from a folder and files that nobody but the user
can write, and only if it was compiled for this machine.

Files appear whole, by renaming a draft, and are never changed; so readers and writers need no locks. There are some all
the same, by which of many processes that need the same code at once one makes it and the others wait. What cannot be
stored is kept in memory for as long as the process lives.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from pathfold.engine.file_lock import locked
from pathfold.engine.model_file import (
    Damaged,
    Entry,
    Header,
    OtherFormat,
    Refused,
    Unusable,
    check_owner,
    encode,
    read,
    write,
)
from pathfold.errors import warn

DEFAULT_LIMIT_MIB = 1024
ABANDONED_AFTER = 600.0  # seconds; writing a draft takes far less
PATIENCE = 300.0  # seconds that one waits for what another process makes, before making it too

_MODEL_NAME = re.compile(r"[0-9a-f]{64}\.model")
_DRAFT_NAME = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{16}\.draft")


class CacheWarning(UserWarning):
    """Compiled models cannot be kept or found; the warning says where, why, and what to do."""


class Stored(NamedTuple):
    """A file of a cache folder: `used` is the time of its last use, `content` its header or why it is not valid."""

    path: Path
    size: int
    used: float
    content: Header | Refused


_memory: dict[tuple[str, str], Entry] = {}
_warned: dict[str, object] = {}


def find(key: str, machine: str) -> Entry | None:
    """Return the compiled model of this key for this machine, from the folder or from memory.

    None if there is none, or none that may be used. A damaged file is removed.
    """
    return _find_in(folder(), key, machine) or _memory.get((key, machine))


def keep(key: str, machine: str, entry: Entry) -> None:
    """Store a compiled model; if that fails, warn once and keep it in memory.

    The key is the SHA-256, in hexadecimal, of all that the code depends on, the machine included.
    """
    place = folder()
    path = place / f"{key}.model"
    content = encode(key, machine, entry)
    try:
        _make(place)
        write(path, content)
        _remove_abandoned_drafts(place)
        _remove_least_recently_used(place, spared=path)
    except (OSError, Unusable) as reason:
        _memory[key, machine] = entry
        _warn_of(place, reason)


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Let processes do the work of this name one after the other; all at once where files cannot be locked."""
    place, file = folder(), folder() / f"{name}.lock"
    with ExitStack() as held:
        with suppress(OSError, Unusable):  # no folder, or no patience left
            _make(place)
            held.enter_context(locked(file, patience=PATIENCE))
            held.callback(file.unlink, missing_ok=True)
        yield


@contextmanager
def once(name: str) -> Iterator[None]:
    """Let processes wait, as in `alone`, until the work of this name has been done once, which a file records."""
    done = folder() / f"{name}.done"
    if done.exists():
        yield
        return
    with alone(name):
        yield
        with suppress(OSError):
            done.touch()


def folder() -> Path:
    """Return the folder: $PATHFOLD_CACHE, or pathfold in the user's cache; begins with ~ if there is no home."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return Path(os.path.expanduser(os.environ.get("PATHFOLD_CACHE") or os.path.join(base, "pathfold")))


def entries() -> list[Stored]:
    """Return every file of the folder, verified; the last used comes first.

    There are none before the folder is made. A folder that cannot be used gives an `Unusable` or an `OSError`.
    """
    try:
        _check_folder(folder())
        files = _files(folder(), _MODEL_NAME)
    except FileNotFoundError:
        return []
    stored = [Stored(path, info.st_size, info.st_mtime, _inspect(path)) for path, info in files]
    return sorted(stored, key=lambda file: file.used, reverse=True)


def verify() -> list[Stored]:
    """Return the files that are damaged or must not be used; another format is neither."""
    return [file for file in entries() if isinstance(file.content, Damaged | Unusable)]


def clear() -> tuple[int, int]:
    """Remove every compiled model and draft; return how many files and bytes these were."""
    place = folder()
    try:
        _check_folder(place)
        files = _files(place, _MODEL_NAME) + _files(place, _DRAFT_NAME)
    except FileNotFoundError:
        return 0, 0
    for path, _ in files:
        path.unlink(missing_ok=True)
    return len(files), sum(info.st_size for _, info in files)


def limit() -> float:
    """Return how many bytes the folder may hold: $PATHFOLD_CACHE_LIMIT, which is in MiB."""
    given = os.environ.get("PATHFOLD_CACHE_LIMIT") or str(DEFAULT_LIMIT_MIB)
    try:
        mib = float(given)
    except ValueError:
        mib = -1.0
    if not mib >= 0:
        mib = DEFAULT_LIMIT_MIB
        _warn_once(
            "PATHFOLD_CACHE_LIMIT",
            f"PATHFOLD_CACHE_LIMIT is {given!r}, which is not a number of MiB; {mib} is used. Set it to a number.",
        )
    return mib * 2**20


def _find_in(place: Path, key: str, machine: str) -> Entry | None:
    path = place
    try:
        _check_folder(place)
        path = place / f"{key}.model"
        header, entry = read(path)
    except Unusable as reason:
        _warn_of(path, reason)
        return None
    except Damaged:
        with suppress(OSError):
            path.unlink()
        return None
    except (OtherFormat, OSError):
        return None
    if header.machine != machine:
        return None
    with suppress(OSError):
        os.utime(path)
    return entry


def _check_folder(place: Path) -> None:
    """Raise `Unusable` unless the folder is the user's alone, `FileNotFoundError` if there is none."""
    if place.parts[:1] == ("~",):
        raise Unusable("HOME is not set, and this user has no home folder")
    try:
        link, info = os.lstat(place), os.stat(place)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unusable(_sentence(error)) from None
    if not stat.S_ISDIR(info.st_mode):
        raise Unusable("it is not a folder")
    if stat.S_ISLNK(link.st_mode) and link.st_uid != os.geteuid():
        raise Unusable("it is a symbolic link made by another user")
    check_owner(info)


def _make(place: Path) -> None:
    """Make the folder, for this user alone, unless it exists; make sure that it is safe."""
    try:
        _check_folder(place)
    except FileNotFoundError:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(place)


def _inspect(path: Path) -> Header | Refused:
    try:
        return read(path)[0]
    except Refused as reason:
        return reason
    except OSError as error:
        return Unusable(_sentence(error))


def _files(place: Path, name: re.Pattern[str]) -> list[tuple[Path, os.stat_result]]:
    """Return the files of a folder that have names such as we give; one that disappears meanwhile is left out."""
    files = []
    with os.scandir(place) as listing:
        for item in listing:
            with suppress(FileNotFoundError):
                if name.fullmatch(item.name) and not item.is_dir(follow_symlinks=False):
                    files.append((Path(item.path), item.stat(follow_symlinks=False)))
    return files


def _remove_abandoned_drafts(place: Path) -> None:
    for path, info in _files(place, _DRAFT_NAME):
        if time.time() - info.st_mtime > ABANDONED_AFTER:
            path.unlink(missing_ok=True)


def _remove_least_recently_used(place: Path, *, spared: Path) -> None:
    """Remove files until the folder is within its limit, but never the one that was just written."""
    oldest_first = sorted(_files(place, _MODEL_NAME), key=lambda item: item[1].st_mtime)
    excess = sum(info.st_size for _, info in oldest_first) - limit()
    for path, info in oldest_first:
        if excess <= 0:
            break
        if path != spared:
            path.unlink(missing_ok=True)
            excess -= info.st_size


def _sentence(error: OSError) -> str:
    return error.strerror or str(error)


def _warn_of(path: Path, reason: OSError | Unusable) -> None:
    why = _sentence(reason) if isinstance(reason, OSError) else str(reason)
    _warn_once(
        "folder",
        f"The cache of compiled models cannot use {path}: {why}. Models are compiled again in every process until "
        "this is fixed or PATHFOLD_CACHE names another folder.",
    )


def _warn_once(subject: str, message: str) -> None:
    """Warn, unless this process has warned of the same subject before."""
    mine = object()
    if _warned.setdefault(subject, mine) is mine:  # one step, so that of several threads only one warns
        warn(message, CacheWarning)
