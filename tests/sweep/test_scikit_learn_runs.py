"""Sweeps with scikit-learn's methods and k-means of each class: their files, results, tables and figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans

from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.report.leaderboard import leaderboard
from idwbench.report.summaries import summarise
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.sweep.execution import run_sweep, train
from idwbench.sweep.measurement import unmeasured_runs
from idwbench.sweep.replay import replay_run
from idwbench.sweep.spec import plan, read_sweep

HEAD = """\
name: classifiers
dataset: {name: iris, validation: 0.2}
protocol: {epochs: 2}
seeds: 2
grid:
"""
NEIGHBOURS = "  - {kind: scikit_learn, method: knn, n_neighbors: [1, 3]}\n"
MEANS = "  - {kind: scikit_learn, method: [nearest_centroid, svc]}\n"
FOREST = "  - {kind: scikit_learn, method: random_forest, n_estimators: 3}\n"
CENTRES = "  - {kind: baseline, method: kmeans_per_class, prototypes: 6}\n"
NETWORK = "  - {method: idw, prototypes: 3}\n"
COSTS = ("fit_seconds", "predict_seconds")


@pytest.fixture
def write(tmp_path: Path):
    def write(grid: str) -> Path:
        path = tmp_path / "classifiers.yaml"
        path.write_text(HEAD + grid)
        return path

    return write


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifiers")
    path, db = folder / "classifiers.yaml", folder / "results.db"
    path.write_text(HEAD + NEIGHBOURS + MEANS + FOREST + CENTRES + NETWORK)
    status = run_sweep(path, db, engine="torch", jobs=1)
    assert (status.complete, status.total) == (10, 10)
    return db


@pytest.fixture
def results(stored: Path) -> Results:
    return Results(stored, read_only=True)


def test_methods_and_parameters_are_axes_and_only_random_ones_have_seeds(write):
    runs = plan(read_sweep(write(NEIGHBOURS + MEANS + FOREST + CENTRES)))
    assert [(run.model.label, run.seed) for run in runs] == [
        ("knn · k=1", 0),
        ("knn · k=3", 0),
        ("nearest_centroid", 0),
        ("svc · C=1, kernel=rbf", 0),
        ("random_forest · n_estimators=3", 0),
        ("random_forest · n_estimators=3", 1),
        ("kmeans_per_class · 6 prototypes", 0),
        ("kmeans_per_class · 6 prototypes", 1),
    ]
    for run in runs:
        again = RunConfig.model_validate_json(run.model_dump_json())
        assert (again, again.run_key) == (run, run.run_key)


def test_more_neighbours_than_rows_are_refused_before_anything_is_fitted(write, tmp_path):
    with pytest.raises(ConfigError, match="n_neighbors: expected at most 96, the number of training rows, got 97"):
        run_sweep(write(NEIGHBOURS.replace("3", "97")), tmp_path / "results.db", jobs=1)
    assert {run.state for run in Results(tmp_path / "results.db").find_runs()} == {"planned"}


def test_runs_have_rows_and_columns_like_others(results):
    frame = results.to_frame().set_index("method")
    rows = frame[frame["model"] == "scikit_learn"]
    assert (
        rows[["test_accuracy", "validation_accuracy", "train_fit_seconds", "test_predict_seconds"]]
        .notna()
        .all(axis=None)
    )
    assert frame.loc["knn", "n_neighbors"].tolist() == [1, 3]
    assert frame.loc[["nearest_centroid", "kmeans_per_class", "idw"], "train_coverage"].notna().all()
    assert frame.loc[["svc", "knn"], "train_coverage"].isna().all()
    assert not unmeasured_runs(results.find_runs())
    found = results.load_arrays(frame.loc["nearest_centroid", "run_key"])
    assert found["keys"].shape == (3, 4) and found["values"].shape == (3, 3)


def test_a_leaderboard_has_columns_for_what_differs_within_a_method_and_a_short_title(results):
    board = leaderboard(results.find_runs())
    table = board
    names = {column.name for column in table.columns}
    assert {"method", "n_neighbors", "prototypes"} <= names
    assert not {"metric", "weights", "tol", "max_iter", "shrink_threshold"} & names
    assert "weights" not in board.title and "n estimators 3" in board.title


def test_a_note_says_which_results_do_not_depend_on_the_seed(results):
    notes = summarise(results.find_runs())[0].notes
    assert (
        "The results of knn, nearest_centroid and svc do not depend on the seed; they count once and have no spread."
        in notes
    )


def test_runs_are_found_by_a_parameter_that_is_a_setting_of_another_kind(results):
    found = results.to_frame(where="kernel == 'rbf'")
    assert list(found["label"]) == ["svc · C=1, kernel=rbf"]


def test_an_interrupted_sweep_is_continued_and_a_run_repeated_gives_the_same(results, stored, write, tmp_path):
    path, db = write(NEIGHBOURS + MEANS + FOREST + CENTRES + NETWORK), tmp_path / "part.db"
    run_sweep(write(FOREST), db, engine="torch", jobs=1)
    before = {run.run_key: run.finished_at for run in Results(db).find_runs()}
    path.write_text(HEAD + NEIGHBOURS + MEANS + FOREST + CENTRES + NETWORK)
    run_sweep(path, db, engine="torch", jobs=1)
    for run in Results(db).find_runs():
        whole = results.find_run(run.run_key)
        assert _without_costs(run) == _without_costs(whole)
        assert before.get(run.run_key, run.finished_at) == run.finished_at
    forest = next(run for run in results.find_runs() if run.config.model.method == "random_forest")
    assert replay_run(forest.run_key, stored).identical


def _without_costs(run):
    return {key: value for key, value in run.metrics.items() if key[1] not in COSTS}


def test_k_means_of_each_class_is_that_of_scikit_learn_and_its_labels(tmp_path):
    config = run_config("iris", kind="baseline", method="kmeans_per_class", prototypes=3)
    run = train(config, tmp_path / "results.db")
    dataset = load_dataset(config.dataset)
    arrays = Results(tmp_path / "results.db").load_arrays(run.run_key)
    means = [dataset.train.inputs[rows].mean(0) for rows in dataset.groups]  # one cluster each
    np.testing.assert_allclose(arrays["keys"], means, atol=1e-5)
    np.testing.assert_array_equal(arrays["values"], np.eye(3))
    centroid = train(run_config("iris", kind="scikit_learn", method="nearest_centroid"), tmp_path / "results.db")
    assert run.metric("accuracy") == centroid.metric("accuracy")
    more = train(run_config("iris", kind="baseline", method="kmeans_per_class", prototypes=6), tmp_path / "results.db")
    arrays = Results(tmp_path / "results.db").load_arrays(more.run_key)
    labels = arrays["values"].argmax(1)
    assert np.bincount(labels).tolist() == [2, 2, 2]
    for label, rows in enumerate(dataset.groups):
        own = dataset.train.inputs[rows]
        inertias = [KMeans(2, n_init=1, random_state=seed).fit(own).inertia_ for seed in range(20)]
        distances = ((own[:, None] - arrays["keys"][labels == label]) ** 2).sum(2).min(1)
        assert any(distances.sum() == pytest.approx(inertia, rel=1e-4) for inertia in inertias)


def test_k_means_of_each_class_needs_enough_rows(tmp_path):
    config = run_config("iris", kind="baseline", method="kmeans_per_class", prototypes=121)
    with pytest.raises(ConfigError, match=r"prototypes: expected at most 1\d+, the number of distinct training inputs"):
        train(config, tmp_path / "results.db")


PROGRAM = """
import sys, idwbench
config = idwbench.run_config("iris", kind="scikit_learn", method="knn")
print(idwbench.train(config, sys.argv[1]).state, "torch" in sys.modules, "numba" in sys.modules)
"""


@pytest.mark.slow
def test_torch_is_not_imported(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "a.db"], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["complete", "False", "False"]
