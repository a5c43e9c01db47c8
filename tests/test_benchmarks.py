"""The benchmarks: their workloads, and attribution by its measures, TracIn, and the scores of the dual form."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn
from torch.nn import functional

from benchmarks.attribution import measures
from benchmarks.attribution.baselines import other_labels_nearby, pixel_similarity
from benchmarks.attribution.comparison import print_tables
from benchmarks.attribution.dual import DualScores
from benchmarks.attribution.measures import linear_datamodeling_scores
from benchmarks.attribution.recorded import record
from benchmarks.attribution.retraining import retrained
from benchmarks.attribution.sizes import SMALL
from benchmarks.attribution.tracin import TracIn
from benchmarks.workloads import blobs


def test_the_exact_influence_on_a_linear_regression_has_a_score_near_1():
    generator = np.random.default_rng(0)
    inputs, queries = generator.normal(size=(200, 3)), generator.normal(size=(8, 3))
    targets = inputs @ [1.0, -2.0, 0.5] + generator.normal(size=200)
    subsets = measures.random_halves(len(inputs), 40, np.random.default_rng(1))
    fits = [np.linalg.lstsq(inputs[rows], targets[rows], rcond=None)[0] for rows in subsets]
    outputs = np.stack([queries @ fit for fit in fits])
    residuals = targets - inputs @ np.linalg.lstsq(inputs, targets, rcond=None)[0]
    influence = queries @ np.linalg.inv(inputs.T @ inputs) @ (inputs * residuals[:, None]).T
    assert linear_datamodeling_scores(influence, subsets, outputs).min() > 0.95
    assert linear_datamodeling_scores(-influence, subsets, outputs).max() < -0.95
    chance = np.random.default_rng(2).normal(size=influence.shape)
    assert abs(linear_datamodeling_scores(chance, subsets, outputs).mean()) < 0.2


def test_rank_correlations_are_those_of_scipy_and_the_ceiling_that_of_truth_and_noise():
    first, second = np.random.default_rng(0).integers(0, 5, size=(2, 30, 4))  # with ties
    expected = [spearmanr(first[:, column], second[:, column]).statistic for column in range(4)]
    np.testing.assert_allclose(measures.rank_correlations(first, second), expected, atol=1e-12)
    assert measures.rank_correlations(np.ones((30, 4)), second).tolist() == [0, 0, 0, 0]
    generator = np.random.default_rng(0)
    truth = generator.normal(size=(400, 5))
    outputs = truth + 2 * generator.normal(size=(8, 400, 5))
    reached = measures.rank_correlations(truth, outputs.mean(0))
    np.testing.assert_allclose(measures.ceiling(outputs).mean(), reached.mean(), atol=0.05)
    np.testing.assert_allclose(measures.ceiling(np.stack([truth] * 4)), 1)


def gradients(module, inputs, labels, number):
    """The gradient of a number of each input, flat."""
    rows = []
    for row, label in zip(torch.from_numpy(inputs), torch.from_numpy(labels), strict=True):
        module.zero_grad()
        number(module(row[None]), label[None]).backward()
        rows.append(torch.cat([parameter.grad.flatten() for parameter in module.parameters()]))
    return torch.stack(rows).numpy()


NUMBERS = {"loss": functional.cross_entropy, "logit": lambda outputs, label: -outputs[0, label].sum()}


@pytest.mark.parametrize("explained", NUMBERS)
def test_tracin_is_the_product_of_gradients_at_the_checkpoints(explained):
    generator = np.random.default_rng(0)
    inputs, queries = (generator.normal(size=(n, 4)).astype(np.float32) for n in (12, 5))
    labels, answers = generator.integers(0, 3, size=12), np.arange(5) % 3
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    states = [{name: value + shift for name, value in module.state_dict().items()} for shift in (0.0, 1.0)]
    expected = 0
    for state in states:
        module.load_state_dict(state)
        trained = gradients(module, inputs, labels, functional.cross_entropy)
        asked = gradients(module, queries, answers, NUMBERS[explained])
        expected = expected + 0.1 * asked @ trained.T
    tracin = TracIn(module, None, states, 0.1, inputs, labels, explained, batch_size=5)
    np.testing.assert_allclose(tracin.scores(queries, answers), expected, rtol=1e-4, atol=1e-5)
    everything = TracIn(module, None, states, 0.1, inputs, labels, "loss", batch_size=5).scores(inputs, labels)
    np.testing.assert_allclose(tracin.self_influence(), np.diag(everything), rtol=1e-4)


TRAINING = {"rows": 40, "width": 5, "epochs": 2, "batch_size": 8, "checkpoints": 2}
SCORED = {"halves": 4, "half_seeds": 2, "queries": 6, "flip_seeds": 1, "neighbours": 3, "timed_queries": 6}
SIZE = replace(SMALL, **TRAINING, **SCORED, removal_queries=2, removed=10, removal_seeds=2)
DATASET = blobs(40, 6, n_classes=3, n_test=12)


def test_a_network_that_is_trained_again_on_all_rows_is_the_recorded_one(tmp_path):
    recorded = record(DATASET, SIZE, tmp_path / "run", seed=3)
    again = retrained(recorded.config, DATASET, np.arange(40), seed=3)
    without = retrained(recorded.config, DATASET, np.arange(1, 40), seed=3)
    for name, tensor in recorded.network.state_dict().items():
        assert (tensor == again.state_dict()[name]).all()
        assert (tensor == recorded.checkpoints[-1][name]).all()
        assert not name.endswith("weight") or (tensor != without.state_dict()[name]).any()
    assert len(recorded.checkpoints) == 2
    assert len(recorded.recording.rows) == 80


def test_the_scores_of_the_dual_form_are_attention_and_what_makes_the_logit(tmp_path):
    recorded = record(DATASET, SIZE, tmp_path / "run")
    dual, queries, answers = DualScores(recorded), DATASET.test.inputs, recorded.network.predict(DATASET.test.inputs)
    first = dual.attention("layer_0", queries, answers)
    np.testing.assert_allclose(first, 2 * (queries @ DATASET.train.inputs.T + 1), rtol=1e-4, atol=1e-4)  # two visits
    signs = np.where(DATASET.train.labels == answers[:, None], 1, -0.5)
    np.testing.assert_allclose(dual.signed("layer_0", queries, answers), first * signs, rtol=1e-6)
    parts = [dual.contributions([name], queries, answers) for name in dual.layers]
    np.testing.assert_allclose(dual.contributions(dual.layers, queries, answers), sum(parts), atol=1e-5)
    own = dual.contributions(dual.layers, DATASET.train.inputs, DATASET.train.labels)
    np.testing.assert_allclose(dual.own(dual.layers), np.diag(own), atol=1e-4)


def test_the_labels_of_the_nearest_rows_leave_the_row_itself_out():
    inputs = np.array([[0.0], [1], [2], [10], [11]], np.float32)
    labels = np.array([0, 0, 1, 1, 1])
    scores = pixel_similarity(inputs[1:4], inputs)
    np.testing.assert_allclose(scores[0], [-1, 0, -1, -9, -10])
    assert other_labels_nearby(scores, np.array([1, 2, 3]), labels, 2).tolist() == [0.5, 1.0, 0.0]


@pytest.mark.slow
def test_a_comparison_has_a_row_for_each_method_in_each_table(tmp_path, capsys):
    print_tables(DATASET, SIZE, tmp_path, np.random.default_rng(0))
    tables = capsys.readouterr().out.split("| --- ")[1:]
    assert len(tables) == 4
    titles = [[line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")] for table in tables]
    assert {"contribution, all layers", "TracInCP, of the loss", "nearest images", "chance"} <= set(titles[0])
    assert {"contribution, layer 2", "TracInCPFast, of the logit", "random rows"} <= set(titles[3])
