"""Explanations of recorded networks, against sums over all slots in float64."""

from dataclasses import replace

import numpy as np
import pytest
from recorded_mlp import OF, PROTOCOL, load_made, made_parts, store_recorded
from scipy.special import softmax

from idwbench.data.dataset import Split
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
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, RunConfig, Recording]:
    """A database with a recorded run on two parts, that run, and its recording."""
    db = tmp_path_factory.mktemp("recorded") / "results.db"
    config, results = store_recorded(db), Results(db, read_only=True)
    return results, config, open_recording(results, results.find_run(config.run_key))


@pytest.fixture(autouse=True)
def _made_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load_made)


@pytest.fixture
def explains(recorded):
    """Explains an input by the recorded run."""
    results, config, _ = recorded
    return lambda x=X, **options: explain(config.run_key[:10], x, results, **options)


@pytest.fixture
def explained(explains):
    return explains(top=len(DATA.train))


@pytest.fixture
def recording(recorded) -> Recording:
    return recorded[2]


def slots_of(recording: Recording, name: str) -> tuple[np.ndarray, np.ndarray]:
    memory = recording.layers[name]
    every = slice(0, memory.slots)
    return memory.keys(every).astype(np.float64), memory.errors(every).astype(np.float64)


def outputs(layers, inputs: np.ndarray) -> np.ndarray:
    (first, first_bias), (second, second_bias) = layers
    return np.maximum(inputs @ first.T + first_bias, 0) @ second.T + second_bias


def test_the_answer_is_that_of_the_trained_network(recorded, explained):
    arrays = recorded[0].load_arrays(recorded[1].run_key)
    layers = [(arrays[f"layer_{n}.weight"], arrays[f"layer_{n}.bias"]) for n in range(2)]
    expected = outputs(layers, DATA.test.inputs[4].astype(np.float64))
    np.testing.assert_allclose(explained.answer.outputs, expected, atol=1e-5)
    np.testing.assert_allclose(explained.answer.probabilities, softmax(expected), atol=1e-5)
    assert (explained.answer.label, explained.query.label) == (expected.argmax(), DATA.test.labels[4])
    assert {layer.name: layer.size for layer in explained.layers} == {"layer_0": 42, "layer_1": 42}


@pytest.mark.parametrize("place", [0, 1])
def test_attention_totals_curves_and_contributions_are_those_of_single_slots(place, recording, explained):
    layer, memory = explained.layers[place], recording.layers[f"layer_{place}"]
    inputs, first = DATA.test.inputs[4].astype(np.float64), recording.layers["layer_0"]
    query = np.maximum(first.weight @ inputs + first.bias, 0) if place else inputs
    attention = slots_of(recording, f"layer_{place}")[0] @ query + 1
    for label in range(3):
        of_class = attention[DATA.train.labels[recording.rows] == label]
        np.testing.assert_allclose(layer.totals[label], of_class.sum(), rtol=1e-5)
        np.testing.assert_allclose(layer.curves[label], np.sort(of_class)[::-1], rtol=1e-5)
    weights = np.bincount(recording.rows, attention)
    assert [item.row for item in layer.items] == np.argsort(-weights, kind="stable").tolist()
    for item in layer.items:
        visits = np.flatnonzero(recording.rows == item.row)
        np.testing.assert_allclose(item.weight, weights[item.row], rtol=1e-5)
        assert item.step == recording.slot_steps[visits[attention[visits].argmax()]] + 1
        assert (item.source, item.visits) == (f"sequence:train:{item.row}", PROTOCOL["epochs"])
        assert (item.label, item.task) == (DATA.train.labels[item.row], OF[DATA.train.tasks[item.row]])
        np.testing.assert_allclose(item.picture, 255 * DATA.train.inputs[item.row], rtol=1e-6)
    if place == 0:
        assert {item.contribution for item in layer.items} == {None}
    else:  # with the first weights they make the answer
        start = memory.initial_factor * (memory.initial @ np.append(query, 1))
        answer, added = explained.answer, sum(item.contribution for item in layer.items)
        np.testing.assert_allclose(start[answer.label] + added, answer.outputs[answer.label], atol=1e-5)


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
    by_name = explains("fashion_mnist:test:1", top=1)
    part = load_made(recorded[1].dataset.parts[1])
    np.testing.assert_array_equal(by_name.query.inputs, part.test.inputs[1])
    assert by_name.query.label == part.test.labels[1]
    by_numbers = explains(255 * part.test.inputs[1], top=1)
    np.testing.assert_allclose(by_numbers.answer.outputs, by_name.answer.outputs, atol=1e-5)
    assert by_numbers.query.label is None


def test_one_layer_is_explained_alone_and_progress_counts_the_slots_of_all(explains):
    seen = []
    alone = explains(layer="layer_1", on_slots=lambda *counts: seen.append(counts))
    assert [layer.name for layer in alone.layers] == ["layer_1"]
    assert alone.layers[0].items[0].contribution is not None
    explains(on_slots=lambda *counts: seen.append(counts))
    assert (42, 42) in seen and seen[-2:] == [(42, 84), (84, 84)]


def test_unvisited_samples_are_left_out_other_data_refused_and_a_residual_is_said(recorded):
    _, config, recording = recorded

    def explained_by(recording: Recording = recording, **changes: object):
        memory = history_memory(config, recording, replace(DATA, **changes))
        return explain_memory(memory, Request(255 * DATA.test.inputs[0], top=100))

    train = DATA.train
    twice = Split(*(np.concatenate([part] * 2) for part in (train.inputs, train.targets, train.tasks)))
    assert len(explained_by(train=twice).layers[0].items) == len(train)
    with pytest.raises(RecordingError, match="the data sequence is not what was recorded"):
        explained_by(sha256="1" * 64)
    layers = {name: replace(facts, residual_share=0.25) for name, facts in recording.facts.layers.items()}
    facts = replace(recording.facts, optimizer="adam", layers=layers)
    expected = "the dual form of adam leaves out a part of the update: 25 % in layer_0, 25 % in layer_1"
    assert explained_by(replace(recording, facts=facts)).warnings == (expected,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": "layer_9"}, r"layer: unknown layer 'layer_9' \(did you mean 'layer_"),
        ({"x": "sequence:test:12"}, r"x: sequence:test has inputs 0 to 11, got '12'"),
        ({"x": "1,2"}, "x: expected 6 numbers, got 2"),
    ],
)
def test_what_cannot_be_explained_is_said(explains, arguments, message):
    with pytest.raises(ExplanationError, match=message):
        explains(**arguments)
