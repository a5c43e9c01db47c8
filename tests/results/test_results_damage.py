import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy.exc import OperationalError

from idwbench.errors import DatabaseFullError, ResultsError
from idwbench.results.frame import FACTS
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
    with pytest.raises(ResultsError, match=f"run {key[:12]}: the stored array 'values' cannot be read"):
        store.load_arrays(key)


DAMAGED = [
    ("config", "{broken", "JSON"),
    ("config", "", "JSON"),
    ("config", "[1]", "object"),
    ("config", "{}", "dataset: "),
    ("config", '{"dataset": {"name": "imagenet"}}', "imagenet"),
    *((column, "[1]", "expected names with texts or numbers") for column in ("versions", "git", "cpu", "durations")),
    ("versions", "7", "expected names with texts or numbers"),
    ("versions", "{broken", "Expecting"),
    ("durations", '{"training": "long"}', "expected a number, got 'long'"),
    ("finished_at", "soon", "Invalid isoformat"),
    *((name, "much", "expected a number, got 'much'") for name in ("seconds", "n_parameters", "attempt", "seed")),
    ("engine", b"\x00", "expected text"),
    ("error", b"\xff", "invalid start byte"),
    ("git", b"\xff", "invalid start byte"),
]


@pytest.mark.parametrize(("column", "value", "reason"), DAMAGED)
def test_a_damaged_value_is_one_line_that_names_run_and_column(store, db, key, column, value, reason):
    # Bytes that are no UTF-8 are stored as text, and other values as they are.
    execute(db, f"UPDATE runs SET {column} = {'CAST(? AS TEXT)' if value == bytes([255]) else '?'}", value)
    in_tables = [store.to_frame] if column in ("config", "seed", *FACTS) else []
    for read in (store.find_runs, lambda: store.find_run(key), lambda: store.load_runs([key]), *in_tables):
        with pytest.raises(ResultsError) as caught:
            read()
        assert f"run {key[:12]}: its {column} cannot be read: " in str(caught.value)
        assert reason in str(caught.value) and "\n" not in str(caught.value)


METRIC = "UPDATE metrics SET value = {} WHERE split = 'test'"
CURVE = "UPDATE curves SET {} = 'much' WHERE epoch = 3 AND name = 'loss'"
SHAPE = "UPDATE arrays SET shape = '{}'"


@pytest.mark.parametrize(
    ("change", "read", "problem"),
    [
        (METRIC.format("'much'"), "find_runs", "metric test_accuracy cannot be read: expected a number, got 'much'"),
        (METRIC.format("CAST('much' AS BLOB)"), "to_frame", "metric test_accuracy cannot be read: .*much"),
        (CURVE.format("epoch"), "load_curve", "curve cannot be read: expected a number, got 'much'"),
        (CURVE.format("value"), "load_curve", "curve cannot be read: expected a number, got 'much'"),
        *((SHAPE.format(shape), "array_facts", "array keys cannot") for shape in ("7", "[1", '["a"]')),
    ],
)
def test_a_damaged_metric_curve_or_shape_is_one_line_that_names_the_run(store, db, key, change, read, problem):
    execute(db, change)
    with pytest.raises(ResultsError, match=f"run {key[:12]}: its {problem}"):
        getattr(store, read)(*([] if read in ("find_runs", "to_frame") else [key]))


def test_a_damaged_lease_is_taken_over(store, db, make_config):
    keys = store.plan([make_config(0)])
    store.lease(keys)
    execute(db, "UPDATE runs SET pid = 'much'")
    assert store.pending(keys) == keys
    execute(db, "UPDATE runs SET attempt = 'much'")
    assert store.lease(keys) == keys
    assert store.find_run(keys[0]).attempt == 1


@pytest.mark.parametrize(
    ("code", "free", "kind"),
    [
        (sqlite3.SQLITE_FULL, 10, DatabaseFullError),
        (sqlite3.SQLITE_IOERR_WRITE, 0, DatabaseFullError),
        (sqlite3.SQLITE_IOERR_WRITE, 10, ResultsError),
    ],
)
def test_an_error_of_writing_on_a_full_disk_is_a_full_disk(store, db, monkeypatch, code, free, kind):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free))
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorcode = code
    with pytest.raises(ResultsError) as caught, store._database.write():
        raise OperationalError("INSERT", {}, failure)
    assert type(caught.value) is kind
    if kind is DatabaseFullError:
        assert (caught.value.file, caught.value.problem, caught.value.exit_code) == (db, "the disk is full", 1)
        hint = f"what was stored is kept; make room in {Path(db).parent} and start again"
        assert caught.value.hint == hint


def test_a_damaged_configuration_stops_an_upgrade_that_changes_nothing(old_db):
    execute(old_db, "UPDATE runs SET config = '{broken' WHERE id = 1")
    with pytest.raises(ResultsError, match="was left unchanged: malformed JSON"):
        Results(old_db)
    with pytest.raises(ResultsError, match="has tables of version 0001"):
        Results(old_db, read_only=True)
