from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from idwbench.errors import ResultsError


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
def test_a_complete_run_without_its_tensors_is_named(store, db, key, where, lost):
    execute(db, f"DELETE FROM tensors WHERE {where}")
    with pytest.raises(ResultsError, match=f"^run {key[:12]} is complete, but the database lacks its {lost}: train"):
        store.load_tensors(key)


@pytest.mark.parametrize("data", [b"no tensor", b"", "text"])
def test_bytes_that_are_no_tensor_are_told_with_their_run(store, db, key, data):
    execute(db, "UPDATE tensors SET data = ? WHERE name = 'values'", data)
    with pytest.raises(ResultsError, match=f"^run {key[:12]}: the stored tensor 'values' cannot be read"):
        store.load_tensors(key)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{broken", "JSON"),
        ("", "JSON"),
        ("[1]", "object"),
        ("{}", "dataset: "),
        ('{"dataset": {"name": "imagenet"}}', "dataset: .*imagenet"),
    ],
)
def test_a_configuration_that_is_none_is_told_with_its_run(store, db, key, config, reason):
    execute(db, "UPDATE runs SET config = ?", config)
    for read in (store.find_runs, lambda: store.find_run(key)):
        with pytest.raises(ResultsError, match=f"^run {key[:12]}: its stored configuration cannot be read .*{reason}"):
            read()


@pytest.mark.parametrize("column", ["versions", "git", "finished_at"])
def test_a_value_that_is_not_what_its_column_says_is_one_line(store, db, key, column):
    execute(db, f"UPDATE runs SET {column} = '{{broken'")
    with pytest.raises(ResultsError, match=r"idwbench\.db' holds a value that cannot be read: ") as caught:
        store.find_runs()
    assert "\n" not in str(caught.value)
