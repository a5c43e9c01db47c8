"""Explanations of prototypes, heads of networks, and kernel regression, and where they lie, against NumPy."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from array_models import random_arrays, saved_array_model
from blob_data import make_dataset, make_regression
from case_tables import case_table

from idwbench import Results, run_config
from idwbench.data.dataset import Scaling
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError, ExplanationError, ResultsError, TrainingError
from idwbench.explanations.explain import explain, explain_memory
from idwbench.explanations.explanation import Answer
from idwbench.explanations.memory import Memory, Request, masked_entries
from idwbench.explanations.prototypes import head_memory, prototype_memory
from idwbench.explanations.training_data import kernel_memory
from idwbench.models.networks import initial_network
from idwbench.runs.results import RunResult

SCALING = Scaling(np.array(10.0), np.array(2.0))
DATA = replace(make_dataset(), scaling=SCALING)
NUMBERS = replace(make_regression(), scaling=SCALING)


def model(dataset=DATA, name="two_moons", **settings):
    """Return a model, its keys, its values, and its slopes if it has some."""
    config = run_config(name, method="idw", prototypes=6, power=2, epsilon=0.1, **settings)
    arrays = random_arrays(config, dataset, seed=4)
    return saved_array_model(config, dataset, arrays), *(array.astype(np.float64) for array in arrays.values())


def explained(memory, x, dataset=DATA, **options):
    return explain_memory(memory, Request(x, load=lambda config, data_dir: dataset, **options))


def by_kernel(x, dataset=DATA, metrics=None, kernel="gaussian", bandwidth=0.5, **options):
    config = run_config(dataset.config, kind="kernel_regression", kernel=kernel, bandwidth=bandwidth)
    return explained(kernel_memory(config, metrics or {}, dataset), x, dataset, **options)


def idw_weights(query, keys):
    inverse = 1 / (0.1 + ((query.astype(np.float64) - keys) ** 2).sum(-1))
    return inverse / inverse.sum(-1, keepdims=True)


@pytest.mark.parametrize("rank", [0, 2])
def test_prototypes_come_with_weights_their_values_at_the_input_and_what_they_add(rank):
    saved, keys, values, *slopes = model(slope_rank=rank)
    query, at_input = DATA.test.inputs[2], values
    if rank:
        at_input = values + np.einsum("rpo,rpf,pf->po", slopes[1], slopes[0], query - keys)
    shown = explained(prototype_memory(saved), "two_moons:test:2", top=4)
    weights = idw_weights(query, keys)
    np.testing.assert_allclose(shown.answer.outputs, weights @ at_input, rtol=1e-5)
    assert (shown.answer.label, shown.query.label) == ((weights @ at_input).argmax(), DATA.test.labels[2])
    [layer] = shown.layers
    for item, place in zip(layer.items, np.argsort(-weights)[:4], strict=True):
        assert (item.source, item.label) == (f"prototype {place}", values[place].argmax())
        np.testing.assert_allclose(item.weight, weights[place], rtol=1e-5)
        np.testing.assert_allclose(item.picture, SCALING.invert(keys[place]), rtol=1e-6)
        np.testing.assert_allclose(item.value, at_input[place], rtol=1e-5)
        np.testing.assert_allclose(item.contribution, weights[place] * at_input[place, shown.answer.label], rtol=1e-5)
    for label in range(3):
        of_class = weights[values.argmax(1) == label]
        np.testing.assert_allclose(layer.totals[label], of_class.sum(), atol=1e-6)
        np.testing.assert_allclose(layer.curves[label], np.sort(of_class)[::-1], atol=1e-6)
    terms = saved.explain(SCALING.invert(query))
    np.testing.assert_allclose(terms.weights @ terms.values, terms.outputs)
    np.testing.assert_allclose(terms.outputs, weights @ at_input, rtol=1e-5)
    kept = np.arange(6) != 3
    rest = saved.without(~kept).outputs(query[None])[0]
    np.testing.assert_allclose(rest, idw_weights(query, keys[kept]) @ at_input[kept], rtol=1e-5)


@pytest.mark.parametrize("names", [[], ["mnist", "fashion_mnist"]], ids=["one data set", "joint"])
def test_a_mask_of_prototypes_removes_those_of_a_class_and_its_effect_on_data_is_measured_if_it_is_there(names):
    tasks = np.arange(len(DATA.test)) % 2 if names else None
    data = replace(DATA, test=replace(DATA.test, tasks=tasks))
    saved, keys, values = model(data, {"name": "joint", "of": names} if names else "two_moons")
    effect = explained(prototype_memory(saved), "11,12,13", data, masks=["label=b"]).effect
    kept = values.argmax(1) != 1
    assert effect is not None and (effect.removed, effect.size) == ((~kept).sum(), 6)
    query = SCALING.apply(np.array([11.0, 12, 13]))
    np.testing.assert_allclose(effect.answer.outputs, idw_weights(query, keys[kept]) @ values[kept], atol=1e-6)
    inputs, labels = DATA.test.inputs[:, None], DATA.test.labels
    right = [(idw_weights(inputs, keys[k]) @ values[k]).argmax(1) == labels for k in (slice(None), kept)]
    parts = {f"test {name}": tasks == task for task, name in enumerate(names)} or {"test": np.arange(11) >= 0}
    expected = [(name, rows.sum(), *(hits[rows].mean() for hits in right)) for name, rows in parts.items()]
    assert [(change.name, change.n, change.before, change.after) for change in effect.accuracy] == expected
    without = explained(prototype_memory(saved), "11,12,13", replace(data, sha256="1" * 64), masks=["label=b"])
    assert without.effect.accuracy == () and len(without.effect.answer.outputs) == 3
    name = saved.config.dataset.name
    assert without.warnings[0].startswith(f"the effect on the test data is not measured: the data {name} is not what")


def test_a_patch_is_called_by_its_number_in_the_list_of_patches_where_others_need_no_prototype():
    saved, label = model()[0], (explained(prototype_memory(model()[0]), "12,9,11").answer.label + 1) % 3
    answer = explained(prototype_memory(saved), "11,12,13").answer.label
    demands = {"radius": 0.5, "steepness": 64, "margin": 1e-6}
    patched = saved.patch_all([[11.0, 12.0, 13.0], [12.0, 9.0, 11.0]], [answer, label], **demands)
    assert [record.has_prototype for record in patched.repairs.records] == [False, True]
    shown = explained(prototype_memory(patched), "12,9,11", top=1)
    assert (shown.layers[0].items[0].source, shown.answer.label) == ("prototype 6 (patch 2)", label)
    terms = patched.explain([12.0, 9.0, 11.0])
    assert (terms.prototypes[0], terms.patches.tolist()) == (6, [2, 0, 0, 0, 0, 0, 0])
    assert [line.endswith("(patch 2)") for line in str(terms).splitlines()[2:]] == [True] + [False] * 6


def test_a_regression_has_values_in_its_own_units_and_no_classes():
    saved, keys, values = model(NUMBERS, "sine")
    shown = explained(prototype_memory(saved), "sine:test:1", NUMBERS)
    weights = idw_weights(NUMBERS.test.inputs[1], keys)
    np.testing.assert_allclose(shown.answer.outputs, 5 + 3 * weights @ values, rtol=1e-5)
    np.testing.assert_allclose(shown.query.target, 5 + 3 * NUMBERS.test.targets[1].astype(np.float64), rtol=1e-6)
    [layer] = shown.layers
    np.testing.assert_allclose(layer.items[0].value, 5 + 3 * values[weights.argmax()], rtol=1e-6)
    assert (shown.answer.label, layer.items[0].label, layer.items[0].contribution) == (None, None, None)
    assert (layer.totals.size, layer.curves) == (0, ())
    [item] = by_kernel("sine:test:0", NUMBERS, top=1).layers[0].items
    np.testing.assert_allclose(item.value, 5 + 3 * NUMBERS.train.targets[item.row].astype(np.float64), rtol=1e-6)


def test_a_head_attends_to_prototypes_in_feature_space_shown_as_training_inputs():
    config = run_config("two_moons", kind="network", encoder="mlp", width=4, head="idw", prototypes=5, epsilon=0.1)
    network = initial_network(config.model, DATA, np.random.default_rng(0))
    nearest = np.arange(5)[::-1].copy()
    shown = explained(head_memory(config, network, nearest, DATA), "two_moons:test:3", masks=["label=a"])
    features = network.features(DATA.test.inputs)
    keys, values = (part.detach().numpy() for part in (network.head.keys, network.head.values))
    weights = idw_weights(features[3], keys)
    np.testing.assert_allclose(shown.answer.outputs, weights @ values, atol=1e-5)
    first, place = shown.layers[0].items[0], int(weights.argmax())
    assert first.source == f"prototype {place}, nearest two_moons:train:{nearest[place]}"
    np.testing.assert_allclose(first.picture, SCALING.invert(DATA.train.inputs[nearest[place]]))
    kept = values.argmax(1) != 0
    expected = idw_weights(features[3], keys[kept]) @ values[kept]
    np.testing.assert_allclose(shown.effect.answer.outputs, expected, atol=1e-5)
    assert len(shown.effect.accuracy) == 1


def test_kernel_regression_attends_to_training_samples_by_the_chosen_bandwidth_and_says_if_there_are_none():
    shown = by_kernel("two_moons:test:4", masks=["label=2"])
    kernel = np.exp(-((DATA.test.inputs[4].astype(np.float64) - DATA.train.inputs) ** 2).sum(1) / 0.5)
    weights = kernel / kernel.sum()
    expected = [weights[DATA.train.labels == label].sum() for label in range(3)]
    for shares in (shown.answer.outputs, shown.answer.probabilities, shown.layers[0].totals):
        np.testing.assert_allclose(shares, expected, atol=1e-6)
    order = np.argsort(-weights, kind="stable")[:10]
    assert [item.source for item in shown.layers[0].items] == [f"two_moons:train:{row}" for row in order]
    assert shown.effect is not None and shown.effect.answer.outputs[2] == 0
    rest = weights[DATA.train.labels != 2]
    np.testing.assert_allclose(shown.effect.answer.outputs[0] / expected[0], 1 / rest.sum(), rtol=1e-5)
    wide = by_kernel("two_moons:test:4", metrics={("train", "bandwidth"): 100.0}, kernel="boxcar", bandwidth="loo")
    np.testing.assert_allclose([item.weight for item in wide.layers[0].items], 1 / len(DATA.train), rtol=1e-6)
    shown = by_kernel("500,500,500", kernel="boxcar", bandwidth=0.01)
    assert shown.warnings == ("no training sample is within the bandwidth: the answer is the mean of all",)
    assert shown.layers[0].items == () and not shown.layers[0].totals.any()
    frequencies = np.bincount(DATA.train.labels) / len(DATA.train)
    np.testing.assert_allclose(shown.answer.outputs, frequencies, rtol=1e-6)


def test_local_linear_regression_shows_negative_weights_by_their_size_and_no_negative_probability():
    config = run_config("two_moons", kind="kernel_regression", kernel="gaussian", bandwidth=0.3, order=1)
    dataset = load_dataset(config.dataset)
    shown = explain_memory(kernel_memory(config, {}, dataset), Request([3.0, 2.5], top=200))
    weights = np.array([item.weight for item in shown.layers[0].items])
    assert weights.min() < -1 and (np.diff(np.abs(weights)) <= 0).all()
    labels = np.array([item.label for item in shown.layers[0].items])
    np.testing.assert_allclose(weights @ np.eye(2)[labels], shown.answer.outputs, atol=1e-4)
    for outputs, probabilities in (([-0.2, 1.2], [0, 1]), ([-0.5, 0.9, 0.6], [0, 0.6, 0.4]), ([0.3, 0.7], [0.3, 0.7])):
        answer = Answer.from_frequencies(np.array(outputs))
        np.testing.assert_allclose(answer.probabilities, probabilities)
        assert answer.label == 1 and answer.outputs.tolist() == outputs
    np.testing.assert_allclose(shown.plane.probabilities.sum(2), 1, atol=1e-6)
    assert shown.plane.probabilities.min() >= 0


@pytest.mark.parametrize(("settings", "message"), case_table("wrong_inputs")["no_memories"])
def test_what_has_no_memory_is_refused(settings, message, tmp_path):
    results, config = Results(tmp_path / "results.db"), run_config("two_moons", **settings)
    results.plan([config])
    with pytest.raises((ExplanationError, TrainingError), match=message) as caught:
        explain(config.run_key, "0,1", results)
    assert caught.value.exit_code == (2 if settings else 1)


def test_a_stored_run_and_its_model_file_are_explained_alike_and_others_are_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr("idwbench.models.saved_model.load_dataset", lambda config, data_dir: DATA)
    saved, keys, values = model()
    parts = {"keys": keys.astype(np.float32), "values": values.astype(np.float32)}
    path, results = str(tmp_path / "model.pt"), Results(tmp_path / "results.db")
    results.finish([RunResult(saved.config, "complete", (), {}, parts, 36, None, 1.0, "torch", "cpu", 1)], DATA.sha256)
    saved.save(tmp_path / "model.pt")
    key = saved.config.run_key
    shown = [explain(which, "11,12,13", results) for which in (key, path, saved, results.find_run(key))]
    assert len({str(one.facts()) for one in shown}) == 1
    assert torch.is_grad_enabled()
    with pytest.raises(ExplanationError, match=r"unknown layer 'head' \(expected one of: prototypes\)"):
        explain(saved, "11,12,13", layer="head")
    with pytest.raises(ExplanationError, match="x: expected 3 numbers, got 2"):
        explain(saved, "1,2")
    with pytest.raises(ResultsError, match="no run has a key that begins with 'abc'"):
        explain("abc", "0,1", results)
    with pytest.raises(ExplanationError, match=r"model: 'model.txt' is neither a model file \(.pt, .safetensors\) nor"):
        explain("model.txt", "0,1", "absent.db")


# Masks

NAMES = ("shirt", "shoe", "bag")
LABELS, TASKS = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
PARTS = {"name": "joint", "of": ["mnist", "fashion_mnist"]}


def named_memory(dataset=PARTS, names=NAMES, labels=LABELS, tasks=TASKS):
    """Entries with classes and tasks, and nothing that answers."""
    data, labels = SimpleNamespace(class_names=names), None if labels is None else np.array(labels)
    return Memory(run_config(dataset), "training data", data, {}, None, None, None, labels, tasks)


@pytest.mark.parametrize(("texts", "removed"), case_table("inputs")["masks"])
def test_one_word_means_any_of_its_values_and_two_words_mean_both(texts, removed):
    assert np.flatnonzero(masked_entries(texts, named_memory())).tolist() == removed
    assert masked_entries([], named_memory()) is None


@pytest.mark.parametrize(("text", "given", "message"), case_table("wrong_inputs")["masks"])
def test_a_mask_that_is_none_or_that_the_memory_has_no_use_for_is_refused(text, given, message):
    with pytest.raises(ExplanationError, match=re.escape(message)):
        masked_entries([text], named_memory(**given))


# Where prototypes lie in the training data, and the answers in the plane, against NumPy and the model itself


def made(name, method="idw"):
    """Return a data set and a model of it with keys within and outside the range of its training rows."""
    config = run_config(name, method=method, prototypes=6)
    dataset = load_dataset(config.dataset)
    arrays = random_arrays(config, dataset)
    arrays["keys"] *= 1.5
    arrays["keys"][0] = dataset.train.inputs[7]
    saved = replace(saved_array_model(config, dataset, arrays), columns=dataset.columns)
    return dataset, saved, arrays["keys"]


@pytest.mark.parametrize("name", ["iris", "two_moons", "diabetes"])
def test_each_prototype_has_its_nearest_training_row_and_the_features_beyond_the_range_of_the_data(name):
    dataset, saved, keys = made(name)
    explained = explain_memory(prototype_memory(saved), Request(f"{name}:test:1", load=lambda *_: dataset))
    inputs = dataset.train.inputs.astype(np.float64)
    for item in explained.layers[0].items:
        key = keys[int(item.source.split()[1])].astype(np.float64)
        distances = np.sqrt(((inputs - key) ** 2).sum(1))
        row = int(distances.argmin())
        assert (item.nearest.source, item.nearest.row) == (f"{name}:train:{row}", row)
        assert item.nearest.distance == pytest.approx(distances[row], abs=1e-4)
        assert item.nearest.label == (dataset.train.labels[row] if dataset.class_names else None)
        beyond = (key < inputs.min(0) - 1e-3) | (key > inputs.max(0) + 1e-3)
        assert item.outside.tolist() == np.flatnonzero(beyond).tolist()
        names = explained.feature_names(item.outside)
        assert names == [dataset.columns.features[n] if dataset.columns else str(n) for n in item.outside]


def test_directions_and_models_without_their_data_have_no_surroundings():
    def gone(config, data_dir):
        raise DatasetError("gone")

    for method, load in (("cosine", None), ("idw", gone), ("idw", lambda *_: load_dataset(run_config("wine").dataset))):
        dataset, saved, _ = made("iris", method)
        x = dataset.scaling.invert(dataset.test.inputs[0])
        request = Request(x, load=load or (lambda config, data_dir: load_dataset(config)))
        explained = explain_memory(prototype_memory(saved), request)
        assert all(item.nearest is None and item.outside is None for item in explained.layers[0].items)
        assert explained.plane is None


def test_the_plane_has_the_answers_of_the_model_around_its_data_and_the_input():
    dataset, saved, _ = made("two_moons")
    far = np.array([3.0, -2.0])
    plane = explain_memory(prototype_memory(saved), Request(far, load=lambda *_: dataset)).plane
    left, right, bottom, top = plane.extent
    assert left < plane.points[:, 0].min() and right > 3 and bottom < -2 and top > plane.points[:, 1].max()
    n = len(plane.probabilities)
    for row, column in ((0, 0), (5, 70), (n - 1, n - 2)):
        point = np.array([left + (right - left) * (column + 0.5) / n, bottom + (top - bottom) * (row + 0.5) / n])
        logits = saved.outputs(saved.scale(point)[None])[0]
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(plane.probabilities[row, column], expected, atol=1e-5)
    np.testing.assert_array_equal(plane.labels, dataset.train.labels)
