"""Stored runs are measured later: the numbers are those that training stores, and nothing else changes."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import idwbench
from idwbench.errors import ResultsError
from idwbench.results.store import Results
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.measurement import measure_runs, unmeasured_runs

ASSET = Path(__file__).parents[1] / "assets" / "0.1.0" / "idwbench.db"
SWEEP = """\
name: small
dataset: {name: two_moons, train_per_class: 12, test_per_class: 8, holdout_per_class: 10}
protocol: {epochs: 2}
seeds: 2
grid:
  - {method: [idw, fc_relu], prototypes: [1, 3]}
  - {method: neg_dist, prototypes: 3, optimizer: sgd, learning_rate: 1.0e+30}
  - {kind: baseline, method: [kmeans, samples], prototypes: 3}
  - {kind: patch_study, method: idw, prototypes: 3}
"""


def rows(db: Path, query: str):
    with closing(sqlite3.connect(db)) as connection:
        return sorted(connection.execute(query).fetchall(), key=repr)


def content(db: Path):
    """Everything in the database but the metrics."""
    tables = ("runs", "curves", "arrays", "sweeps", "sweep_runs")
    return {table: rows(db, f"SELECT * FROM {table}") for table in tables}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    (folder / "small.yaml").write_text(SWEEP)
    run_sweep(folder / "small.yaml", folder / "trained.db", engine="torch", jobs=1)
    return folder / "trained.db"


@pytest.fixture
def unmeasured(trained: Path, tmp_path: Path) -> Path:
    """A copy without the metrics of quality."""
    db = Path(shutil.copy(trained, tmp_path / "unmeasured.db"))
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute(
            "DELETE FROM metrics WHERE name <> 'accuracy' "
            "AND run_id NOT IN (SELECT id FROM runs WHERE model = 'patch_study')"
        )
    return db


def test_measuring_stores_what_training_would_have_and_changes_nothing_else(trained, unmeasured):
    before, expected = content(unmeasured), rows(trained, "SELECT * FROM metrics")
    assert len(rows(unmeasured, "SELECT * FROM metrics")) < len(expected)
    with pytest.raises(ResultsError, match="read-only"):
        measure_runs(Results(unmeasured, read_only=True), Results(unmeasured).find_runs())
    results = Results(unmeasured)
    found = unmeasured_runs(results.find_runs())
    assert {(run.config.model.kind, run.state) for run in found} == {
        ("prototypes", "complete"),
        ("baseline", "complete"),
    }
    steps: list[int] = []
    assert measure_runs(results, results.find_runs(), on_measured=steps.append) == 12
    assert steps[-1] == 12
    assert rows(unmeasured, "SELECT * FROM metrics") == expected
    assert content(unmeasured) == before
    assert unmeasured_runs(results.find_runs()) == []
    assert measure_runs(results, results.find_runs(), on_measured=pytest.fail) == 0


def test_a_run_of_other_data_is_refused(unmeasured):
    with closing(sqlite3.connect(unmeasured)) as connection, connection:
        connection.execute("UPDATE runs SET data_sha256 = ?", ("0" * 64,))
    before = rows(unmeasured, "SELECT * FROM metrics")
    results = Results(unmeasured)
    with pytest.raises(ResultsError, match=r"^run \w{12} was trained on other data: the checksums differ$"):
        measure_runs(results, results.find_runs())
    assert rows(unmeasured, "SELECT * FROM metrics") == before


def test_what_was_measured_before_an_interruption_stays(unmeasured, monkeypatch):
    monkeypatch.setattr("idwbench.sweep.measurement._AT_ONCE", 5)
    results = Results(unmeasured)

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_runs(results, results.find_runs(), on_measured=interrupt)
    assert len(unmeasured_runs(results.find_runs())) == 7
    assert idwbench.measure_runs(results, results.find_runs()) == 7


def test_the_runs_of_version_0_1_0_can_be_measured(tmp_path):
    results = Results(shutil.copy(ASSET, tmp_path / "old.db"))
    complete = results.find_runs(states=["complete"])
    before = {run.run_key: run.metrics for run in complete}
    assert measure_runs(results, results.find_runs()) == len(complete) > 0
    for run in results.find_runs(states=["complete"]):
        assert before[run.run_key].items() <= run.metrics.items()
        assert run.metric("coverage", "train") > 0
        assert 0 <= run.metric("nearest_key_accuracy") <= 1
