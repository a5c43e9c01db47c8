"""Sweeps on a real local cluster whose worker and driver are killed."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from idwbench.sweep.execution import run_sweep

SWEEP = """
name: kills
dataset: {name: two_moons, holdout_per_class: 0}
protocol: {epochs: 20}
seeds: 100
grid: {method: [idw, fc_relu], prototypes: [4, 8]}
"""
RUNS = 400
ARRAYS = "select run_key, name, data from runs join arrays on run_id = id order by 1, 2"
METRICS = "select run_key, split, name, value from runs join metrics on run_id = id order by 1, 2, 3"
CURVES = "select run_key, epoch, split, name, value from runs join curves on run_id = id order by 1, 2, 3, 4"
STATES = "select state, count(*) from runs group by state"
ENDED = "select run_key, attempt, finished_at from runs where state = 'complete'"


def rows(database: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(database) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    path = tmp_path / "kills.yaml"
    path.write_text(SWEEP)
    return path


class Driver:
    """A sweep in a process group of its own."""

    def __init__(self, sweep: Path, database: Path, *options: str) -> None:
        command = [sys.executable, "-m", "idwbench", "sweep", str(sweep), "--db", str(database), *options]
        # A command in the background of a shell ignores Ctrl-C, and so would its children.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        signal.signal(signal.SIGINT, before)
        self.lines: list[str] = []

    def stopped_after(self, runs: int) -> list[psutil.Process]:
        """Let the process sleep when that number of runs has ended, and return its workers."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if (found := re.match(r"\[ *(\d+)/", line)) and int(found[1]) >= runs:
                break
        self.process.send_signal(signal.SIGSTOP)
        return self.workers()

    def workers(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if is_worker(child)]

    def end(self) -> int:
        assert self.process.stderr is not None
        with self.process:  # closes the pipe
            self.lines.extend(self.process.stderr)
        return self.process.returncode


def is_worker(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a killed one, whose parent has not noticed
        return False


@pytest.mark.slow
def test_a_worker_and_then_the_driver_are_killed_and_the_same_command_completes_the_sweep(sweep, tmp_path):
    local, dask = tmp_path / "local.db", tmp_path / "dask.db"
    run_sweep(sweep, local)
    first = Driver(sweep, dask, "--dask", "local:2")
    first.stopped_after(20)[0].kill()
    first.process.send_signal(signal.SIGCONT)
    workers = first.stopped_after(150)
    lines = list(first.lines)  # a worker that starts while its parent is killed writes a traceback of Python's
    first.process.kill()
    first.end()
    assert psutil.wait_procs(workers, timeout=60)[1] == []
    stored = set(rows(dask, ENDED))
    assert 150 <= len(stored) < RUNS
    assert {attempt for _, attempt, _ in stored} == {1}

    second = Driver(sweep, dask, "--dask", "local:2")
    assert second.end() == 0
    assert rows(dask, STATES) == [("complete", RUNS)]
    assert stored <= set(rows(dask, ENDED))
    for query in (ARRAYS, METRICS, CURVES):
        assert rows(dask, query) == rows(local, query)
    lines += second.lines
    assert not any("distributed" in line or "Traceback" in line for line in lines), "".join(lines)


CRASH = """
import os
import signal
import torch
from idwbench import register
@register("crash", parameters={"now": 0.0})
def crash(inputs, keys, *, now):
    # In the training alone: the driver evaluates the score before it, to check its shape.
    if keys.requires_grad and (torch.as_tensor(now) > 0).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return -(inputs.unsqueeze(-2) - keys.unsqueeze(-3)).abs().sum(-1)
"""


@pytest.mark.slow
def test_a_run_that_ends_each_of_its_workers_fails_and_all_others_complete(tmp_path):
    sweep, plugin, database = tmp_path / "crash.yaml", tmp_path / "crash.py", tmp_path / "crash.db"
    plugin.write_text(CRASH)
    sweep.write_text(
        "name: crash\ndataset: {name: two_moons, holdout_per_class: 0}\nprotocol: {epochs: 2}\nseeds: [1]\n"
        "grid:\n- {method: crash, prototypes: 2, now: [0, 1]}\n- {method: crash, prototypes: [3, 4, 5]}\n"
    )
    driver = Driver(sweep, database, "--dask", "local:2", "--plugin", str(plugin))
    assert driver.end() == 1
    assert sorted(rows(database, STATES)) == [("complete", 4), ("failed", 1)]
    ((parameters, error),) = rows(database, "select parameters, error from runs where state = 'failed'")
    assert parameters == '{"now":1.0}'
    assert "2 workers ended while they trained this run" in error


@pytest.mark.slow
def test_a_local_cluster_listens_on_loopback_and_ctrl_c_ends_it_without_a_run_in_work(sweep, tmp_path):
    database = tmp_path / "interrupted.db"
    driver = Driver(sweep, database, "--dask", "local:2")
    workers = driver.stopped_after(20)
    processes = [psutil.Process(driver.process.pid), *workers]
    sockets = [socket for process in processes for socket in process.net_connections("inet")]
    listening = [socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN]
    assert len(listening) >= 3 and set(listening) == {"127.0.0.1"}
    os.killpg(driver.process.pid, signal.SIGINT)  # as a terminal does
    driver.process.send_signal(signal.SIGCONT)
    assert driver.end() == 130, driver.lines
    assert psutil.wait_procs(workers, timeout=60)[1] == []
    assert {state for state, _ in rows(database, STATES)} == {"complete", "planned"}
    assert "interrupted: " in driver.lines[-1]
    assert not [line for line in driver.lines if "distributed" in line or "Traceback" in line]
