"""Recordings that were moved, cut, or belong to another model: one clear line each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from recorded import Interrupted, RecordedTraining

from idwbench.dual import recording as recording_module
from idwbench.dual.recording import Recording, RecordingFacts, open_recording, parameters_sha256
from idwbench.errors import RecordingError, ResultsError
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.protocol import Protocol
from idwbench.runs.results import RunResult

PROTOCOL = Protocol(epochs=1, batch_size=8, learning_rate=0.05, optimizer="sgd")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings") / "run"
    RecordedTraining(PROTOCOL, folder).run()
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "run"))


def cut(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-5])


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def change_facts(**facts: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "recording.json"
        content = json.loads(path.read_text())
        del content["sha256"]
        path.write_text(json.dumps(content | facts))

    return change


def change_array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / name, change(np.load(folder / name)))


def pickled_rows(folder: Path) -> None:
    np.save(folder / "rows.npy", np.array([{"a": 1}] * 27, object), allow_pickle=True)


def text_as(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text("no array")


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (
            shutil.rmtree,
            "run: there is no recording: it was moved or deleted, or the run was not recorded "
            "(train the run again to record it anew)",
        ),
        (remove("recording.json"), "recording.json: no such file"),
        (text_as("recording.json"), "recording.json: is damaged: expected the facts of a recording"),
        (change_facts(layers=3), "recording.json: is damaged: expected the facts of a recording"),
        (change_facts(colour="red"), "recording.json: is damaged: expected the facts of a recording"),
        (change_facts(momentum="large"), "recording.json: is damaged: expected the facts of a recording"),
        (change_facts(steps=[4]), "recording.json: is damaged: expected the facts of a recording"),
        (change_facts(format="later"), "recording.json: has the format 'later', expected 'idwbench-recording-1'"),
        (change_facts(complete=False), "run: the recording is not complete"),
        (remove("layer_0.keys.npy"), "layer_0.keys.npy: is missing in the recording"),
        (remove("layer_2.initial.npy"), "layer_2.initial.npy: is missing in the recording"),
        (cut("layer_0.keys.npy"), "layer_0.keys.npy: is cut or damaged"),
        (cut("layer_1.gradients.npy"), "layer_1.gradients.npy: is cut or damaged"),
        (cut("rows.npy"), "rows.npy: is cut or damaged"),
        (text_as("steps.npy"), "steps.npy: is cut or damaged"),
        (text_as("layer_1.final.npy"), "layer_1.final.npy: is cut or damaged"),
        (change_facts(slots=26), "rows.npy: has the shape (27,), expected (26,)"),
        (change_facts(dtype="float16"), "layer_0.units.npy: is missing in the recording"),
        (change_facts(optimizer="adam"), "layer_0.scales.npy: is missing in the recording"),
        (
            change_array("steps.npy", lambda steps: steps - np.eye(len(steps), 3, 2)),
            "steps.npy: is damaged: the steps have another number of slots",
        ),
        (pickled_rows, "rows.npy: is cut or damaged"),
        (
            change_array("steps.npy", lambda steps: steps * np.nan),
            "steps.npy: is damaged: the steps have another number of slots",
        ),
        (
            change_array("rows.npy", lambda rows: rows - 9),
            "rows.npy: is damaged: it has rows that the training data does not have",
        ),
        (
            change_array("rows.npy", lambda rows: rows.astype(float)),
            "rows.npy: has the type float64, expected integers",
        ),
        (
            change_array("layer_0.keys.npy", lambda keys: keys.astype("U8")),
            "layer_0.keys.npy: has the type <U8, expected floating-point numbers",
        ),
        (
            change_array("layer_1.final.npy", lambda weight: weight + 1),
            "run: the recording is damaged: the final parameters have another checksum",
        ),
    ],
)
def test_a_damaged_recording_is_one_line(damage: Callable[[Path], object], line: str, folder: Path) -> None:
    damage(folder)
    with pytest.raises(RecordingError) as caught:
        Recording.open(folder)
    assert str(caught.value) == f"{folder.parent}/{line}" if line.startswith("run:") else f"{folder}/{line}"
    assert isinstance(caught.value, ResultsError) and caught.value.exit_code == 1


@pytest.fixture(scope="module", params=["folded", "float16 with adam"])
def other_recorded(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings") / "run"
    if request.param == "folded":
        RecordedTraining(PROTOCOL, folder, fold=True).run()
    else:
        protocol = Protocol(epochs=1, batch_size=8, learning_rate=0.01)
        RecordedTraining(protocol, folder, record_dtype="float16").run()
    return folder


@pytest.mark.parametrize("change", ["a flipped bit", "no number", "nothing"])
def test_any_file_that_changed_or_is_empty_is_one_line(change: str, other_recorded: Path, tmp_path: Path) -> None:
    names = [file.name for file in other_recorded.glob("*.npy")]
    assert len(names) > 10
    for name in names:
        folder = Path(shutil.copytree(other_recorded, tmp_path / name / "run"))
        array = np.load(folder / name)
        if change == "a flipped bit":
            array.view(np.uint8).reshape(-1)[array.nbytes // 2] ^= 1
        elif change == "no number" and array.dtype.kind == "f":
            array.reshape(-1)[array.size // 2] = np.nan
        elif change == "no number":
            continue
        np.save(folder / name, array)
        if change == "nothing":
            (folder / name).write_bytes(b"")
        with pytest.raises(RecordingError, match=r"is damaged: |cut or damaged$"):
            Recording.open(folder)


@pytest.mark.parametrize("facts", [{"momentum": 0.5}, {"weight_decay": 0.1}, {"data_sha256": "other"}])
def test_facts_that_changed_are_one_line(facts: dict[str, object], folder: Path) -> None:
    path = folder / "recording.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    with pytest.raises(RecordingError, match=r"recording.json: is damaged: it has another checksum$"):
        Recording.open(folder)


def test_a_recording_of_version_0_2_0_has_no_checksums_and_opens(folder: Path) -> None:
    path = folder / "recording.json"
    content = json.loads(path.read_text())
    del content["sha256"], content["checksums"]
    path.write_text(json.dumps(content))
    keys = folder / "layer_0.keys.npy"
    np.save(keys, np.load(keys) + 1)  # which is not noticed
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


def test_a_folded_recording_with_rows_that_the_data_does_not_have_is_one_line(tmp_path: Path) -> None:
    RecordedTraining(PROTOCOL, tmp_path / "run", fold=True).run()
    change_array("rows.npy", lambda rows: rows + 1)(tmp_path / "run")
    with pytest.raises(RecordingError, match=r"rows.npy: is damaged: it has rows that the training data does not have"):
        Recording.open(tmp_path / "run")


def test_a_recording_of_another_model_is_one_line(folder: Path) -> None:
    facts = RecordingFacts.read(folder)
    Recording.open(folder, run_key="run", parameters_sha256=facts.parameters_sha256)
    with pytest.raises(RecordingError, match=r"run: the recording is of the run run, expected 0123$"):
        Recording.open(folder, run_key="0123")
    with pytest.raises(RecordingError, match=r"run: the recording is of another model: the parameters differ$"):
        Recording.open(folder, parameters_sha256="00")


def test_an_unfinished_recording_is_none(tmp_path: Path) -> None:
    made = RecordedTraining(PROTOCOL, tmp_path / "run", stop_after=2)
    with pytest.raises(Interrupted):
        made.training().train()
    with pytest.raises(RecordingError, match="there is no recording"):
        Recording.open(tmp_path / "run")
    with pytest.raises(RecordingError, match="is not complete"):
        Recording.open(made.recorder.partial)


def test_a_diverged_training_leaves_no_recording(tmp_path: Path) -> None:
    made = RecordedTraining(PROTOCOL.model_copy(update={"learning_rate": 1e300}), tmp_path / "run")
    assert made.training().train().diverged_epoch == 1
    assert list(tmp_path.iterdir()) == []


def stored(results: Results, arrays: dict[str, np.ndarray]) -> RunConfig:
    config = run_config("two_moons", prototypes=2)
    arrays = {"keys": np.zeros((2, 2)), "values": np.zeros((2, 2)), **arrays}
    results.finish([RunResult(config, "complete", (), {}, arrays, 4, None, 0.1, "torch", "cpu", 1)])
    return config


def test_the_recording_of_a_stored_run_is_that_of_its_pointer(tmp_path: Path) -> None:
    results = Results(tmp_path / "idwbench.db")
    config = run_config("two_moons", prototypes=2)
    assert results.recording_folder == tmp_path / "idwbench.db.recordings"
    made = RecordedTraining(PROTOCOL, results.recording_folder / config.run_key, run_key=config.run_key)
    made.training().train()
    stored(results, {"recording": made.recorder.finish()})
    (run,) = results.find_runs()
    assert open_recording(results, run).steps == 4
    # The run was trained again elsewhere, and the folder was not copied.
    other = RecordedTraining(PROTOCOL, results.recording_folder / config.run_key, run_key=config.run_key, loss_scale=2)
    other.run()
    with pytest.raises(RecordingError, match="of another model: the parameters differ"):
        open_recording(results, run)
    results.recording_folder.rename(tmp_path / "elsewhere")
    with pytest.raises(RecordingError, match="it was moved or deleted"):
        open_recording(results, run)


def test_a_database_of_a_server_has_no_recordings(tmp_path: Path, monkeypatch) -> None:
    results = Results(tmp_path / "idwbench.db")
    stored(results, {"recording": np.zeros(32, np.uint8)})
    (run,) = results.find_runs()
    monkeypatch.setattr(Results, "recording_folder", None)
    with pytest.raises(RecordingError, match="only databases in a file have recordings"):
        open_recording(results, run)


def test_the_checksum_tells_parameters_apart() -> None:
    one, two = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    assert len({parameters_sha256(p) for p in ([one], [two], [one, two], [one.astype("f8")], [one + 1], [])}) == 6
