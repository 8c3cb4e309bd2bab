"""Checks that the machine has the memory and the disk space that a request takes, before it is carried out."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pathfold.errors import SettingsError

GIB = 2**30

# Where Linux describes the memory of a container: a folder, its files with the limit and the usage, and the name that
# its memory.stat has for cached files, which can be dropped.
CONTAINERS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def check_memory(what: str, size: int, remedy: str) -> None:
    """Raise SettingsError if `size` bytes are more than the memory of the machine, as far as that is known."""
    there = machine_memory()
    if there is not None and size > there:
        raise SettingsError(
            f"{what} would take {size / GIB:.1f} GiB of memory, and this machine has {there / GIB:.1f} GiB: take "
            f"{remedy}"
        )


def machine_memory() -> int | None:
    """Return the bytes of memory that a process can have in all, or None if the system does not say."""
    return min((limit for limit, _ in _limits()), default=None)


def available_memory() -> int | None:
    """Return the bytes of memory that are still free for this process, or None if the system does not say."""
    return min((max(0, limit - taken) for limit, taken in _limits()), default=None)


def _limits() -> Iterator[tuple[int, int]]:
    """Yield (limit, bytes in use) of the machine's memory, of its container's, and of the process's address space.

    Cached pages of files are dropped when memory is needed, and are not counted as in use.
    """
    with suppress(ValueError, OSError):
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        yield machine, machine - _named(Path("/proc/meminfo")).get("MemAvailable", machine // 1024) * 1024
    for folder, limit, taken, files in CONTAINERS:
        with suppress(ValueError, OSError):  # "max" is not a number
            container = Path(folder)
            used = int((container / taken).read_text()) - _named(container / "memory.stat").get(files, 0)
            yield int((container / limit).read_text()), used
    with suppress(ValueError, OSError):
        space, _ = resource.getrlimit(resource.RLIMIT_AS)
        if space != resource.RLIM_INFINITY:
            yield space, int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _named(file: Path) -> dict[str, int]:
    """Read a file with a name and a number in each line; return an empty dict if it does not exist."""
    try:
        lines = (line.replace(":", " ").split() for line in file.read_text().splitlines())
        return {line[0]: int(line[1]) for line in lines}
    except OSError:
        return {}


def check_disk(what: str, size: int, folder: Path, remedy: str) -> None:
    """Raise SettingsError if `size` bytes are more than a folder can hold, the files in it included."""
    room = shutil.disk_usage(folder).free + sum(map(_size, folder.iterdir()))
    if size > room:
        raise SettingsError(
            f"{what} would take {size / GIB:.1f} GiB of the disk, and {folder} has room for {room / GIB:.1f} GiB: take "
            f"{remedy}, or another folder"
        )


def _size(file: Path) -> int:
    """Return the size of a file in bytes, 0 if another process has removed or replaced it since it was listed."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
