from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from idwbench.errors import ResultsError
from idwbench.results.store import Results
from idwbench.results.tables import runs

DEAD = 2**22 + 1  # larger than any process number of Linux


@pytest.fixture
def keys(store, make_config):
    return store.plan([make_config(seed) for seed in range(3)])


def history(store, key):
    return [(one.number, one.state) for one in store.attempts(key)]


def test_a_planned_run_has_no_attempts(store, keys):
    assert store.attempts(keys[0]) == []


def test_the_attempts_of_an_unknown_run_are_refused(store):
    with pytest.raises(ResultsError, match="no run has the key 'ab'"):
        store.attempts("ab")


def test_a_lease_begins_an_attempt_of_this_process(store, keys):
    before = datetime.now(UTC)
    store.lease(keys[:2])
    (one,) = store.attempts(keys[0])
    assert (one.number, one.state, one.error, one.ended_at, one.seconds) == (1, "running", None, None, None)
    assert (one.host, one.pid) == (socket.gethostname(), os.getpid())
    assert before <= one.started_at <= datetime.now(UTC)
    assert store.attempts(keys[2]) == []


def test_a_result_ends_the_attempt(store, keys, make_config, make_result, make_diverged):
    store.lease(keys)
    store.finish([make_result(make_config(0), seconds=1.5), make_diverged(make_config(1))])
    (one,) = store.attempts(keys[0])
    assert (one.number, one.state, one.seconds) == (1, "complete", 1.5)
    assert one.ended_at == store.find_run(keys[0]).finished_at
    assert history(store, keys[1]) == [(1, "diverged")]
    assert history(store, keys[2]) == [(1, "running")]


def test_every_failure_and_interruption_stays_in_the_history(store, keys, make_config, make_result):
    store.lease(keys)
    store.fail(keys[:1], "Traceback …\nMemoryError")
    store.reset(keys, ["failed"])
    store.lease(keys[:1])
    store.release(keys[:1])
    store.lease(keys[:1])
    store.finish([make_result(make_config(0))])
    attempts = store.attempts(keys[0])
    assert [(one.number, one.state) for one in attempts] == [(1, "failed"), (2, "released"), (3, "complete")]
    assert [one.error for one in attempts] == ["Traceback …\nMemoryError", None, None]
    assert attempts[0].ended_at <= attempts[1].started_at <= attempts[1].ended_at <= attempts[2].started_at
    assert history(store, keys[1]) == [(1, "running")]


def test_the_attempt_of_a_dead_process_is_lost(store, db, keys, as_other_process, monkeypatch):
    as_other_process(socket.gethostname(), DEAD)
    store.lease(keys[:1])
    renewed = store.attempts(keys[0])[0].started_at
    monkeypatch.undo()
    (read,) = Results(db, read_only=True).attempts(keys[0])
    assert (read.state, read.ended_at) == ("lost", renewed)
    store.lease(keys[:1])
    first, second = store.attempts(keys[0])
    assert first == read
    assert (second.number, second.state, second.pid) == (2, "running", os.getpid())


def test_a_late_result_is_that_of_its_own_attempt(store, keys, make_config, make_result, as_other_process):
    store.lease(keys[:1])
    with store._database.write() as connection:
        old = datetime.now(UTC) - timedelta(minutes=11)
        connection.execute(update(runs).values(heartbeat_at=old, host="elsewhere"))
    as_other_process("third", 1)
    store.lease(keys[:1])
    as_other_process(socket.gethostname(), os.getpid())
    assert history(store, keys[0]) == [(1, "lost"), (2, "running")]
    store.finish([make_result(make_config(0))])
    assert history(store, keys[0]) == [(1, "complete"), (2, "lost")]
    as_other_process("third", 1)
    assert store.finish([make_result(make_config(0))]) == []
    store.fail(keys[:1], "too late")
    assert history(store, keys[0]) == [(1, "complete"), (2, "lost")]
    assert store.find_run(keys[0]).attempt == 2


def test_a_late_result_of_a_released_attempt_is_that_attempt(store, keys, make_config, make_result):
    store.lease(keys[:1])
    store.release(keys[:1])
    store.finish([make_result(make_config(0))])
    assert history(store, keys[0]) == [(1, "complete")]


def test_a_result_without_a_lease_is_an_attempt(store, keys, make_config, make_result):
    store.finish([make_result(make_config(0), seconds=2.0), make_result(make_config(7))])
    (one,) = store.attempts(keys[0])
    assert (one.number, one.state, one.ended_at - one.started_at) == (1, "complete", timedelta(seconds=2))
    assert history(store, make_config(7).run_key) == [(1, "complete")]
    assert {run.attempt for run in store.find_runs(states=["complete"])} == {1}


def test_training_again_adds_an_attempt_and_its_failure_keeps_the_result(store, keys, make_config, make_result):
    store.finish([make_result(make_config(0))])
    store.reset(keys, ["complete"])
    store.lease(keys[:1])
    assert history(store, keys[0]) == [(1, "complete"), (2, "running")]
    store.fail(keys[:1], "worker lost")
    assert history(store, keys[0]) == [(1, "complete"), (2, "failed")]
    store.reset(keys, ["complete"])
    store.finish([make_result(make_config(0), test=0.5)])
    assert history(store, keys[0]) == [(1, "complete"), (2, "complete")]


def test_a_store_for_reading_gives_attempts(store, db, keys):
    store.lease(keys[:1])
    assert Results(db, read_only=True).attempts(keys[0]) == store.attempts(keys[0])


@pytest.mark.slow
def test_attempts_cost_no_statement_for_each_run(store, make_config, make_result, statements):
    keys = store.plan([make_config(seed) for seed in range(40)])
    counts = []
    for part in (keys[:1], keys[1:]):
        statements.clear()
        store.lease(part)
        store.release(part)
        store.lease(part)
        store.fail(part[:1], "no")
        store.finish([make_result(make_config(keys.index(key))) for key in part])
        counts.append(len(statements))
    assert counts[0] == counts[1]
