from __future__ import annotations

import socket
import subprocess
import sys

import numpy as np
import pytest

from idwbench.report.render import render
from idwbench.report.selection import select_runs
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.store import Results


@pytest.fixture
def keys(store, make_config, make_result, make_diverged):
    """A complete, a diverged, a failed and a planned run."""
    keys = store.register_sweep("moons", "", "", [make_config(seed) for seed in range(4)])
    store.lease(keys[2:3])
    store.fail(keys[2:3], "no memory")
    store.finish([make_result(make_config(0)), make_diverged(make_config(1))])
    return keys


def everything(store, key):
    """A run with its result, but without the process that trained it last."""
    run = store.find_run(key)
    facts = (run.state, run.metrics, run.n_parameters, run.diverged_epoch, run.engine, run.seconds, run.versions)
    facts += (run.cpu, run.data_sha256, run.finished_at)
    curve = [repr(point) for point in store.load_curve(key)]
    return facts, curve, {name: array.tolist() for name, array in store.load_arrays(key).items()}


def states(store):
    return [run.state for run in store.find_runs()]


ENDED = ("complete", "diverged", "failed")


def test_a_reset_changes_nothing_but_what_is_pending(store, keys):
    before = [everything(store, key) for key in keys]
    assert store.reset(keys[::-1], ["diverged"]) == [keys[1]]
    assert store.pending(keys) == [keys[1], keys[3]]
    assert store.reset(keys[::-1], ENDED) == keys[2::-1]
    assert store.pending(keys) == keys
    assert [everything(store, key) for key in keys] == before


def test_a_reset_is_forgotten_with_its_process(store, db, keys):
    store.reset(keys, ENDED)
    assert Results(db).pending(keys) == keys[3:]


def test_while_a_run_is_trained_again_its_old_result_is_there_and_counts(store, keys):
    old = everything(store, keys[0])
    store.reset(keys[:1], ENDED)
    assert store.lease(keys[:1]) == keys[:1]
    assert store.pending(keys[:1]) == []
    assert store.lease(keys[:1]) == []
    assert store.sweep_status("moons").running == 1
    assert everything(store, keys[0]) == old
    assert [run.retraining for run in store.find_runs()] == [True, False, False, False]
    assert [run.run_key for run in store.find_runs(states=["complete"])] == keys[:1]
    assert store.find_runs(states=["running"]) == []
    (reported, *_) = store.find_runs(sweep="moons")
    assert (reported.state, reported.metrics) == (old[0][0], old[0][1])
    store.release(keys[:1])
    assert not store.find_run(keys[0]).retraining


def test_an_interrupted_retraining_leaves_every_run_as_it_had_ended(store, db, keys):
    before = [everything(store, key) for key in keys]
    store.reset(keys, ENDED)
    store.lease(keys)
    store.release(keys)
    assert [everything(store, key) for key in keys] == before
    assert store.find_run(keys[2]).error == "no memory"
    assert Results(db).pending(keys) == keys[3:]
    for key in keys:
        assert store.lease([key]) == [key]


@pytest.mark.parametrize("place", [0, 1])
def test_a_failed_retraining_keeps_the_result_and_records_why(store, keys, place):
    key = keys[place]
    before = everything(store, key)
    store.reset([key], ENDED)
    store.lease([key])
    store.fail([key], "worker lost")
    assert everything(store, key) == before
    assert store.find_run(key).error == "worker lost"
    assert store.pending([key]) == []


def test_a_run_that_fails_again_is_failed_for_the_new_reason(store, keys):
    store.reset(keys[2:3], ENDED)
    store.lease(keys[2:3])
    assert (store.find_run(keys[2]).state, store.find_run(keys[2]).retraining) == ("running", False)
    store.fail(keys[2:3], "no time")
    run = store.find_run(keys[2])
    assert (run.state, run.error) == ("failed", "no time")
    assert store.pending(keys[2:3]) == []


@pytest.mark.parametrize("leased", [True, False])
def test_a_retraining_replaces_the_whole_result(store, keys, make_config, make_result, make_diverged, leased):
    store.reset(keys, ENDED)
    if leased:
        store.lease(keys)
    new = make_result(make_config(1), test=0.5)
    assert store.finish([make_diverged(make_config(0)), new]) == keys[:2]
    (diverged, complete) = store.find_runs()[:2]
    assert (diverged.state, diverged.metrics, diverged.n_parameters) == ("diverged", {}, None)
    assert len(store.load_curve(keys[0])) == 2
    assert store.load_arrays(keys[0]) == {}
    assert (complete.state, complete.metrics) == ("complete", new.metrics)
    assert (complete.diverged_epoch, complete.error) == (None, None)
    np.testing.assert_array_equal(store.load_arrays(keys[1])["keys"], new.arrays["keys"])
    assert store.pending(keys[:2]) == []
    assert store.finish([make_result(make_config(1), test=0.1)]) == []  # only the first result replaces the old one
    assert store.find_run(keys[1]).metric("accuracy") == 0.5


def test_two_processes_that_reset_the_same_runs_share_them(store, db, keys, make_config, make_result):
    other = Results(db)
    for one in (store, other):
        assert one.reset(keys[:2], ENDED) == keys[:2]
    assert other.lease(keys[:1]) == keys[:1]
    assert store.lease(keys[:2]) == keys[1:2]
    other.finish([make_result(make_config(0), test=0.5)])
    assert store.pending(keys[:1]) == store.lease(keys[:1]) == []
    assert store.finish([make_result(make_config(0), test=0.1)]) == []


def test_a_retraining_whose_process_died_is_taken_over_and_still_keeps_the_result(
    store, db, keys, as_other_process, monkeypatch
):
    before = everything(store, keys[0])
    as_other_process(socket.gethostname(), 2**22 + 1)  # larger than any process number of Linux
    store.reset(keys[:1], ENDED)
    store.lease(keys[:1])
    monkeypatch.undo()
    successor = Results(db)
    assert successor.lease(keys[:1]) == keys[:1]
    successor.fail(keys[:1], "again")
    assert everything(store, keys[0]) == before


def test_the_views_count_a_run_while_it_is_trained_again(store, keys):
    def counted():
        with store._database.read() as connection:
            board = connection.exec_driver_sql(
                "SELECT n, mean, n_diverged FROM leaderboard WHERE split = 'test' OR n = 0"
            ).all()
            wide = connection.exec_driver_sql("SELECT state FROM runs_wide ORDER BY seed").scalars().all()
        return board, wide

    before = counted()
    assert before == ([(1, 0.975, 1)], ["complete", "diverged", "failed", "planned"])
    store.reset(keys, ENDED)
    store.lease(keys[:2])
    assert counted() == before
    with store._database.read() as connection:
        again = connection.exec_driver_sql("SELECT retraining FROM runs_wide ORDER BY seed").scalars().all()
    assert list(map(bool, again)) == [True, True, False, False]
    store.lease(keys)
    assert counted() == (before[0], ["complete", "diverged", "running", "running"])
    store.release(keys)
    assert counted() == before


RETRY = """
import os, sys
from pathlib import Path
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.observer import Observer

class Killed(Observer):
    def epoch(self, configs, epoch):
        if configs[0].model.prototypes == 3:
            os._exit(9)

run_sweep(Path(sys.argv[1]), sys.argv[2], retry=sys.argv[3] or None, engine="torch", jobs=1,
    observer=Killed() if sys.argv[3] else None)
"""


@pytest.mark.slow
def test_a_report_counts_all_results_after_a_retry_was_killed_half_way(tmp_path):
    file, db = tmp_path / "sweep.yaml", str(tmp_path / "results.db")
    file.write_text(
        "name: moons\ndataset: {name: two_moons, train_per_class: 5, holdout_per_class: 0}\n"
        "protocol: {epochs: 1}\nseeds: 3\ngrid: {method: idw, prototypes: [2, 3]}\n"
    )
    before = []
    for retry, code in (("", 0), ("all", 9)):
        done = subprocess.run([sys.executable, "-c", RETRY, str(file), db, retry], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        runs = select_runs(Results(db, read_only=True), "moons")
        before.append(render(section_tables(summarise(runs)), "json"))
    assert before[0] == before[1]
    status = Results(db).sweep_status("moons")
    assert (status.complete, status.stale) == (3, 3)
    assert [run.state for run in Results(db).find_runs()] == ["complete"] * 6
