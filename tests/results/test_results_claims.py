from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from idwbench.results import claims
from idwbench.results.models import runs


@pytest.fixture
def keys(store, make_config):
    return store.register_sweep("moons", "", "", [make_config(seed) for seed in range(4)])


def states(store):
    return [run.state for run in store.find_runs()]


def test_a_claimed_run_belongs_to_this_process(store, keys):
    assert store.claim([keys[2], keys[0]]) == [keys[2], keys[0]]
    run = store.find_run(keys[0])
    assert (run.state, run.host, run.attempt) == ("running", socket.gethostname(), 1)
    assert abs(datetime.now(UTC) - run.started_at) < timedelta(minutes=1)


def test_a_run_is_claimed_once(store, keys):
    store.claim(keys[:2])
    assert store.claim(keys) == keys[2:]
    assert store.pending(keys) == []


def test_unknown_keys_are_neither_pending_nor_claimed(store, keys):
    assert store.pending(["0" * 64, keys[1]]) == [keys[1]]
    assert store.claim(["0" * 64]) == []


def test_more_runs_are_claimed_than_one_statement_takes(store, make_config):
    many = store.plan([make_config(seed) for seed in range(2_000)])
    assert store.claim(many[::-1]) == many[::-1]


def test_a_run_of_a_dead_process_is_stale_and_claimed_again(store, keys, as_other_process, monkeypatch):
    as_other_process(socket.gethostname(), 2**22 + 1)  # beyond the largest number Linux gives
    store.claim(keys[:1])
    monkeypatch.undo()
    status = store.sweep_status("moons")
    assert (status.stale, status.running, status.planned) == (1, 0, 3)
    assert store.pending(keys) == keys
    assert store.claim(keys[:1]) == keys[:1]
    assert store.find_run(keys[0]).attempt == 2


def test_a_run_of_another_host_is_stale_after_ten_silent_minutes(store, keys, as_other_process, monkeypatch):
    as_other_process("elsewhere", 1)
    store.claim(keys[:2])
    monkeypatch.undo()
    assert store.pending(keys) == keys[2:]
    with store._database.write() as connection:
        old = datetime.now(UTC) - timedelta(minutes=11)
        connection.execute(update(runs).where(runs.c.run_key == keys[0]).values(heartbeat_at=old))
    assert store.pending(keys) == [keys[0], *keys[2:]]


def test_a_heartbeat_keeps_a_run(store, keys, as_other_process, monkeypatch):
    as_other_process("elsewhere", 1)
    store.claim(keys[:1])
    with store._database.write() as connection:
        connection.execute(update(runs).values(heartbeat_at=datetime.now(UTC) - timedelta(hours=1)))
    store.heartbeat(keys[:1])
    monkeypatch.undo()
    assert store.claim(keys[:1]) == []


def test_release_gives_back_only_what_this_process_has(store, keys, as_other_process, make_config, make_result):
    store.claim(keys[:3])
    store.finish([make_result(make_config(0))])
    store.release(keys)
    assert states(store) == ["complete", "planned", "planned", "planned"]
    store.claim(keys[1:2])
    as_other_process(socket.gethostname(), os.getpid() + 1)
    store.release(keys)
    assert store.find_run(keys[1]).state == "running"


def test_a_failure_is_stored_with_its_reason(store, keys):
    store.claim(keys[:2])
    store.fail(keys, "Traceback …\nMemoryError")
    assert states(store) == ["failed", "failed", "planned", "planned"]
    assert store.find_run(keys[0]).error == "Traceback …\nMemoryError"
    assert store.find_run(keys[0]).finished_at is not None


def test_failed_runs_are_not_pending_until_they_are_reset(store, keys):
    store.claim(keys)
    store.fail(keys[1:3], "no")
    assert store.pending(keys) == []
    assert store.reset(keys, ["failed"]) == keys[1:3]
    assert store.pending(keys) == keys[1:3]
    assert store.claim(keys) == keys[1:3]
    assert store.pending(keys) == []


def test_a_claim_that_breaks_off_leaves_all_as_it_was(store, keys, monkeypatch):
    def interrupted(*arguments):
        claims_before(*arguments)
        raise KeyboardInterrupt

    claims_before = claims.claim_runs
    monkeypatch.setattr(claims, "claim_runs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.claim(keys)
    assert states(store) == ["planned"] * 4
