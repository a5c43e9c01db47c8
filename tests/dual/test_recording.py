"""Recordings that were moved, cut, or belong to another model: one clear line each."""

from __future__ import annotations

import json
import os
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
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return RecordedTraining(PROTOCOL, tmp_path_factory.mktemp("recordings") / "run").run().folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "run"))


def change_facts(*without: str, **facts: object) -> Damage:
    """Write other facts, and leave some out; without the checksum of the facts they are believed."""

    def change(folder: Path) -> None:
        path = folder / "recording.json"
        content = {**json.loads(path.read_text()), **facts}
        path.write_text(json.dumps({name: value for name, value in content.items() if name not in without}))

    return change


def other_facts(**facts: object) -> Damage:
    return change_facts("sha256", **facts)


def change_array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    return lambda folder: np.save(folder / name, change(np.load(folder / name)))


def objects(rows: np.ndarray) -> np.ndarray:
    return np.array([{"a": 1}] * len(rows), object)


NO_FACTS = "run/recording.json: is damaged: expected the facts of a recording"
NOT_ITS_ROWS = "run/rows.npy: is damaged: it has rows that the training data does not have"
NOT_ITS_STEPS = "run/steps.npy: is damaged: the steps have another number of slots"
DAMAGES: list[tuple[Damage, str]] = [
    (
        shutil.rmtree,
        "run: there is no recording: it was moved or deleted, or the run was not recorded "
        "(train the run again to record it)",
    ),
    (lambda folder: (folder / "recording.json").unlink(), "run/recording.json: no such file"),
    (lambda folder: (folder / "recording.json").write_text("no facts"), NO_FACTS),
    (other_facts(layers=3), NO_FACTS),
    (other_facts(colour="red"), NO_FACTS),
    (other_facts(steps=[4]), NO_FACTS),
    (other_facts(format="x"), "run/recording.json: has the format 'x', expected 'idwbench-recording-1'"),
    (other_facts(complete=False), "run: the recording is not complete"),
    (other_facts(slots=26), "run/rows.npy: has the shape (27,), expected (26,)"),
    (other_facts(dtype="float16"), "run/layer_0.units.npy: is missing in the recording"),
    (change_facts(momentum=0.5), "run/recording.json: is damaged: it has a different checksum"),
    (change_array("rows.npy", objects), "run/rows.npy: is cut or damaged"),
    (change_array("steps.npy", lambda steps: steps - np.eye(len(steps), 3, 2)), NOT_ITS_STEPS),
    (change_array("steps.npy", lambda steps: steps * np.nan), NOT_ITS_STEPS),
    (change_array("rows.npy", lambda rows: rows - 9), NOT_ITS_ROWS),
    (
        change_array("rows.npy", lambda rows: rows.astype(float)),
        "run/rows.npy: has the type float64, expected integers",
    ),
    (
        change_array("layer_0.keys.npy", lambda keys: keys.astype("U8")),
        "run/layer_0.keys.npy: has the type <U8, expected floating-point numbers",
    ),
    (
        change_array("layer_1.final.npy", lambda weight: weight + 1),
        "run: the recording is damaged: the final parameters have a different checksum",
    ),
]


@pytest.mark.parametrize(("damage", "line"), DAMAGES)
def test_a_damaged_recording_is_one_line(damage: Damage, line: str, folder: Path) -> None:
    damage(folder)
    with pytest.raises(RecordingError) as caught:
        Recording.open(folder)
    assert str(caught.value) == f"{folder.parent}/{line}"
    assert isinstance(caught.value, ResultsError) and caught.value.exit_code == 1


@pytest.fixture(scope="module", params=["folded", "float16 with adam"])
def other_recorded(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings") / "run"
    adam = Protocol(epochs=1, batch_size=8, learning_rate=0.01)
    is_folded = request.param == "folded"
    protocol, options = (PROTOCOL, {"fold": True}) if is_folded else (adam, {"record_dtype": "float16"})
    return RecordedTraining(protocol, folder, **options).run().folder


def flip_a_bit(file: Path) -> None:
    array = np.load(file)
    array.view(np.uint8).reshape(-1)[array.nbytes // 2] ^= 1
    np.save(file, array)


def write_no_number(file: Path) -> None:
    array = np.load(file)
    array.reshape(-1)[array.size // 2] = np.nan if array.dtype.kind == "f" else -1
    np.save(file, array)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (flip_a_bit, "is damaged: "),
        (write_no_number, "is damaged: "),
        (lambda file: os.truncate(file, file.stat().st_size - 5), "is cut or damaged$"),
        (lambda file: os.truncate(file, 0), "is cut or damaged$"),
        (Path.unlink, "is missing in the recording$"),
    ],
)
def test_any_file_that_changed_or_is_cut_is_one_line(change, problem, other_recorded: Path, tmp_path: Path) -> None:
    names = [file.name for file in other_recorded.glob("*.npy")]
    assert len(names) > 10
    for name in names:
        folder = Path(shutil.copytree(other_recorded, tmp_path / name / "run"))
        change(folder / name)
        with pytest.raises(RecordingError, match=problem):
            Recording.open(folder)


def test_rows_beyond_the_distinct_inputs_of_a_folded_layer_are_one_line(tmp_path: Path) -> None:
    folder = RecordedTraining(PROTOCOL, tmp_path / "run", fold=True).run().folder
    change_array("rows.npy", lambda rows: rows + 1)(folder)
    with pytest.raises(RecordingError, match=NOT_ITS_ROWS):
        Recording.open(folder)


def test_a_recording_of_version_0_2_0_has_no_checksums_and_opens(folder: Path) -> None:
    change_facts("sha256", "checksums")(folder)
    change_array("layer_0.keys.npy", lambda keys: keys + 1)(folder)  # which is not noticed
    assert Recording.open(folder).layers["layer_0"].slots == 27


def test_the_checksum_of_a_large_file_is_that_of_blocks_at_equal_distances(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(recording_module, "_WHOLE_BYTES", 40)
    monkeypatch.setattr(recording_module, "_BLOCK_BYTES", 10)
    path, content = tmp_path / "file", np.arange(130, dtype=np.uint8)

    def changes(place: int, size: int) -> bool:
        path.write_bytes(content[:size].tobytes())
        before = recording_module.file_checksum(path)
        path.write_bytes((content[:size] ^ (np.arange(size) == place)).astype(np.uint8).tobytes())
        return recording_module.file_checksum(path) != before

    assert all(changes(place, size) for size in (1, 10, 37, 40) for place in range(size))
    seen = [place for place in range(130) if changes(place, 130)]
    assert seen == [first + place for first in (0, 40, 80, 120) for place in range(10)]


def test_an_unfinished_recording_is_none_and_that_of_a_diverged_training_is_deleted(tmp_path: Path) -> None:
    partial = RecordedTraining(PROTOCOL, tmp_path / "run", stop_after=2).interrupt().recorder.partial
    with pytest.raises(RecordingError, match="there is no recording"):
        Recording.open(tmp_path / "run")
    with pytest.raises(RecordingError, match="is not complete"):
        Recording.open(partial)
    diverging = RecordedTraining(PROTOCOL.model_copy(update={"learning_rate": 1e300}), tmp_path / "run")
    assert diverging.train().diverged_epoch == 1
    assert list(tmp_path.iterdir()) == []


def test_the_recording_of_a_stored_run_is_that_of_its_pointer(tmp_path: Path, monkeypatch) -> None:
    results, config = Results(tmp_path / "idwbench.db"), run_config("two_moons", prototypes=2)
    key = config.run_key
    assert results.recording_folder == tmp_path / "idwbench.db.recordings"
    made = RecordedTraining(PROTOCOL, results.recording_folder / key, run_key=key)
    made.train()
    arrays = {"keys": np.zeros((2, 2)), "values": np.zeros((2, 2)), "recording": made.recorder.finish()}
    results.finish([RunResult(config, "complete", (), {}, arrays, 4, None, 0.1, "torch", "cpu", 1)])
    (run,) = results.find_runs()
    assert open_recording(results, run).steps == 4
    with pytest.raises(RecordingError, match=rf"the recording is of the run {key}, expected 0123$"):
        Recording.open(results.recording_folder / key, run_key="0123")
    # The run was trained again elsewhere, and the folder was not copied.
    RecordedTraining(PROTOCOL, results.recording_folder / key, run_key=key, loss_scale=2).run()
    with pytest.raises(RecordingError, match="of another model: the parameters differ"):
        open_recording(results, run)
    results.recording_folder.rename(tmp_path / "elsewhere")
    with pytest.raises(RecordingError, match="it was moved or deleted"):
        open_recording(results, run)
    monkeypatch.setattr(Results, "recording_folder", None)  # as on a server
    with pytest.raises(RecordingError, match="only databases in a file have recordings"):
        open_recording(results, run)


def test_the_checksum_tells_parameters_apart() -> None:
    one, two = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    assert len({parameters_sha256(p) for p in ([one], [two], [one, two], [one.astype("f8")], [one + 1], [])}) == 6
