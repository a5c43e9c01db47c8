from __future__ import annotations

import warnings

import pytest

from idwbench.errors import OutputError, OutputExistsError
from idwbench.exports.trackers import MLFLOW_FILE, export_mlflow

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    target = tmp_path_factory.mktemp("mlflow") / "out"
    assert export_mlflow(trained, list(trained.to_frame()["run_key"]), target) == 5
    return target


def test_mlflow_reads_parameters_metrics_by_epoch_and_tags(folder, trained):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=f"sqlite:///{folder / MLFLOW_FILE}")
        experiment = client.get_experiment_by_name("two_moons")
        stored = {run.data.tags["run_key"]: run for run in client.search_runs([experiment.experiment_id])}
        runs = trained.find_runs(states=["complete"])
        assert set(stored) == {run.run_key for run in runs}
        run = trained.find_runs(methods=["idw"])[0]
        found = stored[run.run_key]
        assert (found.data.params["method"], found.data.params["epsilon"]) == ("idw", "0.001")
        assert found.info.status == "FINISHED" and found.data.tags["engine"] == "fused"
        assert found.data.metrics["holdout_accuracy"] == run.metric("accuracy", "holdout")
        history = client.get_metric_history(found.info.run_id, "train_loss")
        curve = trained.load_curve(run.run_key)
        assert [(m.step, m.value) for m in history] == [(p.epoch, p.values["train", "loss"]) for p in curve]


def test_the_folder_has_the_database_alone_and_nothing_is_left_elsewhere(folder, tmp_path, monkeypatch):
    assert {path.name for path in folder.iterdir()} == {MLFLOW_FILE}
    assert {path.name for path in folder.parent.iterdir()} == {"out"}


def test_a_folder_is_replaced_only_on_request_and_a_missing_package_is_named(folder, trained, keys, monkeypatch):
    before = (folder / MLFLOW_FILE).read_bytes()
    with pytest.raises(OutputExistsError):
        export_mlflow(trained, keys, folder)
    monkeypatch.setattr("idwbench.machine.find_spec", lambda name: None)
    with pytest.raises(OutputError, match=r"'mlflow' \(pip install 'idwbench\[mlflow\]'\)"):
        export_mlflow(trained, keys, folder, overwrite=True)
    assert (folder / MLFLOW_FILE).read_bytes() == before
