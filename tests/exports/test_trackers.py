"""Runs as folders for TensorBoard and MLflow, which are written as a whole."""

from __future__ import annotations

import warnings

import pytest

from idwbench.errors import DatasetError, OutputError, OutputExistsError
from idwbench.exports.folders import written_folder
from idwbench.exports.trackers import MLFLOW_FILE, export_mlflow, export_tensorboard, run_folder_name
from idwbench.models.model_file import load_model


def test_nothing_is_written_when_an_export_fails(tmp_path):
    with pytest.raises(ValueError, match="half-way"), written_folder(tmp_path / "out", overwrite=False) as folder:
        (folder / "a").write_text("1")
        raise ValueError("half-way")
    assert list(tmp_path.iterdir()) == []


def test_only_files_and_folders_of_the_same_names_are_replaced_on_request(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    with written_folder(target, overwrite=False) as folder:  # an empty folder is filled
        (folder / "run").mkdir()
        (folder / "run" / "old").write_text("1")
        (folder / "mine").write_text("2")
    with pytest.raises(OutputExistsError), written_folder(target, overwrite=False):
        pass
    with written_folder(target, overwrite=True) as folder:
        (folder / "run").mkdir()
        (folder / "run" / "new").write_text("3")
    assert {str(path.relative_to(target)) for path in target.rglob("*")} == {"mine", "run", "run/new"}
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


@pytest.mark.parametrize(
    ("name", "message"),
    [("file", "is a file, expected a folder"), ("missing/out", r"the folder .*missing does not ex")],
)
def test_a_file_or_a_missing_parent_is_refused(name, message, tmp_path):
    (tmp_path / "file").write_text("1")
    with pytest.raises(OutputError, match=message), written_folder(tmp_path / name, overwrite=True):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


@pytest.mark.parametrize(("export", "package"), [(export_tensorboard, "tensorboard"), (export_mlflow, "mlflow")])
def test_a_missing_package_is_named(export, package, trained, keys, tmp_path, monkeypatch):
    monkeypatch.setattr("idwbench.machine.find_spec", lambda name: None)
    with pytest.raises(OutputError, match=rf"'{package}' \(pip install 'idwbench\[{package}\]'\)"):
        export(trained, keys, tmp_path / "board")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def board(trained, tmp_path_factory):
    target = tmp_path_factory.mktemp("boards") / "board"
    assert export_tensorboard(trained, list(trained.to_frame()["run_key"]), target) == 5
    return target


def events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def test_tensorboard_reads_the_curve_of_each_run(board, trained):
    for run in trained.find_runs(states=["complete"]):
        found = events(board / run_folder_name(run))
        for name in ("loss", "learning_rate"):
            expected = [(p.epoch, p.values["train", name]) for p in trained.load_curve(run.run_key)]
            if expected:
                assert [(e.step, pytest.approx(e.value)) for e in found.Scalars(f"{name}/train")] == expected
        [accuracy] = found.Scalars("test_accuracy")
        assert accuracy.value == pytest.approx(run.metric("accuracy"))


def test_the_settings_are_hyperparameters_of_tensorboard(board, trained):
    from tensorboard.plugins.hparams import metadata

    found = events(board / run_folder_name(trained.find_runs(methods=["neg_dist"])[0])).summary_metadata
    start, end = (found[tag].plugin_data.content for tag in (_START, _END))
    settings = metadata.parse_session_start_info_plugin_data(start).hparams
    assert settings["method"].string_value == "neg_dist"
    assert settings["prototypes"].number_value == 4
    assert metadata.parse_session_end_info_plugin_data(end).status == 1


_START, _END = "_hparams_/session_start_info", "_hparams_/session_end_info"


def test_the_same_runs_give_the_same_bytes_and_a_board_is_added_to_only_on_request(board, trained, keys, tmp_path):
    again = tmp_path / "again"
    export_tensorboard(trained, keys[:1], again)
    with pytest.raises(OutputExistsError):
        export_tensorboard(trained, keys, again)
    export_tensorboard(trained, keys, again, overwrite=True)
    first = {path.relative_to(board): path.read_bytes() for path in board.rglob("*") if path.is_file()}
    assert first == {path.relative_to(again): path.read_bytes() for path in again.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def tracked(trained, tmp_path_factory):
    target = tmp_path_factory.mktemp("mlflow") / "out"
    assert export_mlflow(trained, list(trained.to_frame()["run_key"]), target) == 5
    return target


@pytest.fixture
def client(tracked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        yield MlflowClient(tracking_uri=f"sqlite:///{tracked / MLFLOW_FILE}")


def runs_of(client, experiment):
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    return {run.data.tags["run_key"]: run for run in found}


@pytest.mark.slow
def test_mlflow_reads_parameters_metrics_by_epoch_and_tags(client, trained):
    stored = runs_of(client, "two_moons · small")
    assert set(stored) == {run.run_key for run in trained.find_runs(states=["complete"])}
    run = trained.find_runs(methods=["idw"])[0]
    found = stored[run.run_key]
    assert (found.data.params["method"], found.data.params["epsilon"]) == ("idw", "0.001")
    assert found.info.status == "FINISHED" and found.data.tags["engine"] == "fused"
    assert found.data.tags["sweep"] == "small"
    assert found.data.metrics["holdout_accuracy"] == run.metric("accuracy", "holdout")
    history = client.get_metric_history(found.info.run_id, "train_loss")
    curve = trained.load_curve(run.run_key)
    assert [(m.step, m.value) for m in history] == [(p.epoch, p.values["train", "loss"]) for p in curve]


@pytest.mark.slow
def test_mlflow_has_the_model_file_of_a_prototype_network_as_artifact(client, tracked, trained):
    for key, found in runs_of(client, "two_moons · small").items():
        listed = [file.path for file in client.list_artifacts(found.info.run_id)]
        kind = trained.find_run(key).config.model.kind
        assert listed == (["model.pt"] if kind == "prototypes" else [])
        if listed:
            place = tracked / "artifacts" / found.info.run_id / "artifacts" / "model.pt"
            assert load_model(place).provenance["run_key"] == key
    assert {path.name for path in tracked.iterdir()} == {MLFLOW_FILE, "artifacts"}
    assert {path.name for path in tracked.parent.iterdir()} == {"out"}


@pytest.mark.slow
def test_a_model_whose_data_are_not_at_hand_is_a_tag_in_mlflow(trained, tmp_path, monkeypatch):
    def missing(*arguments):
        raise DatasetError("no such folder")

    monkeypatch.setattr("idwbench.models.saved_model.load_dataset", missing)
    key = trained.find_runs(methods=["idw"])[0].run_key
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        export_mlflow(trained, [key], tmp_path / "out")
        found = runs_of(MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'out' / MLFLOW_FILE}"), "two_moons · small")
    assert found[key].data.tags["no_model"] == "no such folder"
    with pytest.raises(OutputExistsError):
        export_mlflow(trained, [key], tmp_path / "out")
