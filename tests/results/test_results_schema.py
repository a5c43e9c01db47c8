"""New tables, and upgrades: the database that version 0.1.0 wrote keeps every number, and its sweep goes on."""

from __future__ import annotations

import json
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
from idwbench.runs.config import run_config

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


# The database of 0.1.0

MOONS = {"name": "two_moons", "train_per_class": 20, "test_per_class": 10, "holdout_per_class": 50}
MOVED = {"train_accuracy", "test_accuracy", "holdout_accuracy", "n_features", "n_classes"}


def rows(db, query):
    """Return rows by column name; a database in write-ahead mode is read without creating files beside it."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory):
    """The path of an upgraded copy, and of an untouched one."""
    folder = tmp_path_factory.mktemp("upgraded")
    source = Path(__file__).parents[1] / "assets" / "0.1.0" / "idwbench.db"
    old, new = (str(shutil.copy(source, folder / name)) for name in ("old.db", "new.db"))
    Results(new)
    return new, old


def test_the_columns_of_runs_stay_as_they_were(upgraded):
    new, old = (rows(db, "SELECT * FROM runs ORDER BY id") for db in upgraded)
    kept = old[0].keys() - MOVED
    assert [{name: row[name] for name in kept} for row in new] == [{name: row[name] for name in kept} for row in old]
    assert new[0].keys() - kept == {"model", "protocol", "n_parameters", "cpu", "platform", "durations", "tags", "note"}
    unknown = ("cpu", "platform", "durations")
    assert {(row["model"], *(row[name] for name in unknown)) for row in new} == {("prototypes", None, None, None)}
    for row in new:
        assert json.loads(row["protocol"]) == json.loads(row["config"])["protocol"]


def test_accuracies_become_metrics(upgraded):
    new, old = upgraded
    found = {(r["run_id"], r["split"], r["name"]): r["value"] for r in rows(new, "SELECT * FROM metrics")}
    assert found == {
        (row["id"], split, "accuracy"): row[f"{split}_accuracy"]
        for row in rows(old, "SELECT * FROM runs WHERE state = 'complete'")
        for split in ("train", "test", "holdout")
    }
    counts = {row["id"]: row["n_parameters"] for row in rows(new, "SELECT id, n_parameters FROM runs")}
    assert counts == {
        row["id"]: row["n_features"] and row["prototypes"] * (row["n_features"] + row["n_classes"])
        for row in rows(old, "SELECT * FROM runs")
    }
    assert sum(count is not None for count in counts.values()) == 11


def test_curves_have_one_row_for_each_value(upgraded):
    new, old = upgraded
    found = [tuple(row.values()) for row in rows(new, "SELECT run_id, epoch, split, name, value FROM curves")]
    columns = {"learning_rate": ("train", "learning_rate"), "train_loss": ("train", "loss")}
    columns["test_accuracy"] = ("test", "accuracy")
    expected = [
        (row["run_id"], row["epoch"], *name, row[column])
        for row in rows(old, "SELECT * FROM curves")
        for column, name in columns.items()
    ]
    assert len(found) == len(expected) == 3 * 55
    assert set(found) == set(expected)


@pytest.mark.parametrize(
    ("table", "former"), [("arrays", "tensors"), ("sweeps", "sweeps"), ("sweep_runs", "sweep_runs")]
)
def test_the_other_tables_keep_every_row(upgraded, table, former):
    new, old = upgraded
    kept = rows(old, f"SELECT * FROM {former} ORDER BY 1, 2")
    assert kept
    assert rows(new, f"SELECT * FROM {table} ORDER BY 1, 2") == kept


def test_its_sweep_goes_on_where_it_stopped(upgraded):
    results = Results(upgraded[0])
    status = results.sweep_status("moons")
    assert (status.total, status.complete, status.diverged, status.planned) == (18, 11, 3, 4)
    runs = results.find_runs(sweep="moons")
    assert all(run.config.run_key == run.run_key for run in runs)
    planned = [run.run_key for run in runs if run.state == "planned"]
    assert results.pending([run.run_key for run in runs]) == planned
    assert {run.versions["idwbench"] for run in runs if run.state != "planned"} == {"0.1.0"}


def test_runs_that_are_asked_for_again_are_the_stored_ones(old_db):
    results = Results(old_db)
    settings = {"power": 2.0, "epsilon": 0.001, "epochs": 5}
    configs = [run_config(MOONS, method="idw", prototypes=2, seed=seed, **settings) for seed in range(3)]
    keys = results.register_sweep("moons", "", "", configs)
    assert len(results.find_runs()) == 18
    assert results.pending(keys) == []


def test_old_and_new_runs_of_one_setting_share_a_row_of_the_leaderboard(old_db, make_result):
    results = Results(old_db)
    config = run_config(MOONS, method="idw", prototypes=2, epochs=5, seed=7)
    results.finish([make_result(config)])
    (row,) = rows(old_db, "SELECT n FROM leaderboard WHERE method = 'idw' AND prototypes = 2 AND split = 'test'")
    assert row["n"] == 4
