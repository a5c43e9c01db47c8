from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np
import pytest

from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.results import RunResult

pytestmark = pytest.mark.slow

PROCESSES = 3
RUNS = 60


@pytest.fixture(scope="module")
def context() -> Iterator[BaseContext]:
    """New processes begin at a copy of one that has imported what they need, and that has opened no database."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "numpy", "idwbench.results.store"])
    yield context
    forkserver._forkserver._stop()


def sweep_together(db: str, start_at: Any, answer: Connection) -> None:
    """Open a database that does not exist yet, plan the same sweep, and train what no other process does."""
    start_at.wait()
    store = Results(db)
    configs = {c.run_key: c for c in (run_config("two_moons", prototypes=2, seed=s) for s in range(RUNS))}
    keys = store.register_sweep("shared", "", "", list(configs.values()))
    trained = []
    for first in range(0, RUNS, 4):
        leased = store.lease(keys[first : first + 4])
        store.renew(leased)
        arrays = {name: np.zeros((2, 2), np.float32) for name in ("keys", "values")}
        metrics = {("test", "accuracy"): 1.0}
        trained += store.finish(
            [RunResult(configs[k], "complete", (), metrics, arrays, 8, None, 0.1, "torch", "cpu", 1) for k in leased]
        )
    answer.send((os.getpid(), trained))


def lease_and_die(db: str, keys: list[str]) -> None:
    Results(db).lease(keys)
    os._exit(1)


def test_processes_that_start_at_once_do_every_run_once(db, context):
    barrier = context.Barrier(PROCESSES)
    pipes = [context.Pipe(duplex=False) for _ in range(PROCESSES)]
    workers = [context.Process(target=sweep_together, args=(db, barrier, sender)) for _, sender in pipes]
    for worker in workers:
        worker.start()
    for _, sender in pipes:
        sender.close()  # so that a process that fails ends the wait
    answers = [receiver.recv() if receiver.poll(60) else None for receiver, _ in pipes]
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    trained = [key for _, keys in answers for key in keys]
    assert len(trained) == len(set(trained)) == RUNS
    runs = Results(db).find_runs(sweep="shared")
    assert {(run.state, run.attempt) for run in runs} == {("complete", 1)}
    for receiver, _ in pipes:
        receiver.close()


def test_runs_of_a_process_that_died_are_taken_over(store, db, make_config, context):
    keys = store.plan([make_config(seed) for seed in range(3)])
    worker = context.Process(target=lease_and_die, args=(db, keys[:2]))
    worker.start()
    worker.join(60)
    assert [run.state for run in store.find_runs()] == ["running", "running", "planned"]
    assert store.lease(keys) == keys
    assert [run.attempt for run in store.find_runs()] == [2, 2, 1]
