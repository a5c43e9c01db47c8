"""Studies of the memory of recorded perceptrons: masks beside training again, and layers with limited memory."""

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import train_run
from recorded_mlp import OF, PROTOCOL, SETTINGS, load_made, made_parts, store_recorded
from scipy.special import softmax

from idwbench.data.dataset import Split
from idwbench.dual.recording import open_recording
from idwbench.errors import ConfigError
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.datasets import parse_dataset

DATA = made_parts()
SHAPE = {name: SETTINGS[name] for name in ("width", "depth")}
OTHERS = {name: value for name, value in {**SETTINGS, **PROTOCOL}.items() if name not in SHAPE}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A database with a recorded run, its key, and its recording."""
    db = tmp_path_factory.mktemp("studies") / "results.db"
    config, results = store_recorded(db), Results(db)
    return results, config, open_recording(results, results.find_run(config.run_key))


def study(**settings):
    return run_config({"name": "sequence", "of": OF}, kind="memory_study", **SHAPE, **OTHERS, **settings)


def measured(stored, **settings):
    config = study(**settings)
    assert config.required == stored[1]
    return train_run(config, DATA, results=stored[0]).metrics


def layers_of(recording, where=None, last_alone=False):
    """Return weights and biases in float64 without the slots in a mask, in all layers or in the last one."""
    layers, names = [], list(recording.layers)
    for name, memory in recording.layers.items():
        weight = memory.final.astype(np.float64)
        if where is not None and (name == names[-1] or not last_alone):
            keys = np.column_stack([memory.keys(slice(None)), np.ones(memory.slots)])[where].astype(np.float64)
            weight = weight - memory.errors(slice(None))[where].astype(np.float64).T @ keys
        layers.append(weight)
    return layers


def outputs(layers, inputs):
    for number, weight in enumerate(layers):
        inputs = np.maximum(inputs, 0) if number else inputs.astype(np.float64)
        inputs = inputs @ weight[:, :-1].T + weight[:, -1]
    return inputs


def arrays_as_layers(arrays):
    return [np.column_stack([arrays[f"layer_{n}.weight"], arrays[f"layer_{n}.bias"]]).astype(float) for n in range(2)]


def subset(rows):
    train = DATA.train
    return replace(DATA, train=Split(train.inputs[rows], train.labels[rows], train.tasks[rows]))


def again(stored, rows, seed=0):
    """Return the layers of the network trained on some rows."""
    config = stored[1].model_copy(update={"seed": seed})
    plain = config.model_copy(update={"model": config.model.model_copy(update={"record": False})})
    return arrays_as_layers(train_run(plain, subset(rows)).arrays)


@pytest.mark.parametrize("mask", ["label=1", "task=mnist", "rows=0.3"])
def test_a_mask_is_measured_beside_networks_that_are_trained_again_without_its_rows(mask, stored):
    train, test = DATA.train, DATA.test
    drawn = np.random.default_rng(0).permutation(len(train))[: round(0.3 * len(train))]
    rows, where = {
        "label=1": (train.labels == 1, test.labels == 1),
        "task=mnist": (train.tasks == 0, test.tasks == 0),
        "rows=0.3": (np.isin(np.arange(len(train)), drawn), np.zeros(len(test), bool)),
    }[mask]
    metrics, recording = measured(stored, mask=mask), stored[2]
    slots = rows[recording.rows]
    networks = {
        "whole": layers_of(recording),
        "masked": layers_of(recording, slots),
        "masked_last": layers_of(recording, slots, last_alone=True),
        "retrained": again(stored, ~rows),
        "other_seed": again(stored, ~rows, seed=1_000_000),
    }
    part = (test.inputs[where], test.labels[where]) if where.any() else (train.inputs[rows], train.labels[rows])
    exact = {way: outputs(layers, test.inputs) for way, layers in networks.items()}
    for way, own in exact.items():
        right = own.argmax(1) == test.labels
        masked = outputs(networks[way], part[0]).argmax(1) == part[1]
        assert metrics[way, "masked_accuracy"] == pytest.approx(masked.mean())
        assert metrics[way, "rest_accuracy"] == pytest.approx(right[~where].mean())
        if way != "retrained":
            variation = np.abs(softmax(own, 1) - softmax(exact["retrained"], 1)).sum(1) / 2
            differ = own.argmax(1) != exact["retrained"].argmax(1)
            assert metrics[way, "different_answers"] == pytest.approx(differ.mean())
            assert metrics[way, "total_variation"] == pytest.approx(variation.mean(), abs=1e-5)
    assert ("retrained", "total_variation") not in metrics
    assert metrics["other_seed", "total_variation"] > 0
    assert {way for way, _ in metrics} == {*networks, "ascended", "fine_tuned"}
    moved = {metrics[way, "total_variation"] for way in ("whole", "ascended", "fine_tuned")}
    assert len(moved) == 3


def test_without_momentum_masking_the_later_part_of_a_sequence_gives_back_the_earlier_network(tmp_path):
    settings = {**SETTINGS, **PROTOCOL, "momentum": 0.0}
    config = run_config({"name": "sequence", "of": OF}, kind="mlp", record=True, **settings)
    store_recorded(tmp_path / "results.db", config)
    results = Results(tmp_path / "results.db")
    recording = open_recording(results, results.find_run(config.run_key))
    masked = layers_of(recording, DATA.train.tasks[recording.rows] == 1)
    first = load_made(parse_dataset("mnist"))
    before = train_run(run_config("mnist", kind="mlp", **settings), first).arrays
    for own, expected in zip(masked, arrays_as_layers(before), strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-5)


@pytest.mark.parametrize("keep", ["top", "recent", "random", "rescaled", "merged"])
def test_with_all_slots_a_limited_network_answers_as_before(keep, stored):
    metrics = measured(stored, keep=keep, slots=stored[2].facts.slots)
    whole = outputs(layers_of(stored[2]), DATA.test.inputs).argmax(1)
    assert metrics["test", "same_answers"] == 1
    assert metrics["test", "accuracy"] == pytest.approx((whole == DATA.test.labels).mean())
    assert (("test", "attention_to_answer") in metrics) == (keep != "merged")


def test_a_limited_network_is_measured_on_its_own_answers_and_the_attention_of_the_slots_it_keeps(stored):
    recording = stored[2]
    last = np.arange(recording.facts.slots) >= recording.facts.slots - 9
    own = outputs(layers_of(recording, ~last), DATA.test.inputs)
    metrics = measured(stored, keep="recent", slots=9)
    below = np.maximum(outputs(layers_of(recording, ~last)[:1], DATA.test.inputs), 0)
    memory = recording.layers["layer_1"]
    attention = np.column_stack([below, np.ones(len(below))]) @ np.column_stack(
        [memory.keys(slice(None)), np.ones(memory.slots)]
    ).T.astype(np.float64)
    labels = DATA.train.labels[recording.rows]
    totals = np.stack([attention[:, last & (labels == label)].sum(1) for label in range(3)], axis=1)
    whole = outputs(layers_of(recording), DATA.test.inputs).argmax(1)
    answers = own.argmax(1)
    assert metrics == {
        ("test", "accuracy"): pytest.approx((answers == DATA.test.labels).mean()),
        ("test", "same_answers"): pytest.approx((answers == whole).mean()),
        ("test", "attention_to_answer"): pytest.approx((totals.argmax(1) == answers).mean()),
    }


@pytest.mark.parametrize(
    ("mask", "problem"),
    [("label=7", "mask: no class is called '7'"), ("rows=0.001", "mask: no training rows have rows=0.001")],
)
def test_a_mask_of_nothing_is_refused(mask, problem, stored):
    with pytest.raises(ConfigError, match=problem):
        measured(stored, mask=mask)
