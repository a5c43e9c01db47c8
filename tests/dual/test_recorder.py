"""The files of a recording: interruptions, full disks, and disk space."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from recorded import N_TRAIN, Interrupted, RecordedTraining
from torch import nn

from idwbench.dual import recorder as recorder_module
from idwbench.dual.layer_calls import Weights
from idwbench.dual.recorder import Recorder, Recordings
from idwbench.dual.recording import Recording, RecordingFacts
from idwbench.errors import FullDiskError, OutputError, RecordingError, TrainingError
from idwbench.runs.protocol import Protocol
from idwbench.training.checkpoints import CheckpointFile

SGD = Protocol(epochs=2, batch_size=8, learning_rate=0.05, optimizer="sgd", momentum=0.9, gradient_clip=0.1)
ADAM = Protocol(epochs=2, batch_size=8, learning_rate=0.01)
STEPS = 2 * -(-N_TRAIN // 8)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


class EverySecond(CheckpointFile):
    """A checkpoint that is written at every second step of an epoch: later steps are recorded again."""

    def save(self, tensors, facts) -> None:
        if facts["step"] % 2 == 0:
            super().save(tensors, facts)


@pytest.mark.parametrize(
    ("protocol", "options"),
    [(SGD, {}), (SGD, {"fold": True}), (ADAM, {}), (ADAM, {"record_dtype": "float16"})],
)
def test_a_recording_interrupted_in_any_step_has_the_same_bytes(protocol, options, tmp_path: Path) -> None:
    whole = RecordedTraining(protocol, tmp_path / "whole", **options)
    expected = whole.run()
    for stop in range(STEPS):
        notes: list[str] = []
        folder, file = tmp_path / f"{stop}", EverySecond(tmp_path / f"{stop}.pt", "run", notes.append)
        stopped = RecordedTraining(protocol, folder, stop_after=stop, **options)
        with pytest.raises(Interrupted):
            stopped.training(file, checkpoint_seconds=0).train()
        assert not folder.exists()
        resumed = RecordedTraining(protocol, folder, **options)
        resumed.training(file).train()
        pointer = resumed.recorder.finish()
        assert contents(folder) == contents(expected.folder)
        assert pointer.tobytes().hex() == expected.facts.parameters_sha256
        assert notes == []
        assert resumed.taken == STEPS - stop // 2 * 2


def test_what_was_recorded_after_the_checkpoint_is_recorded_again(tmp_path: Path) -> None:
    expected = RecordedTraining(SGD, tmp_path / "whole").run()
    file = CheckpointFile(tmp_path / "run.pt", "run")
    stopped = RecordedTraining(SGD, tmp_path / "run", stop_after=3)
    with pytest.raises(Interrupted):
        stopped.training(file, checkpoint_seconds=0).train()
    for name, later in (("layer_0.keys", slice(24, None)), ("rows", slice(24, None)), ("steps", slice(3, None))):
        np.load(stopped.recorder.partial / f"{name}.npy", mmap_mode="r+")[later] = 7  # of a step that was interrupted
    resumed = RecordedTraining(SGD, tmp_path / "run")
    resumed.training(file).train()
    resumed.recorder.finish()
    assert contents(tmp_path / "run") == contents(expected.folder)


@pytest.mark.parametrize(
    "damage",
    ["missing", "short", "no rows", "no initial", "no steps", "other settings", "no facts", "of version 0.2.0"],
)
def test_a_training_whose_recording_does_not_reach_its_checkpoint_starts_anew(damage: str, tmp_path: Path) -> None:
    expected = RecordedTraining(SGD, tmp_path / "whole").run()
    notes: list[str] = []
    file = CheckpointFile(tmp_path / "run.pt", "run", notes.append)
    stopped = RecordedTraining(SGD, tmp_path / "run", stop_after=5)
    with pytest.raises(Interrupted):
        stopped.training(file, checkpoint_seconds=0).train()
    partial = stopped.recorder.partial
    if damage == "missing":
        partial.rename(tmp_path / "moved")
    elif damage == "short":
        keys = partial / "layer_1.keys.npy"
        keys.write_bytes(keys.read_bytes()[:-40])
    elif damage == "no rows":
        (partial / "rows.npy").unlink()
    elif damage == "no initial":
        (partial / "layer_0.initial.npy").unlink()
    elif damage == "no steps":
        np.load(partial / "steps.npy", mmap_mode="r+")[4] = 0
    elif damage == "of version 0.2.0":  # its files grew, and their headers said 0 rows until the end
        replace(stopped.recorder.facts, steps=0, slots=0).write(partial)
    elif damage == "no facts":
        (partial / "recording.json").write_text("{}")
    else:
        replace(stopped.recorder.facts, dtype="float32").write(partial)
    resumed = RecordedTraining(SGD, tmp_path / "run")
    resumed.training(file).train()
    resumed.recorder.finish()
    assert contents(tmp_path / "run") == contents(expected.folder)
    assert resumed.taken == STEPS
    assert len(notes) == 1 and notes[0].endswith("the training starts anew")


def test_a_recording_without_a_checkpoint_starts_anew(tmp_path: Path) -> None:
    expected = RecordedTraining(SGD, tmp_path / "whole").run()
    with pytest.raises(Interrupted):
        RecordedTraining(SGD, tmp_path / "run", stop_after=5).training().train()
    RecordedTraining(SGD, tmp_path / "run").run()
    assert contents(tmp_path / "run") == contents(expected.folder)


def test_a_complete_recording_stays_until_a_new_one_of_the_run_is_complete(tmp_path: Path) -> None:
    RecordedTraining(SGD, tmp_path / "run").run()
    before = contents(tmp_path / "run")
    with pytest.raises(Interrupted):
        RecordedTraining(SGD, tmp_path / "run", stop_after=5).training().train()
    assert contents(tmp_path / "run") == before
    Recording.open(tmp_path / "run")
    RecordedTraining(ADAM, tmp_path / "run").run()
    assert Recording.open(tmp_path / "run").facts.optimizer == "adam_amsgrad"
    assert not (tmp_path / "run.partial").exists()


def test_recording_does_not_change_the_training(tmp_path: Path) -> None:
    recorded = RecordedTraining(SGD, tmp_path / "run")
    recorded.run()
    plain = RecordedTraining(SGD, tmp_path / "other")
    training = plain.training()
    training.recorder = None
    training.train()
    for name, tensor in plain.module.state_dict().items():
        assert torch.equal(tensor, recorded.module.state_dict()[name])
    assert not (tmp_path / "other.partial").exists()
    recorded.module(torch.ones(2, 4).double())  # nothing is recorded any more


def test_the_files_are_arrays_that_numpy_loads(tmp_path: Path) -> None:
    made = RecordedTraining(SGD, tmp_path / "run")
    recording = made.run()
    slots = 2 * N_TRAIN
    assert np.load(tmp_path / "run" / "layer_0.keys.npy").shape == (slots, 4)
    assert np.load(tmp_path / "run" / "layer_2.gradients.npy").shape == (slots, 3)
    assert np.array_equal(np.load(tmp_path / "run" / "rows.npy"), recording.rows)
    assert np.array_equal(np.load(tmp_path / "run" / "layer_0.keys.npy"), made.inputs[recording.rows])
    assert np.array_equal(np.load(tmp_path / "run" / "steps.npy")[:, 2], [8, 8, 8, 3] * 2)
    assert recording.slot_steps.tolist() == np.repeat(np.arange(8), [8, 8, 8, 3] * 2).tolist()


@pytest.mark.parametrize(("reason", "files"), [(errno.ENOSPC, 0), (errno.EDQUOT, 1), (errno.EFBIG, 7)])
def test_a_disk_that_fills_up_is_one_line_before_the_training_and_leaves_nothing(
    reason: int, files: int, tmp_path: Path, monkeypatch
) -> None:
    made, reserved = RecordedTraining(SGD, tmp_path / "run"), 0

    def reserve(descriptor: int, start: int, size: int) -> None:
        nonlocal reserved
        reserved += 1
        if reserved > files:
            raise OSError(reason, os.strerror(reason))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", reserve)
        with pytest.raises(FullDiskError, match=rf"recording cannot be written: {os.strerror(reason)}$") as caught:
            made.training().train()
    assert "\n" not in str(caught.value)
    assert made.taken == 0 and not any(tmp_path.iterdir())
    # With room again the same training has the same recording.
    expected = RecordedTraining(SGD, tmp_path / "whole").run()
    RecordedTraining(SGD, tmp_path / "run").run()
    assert contents(tmp_path / "run") == contents(expected.folder)


def test_the_files_have_their_space_before_the_first_step(tmp_path: Path, monkeypatch) -> None:
    made = RecordedTraining(SGD, tmp_path / "run")
    made.recorder.start()
    for file in made.recorder.partial.glob("*.npy"):
        status = file.stat()
        assert status.st_blocks * 512 >= status.st_size
    made.recorder.discard()
    # Where the system cannot reserve it, zeros are written.
    expected = RecordedTraining(SGD, tmp_path / "whole").run()
    monkeypatch.delattr(os, "posix_fallocate")
    RecordedTraining(SGD, tmp_path / "run").run()
    assert contents(tmp_path / "run") == contents(expected.folder)


def test_a_file_in_the_place_of_the_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "recordings").write_text("")
    made = RecordedTraining(SGD, tmp_path / "recordings" / "run")
    with pytest.raises(OutputError, match="recordings"):
        made.training().train()


@pytest.mark.parametrize("protocol", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize("options", [{}, {"fold": True}, {"record_dtype": "float16"}])
def test_the_space_that_is_said_is_the_space_that_is_needed(protocol, options, tmp_path: Path) -> None:
    made = RecordedTraining(protocol, tmp_path / "run", **options)
    made.run()
    files = [file.stat().st_size for file in (tmp_path / "run").iterdir()]
    assert 0 <= made.recorder.needed_bytes - 2**20 + 128 * len(files) + 6000 - sum(files) < 6000  # headers and JSON


def facts() -> RecordingFacts:
    return RecordingFacts("0123456789abcdef", "data")


def test_the_space_is_said_and_refused_before_the_training(tmp_path: Path, monkeypatch) -> None:
    notes: list[str] = []
    recordings, layers = Recordings(tmp_path / "db.recordings", notes.append), {"layer_0": nn.Linear(800, 800)}
    recorder = recordings.recorder(layers, facts(), steps=3000, slots=384_000)
    assert isinstance(recorder, Recorder) and not (tmp_path / "db.recordings").exists()
    assert notes == [f"the recording of run 01234567 needs 2.5 GB in {tmp_path / 'db.recordings'}"]
    monkeypatch.setattr(recorder_module.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10**9})())
    with pytest.raises(OutputError, match=r"needs 2.5 GB of disk space, and 1.0 GB are free"):
        recorder.start()
    assert not any((tmp_path / "db.recordings").iterdir())
    half = recordings.recorder(layers, facts(), steps=300, slots=38_400, dtype="float16")
    half.start()
    assert half.facts.dtype == "float16" and 100e6 < half.needed_bytes < 200e6
    half.discard()


def test_another_number_of_steps_than_was_said_is_refused(tmp_path: Path) -> None:
    made = RecordedTraining(SGD, tmp_path / "run")
    made.recorder.facts = replace(made.recorder.facts, steps=STEPS - 1)
    with pytest.raises(ValueError, match="has room for 7 steps with 54 slots"):
        made.training().train()
    made = RecordedTraining(SGD, tmp_path / "run")
    made.recorder.facts = replace(made.recorder.facts, steps=STEPS + 1)
    made.training().train()
    with pytest.raises(ValueError, match="8 of 9 steps and 54 of 54 slots were recorded"):
        made.recorder.finish()


def test_without_a_folder_there_are_no_recordings() -> None:
    with pytest.raises(RecordingError, match="needs a database in a file"):
        Recordings().recorder({"layer_0": nn.Linear(2, 2)}, facts(), steps=1, slots=1)


def resident_bytes(file: Path) -> int:
    """Return the bytes of a mapped file that are in the memory of this process."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    return sum(1024 * int(next(x for x in lines if x.startswith("Rss:")).split()[1]) for x in lines if str(file) in x)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the memory of a process is read as on Linux")
def test_what_was_recorded_does_not_stay_in_the_memory_of_the_process(tmp_path: Path) -> None:
    inputs = np.ones((20_000, 100), np.float32)
    layer, rows = nn.Linear(100, 200), np.arange(4000)
    sizes = {"steps": 2, "slots": 8000, "fold": {"layer_0": inputs}}
    recorder = Recorder({"layer_0": layer}, tmp_path / "run", facts(), **sizes)
    recorder.start()
    assert resident_bytes(recorder.partial / "layer_0.inputs.npy") < inputs.nbytes / 8
    for _ in range(2):
        recorder.begin_step(rows)
        layer(torch.from_numpy(inputs[rows])).sum().backward()
        recorder.end_step(0.1)
        assert resident_bytes(recorder.partial / "layer_0.gradients.npy") < 4000 * 200 * 4 / 8
    recorder.discard()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"record_dtype": "float16"}, TrainingError, "'layer_0' are too large for a recording in float16"),
        ({"fold": True, "twice": True}, ValueError, "the folded layer 'layer_0' are not the rows"),
        ({}, ValueError, "'layer_0' has 8 inputs and 8 gradients for 7 slots in a step"),
    ],
)
def test_inputs_that_cannot_be_recorded_are_refused(options, error, message, tmp_path: Path) -> None:
    made = RecordedTraining(SGD, tmp_path / "run", **options)
    training = made.training()
    if not options:
        training.rows = lambda rows: rows[:-1]
    elif "record_dtype" in options:
        made.inputs[3, 1] = 1e5
    with pytest.raises(error, match=message):
        training.train()


def test_a_layer_of_its_own_delivers_inputs_and_gradients(tmp_path: Path) -> None:
    weight, inputs = torch.zeros(2, 3), torch.arange(12.0).view(2, 2, 3)
    recorder = Recorder({"matrix": Weights(weight)}, tmp_path / "run", facts(), steps=1, slots=4)
    recorder.start()
    recorder.begin_step(np.arange(4))
    recorder.take("matrix", inputs, inputs[..., :2] + 1)
    weight -= 0.5 * (inputs[..., :2] + 1).reshape(4, 2).T @ inputs.reshape(4, 3)
    recorder.end_step(0.5)
    recorder.finish()
    memory = Recording.open(tmp_path / "run").layers["matrix"]
    assert np.allclose(memory.answers(np.eye(3)), weight.numpy().T)
