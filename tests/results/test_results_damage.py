from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from idwbench.errors import DatabaseFullError, ResultsError
from idwbench.results.store import Results


@pytest.fixture
def backend():
    return "sqlite"


@pytest.fixture
def key(store, make_config, make_result):
    (key,) = store.finish([make_result(make_config(0))])
    return key


def execute(db, sql, *values):
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute(sql, values)


@pytest.mark.parametrize(
    ("where", "lost"), [("1", "keys and values"), ("name = 'keys'", "keys"), ("name = 'values'", "values")]
)
def test_a_complete_run_without_its_arrays_is_reported(store, db, key, where, lost):
    execute(db, f"DELETE FROM arrays WHERE {where}")
    with pytest.raises(ResultsError) as caught:
        store.load_arrays(key)
    assert caught.value.problem == f"run {key[:12]} is complete, but the database lacks its {lost}"
    assert caught.value.hint == "train it again"


@pytest.mark.parametrize("data", [b"no array", b"", "text"])
def test_bytes_that_are_not_an_array_are_reported_with_their_run(store, db, key, data):
    execute(db, "UPDATE arrays SET data = ? WHERE name = 'values'", data)
    with pytest.raises(ResultsError, match=f"^run {key[:12]}: the stored array 'values' cannot be read"):
        store.load_arrays(key)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{broken", "JSON"),
        ("", "JSON"),
        ("[1]", "object"),
        ("{}", "dataset: "),
        ('{"dataset": {"name": "imagenet"}}', "dataset.name: .*imagenet"),
    ],
)
def test_a_damaged_configuration_is_reported_with_its_run(store, db, key, config, reason):
    execute(db, "UPDATE runs SET config = ?", config)
    for read in (store.find_runs, lambda: store.find_run(key)):
        with pytest.raises(ResultsError, match=f"^run {key[:12]}: its stored configuration cannot be read: .*{reason}"):
            read()


@pytest.mark.parametrize("column", ["versions", "git", "finished_at"])
def test_a_value_that_does_not_fit_its_column_is_reported_in_one_line(store, db, key, column):
    execute(db, f"UPDATE runs SET {column} = '{{broken'")
    with pytest.raises(ResultsError, match=r"idwbench\.db: holds a value that cannot be read: ") as caught:
        store.find_runs()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("runs", name) for name in ("seconds", "n_parameters", "diverged_epoch", "threads", "attempt")),
        ("metrics", "value"),
    ],
)
@pytest.mark.parametrize("value", ["much", b"much"])
def test_text_in_a_column_of_numbers_is_reported_in_one_line(store, db, key, table, column, value):
    execute(db, f"UPDATE {table} SET {column} = ?", value)
    for read in (store.find_runs, lambda: store.find_run(key), store.to_frame):
        with pytest.raises(ResultsError) as caught:
            read()
        assert repr(value) in caught.value.problem


@pytest.mark.parametrize("column", ["pid", "attempt"])
def test_text_in_the_lease_of_a_run_is_reported_in_one_line(store, db, make_config, make_result, column):
    keys = store.plan([make_config(0)])
    store.lease(keys)
    execute(db, f"UPDATE runs SET {column} = 'much'")
    with pytest.raises(ResultsError, match=r"holds a value that cannot be read: 'much' in a column of numbers"):
        store.finish([make_result(make_config(0))])


@pytest.mark.parametrize("column", ["epoch", "value"])
def test_text_in_a_curve_is_reported_in_one_line(store, db, key, column):
    execute(db, f"UPDATE curves SET {column} = 'much' WHERE epoch = 3 AND name = 'loss'")
    with pytest.raises(ResultsError, match="'much' in a column of numbers"):
        store.load_curve(key)


def test_text_that_is_not_unicode_is_reported_in_one_line(store, db, key):
    execute(db, "UPDATE runs SET error = CAST(x'ff' AS TEXT)")
    with pytest.raises(ResultsError, match=r"idwbench\.db: Could not decode to UTF-8"):
        store.find_runs()


def test_a_full_disk_is_one_line_and_nothing_stored_is_lost(store, db, key, make_config, make_result):
    def limited(connection, record):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    before = store.find_runs()
    event.listen(store._database.engine, "connect", limited)
    many = [make_result(make_config(seed)) for seed in range(1, 30)]
    with pytest.raises(DatabaseFullError) as caught:
        store.finish(many)
    error = caught.value
    assert (error.file, error.problem, error.exit_code) == (db, "the disk is full", 1)
    assert error.hint == f"what was stored is kept; make room in {Path(db).parent} and start again"
    assert Results(db).find_runs() == before
    event.remove(store._database.engine, "connect", limited)
    assert len(store.finish(many)) == len(many)


@pytest.mark.parametrize(("free", "kind"), [(0, DatabaseFullError), (10, ResultsError)])
def test_an_error_of_reading_and_writing_on_a_full_disk_is_a_full_disk(store, monkeypatch, free, kind):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free))
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    with pytest.raises(ResultsError) as caught, store._database.write():
        raise OperationalError("INSERT", {}, failure)
    assert type(caught.value) is kind


def test_a_damaged_configuration_stops_an_upgrade_that_changes_nothing(old_db):
    execute(old_db, "UPDATE runs SET config = '{broken' WHERE id = 1")
    with pytest.raises(ResultsError, match="was left unchanged: malformed JSON"):
        Results(old_db)
    with pytest.raises(ResultsError, match="has tables of version 0001"):
        Results(old_db, read_only=True)
