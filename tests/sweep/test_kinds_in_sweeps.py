"""What holds for runs of every kind in sweeps: their plans, training, interruption, tables, columns and refusals."""

from collections import Counter
from functools import cache
from itertools import chain, repeat
from unittest.mock import Mock

import numpy as np
import pytest
from case_tables import case_table
from sklearn.cluster import KMeans
from sweep_specs import sweep_file

from idwbench import Results, run_config, run_sweep, train
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, TrainingError
from idwbench.models.hash_table import stored_hash_table
from idwbench.models.networks import load_network
from idwbench.models.perceptron import load_mlp
from idwbench.models.saved_model import stored_model
from idwbench.report.leaderboard import leaderboard
from idwbench.report.summaries import section_tables, summarise
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.protocol import DEFAULT_PROTOCOLS
from idwbench.sweep.execution import measure_runs, unmeasured_runs
from idwbench.sweep.observer import Observer
from idwbench.sweep.spec import plan, read_sweep

# By data set the blocks of a grid, and the number of runs of each with two seeds.
TABLE = case_table("kinds_in_sweeps")
SWEEPS = {one["data"]: one["blocks"] for one in TABLE.values()}
MOONS = TABLE["two_moons"]["data"]
# Metrics of the cost of a training, which differ from one to the next.
COSTS = {"seconds_per_step", "activation_memory", "fit_seconds", "predict_seconds"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns the sweep file of a data set, and the database after the sweep."""

    @cache
    def sweep(dataset):
        folder = tmp_path_factory.mktemp("kinds")
        path = sweep_file(folder, dataset, *SWEEPS[dataset])
        status = run_sweep(path, folder / "results.db", jobs=1)
        assert status.complete == status.total == sum(SWEEPS[dataset].values())
        return path, Results(folder / "results.db")

    return sweep


@pytest.fixture(params=SWEEPS, ids=TABLE)
def stored(request, trained):
    return trained(request.param)


@pytest.fixture
def moons(trained):
    return trained(MOONS)[1]


@pytest.fixture
def db(tmp_path):
    return tmp_path / "results.db"


def of_kind(results, kind):
    return [run for run in results.find_runs() if run.config.model.kind == kind]


def test_each_kind_is_here_and_a_run_that_the_seed_does_not_affect_is_planned_once(tmp_path):
    kinds = set()
    for dataset, blocks in SWEEPS.items():
        for block, n in blocks.items():
            runs = plan(read_sweep(sweep_file(tmp_path, dataset, block)))
            kinds |= {run.model.kind for run in runs}
            settings = Counter((run.model.label, run.protocol.learning_rate) for run in runs)
            assert len(runs) == n == len({run.run_key for run in runs})
            assert {*settings.values()} == {1 if runs[0].model.is_deterministic else 2}
    assert kinds == MODELS.keys()


def test_an_interrupted_sweep_goes_on_to_the_same_bytes_and_trains_nothing_twice(stored, tmp_path):
    path, whole = stored
    db = tmp_path / "other.db"
    interrupt = Mock(side_effect=chain([None, None, KeyboardInterrupt], repeat(None)))  # in the third epoch
    with pytest.raises(KeyboardInterrupt):
        run_sweep(path, db, jobs=1, observer=Mock(spec=Observer, epoch=interrupt))
    part, observer, checkpoints = Results(db), Mock(spec=Observer), tmp_path / "other.db.checkpoints"
    assert not {"running", "failed"} & {run.state for run in part.find_runs()}
    if whole.find_runs()[0].config.model.kind == "transformer_lm":  # the second run was interrupted between its epochs
        assert len([*checkpoints.iterdir()]) == 1
    run_sweep(path, db, jobs=1, observer=observer)
    if whole.find_runs()[0].config.model.kind == "transformer_lm":
        assert observer.epoch.call_count == 8 * 2 - 3  # no epoch was trained twice
    assert not checkpoints.exists()
    ends = {run.run_key: run.finished_at for run in part.find_runs()}
    for run in whole.find_runs():
        again = part.find_run(run.run_key)
        assert timeless(again) == timeless(run)
        assert part.load_curve(run.run_key) == whole.load_curve(run.run_key)
        assert contents(part, run.run_key) == contents(whole, run.run_key)
    run_sweep(path, db, jobs=1)
    assert {run.run_key: run.finished_at for run in part.find_runs()} == ends


def timeless(run):
    return {key: value for key, value in run.metrics.items() if key[1] not in COSTS}


def contents(results, run_key):
    return {name: array.tobytes() for name, array in results.load_arrays(run_key).items()}


def test_only_prototypes_have_a_model_file_and_no_run_lacks_a_measure(stored):
    results = stored[1]
    runs = {run.config.model.kind: run for run in results.find_runs()}
    assert unmeasured_runs(results.find_runs()) == []
    assert measure_runs(results, results.find_runs()) == 0
    for kind, run in runs.items():
        if kind == "prototypes":
            assert stored_model(results, run).config == run.config
        else:
            with pytest.raises(TrainingError, match=f"a run of kind {kind} has no model"):
                stored_model(results, run)


@pytest.mark.parametrize(("dataset", "block", "message"), case_table("wrong_sizes")["data"])
def test_data_that_does_not_fit_a_model_is_refused_before_anything_is_trained(tmp_path, db, dataset, block, message):
    data = TABLE[dataset]["data"] if dataset in TABLE else dataset
    with pytest.raises(ConfigError, match=message):
        run_sweep(sweep_file(tmp_path, data, block), db, jobs=1)
    assert {run.state for run in Results(db).find_runs()} == {"planned"}


def test_a_loaded_network_has_the_stored_accuracies_and_what_a_run_is_not_is_not_loaded(moons):
    (plain, *_) = of_kind(moons, "prototypes")
    for kind, load, what in (("network", load_network, "network"), ("mlp", load_mlp, "multilayer perceptron")):
        for run in of_kind(moons, kind)[::2]:
            network = load(moons, run.run_key[:16])
            assert not network.training
            for name, split in load_dataset(run.config.dataset).splits.items():
                assert (network.predict(split.inputs) == split.labels).mean() == run.metric("accuracy", name)
        with pytest.raises((TrainingError, ValueError), match=f"a run of kind prototypes has no {what}"):
            load(moons, plain.run_key)
    with pytest.raises((TrainingError, ValueError), match="a run of kind prototypes has no hash table"):
        stored_hash_table(moons, plain)


def test_the_columns_of_kinds_hold_what_they_have(moons):
    frame = moons.to_frame().set_index("model")
    kernels = frame.loc["kernel_regression"]
    assert set(kernels["method"]) == {"gaussian_kernel", "boxcar_kernel"} and kernels["prototypes"].isna().all()
    assert list(moons.to_frame(where="kernel == 'rbf'")["label"]) == ["svc · C=1, kernel=rbf"]
    frame = frame.reset_index().set_index("method")
    assert frame.loc["knn", "n_neighbors"].tolist() == [1, 3]
    assert frame.loc["nearest_centroid", "train_coverage"] > 0
    assert frame.loc[["svc", "knn"], "train_coverage"].isna().all()
    perceptrons = frame[frame["model"] == "mlp"]
    assert perceptrons.test_output_if_right_2.notna().tolist() == (perceptrons.depth == 2).tolist()


def test_tables_and_leaderboards_say_what_differs_and_what_the_seed_does_not_affect(moons):
    usual = DEFAULT_PROTOCOLS["two_moons"].learning_rate
    runs = [run for run in moons.find_runs() if run.config.protocol.learning_rate == usual]
    (summary,) = summarise([run for run in runs if run.config.model.kind != "patch_study"])
    said = "The results of kernel regression, knn, nearest_centroid and svc do not depend on the seed"
    assert any(note.startswith(said) for note in summary.notes), summary.notes
    (table, *_) = section_tables([summary])
    columns = {column.name: column.texts for column in table.columns}
    learned = dict(zip(columns["setting"], columns["learned_parameters"], strict=True))
    assert learned["width 4, depth 2, head p=2, ε=0.001"] == "50"  # (2·4 + 4) + (4·4 + 4) + 3·(4 + 2)
    sizes = dict(zip(columns["setting"], columns["prototypes"], strict=True))
    assert sizes["h=loo"] == "all" and sizes["p=2, ε=0.001"] == "2"
    board = leaderboard(of_kind(moons, "scikit_learn"))
    names = {column.name for column in board.columns}
    assert {"method", "n_neighbors"} <= names and not {"metric", "weights", "tol", "max_iter"} & names
    assert "n estimators 3" in board.title


def test_k_means_of_each_class_is_that_of_scikit_learn_and_its_labels(db):
    config = run_config("iris", kind="baseline", method="kmeans_per_class", prototypes=6)
    run, dataset = train(config, db), load_dataset(config.dataset)
    arrays = Results(db).load_arrays(run.run_key)
    labels = arrays["values"].argmax(1)
    np.testing.assert_array_equal(arrays["values"], np.eye(3)[[0, 0, 1, 1, 2, 2]])
    for label, rows in enumerate(dataset.groups):
        own = dataset.train.inputs[rows]
        inertias = [KMeans(2, n_init=1, random_state=seed).fit(own).inertia_ for seed in range(20)]
        distances = ((own[:, None] - arrays["keys"][labels == label]) ** 2).sum(2).min(1)
        assert any(distances.sum() == pytest.approx(inertia, rel=1e-4) for inertia in inertias)
