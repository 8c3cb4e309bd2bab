"""Planted faults: kernels with one of their results changed, and steps with a wrong momentum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, wraps
from types import ModuleType
from typing import Any

import pytest

from pathfold.engine.compile import CompiledModel, Program
from pathfold.program.machine import assemble, machine_name

assembled = cache(assemble)


def build_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are traced anew, whatever was compiled before; LLVM assembles what it has not seen in another model."""

    def build(self: CompiledModel) -> Program:
        entry = self._build()
        return Program("faulty", machine_name(), entry.objects, entry.facts)

    monkeypatch.setattr("pathfold.engine.compile.assemble", assembled)
    monkeypatch.setattr(CompiledModel, "_find_or_build", build)
    monkeypatch.setattr("pathfold.engine.engine.compile_model", CompiledModel)


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
    build_anew(monkeypatch)
