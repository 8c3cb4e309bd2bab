"""How much memory, or room on the disk, a request takes, told before it is made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pathfold.errors import SettingsError

GIB = 2**30

# Where Linux tells of a container's memory: a folder, its files with the limit and with what is taken, and what a third
# one calls the share of files that are only repeated.
CONTAINERS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def check_memory(what: str, size: int, remedy: str) -> None:
    """Raise SettingsError if so many bytes are more than the machine has, where it says how much that is."""
    there = machine_memory()
    if there is not None and size > there:
        raise SettingsError(
            f"{what} would take {size / GIB:.1f} GiB of memory, and this machine has {there / GIB:.1f} GiB: take "
            f"{remedy}"
        )


def machine_memory() -> int | None:
    """In bytes what a process can have in all, or None where the system does not say."""
    return min((limit for limit, _ in _limits()), default=None)


def available_memory() -> int | None:
    """In bytes what this process can have besides what is taken, or None where the system does not say."""
    return min((max(0, limit - taken) for limit, taken in _limits()), default=None)


def _limits() -> Iterator[tuple[int, int]]:
    """Limits, each with what is taken of it: the machine's memory, its container's, and the process's address space.

    Pages that only repeat files are given back when others ask for them, and are not counted as taken.
    """
    with suppress(AttributeError, ValueError, OSError):
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        yield machine, machine - _named(Path("/proc/meminfo")).get("MemAvailable", machine // 1024) * 1024
    for folder, limit, taken, files in CONTAINERS:
        with suppress(ValueError, OSError):  # "max" is no number
            container = Path(folder)
            used = int((container / taken).read_text()) - _named(container / "memory.stat").get(files, 0)
            yield int((container / limit).read_text()), used
    with suppress(ImportError, AttributeError, ValueError, OSError):
        import resource  # which not every system has

        space, _ = resource.getrlimit(resource.RLIMIT_AS)
        if space != resource.RLIM_INFINITY:
            yield space, int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _named(file: Path) -> dict[str, int]:
    """Numbers by the name before them, of a file with one in each line; none if it is not there."""
    try:
        lines = (line.replace(":", " ").split() for line in file.read_text().splitlines())
        return {line[0]: int(line[1]) for line in lines}
    except OSError:
        return {}


def check_disk(what: str, size: int, folder: Path, remedy: str) -> None:
    """Raise SettingsError if so many bytes are more than a folder can have, what it has included."""
    room = shutil.disk_usage(folder).free + sum(map(_size, folder.iterdir()))
    if size > room:
        raise SettingsError(
            f"{what} would take {size / GIB:.1f} GiB of the disk, and {folder} has room for {room / GIB:.1f} GiB: take "
            f"{remedy}, or another folder"
        )


def _size(file: Path) -> int:
    """In bytes; nothing, if another process has removed or replaced the file since it was listed."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
