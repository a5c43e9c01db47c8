"""Runs of hash tables: what is stored, what is learned, and that each run is its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_runs import train_run, train_runs

from idwbench.data.loading import load_dataset
from idwbench.data.synthetic import draw_queries, draw_table
from idwbench.models.hash_table import HashTable, measured, recall
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.results import RunResult

DATA = {"name": "lookup", "items": 8, "dimensions": 6, "queries": 64, "noise": 0.1}
LEARNED = {"projections": "linear", "epochs": 25, "batch_size": 16, "learning_rate": 0.02}


def a_run(seed: int = 0, data: dict[str, object] | None = None, **settings: object) -> RunConfig:
    if settings.get("weighting") != "exact_match":
        settings = {"similarity": "inner_product", **settings}
    return run_config({**DATA, **(data or {})}, kind="hash_table", seed=seed, **settings)


def trained(*configs: RunConfig) -> list[RunResult]:
    return train_runs(configs, load_dataset(configs[0].dataset))


def test_a_run_without_projections_is_measured_on_the_table_of_its_seed() -> None:
    for result in trained(a_run(0), a_run(4)):
        data, seed = result.config.dataset, result.config.seed
        table = draw_table(data, seed)
        expected = measured(HashTable(result.config.model), table, draw_queries(data, seed, table))
        assert result.metrics == {("test", name): value for name, value in expected.items()}
        assert (result.state, result.curve, dict(result.arrays), result.n_parameters) == ("complete", (), {}, 0)


@pytest.mark.parametrize("projections", ["linear", "mlp"])
def test_softmax_learns_projections_that_find_the_items(projections: str) -> None:
    (result,) = trained(a_run(**{**LEARNED, "projections": projections}))
    assert result.metrics["test", "recall_before"] < 0.5
    assert result.metrics["test", "recall"] > 0.8
    losses = [point.values["train", "loss"] for point in result.curve]
    assert len(losses) == 25 and losses[-1] < losses[0] / 3
    assert result.curve[-1].values["test", "recall"] == result.metrics["test", "recall"]
    d = 6
    assert result.n_parameters == (2 * d * d if projections == "linear" else 2 * (2 * d * 2 * d + 2 * d + d))


@pytest.mark.parametrize("weighting", ["argmax", "exact_match"])
def test_argmax_and_exact_match_learn_nothing(weighting: str) -> None:
    first, later = trained(a_run(weighting=weighting, **{**LEARNED, "epochs": 1}))[0], None
    later = trained(a_run(weighting=weighting, **LEARNED))[0]
    assert later.metrics["test", "recall"] == later.metrics["test", "recall_before"]
    for name, array in later.arrays.items():
        assert array.tobytes() == first.arrays[name].tobytes()


def test_the_first_step_of_sgd_is_the_gradient_of_the_mean_squared_error() -> None:
    config = a_run(**{**LEARNED, "epochs": 1, "batch_size": 64, "optimizer": "sgd", "learning_rate": 1e-3})
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
    config = a_run(gradient_clip=1e-3, **settings)
    (clipped,), start = trained(config), trained(config.model_copy(update={"protocol": _still(config)}))[0]
    step = np.concatenate([(clipped.arrays[name] - start.arrays[name]).ravel() for name in start.arrays])
    assert np.linalg.norm(step) == pytest.approx(1e-3, rel=1e-2)


def test_a_run_has_the_same_bytes_alone_and_among_others() -> None:
    configs = [a_run(seed, **{**LEARNED, "epochs": 2}) for seed in (0, 1, 2)]
    together, (alone,) = trained(*configs), trained(configs[1])
    assert together[1].metrics == alone.metrics
    assert {name: array.tobytes() for name, array in together[1].arrays.items()} == {
        name: array.tobytes() for name, array in alone.arrays.items()
    }
    assert together[0].arrays["query_weight"].tobytes() != alone.arrays["query_weight"].tobytes()


def test_stored_weights_rebuild_the_table_that_was_measured() -> None:
    (result,) = trained(a_run(data={"validation": 32}, **{**LEARNED, "epochs": 3}))
    data = result.config.dataset
    weights = {name: torch.from_numpy(array) for name, array in result.arrays.items()}
    table, second = draw_table(data, 0), draw_table(data, 0, holdout=True)
    hash_table = HashTable(result.config.model, weights)
    for split, asked in (("test", table), ("validation", table), ("holdout", second)):
        assert recall(hash_table, asked, draw_queries(data, 0, asked, split)) == result.metrics[split, "recall"]
    assert ("validation", "recall") in result.curve[0].values


def test_numbers_that_are_not_finite_end_the_training_as_diverged() -> None:
    settings = {**LEARNED, "similarity": "inner_product", "weighting": "none", "optimizer": "sgd"}
    (result,) = trained(a_run(**{**settings, "learning_rate": 1e20}))
    assert (result.state, result.diverged_epoch, dict(result.metrics), dict(result.arrays)) == ("diverged", 1, {}, {})


def test_an_exception_of_the_observer_ends_the_training() -> None:
    def stop(epoch: int) -> None:
        raise KeyboardInterrupt

    config = a_run(**LEARNED)
    with pytest.raises(KeyboardInterrupt):
        train_run(config, load_dataset(config.dataset), on_epoch=stop)
