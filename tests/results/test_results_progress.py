"""The progress of a sweep that other processes train."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from idwbench.errors import last_line
from idwbench.results.store import Results
from idwbench.results.tables import runs
from idwbench.runs.config import RunConfig, run_config

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def configs() -> list[RunConfig]:
    return [run_config("two_moons", prototypes=2, method="idw", seed=seed) for seed in range(8)]


@pytest.fixture
def results(tmp_path: Path, configs: list[RunConfig]) -> Results:
    found = Results(tmp_path / "results.db")
    found.register_sweep("long", "", "name: long", configs)
    return found


@pytest.fixture
def finish(results: Results, make_diverged) -> Callable[[list[RunConfig]], None]:
    def finish(configs: list[RunConfig]) -> None:
        results.lease([config.run_key for config in configs])
        results.finish([make_diverged(config) for config in configs], data_sha256="0" * 64)

    return finish


def set_times(results: Results, configs: list[RunConfig], started: datetime, finished: datetime | None) -> None:
    with results._database.write() as connection:
        chosen = runs.c.run_key.in_([config.run_key for config in configs])
        connection.execute(update(runs).where(chosen).values(started_at=started, finished_at=finished))


def test_the_rate_is_that_of_the_last_ten_minutes(finish, results: Results, configs: list[RunConfig]) -> None:
    finish(configs[:4])
    set_times(results, configs[:1], NOW - timedelta(hours=2), NOW - timedelta(hours=1))
    set_times(results, configs[1:4], NOW - timedelta(seconds=60), NOW - timedelta(seconds=5))
    found = results.sweep_progress("long", NOW)
    assert (found.ended, found.to_do) == (4, 4)
    assert found.rate == pytest.approx(3 / 60)
    assert found.seconds_left == pytest.approx(80)
    # Of a run that began before the window, its part within it counts.
    set_times(results, configs[1:4], NOW - timedelta(hours=3), NOW - timedelta(seconds=5))
    assert results.sweep_progress("long", NOW).rate == pytest.approx(3 / 600)


def test_without_a_recent_end_the_time_left_is_not_known(finish, results: Results, configs: list[RunConfig]) -> None:
    assert results.sweep_progress("long", NOW).seconds_left is None
    finish(configs)
    set_times(results, configs, NOW - timedelta(days=2), NOW - timedelta(days=1))
    done = results.sweep_progress("long", NOW)
    assert (done.rate, done.seconds_left, done.to_do) == (None, 0.0, 0)


def test_processes_that_train_are_named_with_their_runs(results: Results, configs: list[RunConfig]) -> None:
    results.lease([config.run_key for config in configs[:3]])
    (process,) = results.sweep_progress("long").processes
    assert (process.host, process.pid, process.runs) == (socket.gethostname(), os.getpid(), 3)
    assert process.label == "two_moons · idw · 2 prototypes · p=2, ε=0.001"
    assert results.sweep_progress("long").status.running == 3


def test_the_last_failures_come_first_and_are_few(results: Results, configs: list[RunConfig]) -> None:
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
def test_of_an_error_the_last_line_is_shown(error: str | None, line: str) -> None:
    assert last_line(error) == line


def test_progress_is_read_while_another_process_writes(results: Results, tmp_path: Path) -> None:
    reader = Results(tmp_path / "results.db", read_only=True)
    writer = sqlite3.connect(tmp_path / "results.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE runs SET attempt = 5")
    assert reader.sweep_progress("long").status.planned == 8
    writer.execute("COMMIT")
    writer.close()
