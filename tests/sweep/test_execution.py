"""What `train` and `run_sweep` refuse before the first run; what is done with stored runs; searches."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from case_tables import case_table
from engine_runs import replace_train
from stored_runs import query
from sweep_specs import read_text, received, sweep_file, sweep_text

import idwbench
from idwbench import Results, run_config
from idwbench.errors import ConfigError, ResultsError, TrainingError
from idwbench.plugins import load_plugin
from idwbench.sweep.execution import measure_runs, replay_run, run_sweep, train, unmeasured_runs
from idwbench.sweep.observer import Observer
from idwbench.sweep.sampler import Range

CONFIG = run_config("two_moons", epochs=1)


CALLS = {"train": (train, {"config": CONFIG}), "run_sweep": (run_sweep, {"sweep": "two_moons"})}
REFUSED = [(name, *case) for name in CALLS for case in case_table("wrong_calls")[name]]


@pytest.mark.parametrize(("name", "settings", "message"), REFUSED)
def test_wrong_arguments_are_refused_in_one_line_before_the_database_is_made(tmp_path, name, settings, message):
    call, first = CALLS[name]
    with pytest.raises(ConfigError) as caught:
        call(**{**first, "db": tmp_path / "runs.db", **settings})
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "runs.db").exists()


@pytest.mark.parametrize(("formula", "got"), case_table("wrong_calls")["scores"])
def test_a_plugins_score_of_a_wrong_shape_is_found_before_the_training(formula, got, tmp_path):
    file = tmp_path / "plugin.py"
    file.write_text(f"import idwbench\n@idwbench.register('bad')\ndef bad(inputs, keys):\n    return {formula}\n")
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


# Stored runs are measured later, and trained again: the numbers are those of training, and nothing else changes.


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
    train(run_config("digits", prototypes=3, epochs=1), folder / "trained.db")
    return folder / "trained.db"


@pytest.fixture
def unmeasured(trained, tmp_path):
    """A copy without the metrics of quality; the run on images lacks the two newest alone."""
    db = Path(shutil.copy(trained, tmp_path / "unmeasured.db"))
    others = "SELECT id FROM runs WHERE model = 'patch_study' OR dataset = 'digits'"
    query(db, f"DELETE FROM metrics WHERE name <> 'accuracy' AND run_id NOT IN ({others})")
    query(db, "DELETE FROM metrics WHERE name IN ('key_correlation', 'outside_features')")
    return db


def test_measuring_stores_what_training_would_have_and_changes_nothing_else(trained, unmeasured):
    before, expected = content(unmeasured), rows(trained, "SELECT * FROM metrics")
    assert len(rows(unmeasured, "SELECT * FROM metrics")) < len(expected)
    with pytest.raises(ResultsError, match="read-only"):
        measure_runs(Results(unmeasured, read_only=True), Results(unmeasured).find_runs())
    results = Results(unmeasured)
    kinds = {(run.config.model.kind, run.state) for run in unmeasured_runs(results.find_runs())}
    assert kinds == {("prototypes", "complete"), ("baseline", "complete")}
    steps = []
    assert measure_runs(results, results.find_runs(), on_measured=steps.append) == 13
    assert steps[-1] == 13
    assert rows(unmeasured, "SELECT * FROM metrics") == expected
    assert content(unmeasured) == before
    assert unmeasured_runs(results.find_runs()) == []
    assert measure_runs(results, results.find_runs(), on_measured=pytest.fail) == 0


def test_what_was_measured_before_an_interruption_stays_and_a_run_of_other_data_is_refused(unmeasured):
    results = Results(unmeasured)

    with pytest.raises(KeyboardInterrupt):
        measure_runs(results, results.find_runs(), on_measured=Mock(side_effect=KeyboardInterrupt))
    assert len(unmeasured_runs(results.find_runs())) == 12
    with results._database.write() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET data_sha256 = '{'0' * 64}' || data_sha256")
    with pytest.raises(ResultsError, match=r"^run \w{12} was trained on other data: the checksums differ$"):
        measure_runs(results, results.find_runs())
    assert len(unmeasured_runs(results.find_runs())) == 12
    with results._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET data_sha256 = substr(data_sha256, 65)")
    assert idwbench.measure_runs(results, results.find_runs()) == 12


DATA = {"name": "two_moons", "train_per_class": 20, "test_per_class": 10, "holdout_per_class": 10}
RECORDED = {"kind": "mlp", "width": 3, "record": True, "optimizer": "sgd"}


@pytest.mark.parametrize(("engine", "settings"), [("fused", {}), ("torch", {}), ("auto", RECORDED)])
def test_a_run_trained_again_is_identical_and_its_database_and_recording_stay_as_they_are(tmp_path, engine, settings):
    db = tmp_path / "idwbench.db"
    run = train(run_config(DATA, epochs=2, **settings), db, engine=engine)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()}
    replay = replay_run(run.run_key[:12], db)
    assert replay.identical and replay.curve == 0
    assert replay.runs[0].engine == run.engine and "engine" not in replay.environment
    assert replay.metrics["test", "accuracy"] == (run.metric("accuracy"), run.metric("accuracy"))
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in before} == before
    [planned] = Results(db).plan([run_config(DATA)])
    with pytest.raises(ResultsError, match="is planned: it has no result"):
        replay_run(planned, db)


SEARCHED = "{name: two_moons, train_per_class: 10, test_per_class: 5, holdout_per_class: 0, validation: 6, noise: 0.3}"
SAMPLER = "{optuna: tpe, trials: 6, batch: 3, objective: validation_accuracy}"
GRID = "{method: idw, prototypes: {low: 2, high: 8}, power: {low: 1, high: 8, log: true}, "
GRID += "learning_rate: {low: 1.0e-3, high: 0.5, log: true}, initialisation: [mean, samples]}"


def text(sampler=SAMPLER, grid=GRID, data=SEARCHED):
    return sweep_text(data, *grid.split("\n"), sampler=sampler)


def planned_keys(db):
    return [run.run_key for run in Results(db).find_runs(sweep="small")]


@pytest.mark.slow
def test_an_interrupted_search_ends_with_the_same_runs_and_more_trials_continue_it(tmp_path):
    spec = read_text(tmp_path, text())
    whole, part = tmp_path / "whole.db", tmp_path / "part.db"
    run_sweep(spec, whole)
    observer = Mock(spec=Observer)
    observer.finished.side_effect = [None] * 3 + [KeyboardInterrupt]
    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec, part, jobs=1, observer=observer)
    before = {run.run_key: run.finished_at for run in Results(part).find_runs(states=("complete",))}
    assert 0 < len(before) < len(planned_keys(whole))
    status = run_sweep(spec, part)
    after = {run.run_key: run for run in Results(part).find_runs()}
    assert planned_keys(part) == planned_keys(whole)
    assert status.complete == status.total == len(after)
    assert {key: after[key].finished_at for key in before} == before
    first = planned_keys(part)
    run_sweep(read_text(tmp_path, text(SAMPLER.replace("trials: 6", "trials: 9"))), part)
    assert planned_keys(part)[: len(first)] == first
    assert len(planned_keys(part)) == len(first) + 6
    assert all(run.attempt == 1 or run.run_key not in before for run in Results(part).find_runs())


def test_a_search_reports_the_best_mean_on_validation_rows_also_when_all_is_trained_again(tmp_path):
    spec = read_text(tmp_path, text("{optuna: random, trials: 6, batch: 3, objective: validation_accuracy}"))
    for retry in (None, "all"):
        observer = Mock(spec=Observer)
        run_sweep(spec, tmp_path / "runs.db", retry=retry, observer=observer)
        assert (observer.planned.call_args.args[:2], sum(map(len, received(observer.finished)))) == ((12, 12), 12)
        lines = [line for line in received(observer.note) if "best" in line]
        assert len(lines) == 2 and all("learning rate" in line for line in lines)  # once for each batch
        runs = Results(tmp_path / "runs.db").to_frame(sweep="small")
        means = runs.groupby(["label", "learning_rate"], sort=False).validation_accuracy.mean()
        best = f"best validation accuracy {100 * means.max():.2f} % with {means.idxmax()[0]} "
        assert lines[-1].startswith(f"trial 6 of 6: {best}")


@pytest.mark.parametrize("retry", ["all", "failed"])
def test_a_setting_that_is_drawn_twice_is_trained_again_once(tmp_path, monkeypatch, retry):
    grid = "{method: idw, prototypes: [2, 3], initialisation: mean}"
    spec = read_text(tmp_path, text("{optuna: random, trials: 6, batch: 2, objective: validation_accuracy}", grid))
    db = tmp_path / "runs.db"
    error = Mock(side_effect=TrainingError("no room"))
    monkeypatch.setattr("idwbench.sweep.threads._measured", error)
    run_sweep(spec, db)
    run_sweep(spec, db, retry=retry)
    keys, results = planned_keys(db), Results(db)
    assert [(run.state, run.attempt) for run in results.load_runs(keys)] == [("failed", 2)] * 4


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_search_waits_for_runs_that_another_process_trains_also_again(tmp_path, monkeypatch, is_stored):
    spec = read_text(tmp_path, text("{optuna: random, trials: 2, objective: validation_accuracy}"))
    db = tmp_path / "a.db"
    run_sweep(spec, tmp_path / "first.db")
    run, *_ = Results(tmp_path / "first.db").find_runs(sweep="small")
    if is_stored:
        run_sweep(spec, db)
    other = Results(db)
    other.plan([run.config])
    other.reset([run.run_key], ("complete",))
    assert other.lease([run.run_key]) == [run.run_key]
    assert not is_stored or run_sweep(spec, db).running == 1
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        other.release([run.run_key])

    monkeypatch.setattr("idwbench.sweep.runner.time", SimpleNamespace(sleep=sleep, monotonic=lambda: 0.0))
    status = run_sweep(spec, db, wait=is_stored)
    assert (status.running, status.complete, len(pauses)) == (0, status.total, 1)


def test_blocks_of_a_search_are_alternatives_with_whole_numbers_where_the_setting_has(tmp_path):
    grid = "{method: idw, prototypes: {low: 2, high: 8}, power: {low: 1, high: 8, log: true}}"
    grid += "\n{kind: scikit_learn, method: knn, n_neighbors: {low: 1, high: 4}, weights: [uniform, distance]}"
    spec = read_text(tmp_path, text("{optuna: random, trials: 8, objective: validation_accuracy}", grid))
    network, neighbours = spec.space
    assert network["prototypes"] == Range(low=2, high=8, log=False, step=None, whole=True)
    assert network["power"] == Range(low=1, high=8, log=True, step=None, whole=False)
    assert neighbours["n_neighbors"] == Range(low=1, high=4, log=False, step=None, whole=True)
    assert neighbours["weights"] == ("uniform", "distance")
    run_sweep(spec, tmp_path / "runs.db")
    kinds = [run.config.model.kind for run in Results(tmp_path / "runs.db").find_runs()]
    # Nearest neighbours do not depend on the seed.
    assert set(kinds) == {"prototypes", "scikit_learn"}
    assert kinds.count("prototypes") % 2 == 0


def test_a_search_without_the_metric_of_its_objective_ends_in_one_line(tmp_path):
    spec = read_text(tmp_path, text("{optuna: random, trials: 2, objective: validation_coverage}"))
    with pytest.raises(TrainingError, match=r"have no validation_coverage; they have .*validation_accuracy"):
        run_sweep(spec, tmp_path / "runs.db")
