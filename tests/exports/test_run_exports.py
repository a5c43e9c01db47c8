"""Stored runs as tables, and as folders for TensorBoard and MLflow."""

import subprocess
import sys
import warnings
from unittest.mock import Mock

import optuna
import pandas
import pytest
from case_tables import case_table
from sweep_specs import sweep_file

from idwbench import Results, load_model, run_sweep
from idwbench.errors import DatasetError, OutputError
from idwbench.exports.optuna_study import export_optuna
from idwbench.exports.stored_runs import (
    MLFLOW_FILE,
    export_mlflow,
    export_table,
    export_tensorboard,
    run_folder_name,
    written_folder,
)
from idwbench.models.saved_model import stored_model

MOONS = "{name: two_moons, train_per_class: 20, test_per_class: 10, holdout_per_class: 10}"
BLOCKS = (
    "{method: [idw, neg_dist], prototypes: 4, momentum: [0]}",
    "{kind: kernel_regression, kernel: gaussian, bandwidth: [loo, 0.5]}",
    "{kind: mlp, width: [3], depth: 1}",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Five runs of three kinds, and one that is planned only."""
    folder = tmp_path_factory.mktemp("trained")
    path = sweep_file(folder, MOONS, *BLOCKS, protocol="{epochs: 3}", seeds="1")
    run_sweep(path, folder / "idwbench.db", jobs=1)
    results = Results(folder / "idwbench.db")
    config = results.find_runs()[0].config
    results.plan([config.model_copy(update={"seed": 7})])
    return results


@pytest.fixture(scope="module")
def keys(trained):
    return list(trained.to_frame()["run_key"])


EXPORTS = {"table": export_table, "tensorboard": export_tensorboard, "mlflow": export_mlflow}


@pytest.mark.parametrize(("format", "name", "message"), case_table("wrong_exports"))
def test_a_refused_export_writes_nothing(format, name, message, trained, keys, tmp_path):
    (tmp_path / "mine.csv").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    with pytest.raises(OutputError, match=message):
        EXPORTS[format](trained, keys, tmp_path / name)
    assert [path.read_text() for path in tmp_path.rglob("mine*")] == ["mine", "mine"]
    assert len(list(tmp_path.rglob("*"))) == 3


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_pandas_reads_what_the_data_frame_has_and_a_column_has_one_type(suffix, trained, keys, tmp_path):
    path, frame = tmp_path / f"runs.{suffix}", trained.to_frame()
    path.write_text("earlier")
    assert export_table(trained, keys, path, overwrite=True) == len(keys)
    # Before pandas 3.0 the last digits of a float are read only on demand; since 3.1 the argument is deprecated.
    exact = {"float_precision": "round_trip"} if pandas.__version__ < "3" else {}
    is_csv = suffix == "csv"
    table = pandas.read_csv(path, **exact) if is_csv else pandas.read_parquet(path, dtype_backend="numpy_nullable")
    assert list(table.columns) == list(frame.columns)
    for name in ("run_key", "test_accuracy", "learning_rate", "seconds", "holdout_accuracy"):
        assert table[name].dropna().tolist() == frame[name].dropna().tolist()
    assert table["prototypes"].dropna().astype(str).str.fullmatch(r"4(\.0)?").all()
    assert (table["epochs"].dtype.kind, table["learning_rate"].dtype.kind) == ("i", "f")
    assert table["bandwidth"].dropna().tolist() == ["loo", "0.5"]
    if str(table["prototypes"].dtype) != "float64":  # a CSV file has no types
        assert str(table["prototypes"].dtype) == "Int64" and str(table["state"].dtype) in ("string", "str")
        assert str(table["finished_at"].dtype).startswith("datetime64")


def test_only_files_and_folders_of_the_same_names_are_replaced_on_request(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    with written_folder(target, overwrite=False) as folder:  # an empty folder is filled
        (folder / "run").mkdir()
        (folder / "run" / "old").write_text("1")
        (folder / "mine").write_text("2")
    with written_folder(target, overwrite=True) as folder:
        (folder / "run").mkdir()
        (folder / "run" / "new").write_text("3")
    with pytest.raises(ValueError, match="half-way"), written_folder(target, overwrite=True) as folder:
        (folder / "run").write_text("4")
        raise ValueError("half-way")
    assert {str(path.relative_to(target)) for path in target.rglob("*")} == {"mine", "run", "run/new"}
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


@pytest.fixture(scope="module")
def board(trained, keys, tmp_path_factory):
    target = tmp_path_factory.mktemp("boards") / "board"
    assert export_tensorboard(trained, keys, target) == 5
    return target


def test_tensorboard_reads_the_curve_and_the_settings_of_each_run(board, trained):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    for run in trained.find_runs(states=["complete"]):
        found = EventAccumulator(str(board / run_folder_name(run))).Reload()
        for name in ("loss", "learning_rate"):
            expected = [(p.epoch, p.values["train", name]) for p in trained.load_curve(run.run_key)]
            if expected:
                assert [(e.step, pytest.approx(e.value)) for e in found.Scalars(f"{name}/train")] == expected
        [accuracy] = found.Scalars("test_accuracy")
        assert accuracy.value == pytest.approx(run.metric("accuracy"))
        start, end = (found.summary_metadata[f"_hparams_/session_{name}_info"] for name in ("start", "end"))
        settings = metadata.parse_session_start_info_plugin_data(start.plugin_data.content).hparams
        assert settings["method"].string_value == run.config.model.method
        assert settings["epochs"].number_value == 3
        assert metadata.parse_session_end_info_plugin_data(end.plugin_data.content).status == 1


def test_the_same_runs_give_the_same_bytes_in_any_process_and_a_board_is_added_to_only_on_request(
    board, trained, keys, tmp_path
):
    def contents(folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    again, db = tmp_path / "again", str(trained.recording_folder).removesuffix(".recordings")
    export_tensorboard(trained, keys[:1], again)
    with pytest.raises(OutputError, match="exists already and is not empty"):
        export_tensorboard(trained, keys, again)
    words = ["runs", "export", "-o", str(again), "--format", "tensorboard", "--db", db, "--force"]
    done = subprocess.run([sys.executable, "-m", "idwbench", *words], capture_output=True, check=True, text=True)
    assert (done.stdout, done.stderr) == (f"{again}\n", "5 runs written (1 run without a result left out)\n")
    assert contents(again) == contents(board)


@pytest.mark.slow
def test_what_mlflow_refuses_in_the_middle_is_one_line_and_nothing_is_written(trained, keys, tmp_path, monkeypatch):
    import mlflow

    locked = mlflow.exceptions.MlflowException("the database is locked")
    answers = {"create_run.return_value.info.run_id": "1", "log_batch.side_effect": [None, locked]}
    monkeypatch.setattr(mlflow, "MlflowClient", Mock(return_value=Mock(**answers)))  # its own makes tables for seconds
    with pytest.raises(OutputError, match="MLflow cannot write it: the database is locked"):
        export_mlflow(trained, keys, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_mlflow_reads_parameters_metrics_by_epoch_tags_and_the_model_file(trained, keys, tmp_path, monkeypatch):
    """Of a prototype network whose data are not at hand a tag says why there is no model file."""

    def load(results, run, data_dir):
        if run.config.model.method == "neg_dist":
            raise DatasetError("no such folder")
        return stored_model(results, run, data_dir)

    monkeypatch.setattr("idwbench.models.saved_model.stored_model", load)
    tracked = tmp_path / "out"
    assert export_mlflow(trained, keys, tracked) == 5
    warnings.simplefilter("ignore")  # of what reads it, until the test ends
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tracked / MLFLOW_FILE}")
    found = client.search_runs([client.get_experiment_by_name("two_moons · small").experiment_id])
    complete = trained.find_runs(states=["complete"])
    assert {one.data.tags["run_key"] for one in found} == {run.run_key for run in complete}
    for one in found:
        run = trained.find_run(one.data.tags["run_key"])
        method = run.config.model.method
        assert one.info.status == "FINISHED" and one.data.tags["engine"] == run.engine
        assert (one.data.params["method"], one.data.tags["sweep"]) == (method, "small")
        assert one.data.metrics["holdout_accuracy"] == run.metric("accuracy", "holdout")
        assert one.data.tags.get("no_model") == ("no such folder" if method == "neg_dist" else None)
        files = [file.path for file in client.list_artifacts(one.info.run_id)]
        assert files == (["model.pt"] if method == "idw" else [])
        if method == "idw":
            history = client.get_metric_history(one.info.run_id, "train_loss")
            curve = trained.load_curve(run.run_key)
            assert [(m.step, m.value) for m in history] == [(p.epoch, p.values["train", "loss"]) for p in curve]
            place = tracked / "artifacts" / one.info.run_id / "artifacts" / "model.pt"
            assert load_model(place).provenance["run_key"] == run.run_key
    assert {path.name for path in tracked.iterdir()} == {MLFLOW_FILE, "artifacts"}
    assert {path.name for path in tracked.parent.iterdir()} == {"out"}


def test_a_study_of_optuna_has_a_trial_for_each_setting_with_its_mean_on_validation(tmp_path):
    data = "{name: two_moons, train_per_class: 20, test_per_class: 10, validation: 8}"
    block = "{method: [idw, neg_dist], prototypes: [2, 40], learning_rate: [0.01, 0.05]}"
    run_sweep(sweep_file(tmp_path, data, block, protocol="{epochs: 1}", seeds="2"), tmp_path / "r.db", jobs=1)
    results = Results(tmp_path / "r.db")
    frame = results.to_frame()
    assert export_optuna(results, [*frame.run_key], tmp_path / "moons.db") == len(frame) == 16
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'moons.db'}")
    study = optuna.load_study(study_name="moons", storage=storage)
    assert study.direction.name == "MAXIMIZE" and study.user_attrs == {"metric": "validation_accuracy"}
    for trial in study.trials:
        of_setting = frame[(frame[[*trial.params]] == [*trial.params.values()]).all(axis=1)]
        assert trial.value == pytest.approx(of_setting.validation_accuracy.mean())
        assert trial.user_attrs["run_keys"] == [*of_setting.run_key] and len(of_setting) == 2
    assert {tuple(trial.params) for trial in study.trials} == {("method", "prototypes", "learning_rate")}
    assert study.trials[0].distributions["prototypes"] == optuna.distributions.IntDistribution(2, 40, log=True)
    assert study.trials[0].distributions["learning_rate"].log is False
    storage.engine.dispose()
    # A trial whose runs are not all complete has no value; one of which no run has ended waits, or is running.
    config = results.find_runs()[0].config
    planned = [config.model_copy(update={"model": config.model.model_copy(update={"prototypes": n})}) for n in (3, 5)]
    results.plan([config.with_seed(7), *planned])
    results.lease([planned[0].run_key])
    export_optuna(results, [*results.to_frame().run_key], tmp_path / "moons.db", overwrite=True)
    states = [trial.state.name for trial in optuna.load_study(study_name="moons", storage=storage).trials]
    assert sorted(states) == [*["COMPLETE"] * 7, "FAIL", "RUNNING", "WAITING"]
    storage.engine.dispose()
    with pytest.raises(OutputError, match="there are no runs"):
        export_optuna(results, [], tmp_path / "none.db")
