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
from torch.nn.functional import cross_entropy

from idwbench.data.dataset import Dataset, Split
from idwbench.dual.recording import Recording
from idwbench.models.perceptron import initial_mlp, mlp_from_arrays
from idwbench.runs.config import RunConfig


def drawn_rows(config: RunConfig, dataset: Dataset) -> list[np.ndarray]:
    """The rows of each step, drawn by the rules of the docs."""
    generator = np.random.default_rng(config.seed)
    generator.integers(2**63)  # the seed of the weights
    tasks = dataset.train.tasks if config.dataset.name == "sequence" else np.zeros(len(dataset.train), int)
    found = []
    for task in np.unique(tasks):
        for _ in range(config.protocol.epochs):
            order = generator.permutation(np.flatnonzero(tasks == task))
            found += np.split(order, range(config.protocol.batch_size, len(order), config.protocol.batch_size))
    return found


class Float64Training:
    """The same steps in float64, written with modules of PyTorch.

    Attributes:
        labels: The label of each slot.
        keys: The inputs of each layer in all steps, a row for each slot.
        network: The trained network.
        losses: The loss of each slot.
    """

    def __init__(self, config: RunConfig, dataset: Dataset) -> None:
        protocol, rows = config.protocol, drawn_rows(config, dataset)
        self.network = initial_mlp(config.model, dataset, np.random.default_rng(config.seed)).double()
        optimizer = torch.optim.SGD(self.network.parameters(), protocol.learning_rate, protocol.momentum)
        inputs, labels = torch.from_numpy(dataset.train.inputs).double(), torch.from_numpy(dataset.train.labels)
        keys, losses = [], []
        for some in rows:
            of_layers, outputs = self.network.layer_inputs(inputs[some])
            losses.append(cross_entropy(outputs, labels[some], reduction="none"))
            optimizer.zero_grad()
            losses[-1].mean().backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), protocol.gradient_clip)
            optimizer.step()
            keys.append(of_layers)
        self.labels = dataset.train.labels[np.concatenate(rows)]
        self.keys = [torch.cat(parts).detach().numpy() for parts in zip(*keys, strict=True)]
        self.losses = torch.cat(losses).detach().numpy()


SETTINGS = [{"seed": 3}, {"name": "joint", "seed": 3}, {"name": "joint", "depth": 1}, {"name": "two_moons", "depth": 4}]


@pytest.mark.parametrize("settings", SETTINGS)
def test_weights_losses_and_attention_are_those_of_a_float64_training(settings: dict[str, object]) -> None:
    config, dataset = mlp_run(**settings), two_parts(parts=settings.get("name") != "two_moons")
    result, expected = train_run(config, dataset), Float64Training(config, dataset)
    losses = [point.values["train", "loss"] for point in result.curve]
    if config.dataset.name != "sequence":  # whose parts have other numbers of rows
        np.testing.assert_allclose(losses, expected.losses.reshape(config.n_epochs, -1).mean(1), rtol=1e-5)
    network = mlp_from_arrays(config.model, result.arrays)
    answers, right = network.predict(dataset.test.inputs), dataset.test.labels
    wrong = answers != right
    assert 0 < wrong.sum() < len(wrong) and result.metric("wrong_inputs") == wrong.sum()
    assert np.array_equal(result.arrays["key_counts"], np.bincount(expected.labels, minlength=3))
    with torch.no_grad():
        queries = network.layer_inputs(torch.from_numpy(dataset.test.inputs))[0]
    for number, (layer, keys) in enumerate(zip(expected.network.layers.values(), expected.keys, strict=True)):
        np.testing.assert_allclose(result.arrays[f"layer_{number}.weight"], layer.weight.detach(), atol=1e-5)
        sums = [keys[expected.labels == label].sum(0) for label in range(3)]
        np.testing.assert_allclose(result.arrays[f"key_sums_layer_{number}"], sums, rtol=1e-4, atol=1e-3)
        attention = queries[number].double().numpy() @ keys.T + 1
        attended = np.stack([attention[:, expected.labels == label].sum(1) for label in range(3)], 1).argmax(1)
        assert result.metric(f"target_if_wrong_{number}") == (attended == right)[wrong].mean()
        assert result.metric(f"output_if_wrong_{number}") == (attended == answers)[wrong].mean()
        assert result.metric(f"output_if_right_{number}") == (attended == answers)[~wrong].mean()
    assert result.metric(f"output_if_right_{config.model.n_layers}") is None
    assert (result.metric("accuracy_1") is None) == (config.dataset.name == "two_moons")  # which has no parts


def test_shares_of_no_wrong_answer_are_left_out() -> None:
    dataset = make_dataset(n_train=30, n_features=8, constant_feature=False)
    result = train_run(mlp_run("two_moons", epochs=10), dataset)
    assert result.metric("accuracy") == 1 and result.metric("wrong_inputs") == 0
    assert result.metric("target_if_wrong_0") is None and result.metric("output_if_wrong_0") is None
    assert 0 <= result.metric("output_if_right_0") <= 1


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


@pytest.mark.parametrize(
    "settings",
    # Batches of 5 are 7 of both parts, and 6 of the whole.
    [
        {"batch_size": 5},
        {"fold": False},
        {"record_dtype": "float16"},
        {"name": "joint"},
        {"optimizer": "adam", "momentum": 0.0},
    ],
)
def test_a_recording_has_the_rows_the_answers_and_the_sums_of_its_run(tmp_path: Path, settings) -> None:
    config, dataset = mlp_run(**settings, record=True), two_parts()
    result = train_run(config, dataset, recording_folder=tmp_path)
    checksum = result.arrays["recording"].tobytes().hex()
    recording = Recording.open(tmp_path / config.run_key, run_key=config.run_key, parameters_sha256=checksum)
    rows = drawn_rows(config, dataset)
    assert recording.steps == len(rows) and np.array_equal(recording.rows, np.concatenate(rows))
    labels, network = dataset.train.labels[recording.rows], mlp_from_arrays(config.model, result.arrays)
    with torch.no_grad():
        queries = network.layer_inputs(torch.from_numpy(dataset.test.inputs))[0]
    close = 2e-3 if settings.get("record_dtype") == "float16" else 1e-6
    for name, inputs in zip(config.model.layer_names, queries, strict=True):
        memory = recording.layers[name]
        expected = inputs.double().numpy() @ result.arrays[f"key_sums_{name}"].T + result.arrays["key_counts"]
        np.testing.assert_allclose(memory.totals(inputs.double().numpy(), labels, 3), expected, rtol=close)
        answers = inputs.numpy() @ result.arrays[f"{name}.weight"].T + result.arrays[f"{name}.bias"]
        np.testing.assert_allclose(memory.answers(inputs.numpy()), answers, atol=max(1e-5, 3 * close))
    shares = [layer.residual_share for layer in recording.facts.layers.values()]
    if "optimizer" in settings:
        assert result.metric("residual_share", "train") == max(shares) > 0
    else:
        assert shares == [None] * 3 and result.metric("residual_share", "train") is None


def test_initial_weights_and_biases_are_those_of_torch_s_linear_layers() -> None:
    network = initial_mlp(mlp_run(width=200).model, two_parts(), np.random.default_rng(0))
    for layer in network.layers.values():
        bound = layer.in_features**-0.5
        for parameter in (layer.weight.detach(), layer.bias.detach()):
            assert 0.5 * bound < float(parameter.abs().max()) <= bound
    assert float(network.layer_1.weight.detach().std()) == pytest.approx((3 * 200) ** -0.5, rel=0.02)
