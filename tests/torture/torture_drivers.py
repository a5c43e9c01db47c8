"""Drivers: processes that type `idwbench sweep`, forked from one that has done its imports."""

import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from multiprocessing.forkserver import _forkserver  # type: ignore[attr-defined]
from pathlib import Path

WAIT_SECONDS = 1200.0  # far more than any driver needs: only a test that fails waits for it
FULL = os.environ.get("IDWBENCH_TORTURE") == "1"  # `make torture` runs the full sizes


def sweep_text(settings, seeds, epochs=2):
    """A sweep of tiny runs; each number of prototypes is a stack of its own."""
    return (
        "name: torture\n"
        "dataset: {name: two_moons, train_per_class: 10, test_per_class: 5, holdout_per_class: 0}\n"
        f"protocol: {{epochs: {epochs}, batch_size: 10}}\n"
        f"seeds: {seeds}\n"
        f"grid: {{method: idw, prototypes: {[*range(1, settings + 1)]}}}\n"
    )


def start_warm_server():
    """Let drivers be forked from a process that has loaded `torture_warm`; no other tests have such a server."""
    _forkserver._stop()
    context, path = get_context("forkserver"), os.environ.get("PYTHONPATH", "")
    context.set_forkserver_preload(["torture_warm"])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), path]))
    check = context.Process(target=_check_is_warm)
    check.start()  # starts the server, which inherits the path
    check.join()
    os.environ["PYTHONPATH"] = path
    assert check.exitcode == 0


def _check_is_warm():
    assert "torture_warm" in sys.modules


@dataclass
class Driver:
    """A running command, its output, and a byte for each step that it takes."""

    process: ForkServerProcess
    steps: Connection
    log: Path

    def take_steps(self, n):
        """Wait until the driver has taken `n` steps; False if it ended before."""
        with suppress(EOFError):
            for _ in range(n):
                if not self.steps.poll(WAIT_SECONDS):
                    raise TimeoutError(self.log.read_text())
                self.steps.recv_bytes()
            return True
        return False

    def kill(self):
        """End it by SIGKILL."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.wait()

    def wait(self):
        """Return its exit code."""
        self.process.join(WAIT_SECONDS)
        self.steps.close()
        code = self.process.exitcode
        assert code is not None, f"still running: {self.log.read_text()}"
        return code

    @property
    def output(self):
        return self.log.read_text()


def start(log, *arguments, prepare=None, is_stepping=False):
    """Start ``idwbench`` with arguments in the folder of the log; `prepare` runs in the process before it."""
    context = get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    words = [str(argument) for argument in arguments]
    process = context.Process(target=type_command, args=(words, log, sender if is_stepping else None, prepare))
    process.start()
    sender.close()
    return Driver(process, receiver, log)


def type_command(words, log, steps=None, prepare=None):
    """Type ``idwbench`` and these words in this process, which ends; the log gets what is printed."""
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(log.parent)
    if steps is not None:
        _report_steps(steps)
    if prepare is not None:
        prepare()
    sys.argv = ["idwbench", *words]

    from idwbench.cli import main

    main()


def _report_steps(steps):
    """Send a byte before and after each change of the database, and after each epoch."""
    from idwbench.cli.progress import SweepProgress
    from idwbench.results.store import Results

    lock = threading.Lock()

    def step():
        with lock, suppress(OSError):
            steps.send_bytes(b".")

    for name in ("register_sweep", "lease", "finish"):
        setattr(Results, name, _stepping(getattr(Results, name), step))
    SweepProgress.epoch = lambda *arguments: step()


def _stepping(function, step):
    def stepping(*arguments, **options):
        step()
        result = function(*arguments, **options)
        step()
        return result

    return stepping
