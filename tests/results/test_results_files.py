"""SQLite files: how they are opened, what is refused, and values in them that are damaged."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from case_tables import case_table
from sqlalchemy import event
from stored_runs import query

from idwbench.errors import DatabaseFullError, ResultsError
from idwbench.results import database
from idwbench.results.frame import FACTS
from idwbench.results.store import Results

WRONG = case_table("wrong_databases")


ODD_NAMES = [("a\ud800b.db", "is not the name of a file"), ("x" * 300, "cannot be opened: File name too long")]


@pytest.mark.parametrize(("db", "message"), [*WRONG["urls"], *ODD_NAMES])
def test_a_url_that_cannot_work_is_refused(db, message):
    with pytest.raises(ResultsError, match=message):
        Results(db)


@pytest.mark.parametrize(("url", "driver", "hint"), WRONG["drivers"])
def test_the_package_of_a_missing_driver_is_suggested_without_a_password(monkeypatch, url, driver, hint):
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ResultsError) as caught:
        Results(url)
    assert (caught.value.problem, caught.value.hint) == (f"needs the Python package '{driver}'", hint)
    assert "secret" not in str(caught.value)


def test_a_path_may_hold_any_characters(tmp_path, make_config):
    path = tmp_path / "a folder" / "50% ?#é.db"
    Results(str(path)).plan([make_config(0)])
    assert path.exists()
    assert len(Results(str(path), read_only=True).find_runs()) == 1
    plain = path.with_name("plain.db")
    plain.touch()  # an empty file is a new database
    Results(f"sqlite:///{plain}").plan([make_config(0)])
    assert len(Results(plain).find_runs()) == 1


def test_a_reader_is_not_kept_waiting_by_a_writer_and_needs_no_access_for_writing(store, db, make_config, monkeypatch):
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET attempt = 5")
        reader = Results(db, read_only=True)
        assert reader.find_runs() == []
    store.plan([make_config(0)])
    assert len(reader.find_runs()) == 1
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    before = set(Path(db).parent.iterdir())
    assert len(Results(db, read_only=True).find_runs()) == 1
    assert set(Path(db).parent.iterdir()) == before


def test_a_lock_that_stays_is_one_clear_line(db, make_config, monkeypatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.1)
    store = Results(db)
    with closing(sqlite3.connect(db, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ResultsError, match=r"another process has kept the database locked for 0\.1 seconds"):
            store.plan([make_config(0)])
        other.execute("ROLLBACK")
    store.plan([make_config(0)])


def test_a_file_that_is_kept_open_keeps_its_log_until_the_end(store, db, make_config):
    log = Path(f"{db}-wal")
    with store.kept_open():
        for seed in range(2):
            store.plan([make_config(seed)])
            assert log.stat().st_size > 0
        assert len(Results(db, read_only=True).find_runs()) == 2
        Results(db).plan([make_config(2)])
        assert log.exists()
    assert not log.exists()
    assert len(store.find_runs()) == 3
    with pytest.raises(ZeroDivisionError), store.kept_open():
        store.plan([make_config(3)])
        raise ZeroDivisionError
    assert not log.exists()


@pytest.fixture
def key(store, make_config, make_result):
    (key,) = store.finish([make_result(make_config(0))])
    return key


BYTES = [
    ("engine", b"\x00", "should be a valid string"),
    *((name, b"\xff", "invalid start byte") for name in ("error", "git")),
]


@pytest.mark.parametrize(("column", "value", "reason"), [*WRONG["columns"], *BYTES])
def test_a_damaged_value_is_one_line_that_names_run_and_column(store, db, key, column, value, reason):
    # Bytes that are no UTF-8 are stored as text, and other values as they are.
    query(db, f"UPDATE runs SET {column} = {'CAST(? AS TEXT)' if value == bytes([255]) else '?'}", value)
    in_tables = [store.to_frame] if column in ("config", "seed", *FACTS) else []
    for read in (store.find_runs, lambda: store.find_run(key), lambda: store.load_runs([key]), *in_tables):
        with pytest.raises(ResultsError) as caught:
            read()
        assert f"run {key[:12]}: its {column} cannot be read: " in str(caught.value)
        assert reason in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("change", "read", "problem"), WRONG["tables"])
def test_damaged_or_missing_metrics_curves_and_arrays_are_one_line_with_their_run(
    store, db, key, change, read, problem
):
    query(db, change)
    with pytest.raises(ResultsError, match=f"run {key[:12]}.* {problem}"):
        getattr(store, read)(*([] if read in ("find_runs", "to_frame") else [key]))


def test_a_damaged_lease_is_taken_over(store, db, make_config):
    keys = store.plan([make_config(0)])
    store.lease(keys)
    query(db, "UPDATE runs SET pid = 'much'")
    assert store.pending(keys) == keys
    query(db, "UPDATE runs SET attempt = 'much'")
    assert store.lease(keys) == keys
    assert store.find_run(keys[0]).attempt == 1


@pytest.mark.parametrize(
    ("code", "free", "kind"),
    [
        ("SQLITE_FULL", 10, DatabaseFullError),
        ("SQLITE_IOERR_WRITE", 0, DatabaseFullError),
        ("SQLITE_IOERR_WRITE", 10, ResultsError),
    ],
)
def test_an_error_of_writing_on_a_full_disk_is_a_full_disk(store, db, monkeypatch, code, free, kind):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free))
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorname = code
    event.listen(store._database.engine, "do_execute", Mock(side_effect=failure))
    with pytest.raises(ResultsError) as caught, store._database.write():
        pass
    assert type(caught.value) is kind
    if kind is DatabaseFullError:
        assert (caught.value.file, caught.value.problem, caught.value.exit_code) == (db, "the disk is full", 1)
        hint = f"what was stored is kept; make room in {Path(db).parent} and start again"
        assert caught.value.hint == hint
