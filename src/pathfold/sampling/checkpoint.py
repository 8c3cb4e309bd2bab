"""Saving a chain while it runs, so that a run that was killed resumes where it was, to the bit.

A folder holds, for every chain, one file for each array of draws, which is only ever appended to, and a state: all that
the chain's future depends on, with the number of draws that count and checksums of them. A state replaces the last one
atomically, after its draws are on the disk. What a killed process wrote beyond the count is overwritten.
Draws that are on the disk are dropped from memory.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from pathfold.errors import SettingsError
from pathfold.sampling.draws import ARRAYS, Draws, rows_file

FORMAT = 5
ABOUT = "results.json"  # the file that says what the draws are
MARK = "run"  # the file that says of what run they are
PART = 2**22  # bytes that are read at once
RECENT = 50  # draws that progress tells of
PASSING = 2.0  # seconds in which all of many that share a lock have had a look at it


class InUse(SettingsError):
    """Another process, or another call, is using the folder or the chain."""


@dataclass
class Checkpoint:
    """The files of one chain."""

    folder: Path
    chain: int
    written: int = 0  # draws on file
    counted: int = 0  # of these in the state
    checksums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ARRAYS, 0))  # of those written

    @property
    def file(self) -> Path:
        return self.folder / f"chain_{self.chain}.npz"

    def rows_file(self, name: str) -> Path:
        return rows_file(self.folder, self.chain, name)

    def sole_use(self):
        """Hold the files while this process writes them."""
        return sole_use(self.folder / f"chain_{self.chain}.lock")

    def save(self, draws: Draws, state: dict[str, Any]) -> None:
        """Append the new draws, then replace the state. After an OSError, what was saved before is still there."""
        self.append(draws)
        draft = self.file.with_suffix(".draft")
        with draft.open("wb") as stream:
            np.savez(stream, made=self.written, checksums=[*self.checksums.values()], **state)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(self.file)
        self.counted = self.written

    def append(self, draws: Draws) -> None:
        """Write the new draws, and drop them from memory once they are on the disk; they do not count yet."""
        if draws.made > self.written:
            checksums = {name: self._append(name, draws) for name in ARRAYS}
            self.written, self.checksums = draws.made, checksums
        draws.begin = draws.made

    def _append(self, name: str, draws: Draws) -> int:
        """Append the new rows of one array to its file, and return the checksum of the whole file."""
        rows = draws.rows(name, self.written, draws.made)
        if not rows.size:
            return self.checksums[name]
        new, file = _bytes(rows), self.rows_file(name)
        with file.open("r+b" if file.exists() else "wb") as stream:
            stream.seek(_size(name, draws, self.written))
            stream.write(new)
            stream.flush()
            os.fsync(stream.fileno())
        return zlib.crc32(new, self.checksums[name])

    def glance(self, columns: int) -> tuple[int, np.ndarray] | None:
        """Return how many draws count, and the statistics of the last ones; None if nothing saved can be read."""
        try:
            with self.file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                made = int(stored["made"])
            begin = max(0, made - RECENT)
            with self.rows_file("statistics").open("rb") as stream:
                stream.seek(8 * columns * begin)
                rows = np.frombuffer(stream.read(8 * columns * (made - begin)))
            return made, rows.reshape(-1, columns)
        except Exception:  # of many kinds (see `state`); the chain itself reports them
            return None

    def load(self, draws: Draws) -> dict[str, Any] | None:
        """Verify the files, let `draws` refer to them, and return the saved state; None if nothing was saved."""
        if (saved := self.state()) is None:
            return None
        made, self.checksums, state = saved
        for name in ARRAYS:
            self._verify(name, _size(name, draws, made))
        self.written = self.counted = draws.begin = draws.made = made
        return state

    def state(self) -> tuple[int, dict[str, int], dict[str, Any]] | None:
        """Return how many draws count, the checksums of their arrays, and the rest of the state, or None."""
        try:
            with self.file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                state = dict(stored)
            made, checksums = int(state.pop("made")), state.pop("checksums").tolist()
            return made, dict(zip(ARRAYS, checksums, strict=True)), state
        except FileNotFoundError:
            return None
        except Exception as error:
            # NumPy and zipfile raise many kinds, with advice that does not apply here, which is why they are not shown.
            raise self.damaged(self.file, _reason(error)) from None

    def _verify(self, name: str, size: int) -> None:
        """Raise SettingsError unless the first `size` bytes of an array's file are those that were written."""
        if size == 0:
            return
        file, left, checksum = self.rows_file(name), size, 0
        try:
            with file.open("rb") as stream:
                while left and (part := stream.read(min(left, PART))):
                    left, checksum = left - len(part), zlib.crc32(part, checksum)
        except OSError as error:
            raise self.damaged(file, _reason(error)) from None
        if left:
            raise self.damaged(file, f"it has {size - left} bytes where {size} were written")
        if checksum != self.checksums[name]:
            raise self.damaged(file, "its bytes are not those that were written")

    def damaged(self, file: Path, reason: str) -> SettingsError:
        return SettingsError(
            f"the checkpoint file {file} cannot be used: {reason}; put an undamaged copy in its place, or give another "
            "folder to start afresh"
        )


def _bytes(array: np.ndarray) -> memoryview:
    return memoryview(np.ascontiguousarray(array)).cast("B")


def _size(name: str, draws: Draws, made: int) -> int:
    """Return the size in bytes of one array of the first `made` draws."""
    array = getattr(draws, name)
    return draws.place(name, made) * array.itemsize * int(np.prod(array.shape[1:], dtype=int))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it is damaged, or no checkpoint of this version of pathfold"


@contextmanager
def sole_use(file: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock that ends with the process; raise InUse if another process, or another call, holds it.

    Those who share only make sure that nobody holds it: they make single chains, whose files have locks of their own.
    A file system without locks keeps out nobody.
    """
    lock = FileLock(file, timeout=PASSING if shared else 0.0, fallback_to_soft=False)
    try:
        lock.acquire()
        if shared:
            lock.release()
    except Timeout:
        raise InUse(
            f"the checkpoint folder {file.parent} is in use by another run; wait until that has ended, or give "
            "another folder"
        ) from None
    except OSError:
        pass
    try:
        yield
    finally:
        lock.release()


def make_folder(folder: Path, name: str = "checkpoint") -> None:
    """Make a folder that the user gave under this name, or make sure that an existing one can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "it is a file, or lies below one"
        raise SettingsError(
            f"{name}={str(folder)!r} cannot be used: {reason}; give a folder that can be written to"
        ) from error


def claim_folder(folder: Path, fingerprint: dict[str, Any], about: str = "") -> None:
    """Mark a checkpoint folder as that of this run, or make sure that it already is; write the text `about` there."""
    _claim(folder, fingerprint)
    _write(folder / ABOUT, about)


def _write(file: Path, text: str) -> None:
    """Write the file atomically, even if several processes write it at once."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}.draft")
    draft.write_text(text)
    draft.replace(file)


def claimed_by(folder: Path) -> dict[str, Any] | None:
    """Return the mark of the run that a checkpoint folder belongs to, or None if there is none that can be read."""
    with suppress(OSError, ValueError):
        mark = json.loads((folder / MARK).read_text())
        return mark if isinstance(mark, dict) and mark.get("format") == FORMAT else None
    return None


def _claim(folder: Path, fingerprint: dict[str, Any]) -> None:
    mark, mine = folder / MARK, {"format": FORMAT, **fingerprint}
    if not mark.exists():
        # Of several that claim it at once each finds the mark or makes the same one; chains come after the mark.
        if any(folder.glob("chain_*")) and not mark.exists():
            raise SettingsError(
                f"the checkpoint folder {folder} holds chains, but not the file 'run' that says of what; give another "
                "folder"
            )
        _write(mark, json.dumps(mine, sort_keys=True))
        return
    if (theirs := claimed_by(folder)) is None:
        raise SettingsError(
            f"the file {mark} is damaged, or no checkpoint of this version of pathfold; give another folder"
        )
    mine = json.loads(json.dumps(mine))
    if differing := sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)):
        raise SettingsError(
            f"the checkpoint folder {folder} belongs to a run with another model, other data or other settings: give "
            f"the same ones to resume it, or another folder to start afresh (not the same: {', '.join(differing)})"
        )
