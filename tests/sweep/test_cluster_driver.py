"""The driver of a cluster against a real database, with a cluster in this process whose tasks end as scripted."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from blob_data import make_dataset
from fake_cluster import ADDRESS, FakeClient, cluster, killed

from idwbench.errors import ClusterError, ResultsError
from idwbench.results.provenance import collect_provenance
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.results import RunResult
from idwbench.sweep import cluster_connection, cluster_worker
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.observer import Observer
from idwbench.sweep.runner import Runner

DATASET = make_dataset()


def run(seed, **settings):
    return run_config(DATASET.config, **{"method": "idw", "prototypes": 2, "seed": seed, **settings})


def result(config):
    arrays = {name: np.zeros((config.model.prototypes, 3), np.float32) for name in ("keys", "values")}
    return RunResult(config, "complete", (), {("test", "accuracy"): 0.5}, arrays, 12, None, 0.1, "fake", "cpu", 1)


def trained(task, bad_seeds=()):
    """Return the answer of a worker; a stack with a bad seed fails."""
    answer = {"worker": ADDRESS, "refused": "", "results": [], "failure": None, "provenance": None}
    configs = [RunConfig.model_validate_json(text) for text in task["stack"]]
    if any(config.seed in bad_seeds for config in configs):
        return {**answer, "failure": ("ValueError", "bad seed", "Traceback: bad seed")}
    return {**answer, "results": [result(config) for config in configs]}


def seeds(task):
    return [RunConfig.model_validate_json(text).seed for text in task["stack"]]


class Log(Observer):
    def __init__(self):
        self.failures, self.notes = [], []

    def failed(self, config, error):
        self.failures.append((config.seed, type(error).__name__, str(error)))

    def note(self, text):
        self.notes.append(text)


@pytest.fixture
def store(tmp_path):
    return Results(str(tmp_path / "results.db"))


@pytest.fixture
def log():
    return Log()


def train(store, client, configs, log, **options):
    store.plan(configs)
    runner = Runner(store, log, "fused", cluster=cluster(client), **options)
    runner.train(configs, DATASET)
    return runner.outcome


def states(store):
    return {run.config.seed: run.state for run in store.find_runs()}


def test_every_run_is_sent_and_stored_once(store, log):
    client = FakeClient(trained)
    outcome = train(store, client, [run(seed) for seed in range(120)], log)
    assert (outcome["complete"], outcome["failed"], outcome["elsewhere"]) == (120, 0, 0)
    assert sorted(seed for task in client.tasks for seed in seeds(task)) == list(range(120))
    assert set(states(store).values()) == {"complete"}
    assert {run.attempt for run in store.find_runs()} == {1}


def test_results_are_stored_with_the_provenance_of_their_worker(store, log):
    origin = {**collect_provenance(), "host": "node-7", "pid": 7, "cpu": "another processor"}
    client = FakeClient(lambda task: {**trained(task), "provenance": origin})
    assert train(store, client, [run(0)], log)["complete"] == 1
    (found,) = store.find_runs()
    assert (found.host, found.cpu["model"]) == ("node-7", "another processor")


def test_a_run_that_fails_does_not_affect_the_others_of_its_stack(store, log):
    client = FakeClient(lambda task: trained(task, bad_seeds={2}))
    outcome = train(store, client, [run(seed) for seed in range(8)], log)
    assert (outcome["complete"], outcome["failed"]) == (7, 1)
    assert log.failures == [(2, "ValueError", "bad seed")]
    assert states(store)[2] == "failed"
    assert store.find_runs(states=["failed"])[0].error == "Traceback: bad seed"


def test_a_run_that_ends_its_workers_fails_and_the_others_of_its_task_are_trained(store, log):
    def crash(task):
        return killed() if 3 in seeds(task) else trained(task)

    client = FakeClient(crash)
    outcome = train(store, client, [run(seed) for seed in range(8)], log)
    assert (outcome["complete"], outcome["failed"]) == (7, 1)
    ((seed, _, reason),) = log.failures
    assert seed == 3
    assert reason.startswith(f"2 workers ended while they trained this run, the last was {ADDRESS}")
    assert "2 workers ended" in store.find_runs(states=["failed"])[0].error


def test_after_the_allowed_number_of_failures_the_other_runs_are_released(store, log):
    client = FakeClient(lambda task: trained(task, bad_seeds=range(100)))
    outcome = train(store, client, [run(seed) for seed in range(30)], log, max_failures=2)
    assert outcome["failed"] >= 2
    assert sum(state == "planned" for state in states(store).values()) == 30 - outcome["failed"]


def test_runs_that_another_process_took_are_left_to_it(store, log, tmp_path):
    configs = [run(seed) for seed in range(4)]
    store.plan(configs)
    Results(str(tmp_path / "results.db")).lease([config.run_key for config in configs[:3]])
    client = FakeClient(trained)
    outcome = train(store, client, configs, log)
    assert (outcome["complete"], outcome["elsewhere"]) == (1, 3)
    assert [seeds(task) for task in client.tasks] == [[3]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            {
                "worker": ADDRESS,
                "refused": "torch 2.6.0, the driver has 2.7.0",
                "results": [],
                "failure": None,
                "provenance": None,
            },
            f"worker {ADDRESS}: torch 2.6.0, the driver has 2.7.0",
        ),
        (ModuleNotFoundError("No module named 'idwbench'"), "cannot run idwbench: ModuleNotFoundError: No module"),
        (None, r"the connection to tcp://10.0.0.1:8786 is lost \(the same command continues\)"),
    ],
)
def test_a_worker_that_cannot_train_ends_the_sweep_and_frees_its_runs(store, log, answer, message):
    client = FakeClient(lambda task: answer)
    with pytest.raises(ClusterError, match=message):
        train(store, client, [run(seed) for seed in range(120)], log)
    assert set(states(store).values()) == {"planned"}
    assert client.cancelled


def test_an_interruption_releases_the_runs_and_cancels_their_tasks(store, log, monkeypatch):
    client = FakeClient(trained)

    def interrupt(results):
        raise KeyboardInterrupt

    monkeypatch.setattr(log, "finished", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(store, client, [run(seed, prototypes=n) for n in range(1, 9) for seed in (0, 1)], log)
    assert {run.state for run in store.find_runs()} == {"complete", "planned"}
    assert client.cancelled


def test_a_database_that_cannot_be_written_ends_the_sweep_and_frees_its_runs(store, log, monkeypatch):
    def full(*arguments, **options):
        raise ResultsError("disk full")

    monkeypatch.setattr(store, "finish", full)
    with pytest.raises(ResultsError, match="disk full"):
        train(store, FakeClient(trained), [run(seed) for seed in range(8)], log)
    assert set(states(store).values()) == {"planned"}


def test_the_number_of_tasks_on_the_cluster_is_bounded(store, log):
    open_tasks = []

    class Counting(FakeClient):
        def submit(self, *arguments, **options):
            future = super().submit(*arguments, **options)
            open_tasks.append(len(store.find_runs(states=["running"])))
            return future

    configs = [run(seed, prototypes=n) for n in range(1, 13) for seed in range(2)]
    assert train(store, Counting(trained), configs, log)["complete"] == 24
    assert max(open_tasks) == 2 * 2 * 2  # workers, tasks for each, runs of a stack


def test_workers_without_a_package_or_with_another_version_are_found_before_anything_is_leased(store, log):
    client = FakeClient(trained)
    client.versions = {"tcp://a": "", "tcp://b": "numpy 1.26.0, the driver has 2.4.6"}
    with pytest.raises(ClusterError, match=r"^worker tcp://b: numpy 1.26.0, the driver has 2.4.6$"):
        train(store, client, [run(0)], log)
    client.versions = {"tcp://c": ModuleNotFoundError("No module named 'idwbench'")}
    with pytest.raises(ClusterError, match=r"^worker tcp://c cannot run idwbench: ModuleNotFoundError: No module"):
        train(store, client, [run(0)], log)
    assert client.tasks == []
    assert {run.attempt for run in store.find_runs()} == {0}


def test_tasks_for_a_gpu_need_its_resource(store, log):
    client = FakeClient(trained)
    store.plan([run(0)])
    runner = Runner(store, log, "torch", "cuda", cluster=cluster(client, GPU=1.0))
    runner.train([run(0)], DATASET)
    assert runner.outcome["complete"] == 1
    assert client.resources == [{"GPU": 1.0}]
    assert client.tasks[0]["device"] == "cuda"


def test_a_cluster_without_workers_is_waited_for_with_a_note(store, log):
    assert train(store, FakeClient(trained, workers=0), [run(0)], log)["complete"] == 1
    assert log.notes == ["tcp://10.0.0.1:8786 has no worker: waiting for one"]


SWEEP = """
name: mixed
dataset: {name: two_moons, train_per_class: 10, test_per_class: 5, holdout_per_class: 0}
protocol: {epochs: 2, batch_size: 5}
seeds: 2
grid:
  - {method: idw, prototypes: 2}
  - {kind: patch_study, cases: wrong, method: idw, prototypes: [2, 3]}
  - {kind: mlp, width: 4, depth: 1, record: [true, false]}
"""


def test_runs_that_need_the_database_or_its_disk_are_trained_by_the_driver(log, tmp_path, monkeypatch):
    client = FakeClient()
    monkeypatch.setattr(cluster_worker, "_worker", lambda: (ADDRESS, lambda: False))
    monkeypatch.setattr(cluster_worker, "_setup", None)
    monkeypatch.setattr(cluster_connection, "connected", lambda *arguments: nullcontext(cluster(client)))
    (tmp_path / "mixed.yaml").write_text(SWEEP)
    status = run_sweep(tmp_path / "mixed.yaml", tmp_path / "dask.db", engine="torch", dask="local:2", observer=log)
    assert (status.total, status.complete) == (10, 10)
    sent = [RunConfig.model_validate_json(text) for task in client.tasks for text in task["stack"]]
    kinds = sorted((config.model.kind, getattr(config.model, "record", None)) for config in sent)
    # Two networks of the grid, two that only studies need, and the perceptrons that are not recorded.
    assert kinds == [("mlp", False)] * 2 + [("prototypes", None)] * 4
    assert "6 of the runs read or write beside the database: this process trains them" in log.notes
    assert len(list((tmp_path / "dask.db.recordings").iterdir())) == 2
    assert not (tmp_path / "dask.db.checkpoints").exists()
    run_sweep(tmp_path / "mixed.yaml", tmp_path / "local.db", engine="torch")
    for one, other in zip(*(Results(tmp_path / name).find_runs() for name in ("dask.db", "local.db")), strict=True):
        assert one.run_key == other.run_key
        timeless = {name: value for name, value in one.metrics.items() if "seconds" not in name[1]}
        assert timeless.items() <= other.metrics.items()
