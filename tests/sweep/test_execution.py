"""What `train` and `run_sweep` refuse before the first run is trained; what is done with stored runs."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from engine_runs import replace_train
from stored_runs import query
from sweep_specs import sweep_file

import idwbench
from idwbench.errors import ConfigError, ResultsError, TrainingError
from idwbench.plugins import load_plugin
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import replay_run, run_sweep, train
from idwbench.sweep.measurement import measure_runs, unmeasured_runs

CONFIG = run_config("two_moons", epochs=1)


@pytest.mark.parametrize(
    ("call", "settings", "message"),
    [
        (train, {"engine": "fusd"}, "engine: expected auto, fused or torch, got 'fusd' (did you mean 'fused'?)"),
        (train, {"config": "two_moons"}, "config: expected a run, got 'two_moons' (make it with run_config)"),
        (train, {"db": 3}, "db: expected a path or URL, got 3"),
        (train, {"retrain": "yes"}, "retrain: expected True or False, got 'yes'"),
        (train, {"observer": print}, "observer: expected an Observer, got <built-in function print>"),
        (run_sweep, {"sweep": 5}, "sweep: expected the path or name of a sweep, or the result of read_sweep, got 5"),
        (run_sweep, {"retry": "no"}, "retry: expected one of failed, diverged, all, got 'no'"),
        (run_sweep, {"jobs": 0}, "jobs: expected a whole number above 0, got 0"),
        (run_sweep, {"jobs": True}, "jobs: expected a whole number above 0, got True"),
        (run_sweep, {"max_failures": 1.5}, "max_failures: expected a whole number above 0, got 1.5"),
        (run_sweep, {"dask": 8786}, "dask: expected the address of a cluster, got 8786"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line_before_the_database_is_made(tmp_path, call, settings, message):
    first = {train: {"config": CONFIG}, run_sweep: {"sweep": "two_moons"}}[call]
    with pytest.raises(ConfigError) as caught:
        call(**{**first, "db": tmp_path / "runs.db", **settings})
    assert str(caught.value) == message
    assert not (tmp_path / "runs.db").exists()


@pytest.mark.parametrize(
    ("formula", "got"),
    [("(inputs @ keys.mT).sum(-1)", "shape (3,)"), ("keys @ inputs.mT", "shape (2, 3)"), ("0.0", "'float'")],
)
def test_a_plugins_score_of_a_wrong_shape_is_found_before_the_training(formula, got, tmp_path):
    file = tmp_path / "plugin.py"
    file.write_text(
        f"from idwbench import register\n\n@register('bad')\ndef bad(inputs, keys):\n    return {formula}\n"
    )
    load_plugin(file)
    with pytest.raises(ConfigError) as caught:
        train(run_config("two_moons", method="bad", prototypes=4, epochs=1), tmp_path / "runs.db")
    expected = "the score of bad must have the shape (3, 2) for inputs (3, 2) and keys (2, 2)"
    assert str(caught.value) == f"method: {expected}, got {got}"
    assert not (tmp_path / "runs.db").exists()


def test_a_run_whose_memory_cannot_be_allocated_fails_with_one_line(tmp_path, monkeypatch):
    def allocate(configs, dataset, context):
        torch.empty(2**60)

    replace_train(monkeypatch, "fused", allocate)
    with pytest.raises(TrainingError, match=r"failed: .*TrainingError: idw · 16 .*: out of memory \(.*can't allocate"):
        train(run_config("two_moons", epochs=1), tmp_path / "runs.db")


PROGRAM = """
import sys, idwbench
config = idwbench.run_config("iris", kind="scikit_learn", method="knn")
print(idwbench.train(config, sys.argv[1]).state, "torch" in sys.modules, "numba" in sys.modules)
"""


@pytest.mark.slow
def test_torch_is_not_imported_for_what_scikit_learn_fits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "runs.db"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["complete", "False", "False"]


# Stored runs are measured later, and trained again: the numbers are those of training, and nothing else changes.


ASSET = Path(__file__).parents[1] / "assets" / "0.1.0" / "idwbench.db"
MOONS = "{name: two_moons, train_per_class: 12, test_per_class: 8, holdout_per_class: 10}"
BLOCKS = (
    "{method: [idw, fc_relu], prototypes: [1, 3]}",
    "{method: neg_dist, prototypes: 3, optimizer: sgd, learning_rate: 1.0e+30}",
    "{kind: baseline, method: [kmeans, samples], prototypes: 3}",
    "{kind: patch_study, method: idw, prototypes: 3}",
)


def rows(db, text):
    return sorted(query(db, text), key=repr)


def content(db):
    """Everything in the database but the metrics."""
    tables = ("runs", "curves", "arrays", "sweeps", "sweep_runs")
    return {table: rows(db, f"SELECT * FROM {table}") for table in tables}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    run_sweep(sweep_file(folder, MOONS, *BLOCKS), folder / "trained.db", engine="torch", jobs=1)
    return folder / "trained.db"


@pytest.fixture
def unmeasured(trained, tmp_path):
    """A copy without the metrics of quality."""
    db = Path(shutil.copy(trained, tmp_path / "unmeasured.db"))
    studies = "SELECT id FROM runs WHERE model = 'patch_study'"
    query(db, f"DELETE FROM metrics WHERE name <> 'accuracy' AND run_id NOT IN ({studies})")
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
    steps = []
    assert measure_runs(results, results.find_runs(), on_measured=steps.append) == 12
    assert steps[-1] == 12
    assert rows(unmeasured, "SELECT * FROM metrics") == expected
    assert content(unmeasured) == before
    assert unmeasured_runs(results.find_runs()) == []
    assert measure_runs(results, results.find_runs(), on_measured=pytest.fail) == 0


def test_what_was_measured_before_an_interruption_stays_and_a_run_of_other_data_is_refused(unmeasured, monkeypatch):
    monkeypatch.setattr("idwbench.sweep.measurement._AT_ONCE", 5)
    results = Results(unmeasured)

    with pytest.raises(KeyboardInterrupt):
        measure_runs(results, results.find_runs(), on_measured=Mock(side_effect=KeyboardInterrupt))
    assert len(unmeasured_runs(results.find_runs())) == 7
    with results._database.write() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET data_sha256 = '{'0' * 64}' || data_sha256")
    with pytest.raises(ResultsError, match=r"^run \w{12} was trained on other data: the checksums differ$"):
        measure_runs(results, results.find_runs())
    assert len(unmeasured_runs(results.find_runs())) == 7
    with results._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET data_sha256 = substr(data_sha256, 65)")
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
    [planned] = Results(db).plan([run_config(DATA)])
    with pytest.raises(ResultsError, match="is planned: it has no result"):
        replay_run(planned, db)


def test_a_recorded_run_keeps_its_recording(tmp_path):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, kind="mlp", width=3, record=True, epochs=1, optimizer="sgd"), db)
    folder = Results(db).recording_folder / run.run_key
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    assert replay_run(run.run_key, db).identical
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()} == before
