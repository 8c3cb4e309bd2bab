"""Locks on files: one holder at a time, or several that share; nobody waits for longer than they are patient."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading

import pytest

from pathfold.engine import file_lock
from pathfold.engine.file_lock import locked


@pytest.fixture
def file(tmp_path):
    return tmp_path / "lock"


def test_one_holds_it_at_a_time(file):
    with locked(file), pytest.raises(BlockingIOError), locked(file):
        pass
    with locked(file):
        pass


def test_those_who_share_keep_out_only_who_wants_it_alone(file):
    with locked(file, shared=True), locked(file, shared=True), pytest.raises(BlockingIOError), locked(file):
        pass
    with locked(file), pytest.raises(BlockingIOError), locked(file, shared=True):
        pass


def test_the_patient_get_it_once_it_is_free(file):
    order, held = [], threading.Event()

    def first():
        with locked(file):
            held.set()
            free.wait(30.0)
            order.append("first")

    free = threading.Event()
    thread = threading.Thread(target=first)
    thread.start()
    assert held.wait(30.0)
    threading.Timer(0.15, free.set).start()
    with locked(file, patience=30.0):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_patience_ends(file, monkeypatch):
    monkeypatch.setattr(file_lock, "LOOK", 0.01)
    with locked(file), pytest.raises(BlockingIOError), locked(file, patience=0.05):
        pass


def test_a_file_system_without_locks_keeps_out_nobody(file, monkeypatch):
    def flock(stream, operation):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(file_lock.fcntl, "flock", flock)
    with locked(file), locked(file, patience=30.0):
        pass


FORK = """
import os, sys, time
from pathlib import Path
from pathfold.engine import model_cache
with model_cache.alone("sampler"):
    if os.fork():
        print("forked", flush=True)
        os._exit(1)
    time.sleep(100)
"""


def test_a_forked_process_does_not_hold_the_lock_of_a_model_that_its_parent_compiled(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    environment = os.environ | {"PATHFOLD_CACHE": str(tmp_path)}
    host = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=environment)
    try:
        assert host.stdout is not None
        assert host.stdout.readline() == b"forked\n"
        assert host.wait() == 1
        with locked(tmp_path / "sampler.lock"):
            pass
    finally:
        os.killpg(host.pid, signal.SIGKILL)
        if host.stdout is not None:
            host.stdout.close()
