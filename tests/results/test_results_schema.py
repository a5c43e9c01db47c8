from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import update
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from idwbench.errors import ResultsError
from idwbench.results import schema
from idwbench.results.connection import Database
from idwbench.results.new_database import migrated_statements
from idwbench.results.store import Results
from idwbench.results.tables import metadata, runs

NEWEST = schema.revisions()[-1]
NEXT = f"{int(NEWEST) + 1:04}"
HEAD = f"""
from alembic import op
import sqlalchemy as sa
revision, down_revision = "{NEXT}", "{NEWEST}"
def upgrade():
"""
# Replaces `runs` by a changed copy: what refers to it must survive.
BATCH = """
    for view in ("leaderboard", "runs_wide"):
        op.execute(f"DROP VIEW {view}")
    with op.batch_alter_table("runs", recreate="always") as batch:
        batch.add_column(sa.Column("mood", sa.Text))
"""
FAILING = """
    op.create_table("extra", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("DROP VIEW leaderboard")
    op.execute("INSERT INTO nowhere VALUES (1)")
"""
BREAKING = """
    op.execute("DELETE FROM runs")
"""


@pytest.fixture
def backend():
    return "sqlite"


@pytest.fixture
def next_version(tmp_path, monkeypatch):
    """Add one migration to the package."""

    def add(body: str) -> None:
        target = tmp_path / "migrations"
        shutil.copytree(schema.MIGRATIONS, target, ignore=shutil.ignore_patterns("__pycache__"))
        (target / "versions" / f"{NEXT}_next.py").write_text(HEAD + body)
        monkeypatch.setattr(schema, "MIGRATIONS", target)

    return add


def query(db, sql):
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(sql).fetchall()


def names(db):
    return {row[0] for row in query(db, "SELECT name FROM sqlite_master")}


def content(db):
    """All tables, indexes and views by name."""
    rows = query(db, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")
    return [(*row, None if sql is None else definitions(sql)) for *row, sql in rows]


def definitions(sql):
    """The lines of a statement; Alembic repeats the constraints and indexes of a table in any order."""
    lines = [line.strip().rstrip(",") for line in sql.strip().splitlines()]
    return sorted(lines) if sql.startswith("CREATE TABLE") else lines


def backups(db):
    return list(Path(db).parent.glob("*.bak"))


def test_a_new_database_is_what_the_migrations_make(store, db, tmp_path):
    migrated = Database.at(str(tmp_path / "migrated.db"))
    with migrated.without_foreign_keys().write() as connection:
        schema.run_migrations(connection)
    assert content(db) == content(migrated.path)
    assert query(db, "SELECT * FROM idwbench_version") == query(migrated.path, "SELECT * FROM idwbench_version")


def test_the_file_of_the_newest_tables_is_up_to_date():
    statements = schema.new_tables_file().read_text().removesuffix(";\n").split(schema.STATEMENT_END)
    assert sorted(map(definitions, statements)) == sorted(map(definitions, migrated_statements()))


def test_a_new_database_gets_migrations_that_no_file_of_tables_has(db, next_version):
    Path(db).parent.mkdir()
    next_version(BATCH)
    Results(db)
    assert "mood" in {row[1] for row in query(db, "PRAGMA table_info(runs)")}
    assert query(db, "SELECT version_num FROM idwbench_version") == [(NEXT,)]


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_the_tables_are_what_the_migrations_make(store):
    with store._database.read() as connection:
        ours = {"version_table": "idwbench_version", "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=ours), metadata) == []


def test_the_tables_suit_postgresql():
    dialect = postgresql.dialect()
    made = {table.name: str(CreateTable(table).compile(dialect=dialect)) for table in metadata.sorted_tables}
    assert "parameters JSONB NOT NULL" in made["runs"]
    assert "seed BIGINT NOT NULL" in made["runs"]
    assert "finished_at TIMESTAMP WITH TIME ZONE" in made["runs"]
    assert "data BYTEA NOT NULL" in made["arrays"]
    assert "ROWID" not in made["curves"]


def test_a_new_database_is_made_with_its_folder(store, db):
    assert names(db) >= {"leaderboard", "runs_wide", *metadata.tables}
    assert query(db, "SELECT version_num FROM idwbench_version") == [(schema.revisions()[-1],)]
    assert query(db, "PRAGMA journal_mode") == [("wal",)]
    assert backups(db) == []


def test_opening_again_keeps_everything(store, db, make_config, make_result):
    store.finish([make_result(make_config(0))])
    assert Results(db).find_runs() == store.find_runs()


def test_the_state_of_a_run_is_one_of_five(store, db, make_config):
    store.plan([make_config(0)])
    with pytest.raises(sqlite3.IntegrityError, match="ck_runs_state"):
        query(db, "UPDATE runs SET state = 'paused'")


def test_a_failing_migration_leaves_nothing_behind(store, db, make_config, next_version):
    store.plan([make_config(0)])
    before = names(db)
    next_version(FAILING)
    with pytest.raises(
        ResultsError, match=f"cannot be upgraded to version {NEXT} and was left unchanged: no such table"
    ):
        Results(db)
    assert names(db) == before
    assert query(db, "SELECT version_num FROM idwbench_version") == [(NEWEST,)]
    assert len(query(db, "SELECT * FROM leaderboard")) == 0


def test_a_failing_first_migration_leaves_no_table(tmp_path, next_version):
    next_version(FAILING)
    db = str(tmp_path / "new.db")
    with pytest.raises(ResultsError, match=f"cannot be upgraded to version {NEXT}"):
        Results(db)
    assert names(db) == set()


def test_an_older_database_is_upgraded_with_all_it_holds(store, db, make_config, make_result, next_version):
    store.register_sweep("moons", "", "", [make_config(0)])
    store.finish([make_result(make_config(0))])
    next_version(BATCH)
    upgraded = Results(db)
    assert query(db, "SELECT mood FROM runs") == [(None,)]
    assert upgraded.find_runs(sweep="moons")[0].metric("accuracy") == 0.975
    assert len(upgraded.load_curve(make_config(0).run_key)) == 25
    assert set(upgraded.load_arrays(make_config(0).run_key)) == {"keys", "values"}


def test_an_older_database_is_copied_before_it_is_upgraded(store, db, make_config, next_version):
    store.plan([make_config(0)])
    next_version(BATCH)
    Results(db)
    Results(db)
    (copy,) = backups(db)
    assert copy.name.startswith(f"idwbench.db.version-{NEWEST}.")
    assert query(copy, "SELECT version_num FROM idwbench_version") == [(NEWEST,)]
    assert len(query(copy, "SELECT * FROM runs")) == 1
    assert list(copy.parent.glob("*.tmp")) == []


def test_a_migration_that_breaks_references_is_rolled_back(store, db, make_config, next_version):
    store.register_sweep("moons", "", "", [make_config(0)])
    next_version(BREAKING)
    with pytest.raises(ResultsError, match="broke references"):
        Results(db)
    assert store.sweep_status("moons").total == 1


def test_reading_never_upgrades(store, db, next_version):
    next_version(BATCH)
    with pytest.raises(ResultsError) as caught:
        Results(db, read_only=True)
    error = caught.value
    assert (error.file, error.problem) == (
        db,
        f"has tables of version {NEWEST}, older than version {NEXT} of this idwbench",
    )
    assert error.hint == "opening it for writing upgrades it and keeps a copy"
    assert query(db, "SELECT version_num FROM idwbench_version") == [(NEWEST,)]


SOME_RUNS = [  # state, attempt, error; and the state, error and end of the attempt that is known of it
    (("planned", 0, None), None),
    (("planned", 2, None), ("released", None, False)),
    (("running", 1, None), ("running", None, False)),
    (("complete", 1, None), ("complete", None, True)),
    (("complete", 2, "worker lost"), ("failed", "worker lost", False)),
    (("diverged", 1, "not finite after epoch 2"), ("diverged", None, True)),
    (("diverged", 2, "100% lost"), ("failed", "100% lost", False)),
    (("failed", 3, "Traceback …"), ("failed", "Traceback …", True)),
]


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_the_last_attempt_at_each_run_of_version_0002_is_kept(db, tmp_path, monkeypatch, make_config):
    older = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, older, ignore=shutil.ignore_patterns("__pycache__", "000[3-9]*"))
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", older)
        store = Results(db)
        keys = store.plan([make_config(seed) for seed in range(len(SOME_RUNS))])
        now = datetime(2026, 1, 31, tzinfo=UTC)
        process = {"host": "elsewhere", "pid": 7, "started_at": now, "heartbeat_at": now}
        with store._database.write() as connection:
            for key, ((state, attempt, error), _) in zip(keys, SOME_RUNS, strict=True):
                values = {"state": state, "attempt": attempt, "error": error, "seconds": 0.5, "finished_at": now}
                if attempt:
                    connection.execute(update(runs).where(runs.c.run_key == key).values(**process, **values))
    upgraded = Results(db)
    for key, ((_, attempt, _), known) in zip(keys, SOME_RUNS, strict=True):
        found = upgraded.attempts(key)
        if known is None:
            assert found == []
            continue
        (one,) = found
        state, error, has_ended = known
        # The process of the running attempt has not renewed its lease for long.
        assert (one.number, one.state, one.error) == (attempt, "lost" if state == "running" else state, error)
        assert (one.host, one.pid, one.started_at) == ("elsewhere", 7, now)
        assert (one.ended_at == now, one.seconds) == (has_ended or state == "running", 0.5 if has_ended else None)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_of_a_newer_version_is_refused(store, db, read_only):
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("UPDATE idwbench_version SET version_num = '0815'")
    with pytest.raises(ResultsError) as caught:
        Results(db, read_only=read_only)
    assert caught.value.problem == f"has tables of version 0815, newer than version {NEWEST} of this idwbench"
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


def test_an_empty_database_is_used(tmp_path):
    db = tmp_path / "empty.db"
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("CREATE TABLE old (id INTEGER)")
        connection.execute("DROP TABLE old")
    Results(str(db))
    assert "runs" in names(db)


def test_the_write_ahead_log_is_switched_on_again(store, db):
    query(db, "PRAGMA journal_mode = DELETE")
    Results(db)
    assert query(db, "PRAGMA journal_mode") == [("wal",)]


def test_a_failing_first_migration_leaves_the_journal_as_it_was(tmp_path, next_version):
    next_version(FAILING)
    db = str(tmp_path / "new.db")
    with pytest.raises(ResultsError, match=f"cannot be upgraded to version {NEXT}"):
        Results(db)
    assert query(db, "PRAGMA journal_mode") == [("delete",)]
