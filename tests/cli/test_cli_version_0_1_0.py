"""What version 0.1.0 wrote: a sweep that it began is finished, and its models are patched."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import idwbench
from idwbench.models.model_file import load_model
from idwbench.plugins import load_plugin
from idwbench.runs.config import run_config

ASSETS = Path(__file__).parents[1] / "assets" / "0.1.0"


def rows(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def database(tmp_path):
    for name in ("idwbench.db", "moons.yaml"):
        shutil.copy(ASSETS / name, tmp_path / name)
    return tmp_path / "idwbench.db"


def test_a_sweep_begun_by_it_is_finished_and_nothing_is_trained_twice(run, database):
    old = rows(database, "select run_key, state, attempt, test_accuracy, holdout_accuracy, finished_at from runs")
    ended = {row[0]: row[1:] for row in old if row[1] != "planned"}
    result = run("sweep", "moons.yaml", "--db", database)
    assert result.exit_code == 0, result.output
    assert "moons: 14 of 18 done, 4 to go" in result.stderr
    new = rows(database, "select run_key, state, attempt, test_accuracy, holdout_accuracy, finished_at from runs_wide")
    assert {row[0] for row in new} == {row[0] for row in old}
    assert {row[0]: row[1:] for row in new if row[0] in ended} == ended
    assert {row[1] for row in new if row[0] not in ended} == {"complete"}
    versions = rows(database, "select json_extract(versions, '$.idwbench'), count(*) from runs group by 1 order by 1")
    assert versions == [("0.1.0", 14), (idwbench.__version__, 4)]
    assert [path.name for path in database.parent.glob("*.bak")] != []
    assert "inv_dist" in run("report", "--table", "moons", "--db", database).stdout


@pytest.mark.parametrize(("name", "x", "label"), [("idw.pt", "0,1", 1), ("digits.safetensors", "digits:test:5", 1)])
def test_a_model_that_it_wrote_is_patched(run, tmp_path, name, x, label):
    before = load_model(ASSETS / name)
    result = run("patch", ASSETS / name, "--x", x, "--label", label, "--logit-margin", 1, "-o", f"new-{name}")
    assert result.exit_code == 0, result.output
    after = load_model(tmp_path / f"new-{name}")
    assert len(after.network.keys) == len(before.network.keys) + 1
    assert after.config.run_key == before.provenance["run_key"] == after.provenance["run_key"]


def test_a_patch_that_it_recorded_is_kept():
    patches = load_model(ASSETS / "digits-patched.safetensors").patches
    assert [(patch["label"], patch["x"]) for patch in patches] == [(8, "digits:test:3")]


def test_a_plugin_that_was_written_for_it_gives_the_same_run_keys():
    load_plugin(ASSETS / "laplace.py")
    config = run_config("two_moons", method="laplace", prototypes=4, width=2.0)
    assert config.run_key == "edca319ec8b6d6c85ab782932f91ee31d477db43665f0c48b58f261297db73d6"
