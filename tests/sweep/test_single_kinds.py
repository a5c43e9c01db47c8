"""What only some kinds of runs promise: data that fits, what is loaded again, tables, checkpoints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans
from texts import TEXT, text_file

from idwbench.data.loading import load_dataset
from idwbench.data.synthetic import draw_queries, draw_table
from idwbench.errors import ConfigError, TrainingError
from idwbench.figures.stored import FIGURES, FORMULAS, stored_drawing
from idwbench.models.hash_table import recall, stored_hash_table
from idwbench.models.networks import load_network
from idwbench.models.perceptron import load_mlp
from idwbench.report.leaderboard import leaderboard
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import run_sweep, train
from idwbench.sweep.observer import Observer

MOONS = "{name: two_moons, train_per_class: 20, test_per_class: 15, holdout_per_class: 10, validation: 4}"
IDW = "{kind: network, encoder: mlp, width: 4, head: idw, prototypes: 3, power: [2, 4]}"
NEIGHBOURS = "{kind: scikit_learn, method: knn, n_neighbors: [1, 3]}"
FOREST = "{kind: scikit_learn, method: random_forest, n_estimators: 3}"


def write(folder: Path, *blocks: str, dataset: str = MOONS, seeds: object = 2) -> Path:
    path = folder / "kinds.yaml"
    lines = "".join(f"  - {block}\n" for block in blocks)
    path.write_text(f"name: kinds\ndataset: {dataset}\nprotocol: {{epochs: 3}}\nseeds: {seeds}\ngrid:\n{lines}")
    return path


class Stopping(Observer):
    """Interrupts after a number of epochs, and keeps the notes."""

    def __init__(self, epochs: int = -1) -> None:
        self.left, self.notes = epochs, []

    def epoch(self, configs, epoch: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "results.db"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Networks, perceptrons, prototypes, kernel regression and scikit-learn's methods on one data set."""
    folder = tmp_path_factory.mktemp("stored")
    blocks = [IDW, "{kind: mlp, width: 6, depth: [1, 2]}", "{method: idw, prototypes: 3}", NEIGHBOURS, FOREST]
    blocks += ["{kind: kernel_regression, kernel: [gaussian, boxcar], bandwidth: [0.1, loo]}"]
    blocks += ["{kind: scikit_learn, method: [nearest_centroid, svc]}"]
    status = run_sweep(write(folder, *blocks), folder / "results.db", engine="torch", jobs=1)
    assert (status.complete, status.total) == (20, 20)
    return Results(folder / "results.db")


def of_kind(results: Results, kind: str):
    return [run for run in results.find_runs() if run.config.model.kind == kind]


# Data that does not fit


@pytest.mark.parametrize(
    ("dataset", "block", "message"),
    [
        (MOONS, "{kind: network, encoder: conv}", "encoder 'conv' needs images"),
        ("digits", "{kind: network, encoder: vit_tiny, patch: 3}", "patches of 3 x 3 pixels do not divide images of 8"),
        ("iris", "{kind: scikit_learn, method: knn, n_neighbors: [1, 121]}", "at most 120, the number of training row"),
        ("iris", "{kind: baseline, method: kmeans_per_class, prototypes: 121}", r"at most 1\d+, the number of dist"),
        (
            MOONS,
            "{kind: patch_study, method: idw, prototypes: [2, 41], initialisation: samples}",
            "prototypes: expected at most 36, the number of training inputs, got 41",
        ),
        ("{name: text, path: own.txt}", "{kind: lstm_lm, context: 40}", "the training text is too short: 37 character"),
    ],
)
def test_data_that_does_not_fit_a_model_is_refused_before_anything_is_trained(tmp_path, db, dataset, block, message):
    text_file(tmp_path, TEXT)
    with pytest.raises(ConfigError, match=message):
        run_sweep(write(tmp_path, block, dataset=dataset), db, jobs=1)
    assert {run.state for run in Results(db).find_runs()} == {"planned"}


def test_a_single_run_that_does_not_fit_leaves_no_database(db):
    for settings in ({"kind": "baseline", "method": "samples"}, {"kind": "patch_study", "initialisation": "samples"}):
        with pytest.raises(ConfigError, match=r"^prototypes: expected at most 200, the number of training inputs, got"):
            train(run_config("two_moons", prototypes=201, **settings), db)
    assert not db.exists()


# What is loaded again


@pytest.mark.parametrize(("kind", "load"), [("network", load_network), ("mlp", load_mlp)])
def test_a_loaded_network_has_the_stored_accuracies(stored, kind, load):
    for run in of_kind(stored, kind)[::2]:
        network = load(stored, run.run_key[:16])
        assert not network.training
        for name, split in load_dataset(run.config.dataset).splits.items():
            assert (network.predict(split.inputs) == split.labels).mean() == run.metric("accuracy", name)


def test_a_stored_run_is_the_hash_table_that_was_learned(db):
    data = {"name": "lookup", "items": 4, "dimensions": 3, "queries": 16}
    config = run_config(data, kind="hash_table", similarity="idw", projections="mlp", epochs=2, seed=3)
    run = train(config, db)
    hash_table, table = stored_hash_table(Results(db), run), draw_table(config.dataset, 3)
    assert recall(hash_table, table, draw_queries(config.dataset, 3, table)) == run.metric("recall")
    assert [point.epoch for point in Results(db).load_curve(run.run_key)] == [1, 2]


@pytest.mark.parametrize(
    ("load", "what"),
    [(load_network, "no network"), (load_mlp, "no multilayer perceptron"), (stored_hash_table, "no hash table")],
)
def test_what_a_run_is_not_is_not_loaded(stored, load, what):
    (plain, *_) = of_kind(stored, "prototypes")
    with pytest.raises((TrainingError, ValueError), match=f"a run of kind prototypes has {what}"):
        load(stored, plain if load is stored_hash_table else plain.run_key)


def test_a_run_without_a_result_has_no_network(db):
    (key,) = Results(db).plan([run_config("two_moons", kind="network")])
    with pytest.raises(TrainingError, match="the run is planned: it has no network"):
        load_network(Results(db), key)


def test_prototypes_and_kernel_regression_recall_too(db):
    data = {"name": "lookup", "items": 4, "dimensions": 3, "queries": 16, "noise": 0.01}
    run = train(run_config(data, method="idw", prototypes=4, epochs=1), db)
    assert 0 <= run.metric("recall") <= 1 and run.metric("rmse") is not None
    assert train(run_config(data, kind="kernel_regression", kernel="shepard"), db).metric("recall") == 1


# Tables and figures


def test_the_columns_of_kinds_hold_what_they_have(stored):
    frame = stored.to_frame().set_index("model")
    kernels = frame.loc["kernel_regression"]
    assert set(kernels["method"]) == {"gaussian_kernel", "boxcar_kernel"} and kernels["prototypes"].isna().all()
    assert kernels[["test_queries_without_neighbours", "train_bandwidth"]].notna().all(axis=None)
    assert {run.config.model.kind for run in stored.find_runs(methods=["boxcar_kernel"])} == {"kernel_regression"}
    assert list(stored.to_frame(where="kernel == 'rbf'")["label"]) == ["svc · C=1, kernel=rbf"]
    frame = frame.reset_index().set_index("method")
    assert frame.loc["knn", "n_neighbors"].tolist() == [1, 3]
    assert frame.loc["nearest_centroid", "train_coverage"] > 0
    assert frame.loc[["svc", "knn"], "train_coverage"].isna().all()
    arrays = stored.load_arrays(frame.loc["nearest_centroid", "run_key"])
    assert (arrays["keys"].shape, arrays["values"].shape) == ((2, 2), (2, 2))
    perceptrons = frame[frame["model"] == "mlp"]
    assert perceptrons.test_output_if_right_2.notna().tolist() == (perceptrons.depth == 2).tolist()


def test_tables_and_leaderboards_say_what_differs_and_what_the_seed_does_not_affect(stored):
    (summary,) = summarise(stored.find_runs())
    said = "The results of kernel regression, knn, nearest_centroid and svc do not depend on the seed"
    assert any(note.startswith(said) for note in summary.notes), summary.notes
    (table, *_) = section_tables([summary])
    columns = {column.name: [cell.text for cell in column.cells] for column in table.columns}
    learned = dict(zip(columns["setting"], columns["learned_parameters"], strict=True))
    assert learned["width 4, depth 2, head p=2, ε=0.001"] == "50"  # (2·4 + 4) + (4·4 + 4) + 3·(4 + 2)
    sizes = dict(zip(columns["setting"], columns["prototypes"], strict=True))
    assert sizes["h=loo"] == "all" and sizes["p=2, ε=0.001"] == "3"
    board = leaderboard(of_kind(stored, "scikit_learn"))
    names = {column.name for column in board.columns}
    assert {"method", "n_neighbors"} <= names and not {"metric", "weights", "tol", "max_iter"} & names
    assert "n estimators 3" in board.title


def test_figures_of_trained_networks_refuse_kernel_regression_or_say_what_they_leave_out(stored):
    kernels = of_kind(stored, "kernel_regression")
    for name in (name for name in FIGURES if name not in FORMULAS):
        with pytest.raises(ConfigError):
            stored_drawing(name, stored, kernels)
    drawing = stored_drawing("moons", stored, stored.find_runs())
    assert any("4 runs of kind 'kernel_regression'" in line for line in drawing.left_out)


# Checkpoints and oracles


@pytest.mark.parametrize("is_damaged", [False, True])
def test_an_interrupted_run_goes_on_from_its_checkpoint_unless_it_is_damaged(tmp_path, db, is_damaged):
    path = write(tmp_path, IDW)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(path, db, jobs=1, observer=Stopping(4))  # after the first epoch of the second run
    (file,) = (tmp_path / "results.db.checkpoints").iterdir()
    if is_damaged:
        file.write_bytes(b"not a checkpoint")
    observer = Stopping()
    assert run_sweep(path, db, jobs=1, observer=observer).complete == 4
    assert observer.left == -1 - (4 * 3 - (3 if is_damaged else 4))  # no epoch was trained twice
    assert not file.parent.exists()
    notes = [f"{file}: the checkpoint is damaged; the training starts again"] if is_damaged else []
    assert [note for note in observer.notes if "checkpoint" in note] == notes


def test_k_means_of_each_class_is_that_of_scikit_learn_and_its_labels(db):
    config = run_config("iris", kind="baseline", method="kmeans_per_class", prototypes=3)
    run, dataset = train(config, db), load_dataset(config.dataset)
    arrays = Results(db).load_arrays(run.run_key)
    means = [dataset.train.inputs[rows].mean(0) for rows in dataset.groups]  # one cluster each
    np.testing.assert_allclose(arrays["keys"], means, atol=1e-5)
    np.testing.assert_array_equal(arrays["values"], np.eye(3))
    centroid = train(run_config("iris", kind="scikit_learn", method="nearest_centroid"), db)
    assert run.metric("accuracy") == centroid.metric("accuracy")
    more = train(run_config("iris", kind="baseline", method="kmeans_per_class", prototypes=6), db)
    arrays = Results(db).load_arrays(more.run_key)
    labels = arrays["values"].argmax(1)
    assert np.bincount(labels).tolist() == [2, 2, 2]
    for label, rows in enumerate(dataset.groups):
        own = dataset.train.inputs[rows]
        inertias = [KMeans(2, n_init=1, random_state=seed).fit(own).inertia_ for seed in range(20)]
        distances = ((own[:, None] - arrays["keys"][labels == label]) ** 2).sum(2).min(1)
        assert any(distances.sum() == pytest.approx(inertia, rel=1e-4) for inertia in inertias)


def test_the_page_of_kernel_regression_has_every_kernel():
    from idwbench.attention.kernels import KERNELS

    page = (Path(__file__).parents[2] / "docs/kernel_regression.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == [*KERNELS]


PROGRAM = """
import sys, idwbench
config = idwbench.run_config("iris", kind="scikit_learn", method="knn")
print(idwbench.train(config, sys.argv[1]).state, "torch" in sys.modules, "numba" in sys.modules)
"""


@pytest.mark.slow
def test_torch_is_not_imported_for_what_scikit_learn_fits(db):
    done = subprocess.run([sys.executable, "-c", PROGRAM, db], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["complete", "False", "False"]
