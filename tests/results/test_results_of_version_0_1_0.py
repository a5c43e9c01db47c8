"""The database that version 0.1.0 wrote: it upgrades, keeps every number, and its sweep goes on."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from idwbench.results.store import Results
from idwbench.runs.config import run_config

MOONS = {"name": "two_moons", "train_per_class": 20, "test_per_class": 10, "holdout_per_class": 50}
MOVED = {"train_accuracy", "test_accuracy", "holdout_accuracy", "n_features", "n_classes"}


def rows(db, query):
    """Return rows by column name; a database in write-ahead mode is read without creating files beside it."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def content(db):
    with closing(sqlite3.connect(db)) as connection:
        return list(connection.iterdump())


def backups(db):
    return list(Path(db).parent.glob("*.bak"))


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
