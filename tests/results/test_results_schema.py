from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect

from idwbench.errors import ResultsError
from idwbench.results import migrations, schema
from idwbench.results.migrations import migrate
from idwbench.results.store import Results
from idwbench.results.tables import metadata

UNRELEASED = Path(__file__).parents[1] / "assets" / "unreleased"


@pytest.fixture
def backend():
    return "sqlite"


@pytest.fixture(params=["0001", "0002", "0003"])
def older_db(request, old_db, tmp_path):
    """A database of each older version of the tables."""
    if request.param == "0001":
        return old_db
    db = str(shutil.copy(UNRELEASED / "idwbench.db", tmp_path / "unreleased.db"))
    if request.param == "0002":
        for table in ("attempts", "diffs"):
            query(db, f"DROP TABLE {table}")
        for view in ("runs_wide", "leaderboard"):  # which read the columns
            query(db, f"DROP VIEW {view}")
            query(db, f"CREATE VIEW {view} AS SELECT id FROM runs")
        for column in ("platform", "durations"):
            query(db, f"ALTER TABLE runs DROP COLUMN {column}")
        query(db, "UPDATE idwbench_version SET version_num = '0002'")
    return db


def query(db, sql):
    with closing(sqlite3.connect(db)) as connection, connection:
        return connection.execute(sql).fetchall()


def names(db):
    return {row[0] for row in query(db, "SELECT name FROM sqlite_master")}


def tables(db):
    """The columns, keys, constraints and indexes of each table; an upgrade adds columns at the end."""
    parts = ("pk_constraint", "foreign_keys", "unique_constraints", "check_constraints", "indexes")
    inspector = inspect(create_engine(f"sqlite:///{db}"))
    return {
        name: (
            sorted(f"{column['name']} {column['type']} {column['nullable']}" for column in inspector.get_columns(name)),
            *(getattr(inspector, f"get_{part}")(name) for part in parts),
        )
        for name in inspector.get_table_names()
        if name != "idwbench_version"  # in which Alembic named the key
    }


def backups(db):
    return list(Path(db).parent.glob("*.bak"))


def dump(db):
    with closing(sqlite3.connect(db)) as connection:
        return [*connection.iterdump()]


def test_an_upgraded_database_has_the_tables_of_a_new_one(older_db, store, db):
    Results(older_db)

    assert tables(older_db) == tables(db)
    views = "SELECT name, sql FROM sqlite_master WHERE type = 'view' ORDER BY name"
    assert query(older_db, views) == query(db, views)
    assert query(older_db, "SELECT version_num FROM idwbench_version") == [(schema.VERSION,)]
    assert query(older_db, "PRAGMA foreign_key_check") == []


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_new_database_has_the_declared_tables(store):
    with store._database.read() as connection:
        ours = {"version_table": "none", "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=ours), metadata) == []


def test_an_upgraded_database_goes_on_where_it_stopped(older_db, make_result):
    kept = (
        "SELECT run_key, state, error, seconds, config FROM runs",
        "SELECT * FROM sweep_runs",
        "SELECT * FROM sweeps",
    )
    before = [query(older_db, sql) for sql in kept]
    results = Results(older_db)
    assert [query(older_db, sql) for sql in kept] == before
    runs = results.find_runs()
    assert [run.config.run_key for run in runs] == [run.run_key for run in runs] == list(results.to_frame()["run_key"])
    for run in runs:
        if run.state == "complete":
            assert run.metric("accuracy") is not None and results.load_curve(run.run_key)
            assert set(results.load_arrays(run.run_key)) == {"keys", "values"}
    planned = [run for run in runs if run.state == "planned"]
    assert results.lease(results.pending([run.run_key for run in runs])) == [run.run_key for run in planned]
    results.finish([make_result(run.config) for run in planned])
    assert results.find_run(planned[0].run_key).metric("accuracy") == 0.975
    assert query(older_db, "SELECT count(*) FROM leaderboard")[0][0] > 3


def test_an_older_database_is_copied_before_it_is_upgraded(older_db):
    ((version,),) = query(older_db, "SELECT version_num FROM idwbench_version")
    before = dump(older_db)
    with pytest.raises(ResultsError) as caught:
        Results(older_db, read_only=True)
    problem = f"has tables of version {version}, older than version {schema.VERSION} of this idwbench"
    assert (caught.value.file, caught.value.problem) == (older_db, problem)
    assert caught.value.hint == "opening it for writing upgrades it and keeps a copy"
    assert (dump(older_db), backups(older_db)) == (before, [])
    Results(older_db)
    upgraded = dump(older_db)
    Results(older_db)
    assert dump(older_db) == upgraded
    (copy,) = backups(older_db)
    assert copy.name.startswith(f"{Path(older_db).name}.version-{version}.")
    assert dump(copy) == before
    assert list(copy.parent.glob("*.tmp")) == []


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("INSERT INTO nowhere VALUES (1)", "cannot be upgraded to version 0004 and was left unchanged: no such table"),
        ("DELETE FROM runs", "broke references"),
        (None, ""),
    ],
)
def test_a_failing_upgrade_leaves_nothing_behind(older_db, monkeypatch, step, problem):
    def failing(connection, version):
        migrate(connection, version)
        if step is None:
            raise KeyboardInterrupt
        connection.exec_driver_sql(step)

    monkeypatch.setattr(migrations, "migrate", failing)
    before, journal = dump(older_db), query(older_db, "PRAGMA journal_mode")
    with pytest.raises(KeyboardInterrupt if step is None else ResultsError) as caught:
        Results(older_db)
    assert problem in str(caught.value)
    assert dump(older_db) == before
    assert query(older_db, "PRAGMA journal_mode") == journal


def test_a_new_database_is_made_with_its_folder(store, db):
    assert names(db) >= {"leaderboard", "runs_wide", *metadata.tables}
    assert query(db, "SELECT version_num FROM idwbench_version") == [(schema.VERSION,)]
    assert query(db, "PRAGMA journal_mode") == [("wal",)]
    assert backups(db) == []


def test_the_state_of_a_run_is_one_of_five(store, db, make_config):
    store.plan([make_config(0)])
    with pytest.raises(sqlite3.IntegrityError, match="ck_runs_state"):
        query(db, "UPDATE runs SET state = 'paused'")


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_of_a_newer_version_is_refused(store, db, read_only):
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("UPDATE idwbench_version SET version_num = '0815'")
    with pytest.raises(ResultsError) as caught:
        Results(db, read_only=read_only)
    assert caught.value.problem == f"has tables of version 0815, newer than version {schema.VERSION} of this idwbench"
    assert caught.value.hint == "upgrade idwbench"


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_of_another_program_is_refused_unchanged(tmp_path, read_only):
    db = tmp_path / "shop.db"
    with closing(sqlite3.connect(db)) as connection, connection:
        for name in ("customers", "orders", "runs", "sweeps"):
            connection.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    before = db.read_bytes()
    with pytest.raises(ResultsError, match=r"shop\.db: holds tables of another program: customers, orders, runs, …"):
        Results(str(db), read_only=read_only)
    assert db.read_bytes() == before
    assert query(db, "PRAGMA journal_mode") == [("delete",)]
    assert list(tmp_path.iterdir()) == [db]


def test_the_write_ahead_log_is_switched_on_again(store, db):
    query(db, "PRAGMA journal_mode = DELETE")
    Results(db)
    assert query(db, "PRAGMA journal_mode") == [("wal",)]
