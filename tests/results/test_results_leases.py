from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from idwbench.results import leases
from idwbench.results.tables import runs


@pytest.fixture
def keys(store, make_config):
    return store.register_sweep("moons", "", "", [make_config(seed) for seed in range(4)])


def states(store):
    return [run.state for run in store.find_runs()]


def test_a_leased_run_belongs_to_this_process(store, keys):
    before = datetime.now(UTC)
    assert store.lease([keys[2], keys[0]]) == [keys[2], keys[0]]
    run = store.find_run(keys[0])
    assert (run.state, run.host, run.attempt) == ("running", socket.gethostname(), 1)
    assert before <= run.started_at <= datetime.now(UTC)


def test_a_run_is_leased_once(store, keys):
    store.lease(keys[:2])
    assert store.lease(keys) == keys[2:]
    assert store.pending(keys) == []


def test_unknown_keys_are_neither_pending_nor_leased(store, keys):
    assert store.pending(["0" * 64, keys[1]]) == [keys[1]]
    assert store.lease(["0" * 64]) == []


@pytest.mark.slow
def test_more_runs_are_leased_than_one_statement_accepts(store, make_config):
    many = store.plan([make_config(seed) for seed in range(2_000)])
    assert store.lease(many[::-1]) == many[::-1]


def test_a_run_of_a_dead_process_is_stale_and_leased_again(store, keys, as_other_process, monkeypatch):
    as_other_process(socket.gethostname(), 2**22 + 1)  # larger than any process number of Linux
    store.lease(keys[:1])
    monkeypatch.undo()
    status = store.sweep_status("moons")
    assert (status.stale, status.running, status.planned) == (1, 0, 3)
    assert store.pending(keys) == keys
    assert store.lease(keys[:1]) == keys[:1]
    assert store.find_run(keys[0]).attempt == 2


def test_a_run_of_another_host_is_stale_when_its_lease_is_ten_minutes_old(store, keys, as_other_process, monkeypatch):
    as_other_process("elsewhere", 1)
    store.lease(keys[:2])
    monkeypatch.undo()
    assert store.pending(keys) == keys[2:]
    with store._database.write() as connection:
        old = datetime.now(UTC) - timedelta(minutes=11)
        connection.execute(update(runs).where(runs.c.run_key == keys[0]).values(heartbeat_at=old))
    assert store.pending(keys) == [keys[0], *keys[2:]]


def test_a_renewed_lease_keeps_a_run(store, keys, as_other_process, monkeypatch):
    as_other_process("elsewhere", 1)
    store.lease(keys[:1])
    with store._database.write() as connection:
        connection.execute(update(runs).values(heartbeat_at=datetime.now(UTC) - timedelta(hours=1)))
    store.renew(keys[:1])
    monkeypatch.undo()
    assert store.lease(keys[:1]) == []


def test_release_ends_only_the_leases_of_this_process(store, keys, as_other_process, make_config, make_result):
    store.lease(keys[:3])
    store.finish([make_result(make_config(0))])
    store.release(keys)
    assert states(store) == ["complete", "planned", "planned", "planned"]
    store.lease(keys[1:2])
    as_other_process(socket.gethostname(), os.getpid() + 1)
    store.release(keys)
    assert store.find_run(keys[1]).state == "running"


def test_a_failure_is_stored_with_its_reason(store, keys):
    store.lease(keys[:2])
    store.fail(keys, "Traceback …\nMemoryError")
    assert states(store) == ["failed", "failed", "planned", "planned"]
    assert store.find_run(keys[0]).error == "Traceback …\nMemoryError"
    assert store.find_run(keys[0]).finished_at is not None


def test_a_reason_with_characters_that_cannot_be_stored_is_stored_with_escapes(store, keys):
    store.lease(keys[:1])
    store.fail(keys[:1], "bad name: a\0b\udcff ε")
    assert store.find_run(keys[0]).error == r"bad name: a\x00b\udcff ε"


def test_failed_runs_are_not_pending_until_they_are_reset(store, keys):
    store.lease(keys)
    store.fail(keys[1:3], "no")
    assert store.pending(keys) == []
    assert store.reset(keys, ["failed"]) == keys[1:3]
    assert store.pending(keys) == keys[1:3]
    assert store.lease(keys) == keys[1:3]
    assert store.pending(keys) == []


def test_an_interrupted_lease_changes_nothing(store, keys, monkeypatch):
    def interrupted(*arguments):
        original(*arguments)
        raise KeyboardInterrupt

    original = leases.lease_runs
    monkeypatch.setattr(leases, "lease_runs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.lease(keys)
    assert states(store) == ["planned"] * 4
