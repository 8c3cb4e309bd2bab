"""How much memory, or room on the disk, a request takes, told before it is made."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pathfold.errors import SettingsError

GIB = 2**30


def check_memory(what: str, size: int, remedy: str) -> None:
    """Raise SettingsError if so many bytes are more than the machine has, where it says how much that is."""
    there = machine_memory()
    if there is not None and size > there:
        raise SettingsError(
            f"{what} would take {size / GIB:.1f} GiB of memory, and this machine has {there / GIB:.1f} GiB: take "
            f"{remedy}"
        )


def machine_memory() -> int | None:
    """In bytes, or None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


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
