"""Compiling the native sampler, once for an installation, on first use or on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pkgutil import resolve_name
from typing import Any

from pathfold.engine import entries, model_cache
from pathfold.engine.helpers import is_compiled
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
        for function, signature in called if is_compiled() else ():
            function.compile(signature)
        address_of_run()
        kernels_of_no_model()
    return time.perf_counter() - begin


def _is_kept(function: Any, signature: tuple) -> bool:
    """Return whether a function is compiled, here or in Numba's cache; or cannot be, or be kept."""
    if not isinstance(function, HostFunction) or function.stats.cache_path is None or signature in function.overloads:
        return True
    cache: Any = vars(function)["_cache"]
    target: Any = function.targetctx
    return cache._index_key(signature, target.codegen()) in cache._cache_file._load_index()
