from __future__ import annotations

import pytest

from idwbench.errors import OutputError, OutputExistsError
from idwbench.exports.trackers import export_tensorboard, run_folder_name


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    target = tmp_path_factory.mktemp("boards") / "board"
    assert export_tensorboard(trained, list(trained.to_frame()["run_key"]), target) == 5
    return target


def events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def test_tensorboard_reads_the_curve_of_each_run(folder, trained):
    for run in trained.find_runs(states=["complete"]):
        found = events(folder / run_folder_name(run))
        for name in ("loss", "learning_rate"):
            expected = [(p.epoch, p.values["train", name]) for p in trained.load_curve(run.run_key)]
            if expected:
                assert [(e.step, pytest.approx(e.value)) for e in found.Scalars(f"{name}/train")] == expected
        [accuracy] = found.Scalars("test_accuracy")
        assert accuracy.value == pytest.approx(run.metric("accuracy"))


def test_the_settings_are_hyperparameters(folder, trained):
    from tensorboard.plugins.hparams import metadata

    run = trained.find_runs(methods=["neg_dist"])[0]
    found = events(folder / run_folder_name(run)).summary_metadata[metadata.SESSION_START_INFO_TAG]
    settings = metadata.parse_session_start_info_plugin_data(found.plugin_data.content).hparams
    assert settings["method"].string_value == "neg_dist"
    assert settings["prototypes"].number_value == 4
    ended = events(folder / run_folder_name(run)).summary_metadata[metadata.SESSION_END_INFO_TAG]
    assert metadata.parse_session_end_info_plugin_data(ended.plugin_data.content).status == 1


def test_the_same_runs_give_the_same_bytes(folder, trained, keys, tmp_path):
    export_tensorboard(trained, keys, tmp_path / "again")
    first = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = tmp_path / "again"
    assert first == {path.relative_to(again): path.read_bytes() for path in again.rglob("*") if path.is_file()}


def test_a_folder_is_added_to_only_on_request(trained, keys, tmp_path):
    export_tensorboard(trained, keys[:1], tmp_path / "board")
    with pytest.raises(OutputExistsError):
        export_tensorboard(trained, keys[1:2], tmp_path / "board")
    export_tensorboard(trained, keys[:2], tmp_path / "board", overwrite=True)
    assert len(list((tmp_path / "board").iterdir())) == 2


def test_a_missing_package_is_named(trained, keys, tmp_path, monkeypatch):
    monkeypatch.setattr("idwbench.machine.find_spec", lambda name: None)
    with pytest.raises(OutputError, match=r"'tensorboard' \(pip install 'idwbench\[tensorboard\]'\)"):
        export_tensorboard(trained, keys, tmp_path / "board")
