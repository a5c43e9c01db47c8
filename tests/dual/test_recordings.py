"""Recordings: their files, interruptions and disk space; what was moved or cut, or belongs to another model."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from array_models import random
from case_tables import case_table
from recorded import RecordedTraining
from torch import nn

from idwbench import Results, run_config
from idwbench.dual import recording as recording_module
from idwbench.dual.layer_calls import lstm_layers, record_lstm
from idwbench.dual.recorder import Recorder
from idwbench.dual.recording import Recording, RecordingFacts, open_recording, parameters_sha256
from idwbench.errors import RecordingError, ResultsError, TrainingError
from idwbench.runs.protocol import Protocol
from idwbench.runs.results import RunResult
from idwbench.training.checkpoints import CheckpointFile

SETTINGS = {"epochs": 2, "batch_size": 10, "learning_rate": 0.01}
SGD = Protocol(**SETTINGS, optimizer="sgd", momentum=0.9, gradient_clip=0.1)
AMSGRAD = Protocol(**SETTINGS, weight_decay=0.01)
PLAIN = Protocol(epochs=1, batch_size=8, learning_rate=0.05, optimizer="sgd")
SMALL = {"record_dtype": "float16", "fold": True}
STEPS = 2 * 3  # of 10, 10 and 7 rows


def contents(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The files of a recording by `SGD`."""
    return contents(RecordedTraining(SGD, tmp_path_factory.mktemp("whole") / "run").run().folder)


class AtSecondStep(CheckpointFile):
    """A checkpoint that is written at the second step of an epoch: later steps are recorded again."""

    def save(self, tensors, facts):
        if facts["step"] == 2:
            super().save(tensors, facts)


@pytest.mark.parametrize(
    ("protocol", "options", "stops"), [(SGD, {}, range(STEPS)), (AMSGRAD, {}, [1, 5]), (AMSGRAD, SMALL, [4])]
)
def test_a_training_interrupted_in_any_step_has_the_same_bytes(protocol, options, stops, tmp_path):
    whole = RecordedTraining(protocol, tmp_path / "whole", **options)
    curve, pointer = whole.train().curve, whole.recorder.finish()
    for stop in stops:
        notes: list[str] = []
        folder, file = tmp_path / f"{stop}", AtSecondStep(tmp_path / f"{stop}.pt", "run", notes.append)
        RecordedTraining(protocol, folder, stop_after=stop, **options).interrupt(file)
        assert not folder.exists()
        resumed = RecordedTraining(protocol, folder, **options)
        assert resumed.train(file).curve == curve
        assert resumed.recorder.finish().tobytes() == pointer.tobytes()  # the checksum of the parameters
        assert contents(folder) == contents(whole.folder)
        assert notes == []
        assert resumed.taken == STEPS - (0, 0, 2, 2, 2, 5)[stop]  # the steps before the checkpoint are not repeated


def change(**facts):
    return lambda partial: replace(RecordingFacts.read(partial), **facts).write(partial)


@pytest.mark.parametrize(
    "damage",
    [
        shutil.rmtree,
        lambda partial: os.truncate(partial / "layer_1.keys.npy", 200),
        lambda partial: np.load(partial / "steps.npy", mmap_mode="r+")[4].fill(0),
        lambda partial: (partial / "recording.json").write_text("{}"),
        change(dtype="float32"),
        change(steps=0, slots=0),  # as in version 0.2.0: files grew, and their headers said 0 rows until the end
    ],
)
def test_a_training_whose_recording_does_not_reach_its_checkpoint_starts_anew(damage, expected, tmp_path):
    notes: list[str] = []
    file = CheckpointFile(tmp_path / "run.pt", "run", notes.append)
    damage(RecordedTraining(SGD, tmp_path / "run", stop_after=5).interrupt(file).recorder.partial)
    resumed = RecordedTraining(SGD, tmp_path / "run")
    assert contents(resumed.run(file).folder) == expected
    assert resumed.taken == STEPS
    assert len(notes) == 1 and notes[0].endswith("the training starts again")


def test_a_complete_recording_stays_until_a_new_one_of_the_run_is_complete(expected, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")  # zeros are written where the system cannot reserve space
    RecordedTraining(SGD, tmp_path / "run").run()
    RecordedTraining(AMSGRAD, tmp_path / "run", stop_after=5).interrupt()
    assert contents(tmp_path / "run") == expected
    RecordedTraining(AMSGRAD, tmp_path / "run").run()  # without a checkpoint it starts anew
    assert Recording.open(tmp_path / "run").facts.optimizer == "adam_amsgrad"
    assert not (tmp_path / "run.partial").exists()


@pytest.mark.parametrize(("protocol", "options"), [(SGD, {}), (AMSGRAD, {}), (AMSGRAD, SMALL)])
def test_the_space_that_is_said_is_the_space_that_is_needed(protocol, options, tmp_path):
    recorder = RecordedTraining(protocol, tmp_path / "run", **options).recorder
    recorder.start()
    files = [file.stat().st_size for file in recorder.partial.iterdir()]
    assert 0 <= recorder.needed_bytes - 2**20 + 128 * len(files) + 6000 - sum(files) < 6000  # headers and JSON


def resident_bytes(file):
    """Return the bytes of a mapped file that are in the memory of this process."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    return sum(1024 * int(next(x for x in lines if x.startswith("Rss:")).split()[1]) for x in lines if str(file) in x)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the memory of a process is read as on Linux")
def test_files_have_their_space_before_the_first_step_and_what_was_recorded_does_not_stay_in_memory(tmp_path):
    inputs = np.ones((20_000, 100), np.float32)
    layer, rows = nn.Linear(100, 200), np.arange(4000)
    sizes = {"steps": 2, "slots": 8000, "fold": {"layer_0": inputs}}
    recorder = Recorder({"layer_0": layer}, tmp_path / "run", RecordingFacts("run", "data"), **sizes)
    recorder.start()
    assert all(file.stat().st_blocks * 512 >= file.stat().st_size for file in recorder.partial.glob("*.npy"))
    assert resident_bytes(recorder.partial / "layer_0.inputs.npy") < inputs.nbytes / 8
    for _ in range(2):
        recorder.begin_step(rows)
        layer(torch.from_numpy(inputs[rows])).sum().backward()
        recorder.end_step(0.1)
        assert resident_bytes(recorder.partial / "layer_0.gradients.npy") < 4000 * 200 * 4 / 8
    recorder.discard()


@pytest.mark.parametrize(("protocol", "options", "slots", "message"), case_table("wrong_inputs")["recorded_steps"])
def test_a_step_that_cannot_be_recorded_is_refused(protocol, options, slots, message, tmp_path):
    training = RecordedTraining({"sgd": SGD, "adam_amsgrad": AMSGRAD}[protocol], tmp_path / "run", **options)
    training.inputs[3, 1] = 1e5 if "record_dtype" in options else 0
    rows = np.arange(10) % training.n_train
    training.recorder.start()
    training.recorder.begin_step(training.slot_rows(rows[:slots]))
    training.losses(rows).sum().backward()
    with pytest.raises((TrainingError, ValueError), match=message):
        training.recorder.end_step(0.1)


# The gates' gradients of an LSTM against autograd

LAYERS = ("lstm.input", "lstm.recurrent")
BIASES = ("bias_ih_l0", "bias_hh_l0")


def step_of(lstm, inputs, above):
    """Return the keys and gradients of the layers in one step, one row for each slot."""
    taken: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    hook = record_lstm(lambda name, *parts: taken.update({name: tuple(part.flatten(0, 1) for part in parts)}), lstm)
    lstm(inputs)[0].backward(above)
    hook.remove()
    return taken


# Features, units, the length of sequences, and their type.
SIZES = [(3, 5, 1, torch.float64), (3, 5, 9, torch.float64), (3, 5, 2, torch.float32), (200, 64, 3, torch.float32)]


@pytest.mark.parametrize(("features", "units", "length", "dtype"), SIZES)
@pytest.mark.parametrize("frozen", [(), BIASES[:1], BIASES], ids=str)
def test_errors_times_keys_are_the_gradients_of_autograd(frozen, features, units, length, dtype):
    torch.manual_seed(0)
    lstm = nn.LSTM(features, units, batch_first=True, dtype=dtype)
    for name in frozen:
        getattr(lstm, name).requires_grad_(False)
    inputs, above = random(4, length, features, dtype=dtype).requires_grad_(), random(4, length, units, dtype=dtype)
    taken, states = step_of(lstm, inputs, above), lstm(inputs)[0]
    for name, suffix in zip(LAYERS, ("ih_l0", "hh_l0"), strict=True):
        keys, gradients = taken[name]
        expected = getattr(lstm, f"weight_{suffix}").grad
        # Each step adds sums of `features` or `units` terms to a chain of `length` steps.
        error = length * (features + 4 * units) * torch.finfo(dtype).eps
        assert (gradients.T @ keys - expected).abs().max() <= error * expected.abs().max()
        assert expected.any() or (name == "lstm.recurrent" and length == 1)
        if f"bias_{suffix}" not in frozen:
            torch.testing.assert_close(gradients.sum(0), getattr(lstm, f"bias_{suffix}").grad)
    previous = taken["lstm.recurrent"][0].view(4, length, units)
    assert not previous[:, 0].any() and torch.equal(previous[:, 1:], states[:, :-1])
    again = step_of(lstm.requires_grad_(False), inputs, above)  # also where nothing of it is trained
    torch.testing.assert_close(again["lstm.input"][1], taken["lstm.input"][1])


@pytest.mark.parametrize(
    "options", [{"num_layers": 2}, {"bidirectional": True}, {"bias": False}, {"batch_first": False}, {"proj_size": 1}]
)
def test_other_lstms_are_refused(options):
    with pytest.raises(ValueError, match="expected one layer of LSTM"):
        lstm_layers(nn.LSTM(2, 3, **{"batch_first": True, **options}))


# Damaged recordings, and those of another model

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return RecordedTraining(PLAIN, tmp_path_factory.mktemp("recordings") / "run", fold=True).run().folder


@pytest.fixture
def folder(recorded, tmp_path):
    return Path(shutil.copytree(recorded, tmp_path / "run"))


def facts(*without, **facts):
    """Write other facts, and leave some out; without the checksum of the facts they are believed."""

    def change(folder):
        path = folder / "recording.json"
        content = {**json.loads(path.read_text()), **facts}
        path.write_text(json.dumps({name: value for name, value in content.items() if name not in without}))

    return change


def array(name, change):
    return lambda folder: np.save(folder / name, change(np.load(folder / name)))


NOT_ITS_ROWS = "run/rows.npy: is damaged: it has rows that the training data does not have"
NOT_ITS_STEPS = "run/steps.npy: is damaged: the steps have another number of slots"
NO_FLOATS = "run/layer_1.keys.npy: has the type <U8, expected floating-point numbers"
DAMAGES: list[tuple[Damage, str]] = [
    (shutil.rmtree, "run: there is no recording: it was moved or deleted, or the run was not recorded (train the run"),
    (lambda folder: (folder / "recording.json").unlink(), "run/recording.json: no such file"),
    (lambda folder: (folder / "recording.json").write_text("no facts"), "run/recording.json: is damaged: expected the"),
    *((facts("sha256", **wrong), line) for wrong, line in case_table("wrong_inputs")["recordings"]),
    (facts(momentum=0.5), "run/recording.json: is damaged: it has a different checksum"),
    (array("rows.npy", lambda rows: np.array([{"a": 1}] * len(rows))), "run/rows.npy: is cut or damaged"),
    (array("steps.npy", lambda steps: steps - np.eye(len(steps), 3, 2)), NOT_ITS_STEPS),
    (array("steps.npy", lambda steps: steps * np.nan), NOT_ITS_STEPS),
    (array("rows.npy", lambda rows: rows - 9), NOT_ITS_ROWS),
    (array("rows.npy", lambda rows: rows + 1), NOT_ITS_ROWS),  # of the folded layer
    (array("rows.npy", lambda rows: rows.astype(float)), "run/rows.npy: has the type float64, expected integers"),
    (array("layer_1.keys.npy", lambda keys: keys.astype("U8")), NO_FLOATS),
    (array("layer_1.final.npy", lambda weight: weight + 1), "run: the recording is damaged: the final parameters"),
]


@pytest.mark.parametrize(("damage", "line"), DAMAGES)
def test_a_damaged_recording_is_one_line(damage, line, folder):
    damage(folder)
    with pytest.raises(RecordingError, match=re.escape(f"{folder.parent}/{line}")) as caught:
        Recording.open(folder)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ResultsError) and caught.value.exit_code == 1


def flip_a_bit(file):
    array = np.load(file)
    array.view(np.uint8).reshape(-1)[array.nbytes // 2] ^= 1
    np.save(file, array)


CHANGED = [
    (flip_a_bit, "is damaged: "),
    (lambda file: os.truncate(file, file.stat().st_size - 5), "is cut or damaged$"),
    (lambda file: os.truncate(file, 0), "is cut or damaged$"),
    (Path.unlink, "is missing in the recording$"),
]


def test_the_files_are_those_that_the_page_lists_and_any_that_changed_or_is_cut_is_one_line(tmp_path):
    folder = RecordedTraining(AMSGRAD, tmp_path / "run", **SMALL).run().folder
    page = (Path(__file__).parents[2] / "docs/dual_form.md").read_text(encoding="utf-8")
    names = {file.name.replace("layer_0", "LAYER") for file in folder.iterdir()}
    assert all(f"`{name}`" in page for name in names if "layer_" not in name)
    assert np.array_equal(np.load(folder / "steps.npy")[:, 2], [10, 10, 7] * 2)
    files = list(folder.glob("*.npy"))
    assert len(files) > 20
    for file, (change, problem) in product(files, CHANGED):
        content = file.read_bytes()
        change(file)
        with pytest.raises(RecordingError, match=problem):
            Recording.open(folder)
        file.write_bytes(content)


def test_a_recording_of_version_0_2_0_has_no_checksums_and_opens(folder):
    facts("sha256", "checksums")(folder)
    array("layer_1.keys.npy", lambda keys: keys + 1)(folder)  # which is not noticed
    assert Recording.open(folder).layers["layer_1"].slots == 27


def test_checksums_tell_parameters_apart_and_those_of_large_files_are_of_blocks(tmp_path, monkeypatch):
    one, two = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    assert len({parameters_sha256(p) for p in ([one], [two], [one, two], [one.astype("f8")], [one + 1], [])}) == 6
    monkeypatch.setattr(recording_module, "_WHOLE_BYTES", 40)
    monkeypatch.setattr(recording_module, "_BLOCK_BYTES", 10)
    path = tmp_path / "file"

    def seen(size):
        """Return the places whose bytes change the checksum of a file."""
        checksums = []
        for place in range(-1, size):
            path.write_bytes(bytes(n == place for n in range(size)))
            checksums.append(recording_module.file_checksum(path))
        return [place for place, checksum in enumerate(checksums[1:]) if checksum != checksums[0]]

    assert seen(37) == [*range(37)]
    assert seen(130) == [first + place for first in (0, 40, 80, 120) for place in range(10)]


def test_an_unfinished_recording_is_none_and_that_of_a_diverged_training_is_deleted(tmp_path):
    recorder = RecordedTraining(PLAIN, tmp_path / "run", stop_after=2).interrupt().recorder
    with pytest.raises(ValueError, match="2 of 4 steps and 16 of 27 slots were recorded"):
        recorder.finish()
    with pytest.raises(RecordingError, match="there is no recording"):
        Recording.open(tmp_path / "run")
    with pytest.raises(RecordingError, match="is not complete"):
        Recording.open(recorder.partial)
    diverging = RecordedTraining(PLAIN.model_copy(update={"learning_rate": 1e300}), tmp_path / "run")
    assert diverging.train().diverged_epoch == 1
    assert list(tmp_path.iterdir()) == []


def test_the_recording_of_a_stored_run_is_that_of_its_pointer(tmp_path, monkeypatch):
    results, config = Results(tmp_path / "idwbench.db"), run_config("two_moons", prototypes=2)
    key = config.run_key
    assert results.recording_folder == tmp_path / "idwbench.db.recordings"
    training = RecordedTraining(PLAIN, results.recording_folder / key, run_key=key)
    training.train()
    arrays = {"keys": np.zeros((2, 2)), "values": np.zeros((2, 2)), "recording": training.recorder.finish()}
    results.finish([RunResult(config, "complete", (), {}, arrays, 4, None, 0.1, "torch", "cpu", 1)])
    (run,) = results.find_runs()
    assert open_recording(results, run).steps == 4
    with pytest.raises(RecordingError, match=rf"the recording is of the run {key}, expected 0123$"):
        Recording.open(results.recording_folder / key, run_key="0123")
    # The run was trained again elsewhere, and the folder was not copied.
    RecordedTraining(PLAIN, results.recording_folder / key, run_key=key, loss_scale=2).run()
    with pytest.raises(RecordingError, match="of another model: the parameters differ"):
        open_recording(results, run)
    monkeypatch.setattr(Results, "recording_folder", None)  # as on a server
    with pytest.raises(RecordingError, match="only databases in a file have recordings"):
        open_recording(results, run)
