"""Checks the names that the user gives, which become names of variables in the results and in files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pathfold.errors import PathfoldError, told

RESERVED = ("chain", "draw", "series", "component", "initial_state", "state", "time", "node", "node_series")


def check_name(what: str, name: Any, error: type[PathfoldError]) -> None:
    """Raise unless a variable in the results can have this name, in memory and in a file."""
    if not isinstance(name, str):
        raise error(f"{what} names must be strings, not {told(name)}")
    if not name.strip() or not name.isprintable() or "/" in name:
        raise error(f"{what} {told(name)} needs another name: not blank, on one line and without '/', as files need it")
    if name in RESERVED:
        raise error(f"{what} {name!r} needs another name: the results use {', '.join(RESERVED)} themselves")


def dimensions(name: str, count: int) -> list[str]:
    """Return the names that the results give to the dimensions of a variable."""
    return [f"{name}_dim_{i}" for i in range(count)]


def check_dimensions(what: str, dims: dict[str, int], error: type[PathfoldError]) -> None:
    """Raise if a variable has the name of a dimension of another: it would vanish among the coordinates."""
    for name, count in dims.items():
        for taken in dimensions(name, count):
            if taken in dims:
                raise error(
                    f"{what} {taken!r} needs another name: the results call the dimensions of {name!r} "
                    f"{', '.join(map(repr, dimensions(name, count)))}"
                )


def check_labels(what: str, labels: Any, count: int, error: type[PathfoldError]) -> tuple[str, ...] | None:
    """Return the user's names for the `count` components of a vector, if any; raise if they cannot be used."""
    if labels is None:
        return None
    if isinstance(labels, str) or not isinstance(labels, Sequence) or not all(isinstance(name, str) for name in labels):
        raise error(f"{what} must be a tuple of names, not {told(labels)}")
    if len(labels) != count:
        raise error(f"{what} has {len(labels)} names, {told(tuple(labels))}, for {count} components; give each a name")
    for i, name in enumerate(labels):
        if not name.strip() or not name.isprintable() or name in labels[:i]:
            raise error(f"{what} has the name {told(name)}, which is empty, not printable or there twice; give another")
    return tuple(labels)
