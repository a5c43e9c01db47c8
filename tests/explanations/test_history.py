"""Explanations of recorded networks, against sums over all slots in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recorded_mlp import OF, PROTOCOL, load_made, made_parts, store_recorded

from idwbench.data.dataset import Dataset, Split
from idwbench.dual.recording import Recording, open_recording
from idwbench.errors import ExplanationError, RecordingError
from idwbench.explanations.explain import explain, explain_memory
from idwbench.explanations.memory import Request
from idwbench.explanations.training_data import history_memory
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig

DATA = made_parts()
X = "sequence:test:4"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, RunConfig]:
    """A database with a recorded run on two parts, and that run."""
    db = tmp_path_factory.mktemp("recorded") / "results.db"
    config = store_recorded(db)
    return Results(db, read_only=True), config


@pytest.fixture(autouse=True)
def _made_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load_made)


@pytest.fixture
def explains(recorded):
    """Explains an input by the recorded run."""
    results, config = recorded
    return lambda x=X, **options: explain(config.run_key[:10], x, results, **options)


@pytest.fixture
def explained(explains):
    return explains(top=len(DATA.train))


@pytest.fixture
def recording(recorded) -> Recording:
    results, config = recorded
    return open_recording(results, results.find_run(config.run_key))


def slots_of(recording: Recording, name: str) -> tuple[np.ndarray, np.ndarray]:
    memory = recording.layers[name]
    every = slice(0, memory.slots)
    return memory.keys(every).astype(np.float64), memory.errors(every).astype(np.float64)


def outputs(layers, inputs: np.ndarray) -> np.ndarray:
    (first, first_bias), (second, second_bias) = layers
    return np.maximum(inputs @ first.T + first_bias, 0) @ second.T + second_bias


def hidden_states(recording: Recording, inputs: np.ndarray) -> np.ndarray:
    """The inputs of the second layer."""
    first = recording.layers["layer_0"]
    return np.maximum(inputs @ first.weight.T + first.bias, 0)


def test_the_answer_is_that_of_the_trained_network(recorded, recording, explained):
    results, config = recorded
    arrays = results.load_arrays(config.run_key)
    layers = [(arrays[f"layer_{n}.weight"], arrays[f"layer_{n}.bias"]) for n in range(2)]
    expected = outputs(layers, DATA.test.inputs[4].astype(np.float64))
    np.testing.assert_allclose(explained.answer.outputs, expected, atol=1e-5)
    powers = np.exp(expected)
    np.testing.assert_allclose(explained.answer.probabilities, powers / powers.sum(), atol=1e-5)
    assert explained.answer.label == expected.argmax()
    assert (explained.query.label, explained.query.text) == (DATA.test.labels[4], X)
    assert [layer.name for layer in explained.layers] == ["layer_0", "layer_1"]
    assert {layer.size for layer in explained.layers} == {PROTOCOL["epochs"] * len(DATA.train)}


def test_attention_in_the_first_layer_is_the_product_of_the_images_at_each_visit(explained):
    products = DATA.train.inputs.astype(np.float64) @ DATA.test.inputs[4] + 1
    items = explained.layers[0].items
    assert [item.visits for item in items] == [PROTOCOL["epochs"]] * len(DATA.train)
    assert [item.row for item in items] == np.argsort(-products, kind="stable").tolist()
    for item in items:
        np.testing.assert_allclose(item.weight, PROTOCOL["epochs"] * products[item.row], rtol=1e-6)
        assert item.source == f"sequence:train:{item.row}"
        assert (item.label, item.task) == (DATA.train.labels[item.row], OF[DATA.train.tasks[item.row]])
        np.testing.assert_allclose(item.picture, 255 * DATA.train.inputs[item.row], rtol=1e-6)
        assert item.contribution is None


def test_what_all_samples_add_makes_the_answer_with_the_first_weights(recording, explained):
    memory, label = recording.layers["layer_1"], explained.answer.label
    hidden = hidden_states(recording, DATA.test.inputs[4:5])
    start = memory.initial_factor * (memory.initial @ np.append(hidden[0], 1))
    added = sum(item.contribution for item in explained.layers[1].items)
    np.testing.assert_allclose(start[label] + added, explained.answer.outputs[label], atol=1e-5)


def test_totals_and_curves_are_those_of_single_slots(recording, explained):
    hidden = hidden_states(recording, DATA.test.inputs[4:5])
    attention = slots_of(recording, "layer_1")[0] @ hidden[0] + 1
    layer = explained.layers[1]
    for label in range(3):
        of_class = attention[DATA.train.labels[recording.rows] == label]
        np.testing.assert_allclose(layer.totals[label], of_class.sum(), rtol=1e-5)
        np.testing.assert_allclose(layer.curves[label], np.sort(of_class)[::-1], rtol=1e-5)
        summed = sum(item.weight for item in layer.items if item.label == label)
        np.testing.assert_allclose(summed, of_class.sum(), rtol=1e-5)
    for item in layer.items:
        visits = np.flatnonzero(recording.rows == item.row)
        assert item.step == recording.slot_steps[visits[attention[visits].argmax()]] + 1


def test_a_mask_leaves_its_slots_out_of_every_layer(explains, recording):
    effect = explains(top=1, mask=["task=fashion_mnist"]).effect
    where = DATA.train.tasks[recording.rows] == 1
    layers = []
    for name, memory in recording.layers.items():
        keys, errors = slots_of(recording, name)
        weight = memory.weight - errors[where].T @ keys[where]
        layers.append((weight, memory.bias - errors[where].sum(0)))
    np.testing.assert_allclose(effect.answer.outputs, outputs(layers, DATA.test.inputs[4]), atol=1e-5)
    assert (effect.removed, effect.size) == (where.sum(), len(where))
    full = [(memory.weight, memory.bias) for memory in recording.layers.values()]
    assert [change.name for change in effect.accuracy] == ["test mnist", "test fashion_mnist"]
    hits = [outputs(each, DATA.test.inputs).argmax(1) == DATA.test.labels for each in (full, layers)]
    for task, change in enumerate(effect.accuracy):
        rows = DATA.test.tasks == task
        assert [change.before, change.after, change.n] == [hits[0][rows].mean(), hits[1][rows].mean(), rows.sum()]


def test_a_part_of_the_data_is_an_input_with_its_class(recorded, explains):
    found = explains("fashion_mnist:test:1", top=1)
    part = load_made(recorded[1].dataset.parts[1])
    np.testing.assert_array_equal(found.query.inputs, part.test.inputs[1])
    assert found.query.label == part.test.labels[1]
    numbers = explains(255 * part.test.inputs[1], top=1)
    np.testing.assert_allclose(numbers.answer.outputs, found.answer.outputs, atol=1e-5)
    assert numbers.query.label is None


def test_one_layer_is_explained_alone_and_progress_counts_its_slots(explains):
    seen = []
    found = explains(layer="layer_1", on_slots=lambda *counts: seen.append(counts))
    assert [layer.name for layer in found.layers] == ["layer_1"]
    assert found.layers[0].items[0].contribution is not None
    assert seen[-1] == (42, 42)
    explains(on_slots=lambda *counts: seen.append(counts))
    assert seen[-2:] == [(42, 84), (84, 84)]


def explained_by(recorded, recording: Recording, data: Dataset):
    return explain_memory(history_memory(recorded[1], recording, data), Request(255 * DATA.test.inputs[0], top=100))


def test_samples_that_were_never_visited_are_left_out(recorded, recording):
    inputs, targets, tasks = (
        np.concatenate([part] * 2) for part in (DATA.train.inputs, DATA.train.targets, DATA.train.tasks)
    )
    found = explained_by(recorded, recording, replace(DATA, train=Split(inputs, targets, tasks)))
    assert len(found.layers[0].items) == len(DATA.train)


def test_other_data_than_the_recorded_is_refused(recorded, recording):
    with pytest.raises(RecordingError, match="the data sequence is not what was recorded"):
        explained_by(recorded, recording, replace(DATA, sha256="1" * 64))


def test_a_share_that_the_dual_form_leaves_out_is_said(recorded, recording):
    layers = {name: replace(facts, residual_share=0.25) for name, facts in recording.facts.layers.items()}
    facts = replace(recording.facts, optimizer="adam", layers=layers)
    expected = "the dual form of adam leaves out a part of the update: 25 % in layer_0, 25 % in layer_1"
    assert explained_by(recorded, replace(recording, facts=facts), DATA).warnings == (expected,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": "layer_9"}, r"layer: unknown layer 'layer_9' \(did you mean 'layer_"),
        ({"mask": ["task=digits"]}, r"mask: no task is called 'digits' \(expected one of: fashion_mnist, mnist\)"),
        ({"top": 0}, "top: expected at least 1, got 0"),
        ({"x": "sequence:test:12"}, r"x: sequence:test has inputs 0 to 11, got '12'"),
        ({"x": "1,2"}, "x: expected 6 numbers, got 2"),
    ],
)
def test_what_cannot_be_explained_is_said(explains, arguments, message):
    with pytest.raises(ExplanationError, match=message):
        explains(**arguments)
