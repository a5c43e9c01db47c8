"""The runner against a real database, with an engine that misbehaves on request."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest
from blob_data import make_dataset

from idwbench.errors import ResultsError
from idwbench.results.renewal import renewed as renewed_leases
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.results import RunResult
from idwbench.sweep import runner
from idwbench.sweep.observer import Observer
from idwbench.sweep.runner import run_pending, stacks
from idwbench.training.engine import AbstractEngine

DATASET = make_dataset()


def run(seed, method="idw"):
    return run_config(DATASET.config, method=method, prototypes=2, seed=seed)


class FakeEngine(AbstractEngine):
    """Ends every run at once; those with a bad seed fail."""

    name = "fake"

    def __init__(self, bad_seeds=(), stack=4, before=lambda configs: None):
        self.bad_seeds, self.stack, self.before = set(bad_seeds), stack, before
        self.stacks: list[list[int]] = []
        self.threads: set[str] = set()

    def max_stack(self, config, dataset):
        return self.stack

    def train(self, configs, dataset, on_epoch=lambda epoch: None):
        self.stacks.append([config.seed for config in configs])
        self.threads.add(threading.current_thread().name)
        self.before(configs)
        if self.bad_seeds & {config.seed for config in configs}:
            raise RuntimeError("bad seed")
        on_epoch(1)
        return [result(config) for config in configs]


def result(config):
    arrays = {name: np.zeros((config.model.prototypes, 3), np.float32) for name in ("keys", "values")}
    return RunResult(config, "complete", (), {("test", "accuracy"): 0.5}, arrays, 12, None, 0.1, "fake", "cpu", 1)


class Failures(Observer):
    def __init__(self):
        self.failures = []

    def failed(self, config, error):
        self.failures.append((config.seed, str(error)))


@pytest.fixture
def store(tmp_path):
    return Results(str(tmp_path / "results.db"))


def planned(store, n):
    configs = [run(seed) for seed in range(n)]
    store.plan(configs)
    return configs


def states(store):
    return {run.config.seed: run.state for run in store.find_runs()}


@pytest.mark.parametrize("jobs", [1, 3, 50])
def test_every_run_is_trained_once_whatever_the_number_of_jobs(store, jobs):
    configs, engine = planned(store, 10), FakeEngine()
    outcome = run_pending(configs, store, lambda config: engine, DATASET, Failures(), jobs)
    assert (outcome.complete, outcome.failed, outcome.elsewhere) == (10, 0, 0)
    assert sorted(seed for stack in engine.stacks for seed in stack) == list(range(10))
    assert set(states(store).values()) == {"complete"}


def test_one_kind_of_runs_is_divided_among_the_jobs():
    configs = [run(seed) for seed in range(9)]
    assert [len(stack) for stack in stacks(configs, lambda config: 100, jobs=2)] == [5, 4]
    others = [run(seed, "gaussian") for seed in range(9)]
    assert [len(stack) for stack in stacks([*configs, *others], lambda config: 100, jobs=2)] == [9, 9]


def test_a_run_that_fails_does_not_affect_the_others_of_its_stack(store):
    configs, engine, observer = planned(store, 8), FakeEngine(bad_seeds={2}), Failures()
    outcome = run_pending(configs, store, lambda config: engine, DATASET, observer, jobs=2)
    assert (outcome.complete, outcome.failed) == (7, 1)
    assert observer.failures == [(2, "bad seed")]
    assert [seed for seed, state in states(store).items() if state == "failed"] == [2]


def test_runs_that_another_process_took_are_left_to_it(store, tmp_path):
    configs = planned(store, 4)
    other = Results(str(tmp_path / "results.db"))
    other.lease([config.run_key for config in configs[:3]])
    engine = FakeEngine()
    outcome = run_pending(configs, store, lambda config: engine, DATASET, Failures())
    assert (outcome.complete, outcome.elsewhere) == (1, 3)
    assert engine.stacks == [[3]]


def test_a_lease_is_renewed_while_an_epoch_lasts(store, monkeypatch):
    seen = threading.Event()

    def locked(keys):
        seen.set()
        raise ResultsError("database is locked")

    monkeypatch.setattr(runner, "renewed", partial(renewed_leases, interval=0.0))
    monkeypatch.setattr(store, "renew", locked)
    engine = FakeEngine(before=lambda configs: seen.wait(60))
    outcome = run_pending(planned(store, 3), store, lambda config: engine, DATASET, Failures())
    assert seen.is_set()
    assert outcome.complete == 3


def test_a_database_that_cannot_be_written_ends_the_sweep_and_frees_its_runs(store, monkeypatch):
    def full(results, data_sha256):
        raise ResultsError("disk full")

    monkeypatch.setattr(store, "finish", full)
    with pytest.raises(ResultsError, match="disk full"):
        run_pending(planned(store, 8), store, lambda config: FakeEngine(), DATASET, Failures(), jobs=2)
    assert set(states(store).values()) == {"planned"}


def test_an_interrupted_run_is_released(store):
    def interrupt(configs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pending(planned(store, 4), store, lambda config: FakeEngine(before=interrupt), DATASET, Failures())
    assert set(states(store).values()) == {"planned"}
