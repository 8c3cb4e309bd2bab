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
from threading import Lock
from typing import NamedTuple

from filelock import FileLock

from pathfold.engine.model_file import (
    Damaged,
    Entry,
    Header,
    Refused,
    Unusable,
    check_owner,
    encode,
    read,
    write,
)
from pathfold.errors import warn

ABANDONED_AFTER = 600.0  # seconds; writing a draft takes far less

_OURS = re.compile(r"[0-9a-f]{64}\.(model|[0-9a-f]{16}\.draft)")


class CacheWarning(UserWarning):
    """Compiled models cannot be kept or found; the warning says where, why, and what to do."""


class Stored(NamedTuple):
    """A file of a cache folder: `used` is the time of its last use, `content` its header or why it is not valid."""

    path: Path
    size: int
    used: float
    content: Header | Refused


_memory: dict[tuple[str, str], Entry] = {}
_unwarned = Lock()  # taken by the thread that warns


def find(key: str, machine: str) -> Entry | None:
    """Return the compiled model of this key for this machine, from the folder or from memory.

    None if there is none, or none that may be used. A damaged file is removed.
    """
    path = folder()
    try:
        path = _safe_folder() / f"{key}.model"
        header, entry = read(path)
        if header.machine == machine:
            with suppress(OSError):
                os.utime(path)
            return entry
    except Unusable as reason:
        _warn_of(path, reason)
    except Damaged:
        with suppress(OSError):
            path.unlink()
    except OSError:
        pass
    return _memory.get((key, machine))


def keep(key: str, machine: str, entry: Entry) -> None:
    """Store a compiled model; if that fails, warn once and keep it in memory.

    The key is the SHA-256, in hexadecimal, of all that the code depends on, the machine included.
    """
    try:
        path, most = _safe_folder(make=True) / f"{key}.model", limit()
        write(path, encode(key, machine, entry))
        _tidy(most, spared=path)
    except (OSError, Unusable) as reason:
        _memory[key, machine] = entry
        _warn_of(folder(), reason)


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Let processes do the work of this name one after the other; all at once where files cannot be locked."""
    with ExitStack() as held:
        with suppress(OSError, Unusable):
            file = _safe_folder(make=True) / f"{name}.lock"
            held.enter_context(FileLock(file, fallback_to_soft=False))
            held.callback(file.unlink, missing_ok=True)
        yield


def folder() -> Path:
    """Return the folder: $PATHFOLD_CACHE, or pathfold in the user's cache; begins with ~ if there is no home."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return Path(os.path.expanduser(os.environ.get("PATHFOLD_CACHE") or os.path.join(base, "pathfold")))


def entries() -> list[Stored]:
    """Return every file of the folder, verified; the last used comes first.

    There are none before the folder is made. A folder that cannot be used gives an `Unusable` or an `OSError`.
    """
    models = [(path, info) for path, info in _files() if path.suffix == ".model"]
    return [Stored(path, info.st_size, info.st_mtime, _inspect(path)) for path, info in reversed(models)]


def verify() -> list[Stored]:
    """Return the files that are damaged or must not be used."""
    return [file for file in entries() if isinstance(file.content, Refused)]


def clear() -> tuple[int, int]:
    """Remove every compiled model and draft; return how many files and bytes these were."""
    files = _files()
    for path, _ in files:
        path.unlink(missing_ok=True)
    return len(files), sum(info.st_size for _, info in files)


def limit() -> float:
    """Return how many bytes the folder may hold: $PATHFOLD_CACHE_LIMIT, which is in MiB."""
    given = os.environ.get("PATHFOLD_CACHE_LIMIT") or "1024"
    with suppress(ValueError):
        if (mib := float(given)) >= 0:
            return mib * 2**20
    raise Unusable(f"PATHFOLD_CACHE_LIMIT is {given!r}, which is not a number of MiB")


def _safe_folder(*, make: bool = False) -> Path:
    """Return the folder, which is made for this user alone if it is to be; raise `Unusable` unless it is the user's."""
    place = folder()
    if place.parts[:1] == ("~",):
        raise Unusable("HOME is not set, and this user has no home folder")
    if make:
        with suppress(FileExistsError):
            place.mkdir(mode=0o700, parents=True)
    link, info = os.lstat(place), os.stat(place)
    if not stat.S_ISDIR(info.st_mode):
        raise Unusable("it is not a folder")
    if stat.S_ISLNK(link.st_mode) and link.st_uid != os.geteuid():
        raise Unusable("it is a symbolic link made by another user")
    check_owner(info)
    return place


def _inspect(path: Path) -> Header | Refused:
    try:
        return read(path)[0]
    except Refused as reason:
        return reason
    except OSError as error:
        return Unusable(error.strerror or error)


def _files() -> list[tuple[Path, os.stat_result]]:
    """Return the files that have names such as we give, the least recently used first; none if there is no folder."""
    files = []
    with suppress(FileNotFoundError):
        for path in _safe_folder().iterdir():
            with suppress(FileNotFoundError):  # it has disappeared meanwhile
                if _OURS.fullmatch(path.name):
                    files.append((path, path.lstat()))
    return sorted(files, key=lambda file: file[1].st_mtime)


def _tidy(most: float, *, spared: Path) -> None:
    """Remove abandoned drafts, and models until no more bytes are left than may be, but never the one just written."""
    files = _files()
    excess = sum(info.st_size for _, info in files) - most
    for path, info in files:
        is_draft = path.suffix == ".draft"
        if time.time() - info.st_mtime > ABANDONED_AFTER if is_draft else excess > 0 and path != spared:
            path.unlink(missing_ok=True)
            excess -= info.st_size


def _warn_of(path: Path, reason: OSError | Unusable) -> None:
    """Warn, unless this process has warned before."""
    why = reason.strerror or reason if isinstance(reason, OSError) else reason
    if _unwarned.acquire(blocking=False):
        warn(
            f"The cache of compiled models cannot use {path}: {why}. Models are compiled again in every process until "
            "this is fixed or PATHFOLD_CACHE names another folder.",
            CacheWarning,
        )
