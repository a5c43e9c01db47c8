"""The runner against a real database, with threads and with a cluster whose engine misbehaves on request."""

import errno
import sys
import threading
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from blob_data import make_dataset
from distributed import KilledWorker
from stored_runs import run_result
from sweep_specs import received, sweep_file

from idwbench import Results, run_sweep
from idwbench.errors import ClusterError, IdwbenchError, ResultsError
from idwbench.models.neighbours import PrototypeQuality
from idwbench.results.provenance import collect_provenance
from idwbench.runs.config import RunConfig, run_config
from idwbench.sweep import cluster as cluster_module
from idwbench.sweep import cluster_worker, runner, threads
from idwbench.sweep.cluster import Cluster, ClusterExecutor
from idwbench.sweep.observer import Observer
from idwbench.sweep.runner import Runner, stacks
from idwbench.sweep.threads import Answer
from idwbench.training.engine import Context, Engine

DATASET = make_dataset()
SECONDS = 60  # how long a test waits before it fails; none waits in vain


def run(seed, method="idw", prototypes=2):
    return run_config(DATASET.config, method=method, prototypes=prototypes, seed=seed)


class FakeEngine:
    """Ends every run at once; those with a bad seed fail."""

    def __init__(self, bad_seeds=(), stack=4, before=lambda configs: None):
        self.bad_seeds, self.stack, self.before = set(bad_seeds), stack, before
        self.stacks = []

    def train(self, configs, dataset, context):
        self.stacks.append([config.seed for config in configs])
        self.before(configs)
        if self.bad_seeds & {config.seed for config in configs}:
            raise RuntimeError("bad seed")
        context.on_epoch(1)
        return [result(config) for config in configs]


def result(config):
    arrays = {name: np.zeros((config.model.prototypes, 3), np.float32) for name in ("keys", "values")}
    return run_result(config, arrays=arrays, seconds=0.1)


ADDRESS = "tcp://10.0.0.1:4000"


class FakeFuture(Future):
    """Has ended with an answer, an exception, or None for a lost connection."""

    def __init__(self, answer):
        super().__init__()
        self.status = "lost" if answer is None else "error" if isinstance(answer, Exception) else "finished"
        (self.set_exception if isinstance(answer, Exception) else self.set_result)(answer)

    def release(self):
        """Let the cluster forget the answer."""


def fake_client(train=None, workers=2, versions=None):
    """Return a client that answers each task by `train`: an answer, an exception, or None for a lost connection."""

    def submit(function, task, **options):
        try:
            return FakeFuture((train or function)(task))
        except Exception as error:
            return FakeFuture(error)

    def run(function, *arguments, on_error):
        return versions or {ADDRESS: function(*arguments)}

    info = {"workers": {f"w{i}": {"nthreads": 1, "resources": {"GPU": 1}} for i in range(workers)}}
    return Mock(**{"submit.side_effect": submit, "run.side_effect": run, "scheduler_info.return_value": info})


def tasks_of(client):
    return [call.args[1] for call in client.submit.call_args_list]


def cluster(client, **resources):
    return Cluster(client, "tcp://10.0.0.1:8786", resources)


@pytest.fixture(params=["threads", "cluster"])
def client(request):
    """The client of a cluster, or None for threads of this process."""
    return fake_client() if request.param == "cluster" else None


@pytest.fixture
def store(tmp_path):
    return Results(tmp_path / "results.db")


@pytest.fixture
def log():
    return Mock(spec=Observer)


def train(store, configs, engine, log, client=None, **settings):
    """Train planned runs with a fake engine, also on the workers of the cluster, and return the outcome."""
    store.plan(configs)
    own = Runner(store, log, **{"jobs": 1, **settings}, cluster=None if client is None else cluster(client))
    record = Engine("fake", engine.train, lambda config, dataset: engine.stack)
    setup = (DATASET, PrototypeQuality(DATASET.splits), Context())
    with pytest.MonkeyPatch.context() as patched:
        for module in (runner, threads, cluster_worker):
            patched.setattr(module, "engine_of", lambda config, context: record)
        patched.setattr(cluster_worker, "_worker", lambda: (ADDRESS, lambda: False))
        patched.setattr(cluster_worker, "_prepared", lambda task, data: setup)
        own.train(configs, DATASET)
    return own.outcome


def failures(log):
    calls = (call.args for call in log.failed.call_args_list)
    return [(config.seed, type(error).__name__, str(error)) for config, error in calls]


def states(store):
    return {run.config.seed: run.state for run in store.find_runs()}


def seeds(n):
    return [run(seed) for seed in range(n)]


def test_a_run_that_fails_does_not_affect_the_others_of_its_stack(store, log, client):
    outcome = train(store, seeds(8), FakeEngine(bad_seeds={2}), log, client)
    assert (outcome["complete"], outcome["failed"]) == (7, 1)
    (failed,) = store.find_runs(states=["failed"])
    assert (failed.seed, failures(log)) == (2, [(2, "RuntimeError", "bad seed")])
    assert failed.error.startswith("Traceback") and failed.error.endswith("RuntimeError: bad seed\n")


def test_runs_that_another_process_took_are_left_to_it(store, log, client, tmp_path):
    configs, engine = seeds(4), FakeEngine()
    Results(tmp_path / "results.db").lease(store.plan(configs)[:3])
    outcome = train(store, configs, engine, log, client)
    assert (outcome, engine.stacks) == ({"complete": 1}, [[3]])
    assert [config.seed for configs in received(log.taken) for config in configs] == [0, 1, 2]


def test_a_database_that_cannot_be_written_ends_the_sweep_and_frees_its_runs(store, log, client, monkeypatch):
    monkeypatch.setattr(store, "finish", Mock(side_effect=ResultsError("disk full")))
    with pytest.raises(ResultsError, match="disk full"):
        train(store, seeds(8), FakeEngine(), log, client)
    assert set(states(store).values()) == {"planned"}


def test_a_full_disk_ends_the_sweep_instead_of_failing_run_after_run(store, log, client):
    def write(configs):
        try:
            raise OSError(errno.ENOSPC, "No space left on device", "runs.db.checkpoints/1.pt")
        except OSError as error:
            raise ValueError("the checkpoint was not written") from error

    with pytest.raises(IdwbenchError, match=r"runs.db.checkpoints/1.pt: cannot be written: No space left"):
        train(store, seeds(8), FakeEngine(before=write), log, client)
    assert set(states(store).values()) == {"planned"}


def test_one_kind_of_runs_is_divided_among_the_jobs():
    assert [len(stack) for stack in stacks(seeds(9), lambda config: 100, jobs=2)] == [5, 4]
    others = [run(seed, "gaussian") for seed in range(9)]
    assert [len(stack) for stack in stacks([*seeds(9), *others], lambda config: 100, jobs=2)] == [9, 9]


def test_the_time_of_a_stack_is_divided_into_set_up_training_and_metrics(store, log, monkeypatch):
    ticks = iter([10.0, 11.0, 11.5])  # the engine takes a second for two runs, their metrics half a second
    monkeypatch.setattr(threads, "perf_counter", lambda: next(ticks))
    train(store, seeds(2), FakeEngine(), log)
    for stored in store.find_runs():
        assert stored.durations == {"set_up": 0.4, "training": 0.1, "metrics": 0.25}
        assert stored.metric("coverage", "train") is not None


def test_an_interruption_starts_no_other_run_and_releases_what_fails_at_the_end(store, log, monkeypatch):
    started, held = threading.Event(), threading.Event()

    def interrupt(futures, **options):
        """Interrupt the wait for the end of a stack, as by Ctrl-C, when the training has started."""
        if "return_when" not in options:
            return wait(futures, **options)
        assert started.wait(60)
        raise KeyboardInterrupt

    def hold(configs):
        started.set()
        held.wait(60)

    monkeypatch.setattr(runner, "wait", interrupt)
    monkeypatch.setattr(threads, "_PATIENCE_SECONDS", 0)
    log.note = lambda text: held.set()
    engine = FakeEngine(range(9), stack=1, before=hold)
    with pytest.raises(KeyboardInterrupt):
        train(store, seeds(9), engine, log)
    assert (len(engine.stacks), failures(log)) == (1, [])
    assert set(states(store).values()) == {"planned"}


def test_an_interruption_at_any_line_waits_for_the_end_of_a_call_that_has_begun():
    def interrupt(frame, event, argument):
        if event == "line" and next(lines, None) is None:
            raise KeyboardInterrupt
        return interrupt

    before, calls, n = sys.gettrace(), [], 0
    while True:
        calls[:], lines, n = [], iter(range(n)), n + 1
        sys.settrace(interrupt)
        try:
            runner.uninterrupted(lambda: (calls.append("begun"), threading.Event().wait(0.01), calls.append("ended")))
            break
        except KeyboardInterrupt:
            assert calls in ([], ["begun", "ended"])
        finally:
            sys.settrace(before)
    assert n > 10


def test_leases_are_renewed_while_an_epoch_lasts_also_after_an_error(store, log, monkeypatch):
    renewed, third = [], threading.Event()

    def renew(results, run_keys):
        renewed.append(run_keys)
        if len(renewed) == 3:
            third.set()
        raise ResultsError("another process has kept the database locked")

    def wait_for_the_third(configs):
        assert third.wait(SECONDS)

    monkeypatch.setattr(Results, "renew", renew)
    for name in ("_RENEWAL_SECONDS", "_SIGNAL_SECONDS"):
        monkeypatch.setattr(runner, name, 0.01)
    configs = seeds(2)
    assert train(store, configs, FakeEngine(before=wait_for_the_third), log) == {"complete": 2}
    assert {*renewed[2]} == {config.run_key for config in configs}


def configs_in(task):
    return [RunConfig.model_validate_json(text) for text in task["stack"]]


def trained(task):
    return Answer([*map(result, configs_in(task))])


def test_results_are_stored_with_the_provenance_of_their_worker(store, log):
    origin = {**collect_provenance(), "host": "node-7", "platform": "Plan 9", "git": None, "cpu": "Example CPU"}
    train(store, seeds(1), FakeEngine(), log, fake_client(lambda task: replace(trained(task), provenance=origin)))
    [run] = store.find_runs()
    assert (run.host, run.platform, run.git, run.cpu["model"]) == ("node-7", "Plan 9", None, "Example CPU")


def test_runs_that_are_lost_beside_others_are_trained_again_each_when_nothing_else_is_in_work(store, log):
    lost, stored = [], []

    def lose_once(task):
        if task["stack"] not in lost:
            lost.append(task["stack"])
            return KilledWorker("key", SimpleNamespace(address=ADDRESS), 1)
        stored.append(len(store.find_runs(states=["complete"])))
        return trained(task)

    outcome = train(store, seeds(6), FakeEngine(stack=1), log, fake_client(lose_once))
    assert (outcome, failures(log), stored) == ({"complete": 6}, [], [*range(6)])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ClusterError(f"worker {ADDRESS}: torch 2.6.0"), f"^worker {ADDRESS}: torch 2.6.0$"),
        (ModuleNotFoundError("No module named 'idwbench'"), "cannot run idwbench: ModuleNotFoundError: No module"),
        (None, r"the connection to tcp://10.0.0.1:8786 is lost \(the same command continues\)"),
    ],
)
def test_a_worker_that_cannot_train_ends_the_sweep_and_frees_its_runs(store, log, answer, message):
    client = fake_client(lambda task: answer)
    with pytest.raises(ClusterError, match=message):
        train(store, seeds(12), FakeEngine(), log, client)
    assert set(states(store).values()) == {"planned"}
    client.cancel.assert_called()


def test_the_number_of_tasks_on_the_cluster_is_bounded_and_one_without_workers_is_waited_for(store, log):
    open_tasks = []

    def count(task):
        open_tasks.append(len(store.find_runs(states=["running"])))
        return trained(task)

    configs = [run(seed, prototypes=n) for n in range(1, 13) for seed in range(2)]
    assert train(store, configs, FakeEngine(), log, fake_client(count))["complete"] == 24
    assert max(open_tasks) <= 2 * 2 * 2  # workers, tasks for each, runs of a stack
    assert train(store, [run(9)], FakeEngine(), log, fake_client(trained, workers=0))["complete"] == 1
    assert received(log.note) == ["tcp://10.0.0.1:8786 has no worker: waiting for one"]


def test_workers_without_a_package_or_with_another_version_are_found_before_anything_is_leased(store, log):
    other = {"tcp://a": "", "tcp://b": "numpy 1.26.0, the driver has 2.4.6"}
    absent = {"tcp://c": ModuleNotFoundError("No module named 'idwbench'")}
    for versions, message in (
        (other, r"^worker tcp://b: numpy 1.26.0, the driver has 2.4.6$"),
        (absent, r"^worker tcp://c cannot run idwbench: ModuleNotFoundError: No module"),
    ):
        client = fake_client(trained, versions=versions)
        with pytest.raises(ClusterError, match=message):
            train(store, seeds(1), FakeEngine(), log, client)
        assert tasks_of(client) == []
    assert {run.attempt for run in store.find_runs()} == {0}


def test_tasks_for_a_gpu_need_its_resource_and_answers_are_not_kept_in_memory(store, log):
    client = fake_client(trained)
    store.plan(seeds(1))
    own = Runner(store, log, "torch", "cuda", cluster=cluster(client, GPU=1.0))
    own.train(seeds(1), DATASET)
    assert own.outcome["complete"] == 1
    devices = [task["device"] for task in tasks_of(client)]
    assert (client.submit.call_args.kwargs["resources"], devices) == ({"GPU": 1.0}, ["cuda"])
    executor = ClusterExecutor(own.cluster, seeds(40), DATASET, None, own.context)
    assert all(executor.submit([config]).result().results for config in seeds(40))
    assert executor.in_work == {}


def test_runs_that_need_the_database_or_its_disk_are_trained_by_the_driver(log, tmp_path, monkeypatch):
    client = fake_client()
    monkeypatch.setattr(cluster_worker, "_worker", lambda: (ADDRESS, lambda: False))
    monkeypatch.setattr(cluster_worker, "_setups", {})
    monkeypatch.setattr(cluster_module, "connected", lambda *arguments: nullcontext(cluster(client)))
    moons = "{name: two_moons, train_per_class: 10, test_per_class: 5, holdout_per_class: 0}"
    blocks = ["{method: idw, prototypes: 2}", "{kind: patch_study, cases: wrong, method: idw, prototypes: [2, 3]}"]
    path = sweep_file(tmp_path, moons, *blocks, "{kind: mlp, width: 4, depth: 1, record: [true, false]}", seeds="1")
    status = run_sweep(path, tmp_path / "dask.db", engine="torch", dask="local:2", observer=log)
    assert (status.total, status.complete) == (5, 5)
    sent = [config for task in tasks_of(client) for config in configs_in(task)]
    kinds = sorted((config.model.kind, getattr(config.model, "record", None)) for config in sent)
    # A network of the grid, one that only a study needs, and the perceptron that is not recorded.
    assert kinds == [("mlp", False), ("prototypes", None), ("prototypes", None)]
    assert "3 of the runs read or write beside the database: this process trains them" in received(log.note)
    assert len(list((tmp_path / "dask.db.recordings").iterdir())) == 1
    assert not (tmp_path / "dask.db.checkpoints").exists()
