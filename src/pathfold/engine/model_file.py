"""The file of a compiled model: object code and nothing else, verified before it is used.

A file is a line that says its format, a line with a header in JSON, the object code, and a SHA-256 checksum of all that
stands before it. Not a byte is used before the checksum was compared with the content of the file, the lengths in the
header with that of the object code, and the key with the file's name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from pathfold.errors import PathfoldError

FORMAT = b"pathfold 2\n"

_CHECKSUM_SIZE = hashlib.sha256().digest_size
_VERSIONS_OF = ("pathfold", "jax", "llvmlite")


class Refused(PathfoldError):
    """A reason why a file or a folder is not used: a clause that calls it "it"."""


class Unusable(Refused):
    """Somebody else could have written the file, or the system does not let us read it."""


class Damaged(Refused):
    """The file is not what was once written, or was written by a pathfold with another format."""


@dataclass(frozen=True)
class Entry:
    """A compiled model: object code by the names of its kernels, and small facts that belong to it."""

    objects: dict[str, bytes]
    facts: dict[str, int | str]


@dataclass(frozen=True)
class Header:
    """The header of a file; `objects` has the lengths, in the order of the object code."""

    key: str
    machine: str
    versions: dict[str, str]
    facts: dict[str, int | str]
    objects: dict[str, int]


def encode(key: str, machine: str, entry: Entry) -> bytes:
    """Return the content of a file, which `read` gives back."""
    versions = {package: metadata.version(package) for package in _VERSIONS_OF}
    lengths = {name: len(code) for name, code in entry.objects.items()}
    header = json.dumps(asdict(Header(key, machine, versions, entry.facts, lengths))).encode()
    content = b"".join([FORMAT, header, b"\n", *entry.objects.values()])
    return content + hashlib.sha256(content).digest()


def read(path: Path) -> tuple[Header, Entry]:
    """Return a file's header and content, all of it verified."""
    with open(path, "rb", opener=_open_to_read) as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise Unusable("it is not a file")
        check_owner(info)
        content, checksum = file.read(max(0, info.st_size - _CHECKSUM_SIZE)), file.read()
    if hashlib.sha256(content).digest() != checksum:
        raise Damaged("its checksum is wrong")
    if not content.startswith(FORMAT):
        raise Damaged("it has another format")
    text, _, payload = content.removeprefix(FORMAT).partition(b"\n")
    try:
        header = Header(**json.loads(text))
        whole = sum(header.objects.values()) == len(payload)
    except (ValueError, TypeError, AttributeError):
        raise Damaged("its header cannot be read") from None
    if not whole or header.key != path.stem:
        raise Damaged("it holds another model than its name says" if whole else "it lacks a part")
    objects, begin = {}, 0
    for name, length in header.objects.items():
        objects[name] = payload[begin : begin + length]
        begin += length
    return header, Entry(objects, header.facts)


def check_owner(info: os.stat_result) -> None:
    """Refuse a file or a folder unless it belongs to the user and nobody else may write to it."""
    if info.st_uid != os.geteuid():
        raise Unusable("it belongs to another user")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unusable("its group or others may write to it, which `chmod go-w` mends")


def write(path: Path, content: bytes) -> None:
    """Write a file atomically; whatever happens, no draft is left, unless the process is killed."""
    draft = path.with_name(f"{path.stem}.{secrets.token_hex(8)}.draft")
    try:
        with open(draft, "xb", opener=_open_to_write) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # some file systems say only now that the disk is full
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _open_to_read(path: str, flags: int) -> int:
    """Open a file to be read, following no link and not waiting for the other end of a pipe."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:
        raise Unusable("this user may not read it") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Unusable("it is a symbolic link") from None
        raise


def _open_to_write(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, mode=0o600)
