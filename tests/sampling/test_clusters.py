"""Executors of other packages, where they are installed: the same draws to the bit, also when a worker is killed."""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pathfold as pf
from pathfold.sampling import execution
from pathfold.sampling.chain import ChainTask
from pathfold.sampling.progress import Progress
from tests.sampling.small_run import CHAINS, WARMUP, assert_same_draws, small_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # others' warnings are not ours to mend

LONG: dict[str, Any] = {"draws": 20_000, "keep_path": "nodes"}


@cache
def plain_run():
    return small_run(**LONG)


@pytest.fixture(autouse=True)
def save_often(monkeypatch):
    monkeypatch.setattr(execution, "ChainTask", functools.partial(ChainTask, checkpoint_seconds=0.2))


def kill_once_saved(folder: Path, worker: Callable[[], int]) -> None:
    while not (folder / f"chain_{CHAINS - 2}.npz").exists():
        time.sleep(0.05)
    os.kill(worker(), signal.SIGKILL)


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_dask(dask, tmp_path, monkeypatch):
    counts, update = [], Progress.update

    def counted(self):
        update(self)
        counts.append(sum(int(monitor.done[0]) for monitor in self.monitors))

    monkeypatch.setattr(Progress, "update", counted)
    with dask.get_executor() as executor:
        assert_same_draws(plain_run(), small_run(executor=executor, **LONG))
        assert_same_draws(plain_run(), small_run(executor=executor, checkpoint=tmp_path, **LONG))
    whole = CHAINS * (WARMUP + LONG["draws"])
    assert any(0 < count < whole for count in counts), "progress comes back while chains run"


def test_a_worker_of_dask_is_killed(dask, tmp_path):
    """Dask gives the chain to another worker by itself."""
    before = dask.run(os.getpid)
    with ThreadPoolExecutor(1) as killer, dask.get_executor() as executor:
        killed = killer.submit(kill_once_saved, tmp_path, lambda: next(iter(before.values())))
        tree = small_run(executor=executor, checkpoint=tmp_path, **LONG)
        killed.result()
    assert set(dask.run(os.getpid).values()) != set(before.values())
    assert_same_draws(plain_run(), tree)


@pytest.mark.parametrize("package", ["loky", "joblib.externals.loky"])
def test_loky_and_joblib(package, tmp_path):
    pytest.importorskip(package.split(".")[0])
    loky = importlib.import_module(package)
    executor = loky.get_reusable_executor(max_workers=2)
    assert_same_draws(plain_run(), small_run(executor=executor, **LONG))
    with ThreadPoolExecutor(1) as killer:
        killer.submit(kill_once_saved, tmp_path, lambda: next(iter(executor._processes)))
        with pytest.raises(pf.PathfoldError, match=r"lost its worker \(TerminatedWorkerError: .*the same call with a"):
            small_run(executor=executor, checkpoint=tmp_path, **LONG)
    executor = loky.get_reusable_executor(max_workers=2)
    assert_same_draws(plain_run(), small_run(executor=executor, checkpoint=tmp_path, **LONG))
    executor.shutdown()


MPI = """
import sys
from mpi4py.futures import MPIPoolExecutor
from tests.sampling.small_run import small_run

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        tree = small_run(executor=executor, checkpoint=sys.argv[1], draws=20_000, keep_path="nodes")
        print(executor.num_workers, "workers")
    tree.to_netcdf(sys.argv[2], engine="h5netcdf")
"""


def test_mpi(tmp_path):
    pytest.importorskip("mpi4py")
    if shutil.which("mpiexec") is None:
        pytest.skip("there is no MPI")
    import xarray as xr

    (script := tmp_path / "script.py").write_text(MPI)
    command = [sys.executable, "-m", "mpi4py.futures", script, tmp_path / "folder", tmp_path / "results.nc"]
    done = subprocess.run(["mpiexec", "-n", "3", *map(str, command)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "2 workers" in done.stdout
    with xr.open_datatree(tmp_path / "results.nc") as tree:
        assert_same_draws(plain_run(), tree)


ARRAY = """
import sys
from tests.sampling.small_run import small_run

small_run(checkpoint=sys.argv[1], draws=20_000, keep_path="nodes")
"""


def test_jobs_of_an_array_run_at_once_and_one_is_killed(tmp_path):
    (script := tmp_path / "script.py").write_text(ARRAY)
    folder = tmp_path / "folder"

    def begin(chain: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pathfold.cli", "run", "--chain", chain, script, folder]
        return subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)

    jobs = [begin(chain) for chain in range(CHAINS)]
    while not (folder / "chain_1.z").exists() and jobs[1].poll() is None:
        time.sleep(0.05)
    jobs[1].kill()
    said = [job.communicate()[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0, -signal.SIGKILL, 0], said
    assert f"chain 2 of 3 has {WARMUP + 20_000} of {WARMUP + 20_000} draws" in said[2]
    again = begin(1)
    assert again.communicate()[1].endswith("the script itself gathers them\n")
    assert_same_draws(plain_run(), small_run(checkpoint=folder, **LONG))
