"""Recordings that were moved, cut, or belong to another model: one clear line each."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from recorded import RecordedTraining

from idwbench.dual import recording as recording_module
from idwbench.dual.recording import Recording, open_recording, parameters_sha256
from idwbench.errors import RecordingError, ResultsError
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.protocol import Protocol
from idwbench.runs.results import RunResult

PROTOCOL = Protocol(epochs=1, batch_size=8, learning_rate=0.05, optimizer="sgd")
ADAM = Protocol(epochs=1, batch_size=8, learning_rate=0.01)
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return RecordedTraining(PROTOCOL, tmp_path_factory.mktemp("recordings") / "run", fold=True).run().folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "run"))


def facts(*without: str, **facts: object) -> Damage:
    """Write other facts, and leave some out; without the checksum of the facts they are believed."""

    def change(folder: Path) -> None:
        path = folder / "recording.json"
        content = {**json.loads(path.read_text()), **facts}
        path.write_text(json.dumps({name: value for name, value in content.items() if name not in without}))

    return change


def array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    return lambda folder: np.save(folder / name, change(np.load(folder / name)))


NO_FACTS = "run/recording.json: is damaged: expected the facts of a recording"
NOT_ITS_ROWS = "run/rows.npy: is damaged: it has rows that the training data does not have"
NOT_ITS_STEPS = "run/steps.npy: is damaged: the steps have another number of slots"
NO_FLOATS = "run/layer_1.keys.npy: has the type <U8, expected floating-point numbers"
DAMAGES: list[tuple[Damage, str]] = [
    (shutil.rmtree, "run: there is no recording: it was moved or deleted, or the run was not recorded (train the run"),
    (lambda folder: (folder / "recording.json").unlink(), "run/recording.json: no such file"),
    (lambda folder: (folder / "recording.json").write_text("no facts"), NO_FACTS),
    *((facts("sha256", **wrong), NO_FACTS) for wrong in ({"layers": 3}, {"colour": "red"}, {"steps": [4]})),
    (facts("sha256", format="x"), "run/recording.json: has the format 'x', expected 'idwbench-recording-1'"),
    (facts("sha256", complete=False), "run: the recording is not complete"),
    (facts("sha256", slots=26), "run/rows.npy: has the shape (27,), expected (26,)"),
    (facts("sha256", dtype="float16"), "run/layer_0.units.npy: is missing in the recording"),
    (facts(momentum=0.5), "run/recording.json: is damaged: it has a different checksum"),
    (array("rows.npy", lambda rows: np.array([{"a": 1}] * len(rows))), "run/rows.npy: is cut or damaged"),
    (array("steps.npy", lambda steps: steps - np.eye(len(steps), 3, 2)), NOT_ITS_STEPS),
    (array("steps.npy", lambda steps: steps * np.nan), NOT_ITS_STEPS),
    (array("rows.npy", lambda rows: rows - 9), NOT_ITS_ROWS),
    (array("rows.npy", lambda rows: rows + 1), NOT_ITS_ROWS),  # of the folded layer
    (array("rows.npy", lambda rows: rows.astype(float)), "run/rows.npy: has the type float64, expected integers"),
    (array("layer_1.keys.npy", lambda keys: keys.astype("U8")), NO_FLOATS),
    (
        array("layer_1.final.npy", lambda weight: weight + 1),
        "run: the recording is damaged: the final parameters have a",
    ),
]


@pytest.mark.parametrize(("damage", "line"), DAMAGES)
def test_a_damaged_recording_is_one_line(damage, line, folder):
    damage(folder)
    with pytest.raises(RecordingError, match=re.escape(f"{folder.parent}/{line}")) as caught:
        Recording.open(folder)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ResultsError) and caught.value.exit_code == 1


def flip_a_bit(file: Path) -> None:
    array = np.load(file)
    array.view(np.uint8).reshape(-1)[array.nbytes // 2] ^= 1
    np.save(file, array)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (flip_a_bit, "is damaged: "),
        (lambda file: os.truncate(file, file.stat().st_size - 5), "is cut or damaged$"),
        (lambda file: os.truncate(file, 0), "is cut or damaged$"),
        (Path.unlink, "is missing in the recording$"),
    ],
)
def test_any_file_that_changed_or_is_cut_is_one_line(change, problem, tmp_path):
    folder = RecordedTraining(ADAM, tmp_path / "run", record_dtype="float16", fold=True).run().folder
    files = list(folder.glob("*.npy"))
    assert len(files) > 20
    for file in files:
        content = file.read_bytes()
        change(file)
        with pytest.raises(RecordingError, match=problem):
            Recording.open(folder)
        file.write_bytes(content)


def test_a_recording_of_version_0_2_0_has_no_checksums_and_opens(folder):
    facts("sha256", "checksums")(folder)
    array("layer_1.keys.npy", lambda keys: keys + 1)(folder)  # which is not noticed
    assert Recording.open(folder).layers["layer_1"].slots == 27


def test_checksums_tell_parameters_apart_and_that_of_a_large_file_is_of_blocks_at_equal_distances(
    tmp_path, monkeypatch
):
    one, two = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    assert len({parameters_sha256(p) for p in ([one], [two], [one, two], [one.astype("f8")], [one + 1], [])}) == 6
    monkeypatch.setattr(recording_module, "_WHOLE_BYTES", 40)
    monkeypatch.setattr(recording_module, "_BLOCK_BYTES", 10)
    path = tmp_path / "file"

    def seen(size: int) -> list[int]:
        """Return the places whose bytes change the checksum of a file."""
        checksums = []
        for place in range(-1, size):
            path.write_bytes(bytes(n == place for n in range(size)))
            checksums.append(recording_module.file_checksum(path))
        return [place for place, checksum in enumerate(checksums[1:]) if checksum != checksums[0]]

    assert seen(37) == [*range(37)]
    assert seen(130) == [first + place for first in (0, 40, 80, 120) for place in range(10)]


def test_an_unfinished_recording_is_none_and_that_of_a_diverged_training_is_deleted(tmp_path):
    recorder = RecordedTraining(PROTOCOL, tmp_path / "run", stop_after=2).interrupt().recorder
    with pytest.raises(ValueError, match="2 of 4 steps and 16 of 27 slots were recorded"):
        recorder.finish()
    with pytest.raises(RecordingError, match="there is no recording"):
        Recording.open(tmp_path / "run")
    with pytest.raises(RecordingError, match="is not complete"):
        Recording.open(recorder.partial)
    diverging = RecordedTraining(PROTOCOL.model_copy(update={"learning_rate": 1e300}), tmp_path / "run")
    assert diverging.train().diverged_epoch == 1
    assert list(tmp_path.iterdir()) == []


def test_the_recording_of_a_stored_run_is_that_of_its_pointer(tmp_path, monkeypatch):
    results, config = Results(tmp_path / "idwbench.db"), run_config("two_moons", prototypes=2)
    key = config.run_key
    assert results.recording_folder == tmp_path / "idwbench.db.recordings"
    training = RecordedTraining(PROTOCOL, results.recording_folder / key, run_key=key)
    training.train()
    arrays = {"keys": np.zeros((2, 2)), "values": np.zeros((2, 2)), "recording": training.recorder.finish()}
    results.finish([RunResult(config, "complete", (), {}, arrays, 4, None, 0.1, "torch", "cpu", 1)])
    (run,) = results.find_runs()
    assert open_recording(results, run).steps == 4
    with pytest.raises(RecordingError, match=rf"the recording is of the run {key}, expected 0123$"):
        Recording.open(results.recording_folder / key, run_key="0123")
    # The run was trained again elsewhere, and the folder was not copied.
    RecordedTraining(PROTOCOL, results.recording_folder / key, run_key=key, loss_scale=2).run()
    with pytest.raises(RecordingError, match="of another model: the parameters differ"):
        open_recording(results, run)
    monkeypatch.setattr(Results, "recording_folder", None)  # as on a server
    with pytest.raises(RecordingError, match="only databases in a file have recordings"):
        open_recording(results, run)
