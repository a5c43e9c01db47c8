from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from idwbench.results.processes import LEASE_DURATION, Owner, is_stale, process_is_alive

NOW = datetime.now(UTC)
HERE = Owner("here", 1)


def test_this_process_is_alive():
    assert process_is_alive(os.getpid(), datetime.now(UTC))


def test_an_ended_process_is_not_alive():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not process_is_alive(process.pid, datetime.now(UTC))


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs POSIX")
def test_a_zombie_is_not_alive():
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, but not yet reaped
    assert not process_is_alive(process.pid, datetime.now(UTC))
    process.stdout.close()
    process.wait()


def test_a_later_process_with_the_same_number_does_not_count():
    assert not process_is_alive(os.getpid(), datetime.now(UTC) - timedelta(days=1))


@pytest.mark.parametrize("missing", ["host", "pid", "heartbeat_at"])
def test_a_run_without_a_known_owner_is_stale(missing):
    owner = {"host": "there", "pid": 1, "heartbeat_at": NOW} | {missing: None}
    assert is_stale(**owner, observer=HERE, now=NOW)


def test_a_process_of_another_user_is_alive(monkeypatch):
    def refuse(process):
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "create_time", refuse)
    assert process_is_alive(os.getpid(), NOW)


@pytest.mark.parametrize(("silent", "stale"), [(timedelta(0), False), (timedelta(seconds=1), True)])
def test_on_another_host_the_age_of_the_lease_decides(silent, stale):
    assert is_stale("there", 1, NOW - LEASE_DURATION - silent, observer=HERE, now=NOW) is stale
