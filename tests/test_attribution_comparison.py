from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.attribution.baselines import other_labels_nearby, pixel_similarity
from benchmarks.attribution.comparison import print_tables
from benchmarks.attribution.dual import DualScores
from benchmarks.attribution.experiments import explained
from benchmarks.attribution.recorded import record, with_flipped_labels
from benchmarks.attribution.retraining import retrained
from benchmarks.attribution.sizes import SMALL
from benchmarks.workloads import blobs


@pytest.fixture
def size():
    return replace(
        SMALL,
        rows=40,
        width=5,
        epochs=2,
        batch_size=8,
        halves=4,
        half_seeds=2,
        queries=6,
        flip_seeds=1,
        neighbours=3,
        removal_queries=2,
        removed=10,
        removal_seeds=2,
        timed_queries=6,
        checkpoints=2,
    )


@pytest.fixture
def dataset():
    return blobs(40, 6, n_classes=3, n_test=12)


def test_a_network_that_is_trained_again_on_all_rows_is_the_recorded_one(dataset, size, tmp_path):
    recorded = record(dataset, size, tmp_path / "run", seed=3)
    again = retrained(recorded.config, dataset, np.arange(40), seed=3)
    without = retrained(recorded.config, dataset, np.arange(1, 40), seed=3)
    for name, tensor in recorded.network.state_dict().items():
        assert (tensor == again.state_dict()[name]).all()
        assert (tensor == recorded.checkpoints[-1][name]).all()
        assert not name.endswith("weight") or (tensor != without.state_dict()[name]).any()
    assert len(recorded.checkpoints) == 2
    assert len(recorded.recording.rows) == 80


def test_the_scores_of_the_dual_form_are_attention_and_what_makes_the_logit(dataset, size, tmp_path):
    recorded = record(dataset, size, tmp_path / "run")
    dual, queries, answers = DualScores(recorded), dataset.test.inputs, recorded.network.predict(dataset.test.inputs)
    first = dual.attention("layer_0", queries, answers)
    np.testing.assert_allclose(first, 2 * (queries @ dataset.train.inputs.T + 1), rtol=1e-4, atol=1e-4)  # two visits
    signs = np.where(dataset.train.labels == answers[:, None], 1, -0.5)
    np.testing.assert_allclose(dual.signed("layer_0", queries, answers), first * signs, rtol=1e-6)
    parts = [dual.contributions([name], queries, answers) for name in dual.layers]
    np.testing.assert_allclose(dual.contributions(dual.layers, queries, answers), sum(parts), atol=1e-5)
    memory = recorded.recording.layers["layer_2"]
    network = replace_last_layer(recorded.network, memory.initial[:, :-1], memory.initial[:, -1])
    initial = network.outputs(queries)[np.arange(12), answers]
    logits = recorded.network.outputs(queries)[np.arange(12), answers]
    np.testing.assert_allclose(parts[-1].sum(1) + initial, logits, atol=1e-4)
    own = dual.contributions(dual.layers, dataset.train.inputs, dataset.train.labels)
    np.testing.assert_allclose(dual.own(dual.layers), np.diag(own), atol=1e-4)


def replace_last_layer(network, weight, bias):
    changed = copy.deepcopy(network)
    changed.layer_2.weight.data = torch.from_numpy(weight.copy())
    changed.layer_2.bias.data = torch.from_numpy(bias.copy())
    return changed


def test_flipped_labels_are_other_labels(dataset):
    changed, flipped = with_flipped_labels(dataset, 0.1, np.random.default_rng(0))
    assert flipped.sum() == 4
    assert ((changed.train.labels != dataset.train.labels) == flipped).all()


def test_log_odds_are_the_logit_without_that_of_all_others():
    logits = np.random.default_rng(0).normal(size=(2, 3, 4))
    answers = np.array([1, 0, 3])
    found = explained(logits, answers)
    odds = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    chance = odds[:, np.arange(3), answers]
    np.testing.assert_array_equal(found["logit"], logits[:, np.arange(3), answers])
    np.testing.assert_allclose(found["log odds"], np.log(chance / (1 - chance)))


def test_the_labels_of_the_nearest_rows_leave_the_row_itself_out():
    inputs = np.array([[0.0], [1], [2], [10], [11]], np.float32)
    labels = np.array([0, 0, 1, 1, 1])
    scores = pixel_similarity(inputs[1:4], inputs)
    np.testing.assert_allclose(scores[0], [-1, 0, -1, -9, -10])
    assert other_labels_nearby(scores, np.array([1, 2, 3]), labels, 2).tolist() == [0.5, 1.0, 0.0]


@pytest.mark.slow
def test_a_comparison_has_a_row_for_each_method_in_each_table(dataset, size, tmp_path, capsys):
    print_tables(dataset, size, tmp_path, np.random.default_rng(0))
    tables = capsys.readouterr().out.split("| --- ")[1:]
    assert len(tables) == 4
    titles = [[line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")] for table in tables]
    assert {"contribution, all layers", "TracInCP, of the loss", "nearest images", "chance"} <= set(titles[0])
    assert {"attention, layer 0", "TracInCPFast, of the logit", "ceiling"} <= set(titles[1])
    assert {"attention, layer 2", "TracInCP, of the logit", "nearest images"} <= set(titles[2])
    assert {"contribution, layer 2", "TracInCPFast, of the logit", "random rows"} <= set(titles[3])
