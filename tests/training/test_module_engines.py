"""Networks, perceptrons and hash tables: trainings, metrics and statistics of layers against float64, recordings."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from blob_data import make_dataset
from engine_runs import torch_optimizer, torch_step, train_run
from kinds import IDW_HEAD, LEARNED, images, mlp_run, network_run, table_run, two_parts
from scipy.special import softmax
from texts import text_dataset, text_file, text_run
from torch.nn.functional import cross_entropy

from idwbench.attention.scores import get_method
from idwbench.data.loading import load_dataset
from idwbench.data.synthetic import draw_table
from idwbench.dual.recording import Recording
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.hash_table import HashTable
from idwbench.models.neighbours import PrototypeQuality, nearest
from idwbench.models.networks import initial_network, network_from_arrays
from idwbench.models.patch_comparison import compare_ways
from idwbench.models.patch_study import study_patches
from idwbench.models.perceptron import initial_mlp, mlp_from_arrays
from idwbench.models.text_model import language_network
from idwbench.runs.metrics import ATTENDED_PLACES
from idwbench.training.checkpoints import CheckpointFile
from idwbench.training.hash_table_engine import ENGINES
from idwbench.training.language_model_engine import random_windows
from idwbench.training.layer_statistics import LayerStatistics, measured_steps

# Perceptrons: on one data set and on one after the other, sums of keys, and recordings


def drawn_rows(config, dataset):
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


def float64_training(config, dataset):
    """Take the same steps in float64 with modules of PyTorch; return network, and labels, keys and losses of slots."""
    protocol, rows = config.protocol, drawn_rows(config, dataset)
    network = initial_mlp(config.model, dataset, np.random.default_rng(config.seed)).double()
    optimizer = torch_optimizer(protocol, network.parameters())
    inputs, labels = torch.from_numpy(dataset.train.inputs).double(), torch.from_numpy(dataset.train.labels)
    keys, losses = [], []
    for some in rows:
        layer_inputs, outputs = network.layer_inputs(inputs[some])
        losses.append(cross_entropy(outputs, labels[some], reduction="none"))
        torch_step(optimizer, protocol, losses[-1].mean(), protocol.learning_rate)
        keys.append(layer_inputs)
    layers = [torch.cat(parts).detach().numpy() for parts in zip(*keys, strict=True)]
    of_slots = labels[np.concatenate(rows)].numpy()
    seen = {"rows": np.concatenate(rows), "labels": of_slots, "keys": layers}
    return SimpleNamespace(network=network, losses=torch.cat(losses).detach().numpy(), **seen)


SETTINGS = [{"seed": 3}, {"name": "joint", "seed": 3}, {"name": "joint", "depth": 1}, {"name": "two_moons", "depth": 4}]


@pytest.mark.parametrize("settings", SETTINGS)
def test_weights_losses_and_attention_are_those_of_a_float64_training(settings):
    config, dataset = mlp_run(**settings), two_parts(parts=settings.get("name") != "two_moons")
    result, expected = train_run(config, dataset), float64_training(config, dataset)
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
        if dataset.train.tasks is not None:
            assert_attention_by_part(result, number, attention, expected, dataset, answers)
    assert result.metric(f"output_if_right_{config.model.n_layers}") is None
    assert (result.metric("accuracy_1_before") is None) == (config.dataset.name != "sequence")
    assert (result.metric("answered_inputs", "right_1") is None) == (dataset.train.tasks is None)
    for part in (0, 1):
        of_part = None if dataset.test.tasks is None else (~wrong)[dataset.test.tasks == part].mean()
        assert result.metric(f"accuracy_{1 + part}") == of_part
    assert ("part_key_counts" in result.arrays) == (dataset.train.tasks is not None)


def assert_attention_by_part(result, number, attention, expected, dataset, answers):
    """Compare where a layer attends by part and class with its attention (inputs, slots), input by input."""
    parts, right, tasks = dataset.train.tasks[expected.rows], dataset.test.labels, dataset.test.tasks
    places = [(part, label) for part in (0, 1) for label in range(3)]
    totals = [attention[:, (parts == part) & (expected.labels == label)].sum(1) for part, label in places]
    counts = np.zeros((2, 6, 6))
    shares = {(answered, part): Counter() for answered in ("right", "wrong") for part in (0, 1)}
    for row, best in enumerate(np.stack(totals, 1).argmax(1)):
        part, label = places[best]
        counts[int(answers[row] != right[row]), places.index((tasks[row], right[row])), best] += 1
        kind = "target" if label == right[row] else "answer" if label == answers[row] else "class"
        answered = shares["right" if answers[row] == right[row] else "wrong", tasks[row]]
        answered[("attends_" if part == tasks[row] else "attends_other_") + kind] += 1
    np.testing.assert_array_equal(result.arrays["attended_classes"][:, number], counts)
    by_part = result.arrays[f"part_key_sums_layer_{number}"]
    np.testing.assert_allclose(by_part[1], result.arrays[f"key_sums_layer_{number}"] - by_part[0], atol=1e-9)
    for (answered, part), found in shares.items():
        split, n = f"{answered}_{1 + part}", sum(found.values())
        assert result.metric("answered_inputs", split) == n
        for place in ATTENDED_PLACES:
            value = result.metric(f"{place}_{number}", split)
            assert value is None if n == 0 else value == pytest.approx(found[place] / n)


def test_a_sequence_is_measured_by_parts_and_shares_of_no_wrong_answer_are_left_out():
    dataset = make_dataset(n_train=30, n_features=8, constant_feature=False)
    result = train_run(mlp_run("two_moons", epochs=10), dataset)
    assert (result.metric("accuracy"), result.metric("wrong_inputs")) == (1, 0)
    assert result.metric("target_if_wrong_0") is result.metric("output_if_wrong_0") is None
    result = train_run(mlp_run("sequence", epochs=3, learning_rate=0.2), two_parts())
    for split in ("test", "validation"):
        second, third, fourth = (result.curve[epoch].values[split, "accuracy_1"] for epoch in (1, 2, 3))
        assert result.metric("accuracy_1_before", split) == third
        assert second != third != fourth  # so that no other epoch would do


@pytest.mark.parametrize("settings", [{}, {"optimizer": "adam", "momentum": 0.0}])
def test_the_largest_share_that_the_slots_of_adam_leave_out_is_a_metric(tmp_path, settings):
    config = mlp_run(**settings, record=True)
    result = train_run(config, two_parts(), recording_folder=tmp_path)
    shares = [layer.residual_share for layer in Recording.open(tmp_path / config.run_key).facts.layers.values()]
    assert shares == [None] * 3 if not settings else min(shares) > 0
    assert result.metric("residual_share", "train") == (max(shares) if settings else None)


def test_a_checkpoint_with_sums_by_class_alone_is_not_used_for_data_of_parts(tmp_path):
    config, dataset, notes = mlp_run(), two_parts(), []
    sums = {"buffer.key_sums.layer_0": torch.zeros(3, 5, dtype=torch.float64)}
    identity = f"{config.run_key} {dataset.sha256} cpu"
    CheckpointFile(tmp_path / f"{config.run_key}.pt", identity).save(sums, {})
    result = train_run(config, dataset, checkpoint_folder=tmp_path, report=notes.append)
    assert len(notes) == 1 and "is of another configuration; the training starts again" in notes[0]
    assert np.array_equal(result.arrays["part_key_counts"], train_run(config, dataset).arrays["part_key_counts"])


def test_initial_weights_and_biases_are_those_of_torch_s_linear_layers():
    network = initial_mlp(mlp_run(width=200).model, two_parts(), np.random.default_rng(0))
    for layer in network.layers.values():
        bound = layer.in_features**-0.5
        for parameter in (layer.weight.detach(), layer.bias.detach()):
            assert 0.5 * bound < float(parameter.abs().max()) <= bound
    assert float(network.layer_1.weight.detach().std()) == pytest.approx((3 * 200) ** -0.5, rel=0.02)


# Networks: the quality and the patches of their heads against brute force


@pytest.mark.parametrize("compare", [False, True])
def test_quality_and_patches_of_the_head_are_those_of_prototypes_for_features(compare, monkeypatch):
    monkeypatch.setattr("idwbench.models.patch_comparison._STEPS", 20)
    data, result = images(), train_run(network_run(**IDW_HEAD, patches=3, compare=compare), images())
    network = network_from_arrays(result.config.model, data, result.arrays)
    features = {name: replace(part, inputs=network.features(part.inputs)) for name, part in data.splits.items()}
    loss = cross_entropy(torch.from_numpy(network.outputs(data.test.inputs)), torch.from_numpy(data.test.labels))
    assert result.metric("loss") == pytest.approx(loss.item(), rel=1e-5)
    assert result.n_parameters == sum(parameter.numel() for parameter in network.parameters())
    keys, values = result.arrays["head.keys"], result.arrays["head.values"]
    assert np.array_equal(result.arrays["nearest"], nearest(keys, features["train"].inputs)[0])
    base = ArrayNetwork(get_method("idw"), result.config.model.head_parameters, keys, values)
    study, _ = (compare_ways if compare else study_patches)(base, features, 3)
    names = {("cases", "smallest_eta"), ("train", "changed_exact"), ("test", "changed_exact")}
    names = {("local", "better"), ("local", "worse_together"), ("local", "relative_radius")} if compare else names
    assert study["cases", "patched"] == 3 and names <= study.keys()
    kept = study if compare else {name: study[name] for name in names}
    expected = {**PrototypeQuality(features).metrics(keys, values), **kept}
    assert {name: result.metrics[name] for name in expected} == pytest.approx(expected, rel=1e-5)


CONV, NEG_DIST = {"encoder": "conv", "width": 2, "depth": 2}, {"head": "neg_dist"}


@pytest.mark.parametrize(
    "settings", [CONV, *({**IDW_HEAD, **one} for one in ({"epsilon": 0}, {"patches": 0}, NEG_DIST))]
)
def test_only_idw_heads_with_epsilon_above_0_are_patched(settings):
    result = train_run(network_run(**settings, epochs=1), images())
    assert result.state == "complete" and result.metric("patched", "cases") is None
    assert (result.metric("coverage", "train") is None) == ("head" not in settings)
    assert ("nearest" in result.arrays) == ("head" in settings)


# Hash tables: what is measured and learned, and the steps of the training


SGD = {"projections": "linear", "epochs": 1, "batch_size": 64, "optimizer": "sgd"}


def trained(**settings):
    config = table_run(**settings)
    return train_run(config, load_dataset(config.dataset))


@pytest.mark.parametrize(
    ("settings", "n_stored_together"),
    [({}, 20), ({"weighting": "exact_match"}, 20), (LEARNED, 1), ({"similarity": "additive"}, 1)],
)
def test_tables_that_learn_nothing_are_stored_many_at_a_time(settings, n_stored_together):
    config = table_run(**settings)
    assert ENGINES["hash_table"].max_stack(config, load_dataset(config.dataset)) == n_stored_together


def test_softmax_learns_projections_that_find_the_items_and_argmax_and_exact_match_learn_nothing():
    result = trained(**LEARNED)
    assert result.metrics["test", "recall_before"] < 0.5 and result.metrics["test", "recall"] > 0.8
    losses = [point.values["train", "loss"] for point in result.curve]
    assert losses[-1] < losses[0] / 3
    for weighting in ("argmax", "exact_match"):
        first, later = (trained(weighting=weighting, **{**LEARNED, "epochs": epochs}) for epochs in (1, 5))
        assert later.metrics["test", "recall"] == later.metrics["test", "recall_before"]
        assert all(array.tobytes() == first.arrays[name].tobytes() for name, array in later.arrays.items())


def test_the_first_step_of_sgd_is_the_gradient_of_the_mean_squared_error_and_clipped():
    start, after = (trained(**SGD, learning_rate=rate) for rate in (1e-30, 1e-3))
    clipped = trained(**SGD, learning_rate=1.0, gradient_clip=1e-3)
    config = after.config
    data, table = config.dataset, draw_table(config.dataset, 0)
    generator = np.random.default_rng([0, 0, 5])
    items = generator.integers(8, size=64)
    queries = (table.keys[items] + 0.1 * generator.standard_normal((64, data.dimensions))).astype(np.float32)
    weights = {name: torch.tensor(array, requires_grad=True) for name, array in start.arrays.items()}
    answers = HashTable(config.model, weights).answers(*map(torch.from_numpy, (queries, table.keys, table.values)))
    loss = ((answers - torch.from_numpy(table.values[items])) ** 2).mean()
    loss.backward()
    assert after.curve[0].values["train", "loss"] == pytest.approx(loss.item(), rel=1e-5)
    for name, weight in weights.items():
        expected = weight.detach().numpy() - 1e-3 * weight.grad.numpy()
        np.testing.assert_allclose(after.arrays[name], expected, rtol=1e-4, atol=1e-6)
    step = np.concatenate([(clipped.arrays[name] - start.arrays[name]).ravel() for name in start.arrays])
    assert np.linalg.norm(step) == pytest.approx(1e-3, rel=1e-2)


# Statistics of layers by step against their definitions, and trainings that they leave as they are


TOLERANCE = 1e-4  # of float32 networks, whose sums have some hundred terms


def table(arrays, name):
    """Return a statistic (steps, layers), and the names of the layers."""
    return arrays[f"statistics.{name}"], arrays["statistics.layers"].tobytes().decode().split("\n")


def test_steps_are_the_first_the_last_and_a_few_between():
    assert [measured_steps(n) for n in (1, 2, 12)] == [[0], [0, 1], [0, 1, 2, 5, 10, 11]]
    assert measured_steps(101) == [0, 1, 2, 5, 10, 20, 50, 100]


@pytest.fixture(scope="module")
def first_step(tmp_path_factory):
    """Return what a language model measured, it untrained in float64, and its first batch by the rules of the docs."""
    path = text_file(tmp_path_factory.mktemp("texts"))
    config, data = text_run(path, statistics=True, depth=2, method="scaled_dot"), text_dataset(path)
    generator = np.random.default_rng(config.seed)
    draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
    model = language_network(config.model, data.n_outputs, draws).double()
    rows = next(iter(random_windows(len(data.train), model.context, config.protocol.batch_size)(generator, 0)))
    batch = data.train.inputs[:, 0].astype(np.int64)[rows], data.train.labels[rows]
    return train_run(config, data).arrays, model, *map(torch.from_numpy, batch)


def test_gradients_of_the_first_step_are_those_of_automatic_differentiation(first_step):
    arrays, model, inputs, labels = first_step
    cross_entropy(model(inputs).flatten(0, 1), labels.flatten()).backward()
    groups = {"embedding": ("tokens.", "positions."), "head": ("transformer.norm.", "head.")}
    groups |= {f"block {n + 1}": (f"transformer.blocks.{n}.",) for n in range(2)}
    whole, layers = table(arrays, "gradient_norm")
    assert layers == ["embedding", "block 1", "block 2", "head"]
    for place, layer in enumerate(layers):
        own = [p.grad.flatten() for name, p in model.named_parameters() if name.startswith(groups[layer])]
        assert whole[0, place] == pytest.approx(float(torch.cat(own).norm()), rel=TOLERANCE)
    scored, _ = table(arrays, "score_gradient_norm")
    assert np.isnan(scored[:, [0, 3]]).all()
    for n in range(2):
        gradient = model.transformer.blocks[n].self_attn.in_proj_weight.grad[:16]  # of queries and keys
        assert scored[0, 1 + n] == pytest.approx(float(gradient.norm()), rel=TOLERANCE)


def test_scores_and_weights_of_the_first_step_are_those_of_the_formula(first_step):
    arrays, model, inputs, _ = first_step
    with torch.no_grad():
        hidden = model.tokens(inputs) + model.positions(torch.arange(8))
        block = model.transformer.blocks[0]
        q, k, _ = (part.numpy() for part in (block.norm1(hidden) @ block.self_attn.in_proj_weight.T).chunk(3, -1))
    variances, entropies = [], []
    for head in (slice(0, 4), slice(4, 8)):
        for one, other in zip(q[..., head], k[..., head], strict=True):
            scores = one @ other.T / 2
            for last in range(8):
                own = scores[last, : last + 1]
                weights = softmax(own)
                entropies.append(-(weights * np.log(weights)).sum())
                variances += [own.var()] if last else []
    for name, values in (("score_variance", variances), ("weight_entropy", entropies)):
        statistic, layers = table(arrays, name)
        assert statistic[0, layers.index("block 1")] == pytest.approx(np.mean(values), rel=TOLERANCE)


@pytest.mark.parametrize("head", ["idw", "additive", "fc_relu"])
def test_a_head_has_the_statistics_of_its_scores_and_layers_of_an_encoder_gradients_alone_once_a_step(head):
    network = initial_network(network_run(**{**IDW_HEAD, "head": head}).model, images(), np.random.default_rng(0))
    inputs, calls = torch.from_numpy(images().train.inputs), []
    with torch.no_grad():
        network.head.values += 0.1  # those of zero have no gradients of keys
        scores = network.head.scores(network.encoder(inputs[:3])).double().numpy()

    def losses(rows):
        calls.append(rows)
        return network(inputs[rows]).square()

    statistics = LayerStatistics(network, losses, 3)
    batches = statistics.observed(lambda generator, epoch: iter([[0, 1, 2], [3], [4]]), 3)
    for _ in range(2):  # a continued training draws the batches of its epoch again
        assert list(batches(np.random.default_rng(0), 0)) == [[0, 1, 2], [3], [4]]
    assert calls == [[0, 1, 2], [3], [4]]
    weights = softmax(scores, 1)
    losses([0, 1, 2]).mean().backward()
    own = [one.grad.flatten() for name, one in network.head.named_parameters() if name != "values"]
    expected = {"score_gradient_norm": float(torch.cat(own).norm()), "score_variance": scores.var(1).mean()}
    if head != "fc_relu":  # whose weights are no probabilities
        expected["weight_entropy"] = -(weights * np.log(weights)).sum(1).mean()
    for name in ("score_gradient_norm", "score_variance", "weight_entropy"):
        statistic, layers = table(statistics.arrays(), name)
        assert layers == ["layer 1", "layer 2", "head"] and np.isnan(statistic[:, :2]).all()
        assert statistic[0, 2] == pytest.approx(expected.get(name, np.nan), rel=TOLERANCE, nan_ok=True)
    assert np.isfinite(table(statistics.arrays(), "gradient_norm")[0]).all()
    assert {name for _, name in statistics.metrics()} == {"gradient_norm", *expected}
