"""Runs of hash tables: what is measured and learned, and the steps of the training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_runs import train_runs
from kinds import LEARNED, table_run

from idwbench.data.loading import load_dataset
from idwbench.data.synthetic import draw_queries, draw_table
from idwbench.models.hash_table import HashTable, measured
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult


def trained(*configs: RunConfig) -> list[RunResult]:
    return train_runs(configs, load_dataset(configs[0].dataset))


def test_a_run_without_projections_is_measured_on_the_table_of_its_seed() -> None:
    for result in trained(table_run(0), table_run(4)):
        data, seed = result.config.dataset, result.config.seed
        table = draw_table(data, seed)
        expected = measured(HashTable(result.config.model), table, draw_queries(data, seed, table))
        assert result.metrics == {("test", name): value for name, value in expected.items()}
        assert (result.state, result.curve, dict(result.arrays), result.n_parameters) == ("complete", (), {}, 0)


@pytest.mark.parametrize("projections", ["linear", "mlp"])
def test_softmax_learns_projections_that_find_the_items(projections: str) -> None:
    (result,) = trained(table_run(**{**LEARNED, "projections": projections}))
    assert result.metrics["test", "recall_before"] < 0.5
    assert result.metrics["test", "recall"] > 0.8
    losses = [point.values["train", "loss"] for point in result.curve]
    assert len(losses) == 25 and losses[-1] < losses[0] / 3
    assert result.curve[-1].values["test", "recall"] == result.metrics["test", "recall"]
    d = 6
    assert result.n_parameters == (2 * d * d if projections == "linear" else 2 * (2 * d * 2 * d + 2 * d + d))


@pytest.mark.parametrize("weighting", ["argmax", "exact_match"])
def test_argmax_and_exact_match_learn_nothing(weighting: str) -> None:
    first, later = trained(table_run(weighting=weighting, **{**LEARNED, "epochs": 1}))[0], None
    later = trained(table_run(weighting=weighting, **LEARNED))[0]
    assert later.metrics["test", "recall"] == later.metrics["test", "recall_before"]
    for name, array in later.arrays.items():
        assert array.tobytes() == first.arrays[name].tobytes()


def test_the_first_step_of_sgd_is_the_gradient_of_the_mean_squared_error() -> None:
    config = table_run(**{**LEARNED, "epochs": 1, "batch_size": 64, "optimizer": "sgd", "learning_rate": 1e-3})
    (after,), start = trained(config), trained(config.model_copy(update={"protocol": _still(config)}))[0]
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


def _still(config: RunConfig):
    return config.protocol.model_copy(update={"learning_rate": 1e-30})


def test_the_gradient_clip_bounds_the_step() -> None:
    settings = {**LEARNED, "epochs": 1, "batch_size": 64, "optimizer": "sgd", "learning_rate": 1.0}
    config = table_run(gradient_clip=1e-3, **settings)
    (clipped,), start = trained(config), trained(config.model_copy(update={"protocol": _still(config)}))[0]
    step = np.concatenate([(clipped.arrays[name] - start.arrays[name]).ravel() for name in start.arrays])
    assert np.linalg.norm(step) == pytest.approx(1e-3, rel=1e-2)
