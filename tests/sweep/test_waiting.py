"""Sweeps of which other processes train a part, and whose runs need others."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from engine_runs import replace_train, train_run
from sqlalchemy import delete, update
from sweep_specs import received, sweep_file

from idwbench import Results, run_config, run_sweep, train
from idwbench.errors import ResultsError, TrainingError
from idwbench.results import leases
from idwbench.results.tables import runs as run_table
from idwbench.sweep import runner
from idwbench.sweep.observer import Observer
from idwbench.sweep.spec import plan, read_sweep

MOONS = {"name": "two_moons", "train_per_class": 10, "test_per_class": 8, "holdout_per_class": 10}


@pytest.fixture
def spec(tmp_path):
    path = sweep_file(tmp_path, MOONS, "{method: idw, prototypes: 2}", protocol="{epochs: 1}", seeds="4")
    return read_sweep(path)


@pytest.fixture
def db(tmp_path):
    return str(tmp_path / "shared.db")


@pytest.fixture
def other(db, spec, monkeypatch):
    """The first three runs are leased by a process on another host; returns a function that acts as this process."""
    store = Results(db)
    keys = [config.run_key for config in plan(spec)]
    store.register_sweep(spec.name, "", "", plan(spec))

    def act(action):
        with monkeypatch.context() as patched:
            patched.setattr(leases, "this_process", lambda: ("elsewhere", 7))
            return action(store, keys[:3])

    act(lambda store, keys: store.lease(keys))
    return act


def test_a_sweep_waits_with_growing_pauses_for_runs_that_others_train_and_do_not_remove(spec, db, other, monkeypatch):
    pauses, observer = [], Mock(spec=Observer)

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 9:
            other(lambda store, keys: store.fail(keys[:1], "no luck"))
        if len(pauses) == 10:
            other(lambda store, keys: store.release(keys[1:]))
            with Results(db)._database.write() as connection:
                connection.execute(delete(run_table).where(run_table.c.run_key == plan(spec)[1].run_key))
        assert len(pauses) < 11

    monkeypatch.setattr(runner, "time", SimpleNamespace(sleep=pause, monotonic=lambda: 0.0))
    status = run_sweep(spec, db, observer=observer, wait=True)
    assert (status.total, status.complete, status.failed) == (3, 2, 1)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert received(observer.waiting) == [3] * 9 + [2]
    assert (received(observer.taken_over), sum(map(len, received(observer.finished)))) == ([1], 2)


def test_a_study_of_a_network_trained_elsewhere_stays_planned_or_is_waited_for_without_haste(tmp_path, monkeypatch):
    block = "{kind: patch_study, cases: special, method: idw, prototypes: 2}"
    path = sweep_file(tmp_path, MOONS, block, protocol="{epochs: 1}", seeds="1")
    spec, db = read_sweep(path), str(tmp_path / "study.db")
    network = run_config(spec.datasets[0][0], method="idw", prototypes=2, epochs=1, seed=0)
    store = Results(db)
    key = plan(spec)[0].required.run_key
    assert store.plan([network]) == [key]
    with monkeypatch.context() as patched:
        patched.setattr(leases, "this_process", lambda: ("elsewhere", 7))
        store.lease([key])
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        assert len(pauses) < 4
        if len(pauses) == 3:
            with Results(db)._database.write() as connection:
                connection.execute(update(run_table).values(heartbeat_at=datetime.now(UTC) - timedelta(minutes=11)))

    monkeypatch.setattr(runner, "time", SimpleNamespace(sleep=pause, monotonic=lambda: 0.0))
    observer, status = Mock(spec=Observer), run_sweep(spec, db)
    assert (status.planned, status.failed, pauses) == (1, 0, [])
    assert run_sweep(spec, db, wait=True, observer=observer).complete == 1
    assert run_sweep(spec, db, wait=True).complete == 1
    assert pauses == [0.5, 1, 2]  # none when all runs have ended
    assert received(observer.taken_over) == [2]  # the network and its study


# Studies of patches: what they need is trained first.

STUDY = "{kind: patch_study, cases: wrong, method: idw, prototypes: 2}"
NETWORK = "{method: idw, prototypes: 2}"


def a_study(seed=0):
    return run_config(MOONS, kind="patch_study", seed=seed, cases="wrong", prototypes=2, epochs=2)


@pytest.fixture
def write(tmp_path):
    """A function that writes a sweep of some blocks."""
    return lambda *blocks: sweep_file(tmp_path, MOONS, *blocks)


@pytest.fixture
def trained(monkeypatch):
    """Counts how often each network was trained."""
    counts = Counter()

    def count(configs, dataset, context):
        counts.update(config.run_key for config in configs)
        return train_torch(configs, dataset, context)

    train_torch = replace_train(monkeypatch, "torch", count)
    return counts


def sweep(path, db, **settings):
    return run_sweep(path, db, engine="torch", jobs=1, **settings)


def by_kind(db):
    return Counter((run.config.model.kind, run.state) for run in Results(db, read_only=True).find_runs())


def test_a_study_trains_its_network_first_and_uses_it_the_next_time(write, db, trained):
    status = sweep(write(STUDY), db)
    assert (status.complete, status.total) == (2, 2)
    assert by_kind(db) == {("patch_study", "complete"): 2, ("prototypes", "complete"): 2}
    study = a_study(seed=1)
    assert trained == {study.required.run_key: 1, a_study().required.run_key: 1}
    results = Results(db, read_only=True)
    stored = results.find_run(study.run_key)
    assert stored.config == study
    assert stored.metric("accuracy") is None
    assert stored.metric("accuracy_before") == results.find_run(study.required.run_key).metric("accuracy")
    arrays = results.load_arrays(study.run_key)
    assert arrays["eta"].dtype == np.float64
    assert {arrays[name].dtype for name in ("labels", "labels_before", "changed_test")} == {np.dtype(np.int64)}
    assert sweep(write(STUDY.replace("cases: wrong", "cases: special")), db).complete == 2
    assert sweep(write(STUDY, NETWORK), db).complete == 4
    assert set(trained.values()) == {1}


@pytest.mark.slow
def test_a_failed_network_makes_the_study_fail_with_the_reason(write, db, monkeypatch):
    path = write(STUDY)
    with monkeypatch.context() as patched:
        replace_train(patched, "torch", Mock(side_effect=RuntimeError("no memory")))
        assert sweep(path, db).failed == 2
    results = Results(db)
    network = a_study().required.run_key
    last = (results.find_run(a_study().run_key).error or "").strip().splitlines()[-1]
    assert last.endswith(f"the run {network[:12]}, whose network is to be studied, is failed")
    assert sweep(path, db, retry="failed").complete == 2
    assert by_kind(db) == {("patch_study", "complete"): 2, ("prototypes", "complete"): 2}


def test_the_study_of_a_diverged_network_is_diverged(write, db):
    block = STUDY.replace("prototypes: 2", "prototypes: 2, optimizer: sgd, learning_rate: 1.0e+30")
    status = sweep(write(block), db)
    assert (status.diverged, status.total) == (2, 2)
    assert by_kind(db) == {("patch_study", "diverged"): 2, ("prototypes", "diverged"): 2}
    results = Results(db)
    run = next(run for run in results.find_runs() if run.config.model.kind == "patch_study")
    assert run.metrics == {}
    assert run.diverged_epoch == results.find_run(run.config.required.run_key).diverged_epoch
    assert results.load_arrays(run.run_key) == {}


def test_a_study_without_its_network_or_with_one_of_other_data_is_refused(db, blobs):
    study = a_study()
    with pytest.raises(ResultsError, match="no run has a key"):
        train_run(study, blobs, results=Results(db))
    train(study.required, db, engine="torch")
    with pytest.raises(TrainingError, match=r"was trained on other data: the checksums differ"):
        train_run(study, blobs, results=Results(db))
