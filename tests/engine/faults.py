"""Planted faults: kernels with one of their results changed, and steps with a wrong momentum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from types import ModuleType
from typing import Any

import pytest


def plant(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, change: Callable[[dict, dict], dict[str, Any]]
) -> None:
    """Let the kernel declared by `module.name` replace some results of its body by change(results, arguments)."""
    declare = getattr(module, name)

    def declare_faulty(*args):
        kernel = declare(*args)
        body = kernel.body

        @wraps(body)
        def faulty(**given):
            out = body(**given)
            return out | change(out, given)

        return replace(kernel, body=faulty)

    monkeypatch.setattr(module, name, declare_faulty)
