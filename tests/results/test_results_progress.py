"""The progress of a sweep that other processes train."""

import os
import socket
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from idwbench.errors import last_line
from idwbench.results.store import Results
from idwbench.results.tables import runs
from idwbench.runs.config import run_config

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def configs():
    return [run_config("two_moons", prototypes=2, method="idw", seed=seed) for seed in range(8)]


@pytest.fixture
def results(tmp_path, configs):
    found = Results(tmp_path / "results.db")
    found.register_sweep("long", "", "name: long", configs)
    return found


def set_times(results, configs, started, finished):
    with results._database.write() as connection:
        chosen = runs.c.run_key.in_([config.run_key for config in configs])
        connection.execute(update(runs).where(chosen).values(started_at=started, finished_at=finished))


def test_the_rate_is_that_of_the_last_ten_minutes(results, configs, make_diverged):
    results.finish([make_diverged(config) for config in configs[:4]])
    set_times(results, configs[:1], NOW - timedelta(hours=2), NOW - timedelta(hours=1))
    set_times(results, configs[1:4], NOW - timedelta(seconds=60), NOW - timedelta(seconds=5))
    found = results.sweep_progress("long", NOW)
    assert (found.ended, found.to_do) == (4, 4)
    assert found.rate == pytest.approx(3 / 60)
    assert found.seconds_left == pytest.approx(80)
    # Of a run that began before the window, its part within it counts.
    set_times(results, configs[1:4], NOW - timedelta(hours=3), NOW - timedelta(seconds=5))
    assert results.sweep_progress("long", NOW).rate == pytest.approx(3 / 600)


def test_without_a_recent_end_the_time_left_is_not_known(results, configs, make_diverged):
    assert results.sweep_progress("long", NOW).seconds_left is None
    results.finish([make_diverged(config) for config in configs])
    set_times(results, configs, NOW - timedelta(days=2), NOW - timedelta(days=1))
    done = results.sweep_progress("long", NOW)
    assert (done.rate, done.seconds_left, done.to_do) == (None, 0.0, 0)


def test_processes_that_train_are_named_with_their_runs(results, configs):
    results.lease([config.run_key for config in configs[:3]])
    (process,) = results.sweep_progress("long").processes
    assert (process.host, process.pid, process.runs) == (socket.gethostname(), os.getpid(), 3)
    assert process.label == "two_moons · idw · 2 prototypes · p=2, ε=0.001"
    assert results.sweep_progress("long").status.running == 3


def test_the_last_failures_come_first_and_are_few(results, configs):
    for place, config in enumerate(configs[:7]):
        results.lease([config.run_key])
        results.fail([config.run_key], f"Traceback\nValueError: problem {place}")
        set_times(results, [config], NOW, NOW + timedelta(seconds=place))
    found = results.sweep_progress("long")
    assert [failure.error for failure in found.failures] == [f"ValueError: problem {n}" for n in (6, 5, 4, 3, 2)]
    assert [failure.seed for failure in found.failures] == [6, 5, 4, 3, 2]
    assert {failure.label for failure in found.failures} == {"two_moons · idw · 2 prototypes · p=2, ε=0.001"}


@pytest.mark.parametrize(
    ("error", "line"),
    [(None, ""), ("", ""), (" \n", ""), ("no", "no"), ("Traceback\n  File\nValueError: no\n\n", "ValueError: no")],
)
def test_of_an_error_the_last_line_is_shown(error, line):
    assert last_line(error) == line
