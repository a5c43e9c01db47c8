"""New tables, and upgrades: the database that version 0.1.0 wrote keeps every number, and its sweep goes on."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from stored_runs import query

from idwbench import Results, run_config
from idwbench.errors import ResultsError
from idwbench.results import schema
from idwbench.results.tables import metadata

UNRELEASED = Path(__file__).parents[1] / "assets" / "unreleased"


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


def backups(db):
    return list(Path(db).parent.glob("*.bak"))


def dump(db):
    with closing(sqlite3.connect(db)) as connection:
        return [*connection.iterdump()]


def test_an_upgraded_database_is_like_a_new_one_and_goes_on_where_it_stopped(older_db, store, db, make_result):
    kept = ("run_key, state, error, seconds, config FROM runs", "* FROM sweep_runs", "* FROM sweeps")
    before = [query(older_db, f"SELECT {what}") for what in kept]
    results = Results(older_db)
    for one in (store, results):
        with one._database.read() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": "none", "compare_type": True})
            assert compare_metadata(context, metadata) == []
    views = "SELECT name, sql FROM sqlite_master WHERE type = 'view' ORDER BY name"
    assert query(older_db, views) == query(db, views)
    for new in (db, older_db):
        assert query(new, "SELECT version_num FROM idwbench_version") == [(schema.VERSION,)]
        assert query(new, "PRAGMA journal_mode") == [("wal",)]
        assert query(new, "PRAGMA foreign_key_check") == []
    assert [query(older_db, f"SELECT {what}") for what in kept] == before
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
    migrate = schema._migrate

    def failing(connection, version):
        migrate(connection, version)
        if step is None:
            raise KeyboardInterrupt
        connection.exec_driver_sql(step)

    monkeypatch.setattr(schema, "_migrate", failing)
    before, journal = dump(older_db), query(older_db, "PRAGMA journal_mode")
    with pytest.raises(KeyboardInterrupt if step is None else ResultsError) as caught:
        Results(older_db)
    assert problem in str(caught.value)
    assert dump(older_db) == before
    assert query(older_db, "PRAGMA journal_mode") == journal


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_of_a_newer_version_is_refused(store, db, read_only):
    query(db, "UPDATE idwbench_version SET version_num = '0815'")
    with pytest.raises(ResultsError) as caught:
        Results(db, read_only=read_only)
    assert caught.value.problem == f"has tables of version 0815, newer than version {schema.VERSION} of this idwbench"
    assert caught.value.hint == "upgrade idwbench"


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_of_another_program_is_refused_unchanged(tmp_path, read_only):
    db = tmp_path / "shop.db"
    for name in ("customers", "orders", "runs", "sweeps"):
        query(db, f"CREATE TABLE {name} (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    before = db.read_bytes()
    with pytest.raises(ResultsError, match=r"shop\.db: holds tables of another program: customers, orders, runs, …"):
        Results(str(db), read_only=read_only)
    assert db.read_bytes() == before
    assert query(db, "PRAGMA journal_mode") == [("delete",)]
    assert list(tmp_path.iterdir()) == [db]


# The database of 0.1.0

MOONS = {"name": "two_moons", "train_per_class": 20, "test_per_class": 10, "holdout_per_class": 50}
MOVED = {"train_accuracy", "test_accuracy", "holdout_accuracy", "n_features", "n_classes"}


@pytest.fixture
def old_and_new(old_db, tmp_path):
    """A function that reads an untouched copy, and an upgraded one, by column name."""
    new_db = str(shutil.copy(old_db, tmp_path / "new.db"))
    Results(new_db)

    def read(old, new):
        for db, sql in ((old_db, old), (new_db, new)):
            with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
                connection.row_factory = sqlite3.Row
                yield [dict(row) for row in connection.execute(sql)]

    return read


def test_the_columns_of_runs_stay_as_they_were_and_accuracies_become_metrics(old_and_new):
    old, new = old_and_new(*["SELECT * FROM runs ORDER BY id"] * 2)
    kept = old[0].keys() - MOVED
    assert [{name: row[name] for name in kept} for row in new] == [{name: row[name] for name in kept} for row in old]
    unknown = ("cpu", "platform", "durations", "tags", "note")
    assert new[0].keys() - kept == {"model", "protocol", "n_parameters", *unknown}
    assert {(row["model"], *(row[name] for name in unknown)) for row in new} == {("prototypes", *[None] * 5)}
    assert [json.loads(row["protocol"]) for row in new] == [json.loads(row["config"])["protocol"] for row in old]
    assert [row["n_parameters"] for row in new] == [
        row["n_features"] and row["prototypes"] * (row["n_features"] + row["n_classes"]) for row in old
    ]
    assert sum(row["n_parameters"] is not None for row in new) == 11
    complete, metrics = old_and_new("SELECT * FROM runs WHERE state = 'complete'", "SELECT * FROM metrics")
    assert {(row["run_id"], row["split"], row["name"]): row["value"] for row in metrics} == {
        (row["id"], split, "accuracy"): row[f"{split}_accuracy"]
        for row in complete
        for split in ("train", "test", "holdout")
    }


def test_curves_have_one_row_for_each_value_and_the_other_tables_keep_every_row(old_and_new):
    old, new = old_and_new(*["SELECT * FROM curves"] * 2)
    columns = {"learning_rate": ("train", "learning_rate"), "train_loss": ("train", "loss")}
    columns["test_accuracy"] = ("test", "accuracy")
    expected = {(row["run_id"], row["epoch"], *columns[name], row[name]) for row in old for name in columns}
    assert {(row["run_id"], row["epoch"], row["split"], row["name"], row["value"]) for row in new} == expected
    assert len(new) == len(expected) == 3 * 55
    for former, table in (("tensors", "arrays"), ("sweeps", "sweeps"), ("sweep_runs", "sweep_runs")):
        old, new = old_and_new(*(f"SELECT * FROM {name} ORDER BY 1, 2" for name in (former, table)))
        assert old and new == old


def test_new_runs_share_a_row_of_the_leaderboard_with_old_ones(old_db, make_result):
    results = Results(old_db)
    status = results.sweep_status("moons")
    assert (status.total, status.complete, status.diverged, status.planned) == (18, 11, 3, 4)
    settings = {"power": 2.0, "epsilon": 0.001, "epochs": 5}
    configs = [run_config(MOONS, method="idw", prototypes=2, seed=seed, **settings) for seed in (0, 1, 2, 7)]
    assert results.pending(results.register_sweep("moons", "", "", configs[:3])) == []
    assert len(results.find_runs()) == 18
    results.finish([make_result(configs[3])])
    board = "SELECT n FROM leaderboard WHERE method = 'idw' AND prototypes = 2 AND split = 'test'"
    assert query(old_db, board) == [(4,)]
