from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from idwbench.config import TwoMoonsConfig, default_protocol, parse_run
from idwbench.engine.base import RunResult
from idwbench.results.store import ResultsStore

PROCESSES = 3
RUNS = 60


def sweep_together(db: str, start_at: Any, answer: Connection) -> None:
    """Open a database that is not there yet, plan the same sweep, and train what nobody else has."""
    start_at.wait()
    store = ResultsStore.open(db)
    protocol = default_protocol("two_moons")
    configs = {c.run_key: c for c in (parse_run(TwoMoonsConfig(), "idw", 2, protocol, s) for s in range(RUNS))}
    keys = store.register_sweep("shared", "", "", list(configs.values()))
    trained = []
    for first in range(0, RUNS, 4):
        claimed = store.claim(keys[first : first + 4])
        store.heartbeat(claimed)
        time.sleep(0.002)  # the training
        array = np.zeros((2, 2), np.float32)
        trained += store.finish(
            [
                RunResult(configs[k], "complete", array, array, (), 1.0, 1.0, None, None, 0.1, "torch", "cpu", 1)
                for k in claimed
            ]
        )
    answer.send((os.getpid(), trained))


def claim_and_die(db: str, keys: list[str]) -> None:
    ResultsStore.open(db).claim(keys)
    os._exit(1)


def test_processes_that_start_at_once_do_every_run_once(db):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES)
    pipes = [context.Pipe(duplex=False) for _ in range(PROCESSES)]
    workers = [context.Process(target=sweep_together, args=(db, barrier, sender)) for _, sender in pipes]
    for worker in workers:
        worker.start()
    answers = [receiver.recv() if receiver.poll(60) else None for receiver, _ in pipes]
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    trained = [key for _, keys in answers for key in keys]
    assert len(trained) == len(set(trained)) == RUNS
    runs = ResultsStore.open(db).find_runs(sweep="shared")
    assert {(run.state, run.attempt) for run in runs} == {("complete", 1)}
    for receiver, sender in pipes:
        receiver.close()
        sender.close()


def test_runs_of_a_process_that_died_are_taken_over(store, db, make_config):
    keys = store.plan([make_config(seed) for seed in range(3)])
    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=claim_and_die, args=(db, keys[:2]))
    worker.start()
    worker.join(60)
    assert [run.state for run in store.find_runs()] == ["running", "running", "planned"]
    assert store.claim(keys) == keys
    assert [run.attempt for run in store.find_runs()] == [2, 2, 1]
