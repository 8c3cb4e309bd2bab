"""Compiling the native sampler, once for an installation, on first use or on demand."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pkgutil import resolve_name
from typing import Any

from pathfold.engine import entries, model_cache
from pathfold.engine.native.common_kernels import addresses as kernels_of_no_model
from pathfold.engine.native.pieces import HostFunction
from pathfold.engine.native.run import address_of_run
from pathfold.errors import say

_ANNOUNCED_AFTER = 2.0  # seconds: loading what was compiled before takes less


@contextmanager
def announced(what: str, *, show: bool) -> Iterator[None]:
    """Say what takes longer than two seconds, and at its end how many it took."""
    begin = time.perf_counter()
    timer = threading.Timer(_ANNOUNCED_AFTER, say, [f"{what} ..."], {"show": True})
    timer.daemon = True
    if show:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if (seconds := time.perf_counter() - begin) > _ANNOUNCED_AFTER:
            say(f"{what} took {seconds:.0f} s", show=show)


def compile_sampler(*kinds: str, announce: bool) -> float:
    """Compile what samplers of these kinds call, or load it from Numba's cache; return the seconds.

    A kind is the name of a list of functions, as in "pathfold.engine.entries:STATIC".

    Of several processes that come to a new installation at once, one compiles and the others load what it kept.
    """
    begin = time.perf_counter()
    called = (*entries.OF_ALL, *(entry for kind in kinds for entry in resolve_name(kind)))
    waiting = nullcontext() if all(_is_kept(*entry) for entry in called) else model_cache.alone("sampler")
    with announced("compiling the sampler, once for this installation", show=announce), waiting:
        compile_entries(*kinds)
        address_of_run()
        kernels_of_no_model()
    return time.perf_counter() - begin


def compile_entries(*kinds: str) -> None:
    """Compile the functions that the host calls for some kinds of sampler, or load them from Numba's cache.

    Numba compiles one function at a time, however many threads ask: so the last one of each kind, which together take
    about as long as all others, are compiled in a process of their own, and loaded from what that kept.
    """
    if not isinstance(entries.linearise, HostFunction):  # plain Python, with NUMBA_DISABLE_JIT=1
        return
    helper = None
    try:
        for function, signature in (*entries.OF_ALL, *(entry for kind in kinds for entry in resolve_name(kind)[:-1])):
            if _compiles(function, signature) and helper is None:
                helper = _process(f"compile_longest(*{kinds})")
        if helper is not None:
            helper.wait()
        compile_longest(*kinds)
    finally:
        if helper is not None:
            helper.kill()
            helper.wait()


def _is_kept(function: Any, signature: tuple) -> bool:
    """Return whether a function is compiled, here or in Numba's cache; or cannot be, or be kept."""
    if not isinstance(function, HostFunction) or function.stats.cache_path is None or signature in function.overloads:
        return True
    cache: Any = vars(function)["_cache"]
    target: Any = function.targetctx
    return cache._index_key(signature, target.codegen()) in cache._cache_file._load_index()


def _compiles(entry: HostFunction, signature: tuple) -> bool:
    """Compile or load a function; return whether it was compiled, and others will find it."""
    before = entry.stats.cache_misses.total()
    entry.compile(signature)
    return entry.stats.cache_path is not None and entry.stats.cache_misses.total() > before


def compile_longest(*kinds: str) -> None:
    """Compile the last function that each kind of sampler needs."""
    for kind in kinds:
        function, signature = resolve_name(kind)[-1]
        function.compile(signature)


def _process(call: str) -> subprocess.Popen | None:
    """Start a process that silently calls a function of this module; None if there is no core or interpreter for it.

    Should it fail, nothing is lost but time: what it did not compile is compiled here.
    """
    if not sys.executable or _cores() < 2:
        return None
    command = [sys.executable, "-c", f"from {__name__} import compile_longest; {call}"]
    with suppress(OSError):
        return subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return None


def _cores() -> int:
    """Return how many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(allowed(0)) if allowed else os.cpu_count() or 1
