from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from idwbench.results.ownership import HEARTBEAT_LIMIT, Owner, is_stale, process_is_alive

NOW = datetime.now(UTC)
HERE = Owner("here", 1)


def test_this_process_is_alive():
    assert process_is_alive(os.getpid(), datetime.now(UTC))


def test_an_ended_process_is_not():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not process_is_alive(process.pid, datetime.now(UTC))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells zombies apart without a library")
def test_a_zombie_is_not():
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, but not yet reaped
    assert not process_is_alive(process.pid, datetime.now(UTC))
    process.stdout.close()
    process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process began without a library")
def test_a_process_that_got_the_number_later_does_not_count():
    assert not process_is_alive(os.getpid(), datetime.now(UTC) - timedelta(days=1))


@pytest.mark.parametrize("missing", ["host", "pid", "heartbeat_at"])
def test_a_run_without_a_known_owner_is_stale(missing):
    owner = {"host": "there", "pid": 1, "heartbeat_at": NOW} | {missing: None}
    assert is_stale(**owner, observer=HERE, now=NOW)


@pytest.mark.parametrize(("silent", "stale"), [(timedelta(0), False), (timedelta(seconds=1), True)])
def test_only_the_heartbeat_tells_of_another_host(silent, stale):
    assert is_stale("there", 1, NOW - HEARTBEAT_LIMIT - silent, observer=HERE, now=NOW) is stale
