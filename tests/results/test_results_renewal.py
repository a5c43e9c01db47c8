from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from idwbench.errors import ResultsError
from idwbench.results.renewal import renewed
from idwbench.results.tables import runs

SECONDS = 60  # how long a test waits before it fails; none waits in vain


class Renewals:
    """Stands for `Results`: counts renewals, of which the first `n_failing` fail."""

    def __init__(self, n_failing: int = 0) -> None:
        self.keys: list[list[str]] = []
        self.n_failing = n_failing
        self.third = threading.Event()

    def renew(self, run_keys):
        self.keys.append(list(run_keys))
        if len(self.keys) == 3:
            self.third.set()
        if len(self.keys) <= self.n_failing:
            raise ResultsError("another process has kept the database locked")


def lease_threads():
    return [thread for thread in threading.enumerate() if thread.name == "idwbench-leases"]


def test_leases_are_renewed_again_and_again_while_the_block_runs():
    renewals = Renewals()
    with renewed(renewals, ["a", "b"], interval=0.0):
        assert renewals.third.wait(SECONDS)
    assert all(keys == ["a", "b"] for keys in renewals.keys)


def test_nothing_is_renewed_before_the_first_interval_or_after_the_block():
    renewals = Renewals()
    with renewed(renewals, ["a"], interval=3600.0):
        (thread,) = lease_threads()
        assert thread.daemon
    assert renewals.keys == []
    assert lease_threads() == []


def test_a_locked_database_does_not_end_the_renewal():
    renewals = Renewals(n_failing=2)
    with renewed(renewals, ["a"], interval=0.0):
        assert renewals.third.wait(SECONDS)


def test_the_renewal_stops_when_the_block_fails():
    with pytest.raises(ZeroDivisionError), renewed(Renewals(), ["a"], interval=3600.0):
        raise ZeroDivisionError
    assert lease_threads() == []


def test_a_renewed_run_is_not_taken_over_by_another_host(store, make_config, as_other_process, monkeypatch):
    keys = store.plan([make_config(0)])
    as_other_process("elsewhere", 1)
    store.lease(keys)
    with store._database.write() as connection:
        connection.execute(update(runs).values(heartbeat_at=datetime.now(UTC) - timedelta(hours=1)))
    written = threading.Event()

    class Watched:
        def renew(self, run_keys):
            store.renew(run_keys)
            written.set()

    with renewed(Watched(), keys, interval=0.0):
        assert written.wait(SECONDS)
    monkeypatch.undo()
    assert store.lease(keys) == []
