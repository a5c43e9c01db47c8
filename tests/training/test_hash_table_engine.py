"""Runs of hash tables: what is measured and learned, and the steps of the training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_runs import train_run
from kinds import LEARNED, table_run

from idwbench.data.loading import load_dataset
from idwbench.data.synthetic import draw_queries, draw_table
from idwbench.models.hash_table import HashTable, measured
from idwbench.runs.results import RunResult

SGD = {"projections": "linear", "epochs": 1, "batch_size": 64, "optimizer": "sgd"}


def trained(**settings: object) -> RunResult:
    config = table_run(**settings)
    return train_run(config, load_dataset(config.dataset))


@pytest.mark.parametrize("settings", [{}, {**LEARNED, "epochs": 2}], ids=["without projections", "learned"])
def test_a_run_is_measured_on_the_table_of_its_seed_with_what_it_learned(settings: dict[str, object]) -> None:
    result = trained(seed=4, **settings)
    data = result.config.dataset
    table = draw_table(data, 4)
    hash_table = HashTable(result.config.model, {name: torch.from_numpy(part) for name, part in result.arrays.items()})
    expected = measured(hash_table, table, draw_queries(data, 4, table))
    stored = {name: value for (split, name), value in result.metrics.items() if split == "test"}
    assert {name: stored[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert stored.keys() - expected.keys() == ({"recall_before"} if settings else set())
    assert len(result.curve) == (2 if settings else 0)


def test_softmax_learns_projections_that_find_the_items() -> None:
    result = trained(**LEARNED)
    assert result.metrics["test", "recall_before"] < 0.5 and result.metrics["test", "recall"] > 0.8
    losses = [point.values["train", "loss"] for point in result.curve]
    assert losses[-1] < losses[0] / 3


@pytest.mark.parametrize("weighting", ["argmax", "exact_match"])
def test_argmax_and_exact_match_learn_nothing(weighting: str) -> None:
    first, later = (trained(weighting=weighting, **{**LEARNED, "epochs": epochs}) for epochs in (1, 5))
    assert later.metrics["test", "recall"] == later.metrics["test", "recall_before"]
    assert all(array.tobytes() == first.arrays[name].tobytes() for name, array in later.arrays.items())


def test_the_first_step_of_sgd_is_the_gradient_of_the_mean_squared_error_and_clipped() -> None:
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
