import errno
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from idwbench.errors import ResultsError
from idwbench.results import database
from idwbench.results.store import Results


@pytest.fixture
def backend():
    return "sqlite"


HEAVY = ("alembic", "pandas", "torch", "numba", "safetensors", "psutil", "sklearn", "matplotlib")
CODE = f"""
import sys
from idwbench.results.store import Results
results = Results(sys.argv[1])
results.pending([run.run_key for run in results.find_runs()])
Results(sys.argv[1], read_only=True).list_sweeps()
print([name for name in {HEAVY} if name in sys.modules])
"""


@pytest.mark.slow
def test_opening_and_reading_load_nothing_heavy(store, db, make_config, make_result):
    store.finish([make_result(make_config(0))])
    done = subprocess.run([sys.executable, "-c", CODE, db], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_reading_a_missing_or_an_empty_database_is_refused_and_creates_nothing(tmp_path):
    missing, empty = tmp_path / "none" / "idwbench.db", tmp_path / "empty.db"
    empty.touch()
    for db, problem in ((missing, "does not exist"), (empty, "is empty")):
        with pytest.raises(ResultsError) as caught:
            Results(db, read_only=True)
        error = caught.value
        assert (error.file, error.problem, error.hint) == (str(db), problem, "no results are stored there yet")
    assert not missing.parent.exists() and empty.stat().st_size == 0
    Results(empty).plan([])


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_database_is_refused_unchanged(tmp_path, read_only):
    db = tmp_path / "notes.txt"
    db.write_text("not a database " * 100)
    with pytest.raises(ResultsError, match="this file is not an SQLite database"):
        Results(str(db), read_only=read_only)
    assert db.read_text() == "not a database " * 100


@pytest.mark.parametrize("read_only", [True, False])
def test_a_folder_that_cannot_be_entered_is_refused(tmp_path, monkeypatch, read_only):
    def refuse(path, **options):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patched:  # the tests may run as root, who may enter everything
        patched.setattr(Path, "stat", refuse)
        with pytest.raises(ResultsError, match=r"x\.db: cannot be opened: Permission denied"):
            Results(str(tmp_path / "private" / "x.db"), read_only=read_only)


@pytest.mark.parametrize(
    ("db", "message"),
    [
        ("mysql://host/results", "databases of kind 'mysql' are not supported"),
        ("nonsense://host/results", "databases of kind 'nonsense' are not supported"),
        ("://", "neither a path nor a database URL"),
        ("postgresql+nonsense://host/results", "has no driver"),
        (
            "postgresql://localhost:abc/x",
            r"^postgresql://localhost:abc/x: is not a valid URL \(expected postgresql://user",
        ),
        ("postgresql://me:se:cr@et@[::1/x", r"^postgresql://me:\*\*\*@\[::1/x: is not a valid URL"),
        ("sqlite:///x.db?foo=1", r"^sqlite:///x\.db\?foo=1: a URL of SQLite has a path only"),
        ("sqlite://host/x.db", "a URL of SQLite has a path only"),
        ("a\0b.db", "^the name of the database has a NUL character"),
        ("a\ud800b.db", "is not the name of a file"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("", "the name of the database is empty"),
        (" ", "the name of the database is empty"),
        ("nowhere/", "^nowhere/: is a folder, expected a database file"),
        (".", "is a folder, expected a database file"),
        (f"{__file__}/deeper/x.db", "its folder cannot be created"),
        ("sqlite:///nowhere/", "^nowhere/: is a folder, expected a database file"),
        ("~nobody_of_that_name/x.db", "no such user"),
        ("x" * 300, "cannot be opened: File name too long"),
    ],
)
def test_a_url_that_cannot_work_is_refused(db, message):
    with pytest.raises(ResultsError, match=message):
        Results(db)


@pytest.mark.parametrize(
    ("url", "driver", "hint"),
    [
        ("postgresql://me:secret@host/results", "psycopg", "pip install 'idwbench[postgres]'"),
        ("postgresql+psycopg2://host/results", "psycopg2", "pip install psycopg2-binary"),
        ("postgresql+pg8000://host/results", "pg8000", "pip install pg8000"),
    ],
)
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
    Results(f"sqlite:///{plain}").plan([make_config(0)])
    assert len(Results(plain).find_runs()) == 1


def test_a_reader_is_not_kept_waiting_by_a_writer_and_sees_what_is_written_later(store, db, make_config):
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET attempt = 5")
        reader = Results(db, read_only=True)
        assert reader.find_runs() == []
    store.plan([make_config(0)])
    assert len(reader.find_runs()) == 1


def test_a_folder_without_write_access_can_be_read(store, db, make_config, monkeypatch):
    store.plan([make_config(0)])
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
