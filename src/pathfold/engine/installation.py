"""Compiling the native sampler, once for an installation, on first use or on demand."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
from numba import boolean, float64, int64, none, typeof
from numba.core.types import NamedTuple

from pathfold.engine import model_cache
from pathfold.engine.native import metropolis
from pathfold.engine.native.chain_loop import Work, run_hamiltonian
from pathfold.engine.native.coordinates import change_coordinates, to_normals
from pathfold.engine.native.dynamics import prepare
from pathfold.engine.native.fibre import draw_pair, room_size
from pathfold.engine.native.inner_mode import inner_mode
from pathfold.engine.native.integration_time import integration_time
from pathfold.engine.native.manifold import first_order_shift, linearise
from pathfold.engine.native.nodes import guess_nodes
from pathfold.engine.native.parted_work import address_of_do_parts, help_along
from pathfold.engine.native.pieces import HostFunction
from pathfold.engine.native.recording import Drawn
from pathfold.engine.native.replica_exchange import Replicas, meet, run_replicas, set_coldness
from pathfold.engine.native.shares import addresses as kernels_of_no_model
from pathfold.engine.native.start_search import seek
from pathfold.errors import say

_ANNOUNCED_AFTER = 2.0  # seconds: loading what was compiled before takes less

type Entries = tuple[tuple[Any, tuple], ...]  # functions, with the types of their arguments

_LAYOUT = _COUNTS = int64[::1]
_BLOCK, _TABLE, _PATHS = float64[::1], float64[:, ::1], float64[:, :, :, ::1]
_STATES = float64[:, :, ::1]
_RNG = typeof(np.random.default_rng())

# What the host calls, and with what: first what is compiled soonest, last what takes longest.
_START = (_LAYOUT, _BLOCK, _TABLE, _TABLE, _TABLE, int64, float64, float64, _RNG, _BLOCK, _COUNTS)
_WORK = NamedTuple((_LAYOUT, _TABLE, _TABLE, _TABLE, _BLOCK, _RNG, _BLOCK, _BLOCK, _COUNTS, _BLOCK), Work)
_SETTINGS = (boolean, float64, int64, float64)
_DRAWN = (NamedTuple((_TABLE, _STATES, _STATES, _PATHS, _TABLE), Drawn), _COUNTS, _COUNTS)
_BY_RUNG = NamedTuple((_LAYOUT, _TABLE, _TABLE, _TABLE, _BLOCK, _RNG, _TABLE, _TABLE, _COUNTS, _BLOCK), Work)
_REPLICAS = NamedTuple((_TABLE, _BLOCK, _BLOCK, _TABLE, _BLOCK, _TABLE, _TABLE, _TABLE, _COUNTS, _BLOCK), Replicas)
_MOVES = (_LAYOUT, _BLOCK, _TABLE, _BLOCK, _RNG, _BLOCK, int64)
OF_ALL: Entries = (
    (to_normals, (_LAYOUT, _BLOCK, _BLOCK)),
    (linearise, (_LAYOUT, _BLOCK, _BLOCK, _BLOCK)),
    (guess_nodes, (_LAYOUT, _BLOCK, _BLOCK, int64, _BLOCK)),
    (prepare, (_LAYOUT, _BLOCK, _BLOCK, _BLOCK)),
    (seek, _START),
    (first_order_shift, (_LAYOUT, _BLOCK, _BLOCK, _BLOCK, _BLOCK)),
    (change_coordinates, (_LAYOUT, _TABLE, _BLOCK, _BLOCK, _BLOCK, _BLOCK, _BLOCK)),
    (help_along, (int64, int64)),
)
OF_KIND: dict[str, Entries] = {
    "static": (
        (integration_time, (_BLOCK, int64, int64)),
        (run_hamiltonian, (_WORK, none, *_SETTINGS, *_DRAWN)),
    ),
    "dynamic": ((run_hamiltonian, (_WORK, boolean, *_SETTINGS, *_DRAWN)),),
    "replicas": (
        (integration_time, (_BLOCK, int64, int64)),
        (set_coldness, (_LAYOUT, _BLOCK, float64)),
        (meet, (_LAYOUT, _BLOCK, _BLOCK, _BLOCK)),
        (run_replicas, (_BY_RUNG, _REPLICAS, int64, int64, *_DRAWN)),
    ),
    "guided": (
        (metropolis.guided_search_size, (_LAYOUT,)),
        (metropolis.node_record, (_LAYOUT, _BLOCK)),
        (metropolis.begin_search, (_LAYOUT, _BLOCK, float64, boolean)),
        (metropolis.begin, (_LAYOUT, _BLOCK, _TABLE, _BLOCK, _BLOCK)),
        (metropolis.exchange_noise, (_LAYOUT, _BLOCK, _BLOCK, boolean)),
        (metropolis.run_guided, (*_MOVES, *_DRAWN)),
    ),
    "laplace": (
        (room_size, (_LAYOUT,)),
        (inner_mode, (_LAYOUT, _BLOCK, _TABLE, _BLOCK, boolean, _BLOCK)),
        (draw_pair, (_LAYOUT, _BLOCK, _TABLE, _BLOCK, _BLOCK, _RNG, _BLOCK, _COUNTS)),
    ),
}


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
    """Compile the native samplers of these kinds, or of all, or load them from Numba's cache; return the seconds.

    Of several processes that come to a new installation at once, one compiles and the others load what it kept.
    """
    begin, kinds = time.perf_counter(), kinds or (*OF_KIND,)
    entries = (*OF_ALL, *(entry for kind in kinds for entry in OF_KIND[kind]))
    waiting = nullcontext() if all(_is_kept(*entry) for entry in entries) else model_cache.alone("sampler")
    with announced("compiling the sampler, once for this installation", show=announce), waiting:
        compile_entries(*kinds)
        address_of_do_parts()
        kernels_of_no_model()
    return time.perf_counter() - begin


def compile_entries(*kinds: str) -> None:
    """Compile the functions that the host calls for some kinds of sampler, or load them from Numba's cache.

    Numba compiles one function at a time, however many threads ask: so the last one of each kind, which together take
    about as long as all others, are compiled in a process of their own, and loaded from what that kept.
    """
    if not isinstance(run_hamiltonian, HostFunction):  # plain Python, with NUMBA_DISABLE_JIT=1
        return
    helper = None
    try:
        for function, signature in (*OF_ALL, *(entry for kind in kinds for entry in OF_KIND[kind][:-1])):
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
        function, signature = OF_KIND[kind][-1]
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
