"""Stored runs are measured later, and trained again: the numbers are those of training, and nothing else changes."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import idwbench
from idwbench.errors import ResultsError
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import replay_run, run_sweep, train
from idwbench.sweep.measurement import measure_runs, unmeasured_runs
from idwbench.sweep.observer import Observer

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


DATA = {"name": "two_moons", "train_per_class": 20, "test_per_class": 10, "holdout_per_class": 10}


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_a_run_trained_again_is_identical_and_the_database_stays_as_it_is(tmp_path, engine):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, prototypes=4, epochs=2), db, engine=engine)
    before = hashlib.sha256(db.read_bytes()).digest()
    replay = replay_run(run.run_key[:12], db)
    assert replay.identical
    assert replay.runs[0].engine == engine and "engine" not in replay.environment
    assert replay.metrics["test", "accuracy"] == (run.metric("accuracy"), run.metric("accuracy"))
    assert set(replay.arrays) == {"keys", "values"} and replay.curve == 0
    assert hashlib.sha256(db.read_bytes()).digest() == before
    assert Results(db, read_only=True).find_run(run.run_key).attempt == 1


def test_a_changed_result_and_environment_are_found(tmp_path):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, prototypes=4, epochs=2), db)
    with Results(db)._database.write() as connection:
        connection.exec_driver_sql("UPDATE metrics SET value = 0.25 WHERE split = 'test' AND name = 'accuracy'")
        connection.exec_driver_sql("UPDATE curves SET value = value + 1 WHERE epoch = 2 AND name = 'loss'")
        connection.exec_driver_sql("""UPDATE runs SET cpu = '{"model": "Z80"}', data_sha256 = 'f00'""")
    replay = replay_run(run.run_key, db)
    assert not replay.identical
    assert replay.metrics["test", "accuracy"] == (0.25, run.metric("accuracy"))
    assert replay.curve == pytest.approx(1)
    assert replay.arrays["keys"].identical
    assert replay.environment["cpu model"][0] == "Z80" and replay.environment["data sha256"][0] == "f00"


def test_a_study_of_patches_and_its_network_are_repeated(tmp_path):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, kind="patch_study", prototypes=4, epochs=2), db)
    numbers = []
    observer = Observer()
    observer.planned = lambda *planned: numbers.append(planned)
    replay = replay_run(run.run_key, db, observer=observer)
    assert replay.identical and "eta" in replay.arrays
    assert numbers == [(2, 2, 0, 0)]


def test_a_recorded_run_keeps_its_recording(tmp_path):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, kind="mlp", width=3, record=True, epochs=1, optimizer="sgd"), db)
    folder = Results(db).recording_folder / run.run_key
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    assert replay_run(run.run_key, db).identical
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()} == before


def test_a_run_without_a_result_cannot_be_repeated(tmp_path):
    db = tmp_path / "idwbench.db"
    [key] = Results(db).plan([run_config(DATA)])
    with pytest.raises(ResultsError, match="is planned: it has no result"):
        replay_run(key, db)
