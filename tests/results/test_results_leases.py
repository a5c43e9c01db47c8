import os
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from sqlalchemy import update

from idwbench.errors import ResultsError
from idwbench.results.leases import LEASE_DURATION, is_stale, process_is_alive, renewed
from idwbench.results.tables import runs

SECONDS = 60  # how long a test waits before it fails; none waits in vain


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

    def refuse(process):
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "create_time", refuse)  # the process of another user
    assert process_is_alive(os.getpid(), now)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_run_without_a_known_owner_is_stale_and_on_another_host_the_age_of_the_lease_decides(missing):
    now = datetime.now(UTC)
    owner = ["there", 1, now]
    assert not is_stale(*owner)
    assert is_stale("there", 1, now - LEASE_DURATION)
    owner[missing] = None
    assert is_stale(*owner)


def test_leases_are_renewed_again_and_again_until_the_block_ends_also_after_an_error():
    renewed_keys, third = [], threading.Event()

    def renew(run_keys):
        renewed_keys.append(run_keys)
        if len(renewed_keys) == 3:
            third.set()
        raise ResultsError("another process has kept the database locked")

    with renewed(renew, ["a", "b"], interval=0.0):
        assert third.wait(SECONDS)
    assert renewed_keys[2] == ["a", "b"]
    with pytest.raises(ZeroDivisionError), renewed(renewed_keys.clear, ["a"], interval=3600.0):
        assert [thread.daemon for thread in threading.enumerate() if thread.name == "idwbench-leases"] == [True]
        raise ZeroDivisionError
    assert "idwbench-leases" not in {thread.name for thread in threading.enumerate()}
    assert len(renewed_keys) >= 3  # none before the first interval
