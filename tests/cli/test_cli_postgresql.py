"""The commands on a PostgreSQL server give what they give on an SQLite file."""

from __future__ import annotations

import json

import pytest
from typed import assert_one_line

from idwbench.results.store import Results


@pytest.fixture
def url(postgresql_server):
    return postgresql_server.url(postgresql_server.create())


@pytest.mark.slow
def test_a_sweep_and_its_report_are_those_of_an_sqlite_file(run, small_sweep, url):
    reports = []
    for db in ("results.db", url):
        swept = run("sweep", small_sweep, "--db", db)
        assert swept.exit_code == 0, swept.output
        again = run("sweep", small_sweep, "--db", db)
        assert "small: 15 of 15 done, 0 to go" in again.stderr
        report = run("report", "--table", "small", "--json", "--db", db)
        assert report.exit_code == 0, report.output
        reports.append(json.loads(report.stdout))
    assert reports[0] == reports[1]
    on_sqlite, on_postgresql = (Results(db, read_only=True) for db in ("results.db", url))
    for run_on_sqlite in on_sqlite.find_runs():
        key = run_on_sqlite.run_key
        assert on_postgresql.find_run(key).metrics == run_on_sqlite.metrics
        assert on_postgresql.load_curve(key) == on_sqlite.load_curve(key)
        assert {name: array.tobytes() for name, array in on_postgresql.load_arrays(key).items()} == {
            name: array.tobytes() for name, array in on_sqlite.load_arrays(key).items()
        }


@pytest.mark.parametrize(
    ("db", "words"),
    [
        ("postgresql://localhost:abc/x", "is not a valid URL"),
        ("postgresql://localhost:1/x?connect_timeout=5", "Connection refused"),
        ("postgresql://localhost/x?foo=1", 'invalid connection option "foo"'),
        ("a\0b.db", "the name of the database has a NUL character"),
    ],
)
def test_a_place_that_is_no_database_is_one_line(run, small_sweep, db, words):
    for command in (("sweep", small_sweep), ("report", "--table", "small")):
        assert_one_line(run(*command, "--db", db), 1, words)


def test_a_database_without_tables_is_one_line(run, url):
    assert_one_line(run("report", "--table", "small", "--db", url), 1, "is empty", "no results are stored there yet")
