"""Multilayer perceptrons: training on one data set and on one after the other, sums of keys, and recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from blob_data import make_dataset, make_regression
from engine_runs import train_run
from module_trainings import Interrupted
from torch.nn import functional

from idwbench.data.dataset import Dataset, Split
from idwbench.dual.recording import Recording
from idwbench.errors import ConfigError, OutputError, RecordingError
from idwbench.models.perceptron import MultilayerPerceptron, initial_mlp, mlp_from_arrays
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.results import RunResult
from idwbench.training.module_training import ModuleTraining
from idwbench.training.network_engine import ENGINES, sequence_batches

OF = ["mnist", "fashion_mnist"]
PARTS = {"joint": {"name": "joint", "of": OF}, "sequence": {"name": "sequence", "of": OF}}
N_FIRST, BATCH = 13, 4
STEPS_OF_FIRST = 4  # of an epoch: 13 rows by batches of 4


def data(*, parts: bool = True, validation: bool = True) -> Dataset:
    """Return noisy classes with positive inputs; the first 13 training rows are of the first part."""
    made = make_dataset(n_train=29, n_features=5, constant_feature=False, validation=validation)
    generator = np.random.default_rng(1)

    def split(old: Split, n_first: int) -> Split:
        inputs = np.abs(old.inputs + 2 * generator.normal(size=old.inputs.shape)).astype(np.float32)
        tasks = (np.arange(len(old)) >= n_first).astype(np.int64) if parts else None
        return Split(inputs, old.targets, tasks)

    found = {name: split(old, N_FIRST if name == "train" else 5) for name, old in made.splits.items()}
    return replace(made, **found)


def run(name: str = "sequence", **settings) -> RunConfig:
    protocol = {"epochs": 2, "batch_size": BATCH, "learning_rate": 0.05, "momentum": 0.9, "gradient_clip": 1.0}
    chosen = {**protocol, "optimizer": "sgd", "schedule": "constant", "width": 6, **settings}
    return run_config(PARTS.get(name, name), kind="mlp", **chosen)


def trained(config: RunConfig, dataset: Dataset | None = None, **options) -> RunResult:
    return train_run(config, dataset or data(), **options)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[list[np.ndarray]]:
    """The inputs of each layer in each training step, in float64."""
    steps: list[list[np.ndarray]] = []
    original = MultilayerPerceptron.layer_inputs

    def layer_inputs(self, inputs):
        found, logits = original(self, inputs)
        if torch.is_grad_enabled():
            steps.append([part.detach().double().numpy() for part in found])
        return found, logits

    monkeypatch.setattr(MultilayerPerceptron, "layer_inputs", layer_inputs)
    return steps


def drawn_rows(config: RunConfig, dataset: Dataset) -> list[np.ndarray]:
    """The rows of each step, drawn by the rules of the docs."""
    generator = np.random.default_rng(config.seed)
    generator.integers(2**63)  # the seed of the weights
    tasks = dataset.train.tasks if config.dataset.name == "sequence" else np.zeros(len(dataset.train), int)
    found = []
    for task in np.unique(tasks):
        for _ in range(config.protocol.epochs):
            rows = np.flatnonzero(tasks == task)
            order = rows[generator.permutation(len(rows))]
            found += [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    return found


def float64_training(config: RunConfig, dataset: Dataset) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """SGD with momentum and clipping by hand; return the inputs of each layer in each step, and the weights."""
    first = initial_mlp(config.model, dataset, np.random.default_rng(config.seed))
    weights = [layer.weight.detach().double().numpy().copy() for layer in first.layers.values()]
    biases = [layer.bias.detach().double().numpy().copy() for layer in first.layers.values()]
    velocities = [np.zeros_like(array) for array in (*weights, *biases)]
    kept = []
    for rows in drawn_rows(config, dataset):
        inputs = [dataset.train.inputs[rows].astype(np.float64)]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            inputs.append(np.maximum(0, inputs[-1] @ weight.T + bias))
        kept.append(inputs)
        logits = inputs[-1] @ weights[-1].T + biases[-1]
        error = np.exp(logits - logits.max(1, keepdims=True))
        error /= error.sum(1, keepdims=True)
        error[np.arange(len(rows)), dataset.train.labels[rows]] -= 1
        error /= len(rows)
        of_weights, of_biases = [], []
        for layer in reversed(range(len(weights))):
            of_weights.insert(0, error.T @ inputs[layer])
            of_biases.insert(0, error.sum(0))
            error = (error @ weights[layer]) * (inputs[layer] > 0)
        gradients = [*of_weights, *of_biases]
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
        factor = min(1.0, config.protocol.gradient_clip / (norm + 1e-6))
        for array, velocity, gradient in zip([*weights, *biases], velocities, gradients, strict=True):
            velocity *= config.protocol.momentum
            velocity += factor * gradient
            array -= config.protocol.learning_rate * velocity
    return kept, weights


@pytest.mark.parametrize("name", ["joint", "sequence"])
def test_weights_and_sums_of_keys_are_those_of_a_float64_training(name: str) -> None:
    config, dataset = run(name, seed=3), data()
    result = trained(config, dataset)
    kept, weights = float64_training(config, dataset)
    labels = np.concatenate([dataset.train.labels[rows] for rows in drawn_rows(config, dataset)])
    for number, weight in enumerate(weights):
        np.testing.assert_allclose(result.arrays[f"layer_{number}.weight"], weight, atol=1e-5)
        keys = np.concatenate([inputs[number] for inputs in kept])
        sums = [keys[labels == label].sum(0) for label in range(3)]
        np.testing.assert_allclose(result.arrays[f"key_sums_layer_{number}"], sums, rtol=1e-4, atol=1e-3)
    assert np.array_equal(result.arrays["key_counts"], np.bincount(labels, minlength=3))


@pytest.mark.parametrize("settings", [{}, {"name": "joint", "depth": 1}, {"name": "two_moons", "depth": 4, "width": 9}])
def test_attention_metrics_are_those_of_all_keys_kept_in_memory(settings: dict[str, object], kept) -> None:
    config, dataset = run(**settings), data(parts=settings.get("name") != "two_moons")
    result = trained(config, dataset)
    labels = np.concatenate([dataset.train.labels[rows] for rows in drawn_rows(config, dataset)])
    network = mlp_from_arrays(config.model, result.arrays)
    answers = network.predict(dataset.test.inputs)
    wrong = answers != dataset.test.labels
    assert 0 < wrong.sum() < len(wrong) and result.metric("wrong_inputs") == wrong.sum()
    with torch.no_grad():
        queries = network.layer_inputs(torch.from_numpy(dataset.test.inputs))[0]
    for number in range(config.model.n_layers):
        keys = np.concatenate([inputs[number] for inputs in kept])
        attention = queries[number].double().numpy() @ keys.T + 1
        totals = np.stack([attention[:, labels == label].sum(1) for label in range(3)], 1)
        attended = totals.argmax(1)
        expected = {
            "target_if_wrong": (attended == dataset.test.labels)[wrong].mean(),
            "output_if_wrong": (attended == answers)[wrong].mean(),
            "output_if_right": (attended == answers)[~wrong].mean(),
        }
        assert {name: result.metric(f"{name}_{number}") for name in expected} == expected
        sums = result.arrays[f"key_sums_layer_{number}"]
        np.testing.assert_allclose([keys[labels == label].sum(0) for label in range(3)], sums, rtol=1e-12)
    assert result.metric(f"output_if_right_{config.model.n_layers}") is None


def test_shares_of_no_wrong_answer_are_left_out() -> None:
    dataset = make_dataset(n_train=30, n_features=8, constant_feature=False)
    result = trained(run("two_moons", epochs=10), dataset)
    assert result.metric("accuracy") == 1 and result.metric("wrong_inputs") == 0
    assert result.metric("target_if_wrong_0") is None and result.metric("output_if_wrong_0") is None
    assert 0 <= result.metric("output_if_right_0") <= 1


@pytest.mark.parametrize("name", ["joint", "sequence"])
def test_stored_arrays_give_the_stored_accuracies_of_each_part(name: str) -> None:
    dataset = data()
    result = trained(run(name), dataset)
    network = mlp_from_arrays(result.config.model, result.arrays)
    for split_name, split in dataset.splits.items():
        logits = network.outputs(split.inputs)
        is_right = logits.argmax(1) == split.labels
        assert result.metric("accuracy", split_name) == is_right.mean()
        assert result.metric("accuracy_1", split_name) == is_right[split.tasks == 0].mean()
        assert result.metric("accuracy_2", split_name) == is_right[split.tasks == 1].mean()
        loss = functional.cross_entropy(torch.from_numpy(logits).double(), torch.from_numpy(split.labels))
        assert result.metric("loss", split_name) == pytest.approx(float(loss), rel=1e-6)
    last = result.curve[-1].values
    assert all(last["test", metric] == result.metric(metric) for metric in ("accuracy", "accuracy_1", "accuracy_2"))
    assert result.n_parameters == 5 * 6 + 6 + 6 * 6 + 6 + 6 * 3 + 3
    assert (result.metric("accuracy_1_before") is None) == (name == "joint")


def test_a_data_set_without_parts_has_no_accuracies_of_parts() -> None:
    result = trained(run("two_moons"), data(parts=False, validation=False))
    assert result.metric("accuracy") is not None and result.metric("accuracy_1") is None


def test_a_sequence_is_trained_on_one_part_after_the_other() -> None:
    dataset, config = data(), run("sequence", epochs=3)
    result = trained(config, dataset)
    assert [point.epoch for point in result.curve] == [1, 2, 3, 4, 5, 6]
    for split in ("test", "validation"):
        assert result.metric("accuracy_1_before", split) == result.curve[2].values[split, "accuracy_1"]
    # The first half is a training on the first part alone.
    train = dataset.train
    first = replace(dataset, train=Split(train.inputs[:N_FIRST], train.targets[:N_FIRST], train.tasks[:N_FIRST]))
    alone = trained(run("joint", epochs=3), first)
    assert [point.values for point in alone.curve] == [point.values for point in result.curve[:3]]
    assert alone.metric("accuracy_1") == result.metric("accuracy_1_before")


def test_batches_of_a_sequence_hold_each_row_of_the_part_once() -> None:
    tasks = np.array([1, 0, 0, 1, 1, 0, 1, 1])
    for task, sizes in ((0, [2, 1]), (1, [2, 2, 1])):
        batches = list(sequence_batches(tasks, 2, epochs=3)(np.random.default_rng(0), 3 * task + 2))
        assert [len(rows) for rows in batches] == sizes
        assert sorted(np.concatenate(batches)) == np.flatnonzero(tasks == task).tolist()


def stop_after_steps(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Interrupt the next training in the middle of an epoch, after a checkpoint."""
    original, taken = ModuleTraining._step, [0]

    def step(self, batch, rate) -> None:
        if taken[0] == steps:
            self._save()
            monkeypatch.setattr(ModuleTraining, "_step", original)
            raise Interrupted
        taken[0] += 1
        original(self, batch, rate)

    monkeypatch.setattr(ModuleTraining, "_step", step)


# In the first part, at the first step of the second part, and within it; two epochs of 4 steps, then two of 4.
@pytest.mark.parametrize("steps", [3, 2 * STEPS_OF_FIRST, 2 * STEPS_OF_FIRST + 2, 3 * STEPS_OF_FIRST + 1])
@pytest.mark.parametrize("record", [False, True])
def test_an_interrupted_sequence_continues_with_the_same_bytes(monkeypatch, tmp_path: Path, steps, record) -> None:
    config = run("sequence", record=record)

    def trained_in(name: str, **settings) -> RunResult:
        folders = {"checkpoint_folder": tmp_path / name, "recording_folder": tmp_path / f"{name}.recordings"}
        return trained(config, **folders, **settings)

    whole = trained_in("whole")
    stop_after_steps(monkeypatch, steps)
    with pytest.raises(Interrupted):
        trained_in("stopped")
    epochs: list[int] = []
    resumed = trained_in("stopped", on_epoch=epochs.append)
    assert epochs == list(range(1 + steps // STEPS_OF_FIRST, 5))
    assert resumed.curve == whole.curve and resumed.arrays.keys() == whole.arrays.keys()
    assert all(array.tobytes() == whole.arrays[name].tobytes() for name, array in resumed.arrays.items())
    timed = ("train", "seconds_per_step")
    assert {**resumed.metrics, timed: 0} == {**whole.metrics, timed: 0}
    if record:
        folders = [tmp_path / f"{name}.recordings" / config.run_key for name in ("whole", "stopped")]
        files = [{file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders]
        assert files[0] == files[1]


@pytest.mark.parametrize("settings", [{}, {"fold": False}, {"record_dtype": "float16"}, {"name": "joint"}])
def test_totals_of_a_recording_are_those_of_the_sums(tmp_path: Path, settings: dict[str, object]) -> None:
    config, dataset = run(**settings, record=True), data()
    result = trained(config, dataset, recording_folder=tmp_path)
    checksum = result.arrays["recording"].tobytes().hex()
    recording = Recording.open(tmp_path / config.run_key, run_key=config.run_key, parameters_sha256=checksum)
    assert np.array_equal(recording.rows, np.concatenate(drawn_rows(config, dataset)))
    assert recording.steps == len(drawn_rows(config, dataset))
    labels = dataset.train.labels[recording.rows]
    network = mlp_from_arrays(config.model, result.arrays)
    with torch.no_grad():
        queries = network.layer_inputs(torch.from_numpy(dataset.test.inputs))[0]
    close = 2e-3 if settings.get("record_dtype") == "float16" else 1e-6
    for name, inputs in zip(config.model.layer_names, queries, strict=True):
        memory = recording.layers[name]
        expected = inputs.double().numpy() @ result.arrays[f"key_sums_{name}"].T + result.arrays["key_counts"]
        np.testing.assert_allclose(memory.totals(inputs.double().numpy(), labels, 3), expected, rtol=close)
        answers = inputs.numpy() @ result.arrays[f"{name}.weight"].T + result.arrays[f"{name}.bias"]
        np.testing.assert_allclose(memory.answers(inputs.numpy()), answers, atol=3 * close if close > 1e-5 else 1e-5)


@pytest.mark.parametrize("optimizer", ["adam", "adam_amsgrad"])
def test_the_recording_of_adam_has_a_residual_and_its_share_is_a_metric(tmp_path: Path, optimizer: str) -> None:
    config, dataset = run(record=True, optimizer=optimizer, momentum=0.0), data()
    result = trained(config, dataset, recording_folder=tmp_path)
    recording = Recording.open(tmp_path / config.run_key)
    shares = [layer.residual_share for layer in recording.facts.layers.values()]
    assert len(shares) == 3 and result.metric("residual_share", "train") == max(shares) > 0
    answers = recording.layers["layer_0"].answers(dataset.test.inputs)
    expected = dataset.test.inputs @ result.arrays["layer_0.weight"].T + result.arrays["layer_0.bias"]
    np.testing.assert_allclose(answers, expected, atol=1e-5)


def test_a_recorded_training_has_the_numbers_of_one_that_is_not(tmp_path: Path) -> None:
    plain, recorded = trained(run()), trained(run(record=True), recording_folder=tmp_path)
    assert recorded.arrays.keys() - plain.arrays.keys() == {"recording"}
    assert recorded.metrics.keys() == plain.metrics.keys()
    assert all(array.tobytes() == recorded.arrays[name].tobytes() for name, array in plain.arrays.items())
    assert plain.curve == recorded.curve


def test_a_diverged_training_leaves_no_recording_no_metrics_and_no_arrays(tmp_path: Path) -> None:
    result = trained(run(record=True, learning_rate=3e37, gradient_clip=0.0), recording_folder=tmp_path)
    assert (result.state, result.diverged_epoch) == ("diverged", 1)
    assert result.metrics == {} and result.arrays == {} and result.n_parameters is None
    assert not any(tmp_path.iterdir())


def test_a_recording_needs_a_folder_and_disk_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RecordingError, match="a recording needs a database in a file"):
        trained(run(record=True))
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10_000}))
    notes: list[str] = []
    with pytest.raises(OutputError, match=r"needs 1\.1 MB of disk space, and 10 kB are free"):
        trained(run(record=True), recording_folder=tmp_path, report=notes.append)
    assert len(notes) == 1 and not any(tmp_path.iterdir())


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    first, again, other = (trained(run(seed=seed)) for seed in (0, 0, 1))
    assert first.arrays["layer_1.weight"].tobytes() == again.arrays["layer_1.weight"].tobytes()
    assert first.arrays["layer_1.weight"].tobytes() != other.arrays["layer_1.weight"].tobytes()


def test_initial_weights_and_biases_are_those_of_torch_s_linear_layers() -> None:
    network = initial_mlp(run(width=200).model, data(), np.random.default_rng(0))
    for layer in network.layers.values():
        bound = layer.in_features**-0.5
        for parameter in (layer.weight.detach(), layer.bias.detach()):
            assert 0.5 * bound < float(parameter.abs().max()) <= bound
    assert float(network.layer_1.weight.detach().std()) == pytest.approx((3 * 200) ** -0.5, rel=0.02)


def test_data_without_classes_is_refused() -> None:
    with pytest.raises(ConfigError, match="kind: mlp needs classes"):
        ENGINES["mlp"].check(run().model, make_regression())
