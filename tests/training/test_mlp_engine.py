"""Multilayer perceptrons: training on one data set and on one after the other, sums of keys, and recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from blob_data import make_dataset
from engine_runs import train_run
from kinds import N_FIRST, mlp_run, two_parts

from idwbench.data.dataset import Dataset, Split
from idwbench.dual.recording import Recording
from idwbench.models.perceptron import MultilayerPerceptron, initial_mlp, mlp_from_arrays
from idwbench.runs.config import RunConfig


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
            found += [
                order[start : start + config.protocol.batch_size]
                for start in range(0, len(order), config.protocol.batch_size)
            ]
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
    config, dataset = mlp_run(name, seed=3), two_parts()
    result = train_run(config, dataset)
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
    config, dataset = mlp_run(**settings), two_parts(parts=settings.get("name") != "two_moons")
    result = train_run(config, dataset)
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
    result = train_run(mlp_run("two_moons", epochs=10), dataset)
    assert result.metric("accuracy") == 1 and result.metric("wrong_inputs") == 0
    assert result.metric("target_if_wrong_0") is None and result.metric("output_if_wrong_0") is None
    assert 0 <= result.metric("output_if_right_0") <= 1


def test_a_data_set_without_parts_has_no_accuracies_of_parts() -> None:
    result = train_run(mlp_run("two_moons"), two_parts(parts=False, validation=False))
    assert result.metric("accuracy") is not None and result.metric("accuracy_1") is None


def test_a_sequence_is_trained_on_one_part_after_the_other() -> None:
    dataset, settings = two_parts(), {"epochs": 3, "learning_rate": 0.2}
    result = train_run(mlp_run("sequence", **settings), dataset)
    assert [point.epoch for point in result.curve] == [1, 2, 3, 4, 5, 6]
    for split in ("test", "validation"):
        second, third, fourth = (result.curve[epoch].values[split, "accuracy_1"] for epoch in (1, 2, 3))
        assert result.metric("accuracy_1_before", split) == third
        assert second != third != fourth  # so that no other epoch would do
    # The first half is a training on the first part alone.
    train = dataset.train
    first = replace(dataset, train=Split(train.inputs[:N_FIRST], train.targets[:N_FIRST], train.tasks[:N_FIRST]))
    alone = train_run(mlp_run("joint", **settings), first)
    assert [point.values for point in alone.curve] == [point.values for point in result.curve[:3]]
    assert alone.metric("accuracy_1") == result.metric("accuracy_1_before")
    assert alone.metric("accuracy_1_before") is None


@pytest.mark.parametrize("settings", [{}, {"fold": False}, {"record_dtype": "float16"}, {"name": "joint"}])
def test_totals_of_a_recording_are_those_of_the_sums(tmp_path: Path, settings: dict[str, object]) -> None:
    config, dataset = mlp_run(**settings, record=True), two_parts()
    result = train_run(config, dataset, recording_folder=tmp_path)
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
    config, dataset = mlp_run(record=True, optimizer=optimizer, momentum=0.0), two_parts()
    result = train_run(config, dataset, recording_folder=tmp_path)
    recording = Recording.open(tmp_path / config.run_key)
    shares = [layer.residual_share for layer in recording.facts.layers.values()]
    assert len(shares) == 3 and result.metric("residual_share", "train") == max(shares) > 0
    answers = recording.layers["layer_0"].answers(dataset.test.inputs)
    expected = dataset.test.inputs @ result.arrays["layer_0.weight"].T + result.arrays["layer_0.bias"]
    np.testing.assert_allclose(answers, expected, atol=1e-5)


def test_initial_weights_and_biases_are_those_of_torch_s_linear_layers() -> None:
    network = initial_mlp(mlp_run(width=200).model, two_parts(), np.random.default_rng(0))
    for layer in network.layers.values():
        bound = layer.in_features**-0.5
        for parameter in (layer.weight.detach(), layer.bias.detach()):
            assert 0.5 * bound < float(parameter.abs().max()) <= bound
    assert float(network.layer_1.weight.detach().std()) == pytest.approx((3 * 200) ** -0.5, rel=0.02)
