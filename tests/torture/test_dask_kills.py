"""Sweeps on a real local cluster whose worker and driver are killed."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest
from stored_runs import query
from sweep_specs import sweep_text
from torture_database import contents, states

from idwbench.sweep.execution import run_sweep

pytestmark = pytest.mark.slow

MOONS = "{name: two_moons, holdout_per_class: 0}"
SWEEP = sweep_text(MOONS, "{method: [idw, fc_relu], prototypes: [4, 8]}", protocol="{epochs: 20}", seeds="100")
RUNS = 400
ENDED = "select run_key, attempt, finished_at from runs where state = 'complete'"


class Driver:
    """A sweep in a process group of its own."""

    def __init__(self, sweep, database, *options):
        command = [sys.executable, "-m", "idwbench", "sweep", str(sweep), "--db", str(database), *options]
        # A command in the background of a shell ignores Ctrl-C, and so would its children.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        signal.signal(signal.SIGINT, before)
        self.lines = []

    def stopped_after(self, runs):
        """Let the process sleep when that number of runs has ended, and return its workers."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if (found := re.match(r"\[ *(\d+)/", line)) and int(found[1]) >= runs:
                break
        self.process.send_signal(signal.SIGSTOP)
        workers = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # a killed one, whose parent has not noticed
                workers += [child] if "spawn_main" in " ".join(child.cmdline()) else []
        return workers

    def end(self):
        assert self.process.stderr is not None
        with self.process:  # closes the pipe
            self.lines.extend(self.process.stderr)
        return self.process.returncode


def test_a_worker_and_then_the_driver_are_killed_and_the_same_command_completes_the_sweep(sweep, tmp_path):
    sweep.write_text(SWEEP)
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
    stored = set(query(dask, ENDED))
    assert 150 <= len(stored) < RUNS
    assert {attempt for _, attempt, _ in stored} == {1}

    second = Driver(sweep, dask, "--dask", "local:2")
    assert second.end() == 0
    assert states(dask) == {"complete": RUNS}
    assert stored <= set(query(dask, ENDED))
    assert contents(dask) == contents(local)
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


def test_a_run_that_ends_each_of_its_workers_fails_and_all_others_complete(sweep, tmp_path):
    plugin, database = tmp_path / "crash.py", tmp_path / "crash.db"
    plugin.write_text(CRASH)
    blocks = "{method: crash, prototypes: 2, now: [0, 1]}", "{method: crash, prototypes: [3, 4, 5]}"
    sweep.write_text(sweep_text(MOONS, *blocks, seeds="[1]"))
    driver = Driver(sweep, database, "--dask", "local:2", "--plugin", str(plugin))
    assert driver.end() == 1
    assert states(database) == {"complete": 4, "failed": 1}
    ((parameters, error),) = query(database, "select parameters, error from runs where state = 'failed'")
    assert parameters == '{"now":1.0}'
    assert "2 workers ended while they trained this run" in error


def test_a_local_cluster_listens_on_loopback_and_ctrl_c_ends_it_without_a_run_in_work(sweep, tmp_path):
    sweep.write_text(SWEEP.replace("epochs: 20", "epochs: 200"))  # much is left when the first runs have ended
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
    assert states(database).keys() == {"complete", "planned"}
    assert "interrupted: " in driver.lines[-1]
    assert not [line for line in driver.lines if "distributed" in line or "Traceback" in line]
