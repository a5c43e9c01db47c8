"""The runner against a real database, with an engine that misbehaves on request."""

from __future__ import annotations

import errno
import queue
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from blob_data import make_dataset

from idwbench.errors import FullDiskError, ResultsError
from idwbench.results.leases import renewed as renewed_leases
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.results import RunResult
from idwbench.sweep import runner, threads
from idwbench.sweep.observer import Observer
from idwbench.sweep.runner import Runner, stacks
from idwbench.training.engine import Engine

DATASET = make_dataset()


def run(seed, method="idw"):
    return run_config(DATASET.config, method=method, prototypes=2, seed=seed)


class FakeEngine:
    """Ends every run at once; those with a bad seed fail."""

    def __init__(self, bad_seeds=(), stack=4, before=lambda configs: None):
        self.bad_seeds, self.stack, self.before = set(bad_seeds), stack, before
        self.stacks: list[list[int]] = []
        self.threads: set[str] = set()

    @property
    def record(self):
        return Engine("fake", self.train, lambda config, dataset: self.stack)

    def train(self, configs, dataset, context):
        self.stacks.append([config.seed for config in configs])
        self.threads.add(threading.current_thread().name)
        self.before(configs)
        if self.bad_seeds & {config.seed for config in configs}:
            raise RuntimeError("bad seed")
        context.on_epoch(1)
        return [result(config) for config in configs]


def train(configs, store, engine_of, observer, jobs=1, **settings):
    trainer = Runner(store, observer, jobs=jobs, **settings)
    with pytest.MonkeyPatch.context() as patched:
        for module in (runner, threads):
            patched.setattr(module, "engine_of", lambda config, context: engine_of(config).record)
        trainer.train(configs, DATASET)
    return trainer.outcome


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


def test_the_time_of_a_stack_is_divided_into_set_up_training_and_metrics(store, monkeypatch):
    ticks = iter([10.0, 11.0, 11.5])  # the engine takes a second for two runs, their metrics half a second
    monkeypatch.setattr(threads, "perf_counter", lambda: next(ticks))
    train(planned(store, 2), store, lambda config: FakeEngine(), Observer())
    for stored in store.find_runs():
        assert stored.durations == {"set_up": 0.4, "training": 0.1, "metrics": 0.25}
        assert stored.metric("coverage", "train") is not None


def states(store):
    return {run.config.seed: run.state for run in store.find_runs()}


@pytest.mark.parametrize("jobs", [1, 3, 50])
def test_every_run_is_trained_once_whatever_the_number_of_jobs(store, jobs):
    configs, engine = planned(store, 10), FakeEngine()
    outcome = train(configs, store, lambda config: engine, Failures(), jobs)
    assert (outcome["complete"], outcome["failed"], outcome["elsewhere"]) == (10, 0, 0)
    assert sorted(seed for stack in engine.stacks for seed in stack) == list(range(10))
    assert set(states(store).values()) == {"complete"}


def test_one_kind_of_runs_is_divided_among_the_jobs():
    configs = [run(seed) for seed in range(9)]
    assert [len(stack) for stack in stacks(configs, lambda config: 100, jobs=2)] == [5, 4]
    others = [run(seed, "gaussian") for seed in range(9)]
    assert [len(stack) for stack in stacks([*configs, *others], lambda config: 100, jobs=2)] == [9, 9]


def test_a_run_that_fails_does_not_affect_the_others_of_its_stack(store):
    configs, engine, observer = planned(store, 8), FakeEngine(bad_seeds={2}), Failures()
    outcome = train(configs, store, lambda config: engine, observer, jobs=2)
    assert (outcome["complete"], outcome["failed"]) == (7, 1)
    assert observer.failures == [(2, "bad seed")]
    assert [seed for seed, state in states(store).items() if state == "failed"] == [2]


def test_runs_that_another_process_took_are_left_to_it(store, tmp_path):
    configs = planned(store, 4)
    other = Results(str(tmp_path / "results.db"))
    other.lease([config.run_key for config in configs[:3]])
    engine = FakeEngine()
    outcome = train(configs, store, lambda config: engine, Failures())
    assert (outcome["complete"], outcome["elsewhere"]) == (1, 3)
    assert engine.stacks == [[3]]


def test_a_lease_is_renewed_while_an_epoch_lasts(store, monkeypatch):
    seen = threading.Event()

    def locked(keys):
        seen.set()
        raise ResultsError("database is locked")

    monkeypatch.setattr(runner, "renewed", partial(renewed_leases, interval=0.0))
    monkeypatch.setattr(store, "renew", locked)
    engine = FakeEngine(before=lambda configs: seen.wait(60))
    outcome = train(planned(store, 3), store, lambda config: engine, Failures())
    assert seen.is_set()
    assert outcome["complete"] == 3


def test_a_database_that_cannot_be_written_ends_the_sweep_and_frees_its_runs(store, monkeypatch):
    def full(*arguments):
        raise ResultsError("disk full")

    monkeypatch.setattr(store, "finish", full)
    with pytest.raises(ResultsError, match="disk full"):
        train(planned(store, 8), store, lambda config: FakeEngine(), Failures(), jobs=2)
    assert set(states(store).values()) == {"planned"}


def test_an_interrupted_run_is_released(store):
    def interrupt(configs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(planned(store, 4), store, lambda config: FakeEngine(before=interrupt), Failures())
    assert set(states(store).values()) == {"planned"}


def interrupt_waiting(monkeypatch, before=lambda: None):
    """Let the wait for the end of a stack be interrupted, as by Ctrl-C."""

    class Ended(queue.SimpleQueue):
        def get(self, timeout):
            before()
            raise KeyboardInterrupt

    monkeypatch.setattr(runner, "queue", SimpleNamespace(SimpleQueue=Ended, Empty=queue.Empty))


def test_a_second_interruption_releases_the_runs_at_once_and_discards_what_is_still_trained(store, monkeypatch):
    started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    class SlowEngine(FakeEngine):
        def train(self, configs, dataset, context):
            started.set()
            assert may_end.wait(60)
            try:
                return super().train(configs, dataset, context)
            finally:
                ended.set()

    class Interrupted(Failures):
        def note(self, text):
            raise KeyboardInterrupt

    interrupt_waiting(monkeypatch, before=lambda: started.wait(60))
    monkeypatch.setattr(threads, "_PATIENCE_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt):
        train(planned(store, 4), store, lambda config: SlowEngine(stack=2), Interrupted())
    assert set(states(store).values()) == {"planned"}
    may_end.set()
    assert ended.wait(60)
    for thread in threading.enumerate():
        if thread.name.startswith("idwbench"):
            thread.join(60)
    assert set(states(store).values()) == {"planned"}


def test_an_interruption_before_the_threads_are_waited_for_does_not_start_the_other_runs(store, monkeypatch):
    interrupt_waiting(monkeypatch)
    held = threading.Event()
    engine = FakeEngine(stack=1, before=lambda configs: held.wait(60))

    class Interrupted(Failures):
        def note(self, text):
            held.set()

    monkeypatch.setattr(threads, "_PATIENCE_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt):
        train(planned(store, 9), store, lambda config: engine, Interrupted())
    assert len(engine.stacks) == 1
    assert set(states(store).values()) == {"planned"}


def test_what_fails_while_a_sweep_ends_is_released_instead_of_stored_as_failed(store, monkeypatch):
    interrupt_waiting(monkeypatch)
    held = threading.Event()

    def fail(configs):
        held.wait(60)
        raise RuntimeError("cannot start a thread at the end of the interpreter")

    class Interrupted(Failures):
        def note(self, text):
            held.set()

    observer = Interrupted()
    monkeypatch.setattr(threads, "_PATIENCE_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt):
        train(planned(store, 1), store, lambda config: FakeEngine(before=fail), observer)
    assert states(store) == {0: "planned"}
    assert observer.failures == []


@pytest.mark.parametrize("most", [1, 2])
def test_after_a_number_of_failures_no_run_is_started_and_the_rest_is_released(store, most):
    configs, engine = planned(store, 12), FakeEngine(bad_seeds={1, 2, 3, 6}, stack=4)
    outcome = train(configs, store, lambda config: engine, Failures(), max_failures=most)
    assert outcome["failed"] == most
    found = states(store)
    assert sorted(found.values()) == ["complete"] + ["failed"] * most + ["planned"] * (11 - most)
    assert found[0] == "complete"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_ends_the_sweep_instead_of_failing_run_after_run(store, number):
    def write(configs):
        try:
            raise OSError(number, "No space left on device", "runs.db.checkpoints/1.pt")
        except OSError as error:
            raise ValueError("the checkpoint was not written") from error

    with pytest.raises(FullDiskError, match=r"^runs.db.checkpoints/1.pt: cannot be written: No space left"):
        train(planned(store, 8), store, lambda config: FakeEngine(before=write), Failures(), jobs=2)
    assert set(states(store).values()) == {"planned"}


def test_an_observer_learns_which_runs_another_process_has_taken(store, tmp_path):
    class Taken(Failures):
        taken_seeds = ()

        def taken(self, configs):
            self.taken_seeds += tuple(config.seed for config in configs)

    configs, observer = planned(store, 4), Taken()
    Results(str(tmp_path / "results.db")).lease([config.run_key for config in configs[1:3]])
    train(configs, store, lambda config: FakeEngine(), observer)
    assert observer.taken_seeds == (1, 2)
