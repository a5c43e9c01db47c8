import socket

import numpy as np
import pytest

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


ENDED = ("complete", "diverged", "failed")


def test_a_reset_changes_nothing_but_what_is_pending(store, db, keys):
    before = [everything(store, key) for key in keys]
    assert store.reset(keys[::-1], ["diverged"]) == [keys[1]]
    assert store.pending(keys) == [keys[1], keys[3]]
    assert store.reset(keys[::-1], ENDED) == keys[2::-1]
    assert store.pending(keys) == keys
    assert [everything(store, key) for key in keys] == before
    assert Results(db).pending(keys) == keys[3:]  # a reset is forgotten with its process


def test_until_a_retraining_ends_the_old_results_are_there_and_count(store, db, keys):
    before = [everything(store, key) for key in keys]
    store.reset(keys, ENDED)
    assert store.lease(keys) == keys
    assert store.pending(keys) == store.lease(keys) == []
    assert store.sweep_status("moons").running == 4
    assert [everything(store, key) for key in keys[:2]] == before[:2]
    assert [run.retraining for run in store.find_runs()] == [True, True, False, False]
    assert [run.run_key for run in store.find_runs(states=["complete"])] == keys[:1]
    assert [run.run_key for run in store.find_runs(states=["running"])] == keys[2:]
    store.release(keys)
    assert [everything(store, key) for key in keys] == before
    assert not store.find_run(keys[0]).retraining
    assert store.find_run(keys[2]).error == "no memory"
    assert Results(db).pending(keys) == keys[3:]
    assert store.lease(keys) == keys


def test_a_failed_retraining_keeps_the_result_and_records_why(store, keys):
    before = [everything(store, key) for key in keys[:2]]
    store.reset(keys[:3], ENDED)
    store.lease(keys[:3])
    store.fail(keys[:3], "worker lost")
    assert [everything(store, key) for key in keys[:2]] == before
    failed = [(run.state, run.error) for run in store.find_runs()[:3]]
    assert failed == [(state, "worker lost") for state in ("complete", "diverged", "failed")]
    assert store.pending(keys[:3]) == []


def test_the_views_count_a_run_while_it_is_trained_again(store, keys):
    def counted():
        query = "SELECT n, mean, n_diverged FROM leaderboard WHERE split = 'test' OR n = 0"
        with store._database.read() as connection:
            wide = connection.exec_driver_sql("SELECT state, retraining FROM runs_wide ORDER BY seed").all()
            return connection.exec_driver_sql(query).all(), [(state, bool(again)) for state, again in wide]

    board, wide = counted()
    assert board == [(1, 0.975, 1)]
    assert wide == [(state, False) for state in ("complete", "diverged", "failed", "planned")]
    store.reset(keys, ENDED)
    store.lease(keys)
    assert counted() == (board, [("complete", True), ("diverged", True), ("running", False), ("running", False)])
    store.release(keys)
    assert counted() == (board, wide)


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
