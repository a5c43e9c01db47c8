"""Sweeps with multilayer perceptrons: their files, tables, recordings, interruption, and stored networks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.data.loading import load_dataset
from idwbench.dual.recording import open_recording
from idwbench.errors import RecordingError, ResultsError, TrainingError
from idwbench.models.perceptron import load_mlp
from idwbench.report.leaderboard import leaderboard
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import run_sweep, train
from idwbench.sweep.observer import Observer

HEAD = """\
name: perceptrons
dataset: {name: two_moons, train_per_class: 20, test_per_class: 15, holdout_per_class: 10, validation: 4}
protocol: {epochs: 3, learning_rate: 0.05, optimizer: sgd, momentum: 0.9}
seeds: 2
grid:
"""
PLAIN = "  - {kind: mlp, width: 6, depth: [1, 2]}\n"
RECORDED = "  - {kind: mlp, width: 6, depth: 2, record: true}\n"


@pytest.fixture
def write(tmp_path: Path):
    def write(grid: str, head: str = HEAD) -> Path:
        path = tmp_path / "perceptrons.yaml"
        path.write_text(head + grid)
        return path

    return write


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "results.db"


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


@pytest.mark.slow
def test_stored_networks_have_the_stored_accuracies_and_every_table_shows_them(write, db) -> None:
    status = run_sweep(write(PLAIN), db, jobs=1)
    assert (status.complete, status.total) == (4, 4)
    results = Results(db)
    for run in results.find_runs():
        network = load_mlp(results, run.run_key[:16])
        assert not network.training
        for name, split in load_dataset(run.config.dataset).splits.items():
            assert (network.predict(split.inputs) == split.labels).mean() == run.metric("accuracy", name)
    frame = results.to_frame()
    assert set(frame.model) == {"mlp"} and frame.test_accuracy.notna().all()
    assert frame.test_output_if_right_2.notna().tolist() == (frame.depth == 2).tolist()
    board = leaderboard(results.find_runs())
    assert [column.name for column in board.columns][:3] == ["rank", "depth", "n"] and len(board.groups) == 2
    records = json.loads(report(db, "--table", "perceptrons", "--json"))
    assert [(record["depth"], record["layer"]) for record in records] == [
        *((1, f"layer_{layer}") for layer in range(2)),
        *((2, f"layer_{layer}") for layer in range(3)),
    ]
    assert all(record["n"] == 2 for record in records)
    table = report(db, "--table", "perceptrons")
    assert "layer_2" in table and "both" in table and "Metric: accuracy in %" in table
    for options in (["--metric", "accuracy"], ["--interval"]):
        plain = report(db, "--table", "perceptrons", *options)
        assert "width 6, depth 1" in plain and "layer_0" not in plain
    assert "| layer_0 |" in report(db, "--table", "two_moons", "--format", "markdown")


def report(db: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["report", "--db", str(db), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_recorded_run_is_opened_by_its_pointer(write, db) -> None:
    observer = Stopping()
    run_sweep(write(RECORDED), db, jobs=1, observer=observer)
    results = Results(db)
    runs = results.find_runs()
    assert sorted(folder.name for folder in results.recording_folder.iterdir()) == sorted(r.run_key for r in runs)
    assert sum("the recording of run" in note and "needs" in note for note in observer.notes) == 2
    for run in runs:
        recording = open_recording(results, run)
        network, dataset = load_mlp(results, run.run_key), load_dataset(run.config.dataset)
        assert recording.facts.data_sha256 == dataset.sha256 == run.data_sha256
        answers = recording.layers["layer_0"].answers(dataset.test.inputs)
        expected = (
            dataset.test.inputs @ network.layer_0.weight.detach().numpy().T + network.layer_0.bias.detach().numpy()
        )
        np.testing.assert_allclose(answers, expected, atol=1e-5)
    (results.recording_folder / runs[0].run_key).rename(results.recording_folder / "moved")
    with pytest.raises(RecordingError, match="there is no recording: it was moved or deleted"):
        open_recording(results, runs[0])


def test_an_interrupted_sweep_continues_its_recording(write, tmp_path) -> None:
    path = write(RECORDED)
    whole, stopped = tmp_path / "whole.db", tmp_path / "stopped.db"
    run_sweep(path, whole, jobs=1)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(path, stopped, jobs=1, observer=Stopping(2))
    kept = tmp_path / "stopped.db.recordings"
    assert [folder.suffix for folder in kept.iterdir()] == [".partial"]
    with pytest.raises(RecordingError, match="was not recorded"):
        run = Results(stopped).find_runs()[0]
        open_recording(Results(stopped), run)
    observer = Stopping()
    status = run_sweep(path, stopped, jobs=1, observer=observer)
    assert status.complete == 2 and not any("anew" in note for note in observer.notes)
    for run in Results(whole).find_runs():
        folders = [tmp_path / f"{name}.db.recordings" / run.run_key for name in ("whole", "stopped")]
        files = [{file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders]
        assert files[0] == files[1]


def test_what_is_no_perceptron_is_not_loaded(write, db) -> None:
    results = Results(db)
    keys = results.plan([run_config("two_moons", kind="mlp"), run_config("two_moons")])
    with pytest.raises(TrainingError, match="the run is planned: it has no network"):
        load_mlp(results, keys[0])
    with pytest.raises(TrainingError, match="a run of kind prototypes has no multilayer perceptron"):
        load_mlp(results, keys[1])
    with pytest.raises(ResultsError):
        load_mlp(results, "0" * 64)


def test_a_run_is_trained_in_python(db) -> None:
    run = train(run_config("two_moons", kind="mlp", width=4, epochs=1, optimizer="sgd"), db)
    arrays = Results(db).load_arrays(run.run_key)
    assert run.metric("accuracy") is not None and arrays["key_sums_layer_1"].shape == (2, 4)
    assert arrays["key_counts"].tolist() == [100, 100]
