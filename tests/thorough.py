"""Cases of a test of which the default run takes some, and the slow one all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def thorough(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """All cases, those that are not quick marked slow."""
    rest = [case for case in cases if case not in quick]
    slow = (pytest.param(*case if isinstance(case, tuple) else (case,), marks=pytest.mark.slow) for case in rest)
    return [*quick, *slow]


def sparing(cases: Collection[Any], *long: Any) -> list[Any]:
    """All cases, those that take long marked slow."""
    return thorough(cases, *(case for case in cases if case not in long))
