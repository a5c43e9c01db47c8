"""What the runs of every kind promise: the same bytes, also of an interrupted training, and how a run ends."""

from functools import cache
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from kinds import EXAMPLES, KINDS, RECORDED, RESUMED, TIMED, TRAINED
from torch import nn

from idwbench.errors import RecordingError
from idwbench.runs.metrics import HEADLINES, LAYER_STATISTICS, METRICS
from idwbench.runs.protocol import learning_rate
from idwbench.training.checkpoints import CheckpointFile
from idwbench.training.engine import Context
from idwbench.training.module_training import ModuleTraining, activation_memory
from idwbench.training.optimizers import flat_parameters
from idwbench.training.selection import engine_of


def outcome(result):
    """Everything that a run gave but times and the name of its recording."""
    return {
        "arrays": {name: array.tobytes() for name, array in result.arrays.items() if name != "recording"},
        "metrics": {key: value for key, value in result.metrics.items() if key[1] not in TIMED},
        "curve": tuple(result.curve),
        "end": (result.state, result.n_parameters, result.engine, result.device),
    }


def files_in(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


OBSERVED = [*((name, "record") for name in RECORDED)]
OBSERVED += [(name, "statistics") for name, row in EXAMPLES["resumed"].items() if "statistics" in row]


def each(examples):
    return pytest.mark.parametrize("kind", examples.values(), ids=examples)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the texts that runs learn, and of the recordings of runs that were not interrupted."""
    return tmp_path_factory.mktemp("kinds")


@pytest.fixture(scope="module")
def whole(folder):
    """Trains the run of an example once; returns its result and the epochs that it reported."""

    @cache
    def trained(kind):
        epochs: list[int] = []
        (result,) = kind.train(folder, on_epoch=epochs.append, recording_folder=folder / "recordings")
        return result, epochs

    return trained


@each(KINDS)
def test_a_run_says_how_it_was_trained_and_its_seed_alone_decides_the_bytes_also_in_a_stack(kind, folder, whole):
    torch.manual_seed(1)
    (_, dataset), (first, _) = kind.load(folder), whole(kind)
    engine = engine_of(first.config, Context(engine=kind.engine))
    assert (first.state, first.diverged_epoch, first.engine, first.device) == ("complete", None, engine.name, "cpu")
    assert first.threads >= 1 and first.seconds > 0 and {name for _, name in first.metrics} <= {*METRICS, "bandwidth"}
    headline = HEADLINES[dataset.config.task].name
    assert {("test", headline), ("validation", headline)} <= first.metrics.keys()
    torch.manual_seed(2)
    stack = [first.config.with_seed(4), first.config]
    other, again = kind.train(folder, *stack)
    assert [other.config, again.config] == stack
    assert outcome(again) == outcome(first)
    assert (outcome(other) == outcome(first)) == first.config.model.is_deterministic


@each(TRAINED)
def test_the_curve_has_every_epoch_and_ends_at_the_metrics(kind, folder, whole):
    (config, dataset), (result, epochs) = kind.load(folder), whole(kind)
    assert epochs == [point.epoch for point in result.curve] == [*range(1, config.n_epochs + 1)]
    protocol = config.protocol.model_copy(update={"epochs": config.n_epochs})
    rates = [point.values["train", "learning_rate"] for point in result.curve]
    assert rates == pytest.approx([learning_rate(protocol, epoch) for epoch in range(config.n_epochs)])
    headline = HEADLINES[dataset.config.task].name
    for point in result.curve:
        assert {("train", "loss"), ("test", headline), ("validation", headline)} <= point.values.keys()
    for key, value in result.curve[-1].values.items():
        if key[0] != "train":
            assert value == pytest.approx(result.metrics[key], rel=1e-5)


@each({**TRAINED, **RECORDED})
def test_a_diverged_run_has_its_curve_up_to_there_and_nothing_else(kind, folder, tmp_path):
    config, _ = kind.load(folder)
    diverging = {"optimizer": "sgd", "learning_rate": 3e37, "gradient_clip": 0.0, "schedule": "constant"}
    config = config.model_copy(update={"protocol": config.protocol.model_copy(update=diverging)})
    if config.model.kind == "hash_table":  # softmax does not overflow
        config = config.model_copy(update={"model": config.model.model_copy(update={"weighting": "none"})})
    seen: list[int] = []
    (result,) = kind.train(folder, config, on_epoch=seen.append, recording_folder=tmp_path)
    assert (result.state, result.metrics, dict(result.arrays), result.n_parameters) == ("diverged", {}, {}, None)
    assert [point.epoch for point in result.curve] == [*range(1, result.diverged_epoch)]
    assert len(seen) <= result.diverged_epoch <= config.n_epochs
    assert not any(tmp_path.iterdir())


def stop_within_an_epoch(monkeypatch):
    """Interrupt the next training before the second step of its second epoch, after a checkpoint."""
    original = ModuleTraining._step

    def step(self, batch, rate):
        if (self.progress.epoch, self.progress.step) == (1, 1):
            self._save()
            monkeypatch.setattr(ModuleTraining, "_step", original)
            raise KeyboardInterrupt
        original(self, batch, rate)

    monkeypatch.setattr(ModuleTraining, "_step", step)


@pytest.mark.parametrize("within_an_epoch", [False, True])
@each({**RESUMED, **RECORDED})
def test_an_interrupted_training_goes_on_to_the_same_bytes(kind, within_an_epoch, folder, whole, tmp_path, monkeypatch):
    expected, _ = whole(kind)
    config, checkpoints, recordings = expected.config, tmp_path / "checkpoints", tmp_path / "recordings"
    if within_an_epoch:
        stop_within_an_epoch(monkeypatch)
    folders = {"checkpoint_folder": checkpoints, "recording_folder": recordings}
    with pytest.raises(KeyboardInterrupt):  # otherwise after two epochs
        kind.train(folder, on_epoch=Mock(side_effect=[None, KeyboardInterrupt]), **folders)
    assert [file.name for file in checkpoints.iterdir()] == [f"{config.run_key}.pt"]
    epochs: list[int] = []
    (resumed,) = kind.train(folder, on_epoch=epochs.append, **folders)
    assert outcome(resumed) == outcome(expected)
    assert epochs == [*range(2 if within_an_epoch else 3, config.n_epochs + 1)]
    engine_of(config, Context()).stored([config], Context(checkpoint_folder=checkpoints))
    assert not checkpoints.exists()
    if config.model.kind in ("mlp", "lstm_lm") and config.model.record:
        assert files_in(recordings / config.run_key) == files_in(folder / "recordings" / config.run_key)


@pytest.mark.parametrize(("name", "setting"), OBSERVED)
def test_a_training_that_is_recorded_or_measured_has_the_numbers_of_one_that_is_not(name, setting, folder, whole):
    kind = (RECORDED | RESUMED)[name]
    observed, _ = whole(kind)
    model = observed.config.model.model_copy(update={setting: False})
    (plain,) = kind.train(folder, observed.config.model_copy(update={"model": model}))
    found, expected = outcome(observed), outcome(plain)
    added = {part: found[part].keys() - expected[part].keys() for part in ("arrays", "metrics")}
    for part, names in added.items():
        found[part] = {name: value for name, value in found[part].items() if name not in names}
    assert found == expected and observed.config.run_key != plain.config.run_key
    if setting == "statistics":
        assert added["arrays"] == {f"statistics.{name}" for name in ("steps", "layers", *LAYER_STATISTICS)}
        assert {name for _, name in added["metrics"]} == {*LAYER_STATISTICS}
    else:
        assert observed.arrays.keys() - plain.arrays.keys() == {"recording"} and not added["metrics"]
        with pytest.raises(RecordingError, match="a recording needs a database in a file"):
            kind.train(folder)


def test_checkpoints_of_another_run_or_version_and_damaged_ones_are_not_used(tmp_path, monkeypatch):
    notes = []
    file = CheckpointFile(tmp_path / "a.pt", "this run", notes.append)
    assert file.load() is None and notes == []
    position = np.random.default_rng(5).bit_generator.state
    tensors, facts = {"x": torch.arange(4.0), "none": torch.zeros(0, 2)}, {"nan": [1e-300], "generator": position}
    file.save(tensors, facts)
    loaded = file.load()
    assert loaded is not None and loaded[1] == facts
    assert all(torch.equal(loaded[0][name], tensor) for name, tensor in tensors.items())
    other = CheckpointFile(file.path, "another run", notes.append)
    assert other.load() is None and "is of another configuration; the training starts again" in notes[-1]
    content = file.path.read_bytes()
    place = content.index(np.arange(4.0, dtype=np.float32).tobytes())
    for damaged in (b"", content[:20], content[:-1], content[:place] + b"\x01" + content[place + 1 :], b"\xff" * 64):
        file.path.write_bytes(damaged)
        assert file.load() is None and "is damaged" in notes[-1]
    file.path.write_bytes(content)
    monkeypatch.setattr("idwbench.training.checkpoints.__version__", "9.9.9")
    assert file.load() is None and "not idwbench 9.9.9" in notes[-1]
    file.path.rename(tmp_path / "a.safetensors")
    assert file.load() is None and "was written by an earlier version; the training starts again" in notes[-1]
    assert len(notes) == 8
    for _ in range(2):
        file.delete()
        assert not tmp_path.exists()


def test_activation_memory_counts_what_backward_needs_once():
    module, inputs = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)), torch.randn(7, 6)
    expected = 4 * (7 * 6 + 7 * 5)  # the inputs; the result of the ReLU, which both of its neighbours save
    assert activation_memory(module, lambda: module(inputs))[1] * 2**20 == expected
    flat_parameters(module.parameters())
    assert activation_memory(module, lambda: module(inputs))[1] * 2**20 == expected
