"""Keeps with a model what was made for it, so that it is made once and goes when the model goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Kept:
    """Results of functions, each known by the function and what it was given, so that no two layers meet."""

    def __init__(self) -> None:
        self._results: dict[tuple[Any, ...], Any] = {}

    def get[*Given, T](self, make: Callable[[*Given], T], *given: *Given) -> T:
        """Return make(*given), which is called if nothing is kept of it; `make` and `given` must be hashable."""
        key = (make, *given)
        if key not in self._results:
            self._results.setdefault(key, make(*given))
        return self._results[key]

    def __len__(self) -> int:
        return len(self._results)
