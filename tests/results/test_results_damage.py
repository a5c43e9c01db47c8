from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from idwbench.errors import ResultsError
from idwbench.results.store import Results


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


def test_text_that_is_not_unicode_is_reported_in_one_line(store, db, key):
    execute(db, "UPDATE runs SET error = CAST(x'ff' AS TEXT)")
    with pytest.raises(ResultsError, match=r"idwbench\.db: Could not decode to UTF-8"):
        store.find_runs()


def test_a_damaged_configuration_stops_an_upgrade_that_changes_nothing(old_db):
    execute(old_db, "UPDATE runs SET config = '{broken' WHERE id = 1")
    with pytest.raises(ResultsError, match="was left unchanged: malformed JSON"):
        Results(old_db)
    with pytest.raises(ResultsError, match="has tables of version 0001"):
        Results(old_db, read_only=True)
