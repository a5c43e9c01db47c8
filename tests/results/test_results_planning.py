"""Planning of sweeps, leases of runs by processes, and the progress of a sweep that other processes train."""

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import psutil
import pytest
from sqlalchemy import select, update

from idwbench.errors import ResultsError
from idwbench.results.leases import LEASE_DURATION, is_stale, process_is_alive
from idwbench.results.tables import runs
from idwbench.runs.config import run_config
from idwbench.runs.datasets import NpzConfig


def test_a_sweep_plans_its_missing_runs_in_order_and_a_changed_plan_deletes_no_run(store, make_config, make_result):
    configs = [make_config(seed) for seed in (3, 1, 2)]
    assert store.register_sweep("moons", "", "", []) == []
    keys = store.register_sweep("moons", "three seeds", "name: moons\n", [*configs, configs[0]])
    assert keys == [config.run_key for config in configs]
    runs = store.find_runs(sweep="moons")
    assert [(run.config, run.state, run.dataset) for run in runs] == [(one, "planned", "two_moons") for one in configs]
    store.register_sweep("moons", "", "", configs[::-1])
    assert [run.config for run in store.find_runs(sweep="moons")] == configs[::-1]
    store.finish([make_result(configs[0])])
    store.register_sweep("moons", "new", "new", [make_config(5), make_config(1)])
    assert [run.config.seed for run in store.find_runs(sweep="moons")] == [5, 1]
    assert sorted(run.config.seed for run in store.find_runs()) == [1, 2, 3, 5]
    (sweep,) = store.list_sweeps()
    assert (sweep.description, sweep.spec) == ("new", "new")
    assert sweep.updated_at >= sweep.created_at


def file_config(path, seed=0, sha256="ab"):
    return run_config(NpzConfig(path=path, sha256=sha256), prototypes=2, epochs=1, seed=seed)


def test_all_runs_on_a_renamed_file_take_its_new_name(store, make_result):
    old = [file_config("a/old.npz", seed=seed) for seed in range(3)]
    other = file_config("a/old.npz", sha256="cd")
    store.plan([*old, other])
    store.finish([make_result(config) for config in old])
    new = [file_config("b/new.npz", seed=seed) for seed in (0, 7)]  # the seeds 1 and 2 are not asked for any more
    store.plan(new)
    store.finish([make_result(config) for config in new])
    runs = store.find_runs(states=["complete"])
    assert [run.config for run in runs] == [file_config("b/new.npz", seed=seed) for seed in (0, 1, 2, 7)]
    assert {run.dataset for run in runs} == {"new.npz"}
    assert store.find_run(other.run_key).config == other
    with store._database.read() as connection:
        board = connection.exec_driver_sql("SELECT dataset, n FROM leaderboard WHERE split = 'test'").all()
    assert board == [("new.npz", 4)]


def test_the_row_alone_is_enough_to_run_it_again_and_its_columns_hold_the_settings(store, make_config):
    protocol = {"epochs": 2, "batch_size": 4, "learning_rate": 0.1, "optimizer": "sgd", "momentum": 0.5}
    config = make_config(2**32 - 1, "neg_dist", 3, power=7.0, initialisation="kmeans", **protocol)
    store.plan([config])
    (run,) = store.find_runs()
    assert run.config == config
    assert run.run_key == run.config.run_key == config.run_key
    with store._database.read() as connection:
        (row,) = connection.execute(select(runs)).mappings()
    assert (row["model"], row["method"], row["prototypes"], row["power"]) == ("prototypes", "neg_dist", 3, 7.0)
    assert (row["epsilon"], row["plugin_sha256"], row["parameters"]) == (None, None, {"power": 7.0})
    assert (row["epochs"], row["optimizer"], row["seed"]) == (2, "sgd", 2**32 - 1)
    assert row["protocol"] == row["config"]["protocol"]
    assert row["protocol"]["momentum"] == 0.5


def test_large_sweeps_need_as_many_statements_as_small_ones(store, make_config, make_result, statements):
    store.register_sweep("small", "", "", [make_config(seed) for seed in range(3)])
    few = len(statements)
    store.register_sweep("small", "", "new text", [make_config(seed) for seed in range(3)])
    writes = [one.split()[:3] for one in statements[few:] if not one.startswith(("SELECT", "BEGIN"))]
    assert writes == [["INSERT", "INTO", "sweeps"]]  # a plan that is stored already is not written again
    keys = store.register_sweep("large", "", "", [make_config(seed) for seed in range(1_000)])
    assert len(statements) < 3 * few  # runs are looked up 900 at a time
    assert store.sweep_status("large").planned == 1_000
    assert store.lease(keys[::-1]) == keys[::-1]
    store.release(keys)
    assert store.pending(keys) == keys
    assert len(statements) < 6 * few
    counts = []
    for seeds in ([0], range(1, 51)):
        statements.clear()
        store.finish([make_result(make_config(seed)) for seed in seeds])
        counts.append(len(statements))
    assert counts[1] < 3 * counts[0]
    assert len(store.find_runs(states=["complete"])) == 51


@pytest.mark.parametrize("place", ["name", "description", "text"])
def test_text_that_cannot_be_stored_is_refused_and_nothing_is_planned(store, make_config, place):
    texts = {"name": "moons", "description": "", "text": "", place: "a\udcffb"}
    with pytest.raises(ResultsError, match=r"text that is not valid Unicode: surrogates not allowed"):
        store.register_sweep(texts["name"], texts["description"], texts["text"], [make_config(0)])
    assert store.list_sweeps() == store.find_runs() == []


@pytest.fixture
def keys(store, make_config):
    return store.register_sweep("moons", "", "", [make_config(seed) for seed in range(4)])


def states(store):
    return [run.state for run in store.find_runs()]


def test_a_run_is_leased_once_and_then_belongs_to_this_process(store, keys):
    before = datetime.now(UTC)
    assert store.lease([keys[2], "0" * 64, keys[0]]) == [keys[2], keys[0]]
    run = store.find_run(keys[0])
    assert (run.state, run.host, run.attempt) == ("running", socket.gethostname(), 1)
    assert before <= run.started_at <= datetime.now(UTC)
    assert store.pending(["0" * 64, *keys]) == [keys[1], keys[3]]
    assert store.lease(keys) == [keys[1], keys[3]]
    assert store.pending(keys) == []


def test_a_run_of_a_dead_process_is_stale_and_leased_again(store, keys, as_other_process, monkeypatch):
    as_other_process(socket.gethostname(), 2**22 + 1)  # larger than any process number of Linux
    store.lease(keys[:1])
    monkeypatch.undo()
    status = store.sweep_status("moons")
    assert (status.total, status.stale, status.running, status.planned) == (4, 1, 0, 3)
    assert store.pending(keys) == keys
    assert store.lease(keys[:1]) == keys[:1]
    assert store.find_run(keys[0]).attempt == 2


def test_a_run_of_another_host_is_stale_when_its_lease_was_not_renewed(store, keys, as_other_process, monkeypatch):
    as_other_process("elsewhere", 1)
    store.lease(keys[:3])
    with store._database.write() as connection:
        old = datetime.now(UTC) - timedelta(minutes=11)
        connection.execute(update(runs).where(runs.c.run_key != keys[2]).values(heartbeat_at=old))
    store.renew(keys[:1])
    monkeypatch.undo()
    assert store.pending(keys) == [keys[1], keys[3]]


def test_release_ends_only_the_leases_of_this_process(store, keys, as_other_process, make_config, make_result):
    store.lease(keys[:3])
    store.finish([make_result(make_config(0))])
    store.release(keys)
    assert states(store) == ["complete", "planned", "planned", "planned"]
    store.lease(keys[1:2])
    as_other_process(socket.gethostname(), os.getpid() + 1)
    store.release(keys)
    assert store.find_run(keys[1]).state == "running"


def test_a_failure_is_stored_with_its_reason_and_what_cannot_be_stored_with_escapes(store, keys):
    store.lease(keys[:2])
    store.fail(keys, "Traceback …\nMemoryError: a\0b\udcff ε")
    assert states(store) == ["failed", "failed", "planned", "planned"]
    assert store.find_run(keys[0]).error == "Traceback …\nMemoryError: a\\x00b\\udcff ε"
    assert store.find_run(keys[0]).finished_at is not None


def test_a_process_is_alive_until_it_ends_and_its_number_does_not_count(monkeypatch):
    now = datetime.now(UTC)
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    process.stdout.read()
    if hasattr(os, "waitid"):  # a zombie, ended but not yet reaped
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not process_is_alive(process.pid, now)
    process.stdout.close()
    process.wait()
    assert not process_is_alive(process.pid, now)
    assert process_is_alive(os.getpid(), now)
    assert not process_is_alive(os.getpid(), now - timedelta(days=1))  # a later process with the same number
    refusal = Mock(side_effect=psutil.AccessDenied(1))  # for the process of another user
    monkeypatch.setattr(psutil.Process, "create_time", refusal)
    assert process_is_alive(os.getpid(), now)


def test_a_run_without_a_known_owner_is_stale_and_on_another_host_the_age_of_the_lease_decides():
    now = datetime.now(UTC)
    assert not is_stale("there", 1, now)
    owners = [("there", 1, now - LEASE_DURATION), (None, 1, now), ("there", None, now), ("there", 1, None)]
    assert all(is_stale(*owner) for owner in owners)


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def configs(store, make_config):
    """The runs of a sweep."""
    configs = [make_config(seed, prototypes=2) for seed in range(8)]
    store.register_sweep("long", "", "name: long", configs)
    return configs


def set_times(store, configs, started, finished):
    with store._database.write() as connection:
        chosen = runs.c.run_key.in_([config.run_key for config in configs])
        connection.execute(update(runs).where(chosen).values(started_at=started, finished_at=finished))


def test_the_rate_is_that_of_the_last_ten_minutes(store, configs, make_diverged):
    store.finish([make_diverged(config) for config in configs[:4]])
    set_times(store, configs[:1], NOW - timedelta(hours=2), NOW - timedelta(hours=1))
    set_times(store, configs[1:4], NOW - timedelta(seconds=60), NOW - timedelta(seconds=5))
    found = store.sweep_progress("long", NOW)
    assert (found.status.ended, found.status.to_do) == (4, 4)
    assert found.rate == pytest.approx(3 / 60)
    assert found.seconds_left == pytest.approx(80)
    # Without a recent end it is not known, and of a run that began before the window, its part within it counts.
    assert store.sweep_progress("long", NOW + timedelta(days=1)).seconds_left is None
    set_times(store, configs[1:4], NOW - timedelta(hours=3), NOW - timedelta(seconds=5))
    assert store.sweep_progress("long", NOW).rate == pytest.approx(3 / 600)
    store.finish([make_diverged(config) for config in configs[4:]])
    done = store.sweep_progress("long", datetime.now(UTC) + timedelta(days=1))
    assert (done.rate, done.seconds_left, done.status.to_do) == (None, 0.0, 0)


def test_processes_that_train_are_named_with_their_runs(store, configs):
    store.lease([config.run_key for config in configs[:3]])
    (process,) = store.sweep_progress("long").processes
    assert (process.host, process.pid, process.runs) == (socket.gethostname(), os.getpid(), 3)
    assert process.label == "two_moons · idw · 2 prototypes · p=2, ε=0.001"
    assert store.sweep_progress("long").status.running == 3


def test_the_last_failures_come_first_and_are_few(store, configs):
    for place, config in enumerate(configs[:7]):
        store.lease([config.run_key])
        store.fail([config.run_key], f"Traceback\nValueError: problem {place}")
        set_times(store, [config], NOW, NOW + timedelta(seconds=place))
    found = store.sweep_progress("long")
    assert [failure.reason for failure in found.failures] == [f"ValueError: problem {n}" for n in (6, 5, 4, 3, 2)]
    assert [failure.seed for failure in found.failures] == [6, 5, 4, 3, 2]
    assert {failure.label for failure in found.failures} == {"two_moons · idw · 2 prototypes · p=2, ε=0.001"}
