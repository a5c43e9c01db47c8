from __future__ import annotations

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from float64_replay import Float64Replay

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.dual.key_history import KeyHistory
from idwbench.runs.config import RunConfig, run_config
from idwbench.training.replay import replay_keys

PROTOCOLS = [
    {},
    {"optimizer": "adam"},
    {"optimizer": "sgd", "learning_rate": 0.05},
    {"optimizer": "sgd", "momentum": 0.9, "schedule": "constant"},
    {"weight_decay": 0.1},
    {"optimizer": "adam", "weight_decay": 0.1, "gradient_clip": 0.05},
    {"optimizer": "sgd", "momentum": 0.5, "weight_decay": 0.1, "gradient_clip": 0.05, "warmup_epochs": 1},
]


def a_run(dataset: Dataset, method: str = "idw", **settings: object) -> RunConfig:
    base = {"epochs": 3, "batch_size": 4, "prototypes": 3, "seed": 3, "learning_rate": 0.02}
    return run_config(dataset.config, method=method, **{**base, **settings})


def assert_equal_to_superposition(config: RunConfig, dataset: Dataset) -> KeyHistory:
    trained = Float64Replay(config, dataset)
    for steps in trained.steps(0, trained.n_steps):
        trained.take(steps)
    expected, end = trained.shares(), trained.prototypes()
    history = replay_keys(Float64Replay(config, dataset), end.keys, end.values)
    assert history.is_exact
    np.testing.assert_allclose(history.shares, expected[:-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(history.initial_share, expected[-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(history.remainder, 0, atol=1e-9)
    return history


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: "-".join(map(str, protocol.values())) or "default")
def test_shares_are_those_of_superposed_trainings_for_every_optimizer(protocol):
    dataset = make_dataset(11)
    history = assert_equal_to_superposition(a_run(dataset, **protocol), dataset)
    if "weight_decay" in protocol:
        assert np.abs(history.initial_share).min() > 1e-3
    else:
        np.testing.assert_array_equal(history.initial_share, 0)


OTHERS = [("idw", {"power": 3.0}), ("idw", {"epsilon": 0.0}), ("idw", {"power": 1.0, "epsilon": 0.0})]


@pytest.mark.parametrize(("method", "parameters"), [*((method, {}) for method in METHODS), *OTHERS])
def test_shares_are_those_of_superposed_trainings_for_every_method_and_other_powers(method, parameters):
    dataset = make_dataset(7, 4)
    assert_equal_to_superposition(a_run(dataset, method, epochs=2, **parameters), dataset)


@pytest.mark.parametrize("targets", [1, 2])
def test_shares_hold_for_a_regression(targets):
    dataset = make_regression(9, 3, targets)
    assert_equal_to_superposition(a_run(dataset), dataset)


def made_history(shares: list[list[float]]) -> KeyHistory:
    array = np.array(shares)
    keys = np.array([[3.0, 4.0], [0.0, 1.0]], np.float32)[: array.shape[1]]
    return KeyHistory(
        initial=np.zeros_like(keys),
        keys=keys,
        values=np.eye(3, dtype=np.float32)[: array.shape[1]],
        shares=array,
        class_shares=np.zeros((1, 3, array.shape[1])),
        initial_share=np.zeros(array.shape[1]),
        remainder=1 - array.sum(0),
        is_exact=True,
    )


def test_top_samples_are_sorted_by_share_with_ties_by_row():
    history = made_history([[0.2], [-0.1], [0.5], [0.2], [-0.3]])
    assert history.top(0, 3).tolist() == [2, 0, 3]
    assert history.top(0, 2, against=True).tolist() == [4, 1]
    assert len(history.top(0, 99)) == 5
    assert history.distance.tolist() == [5.0]


def test_the_number_of_samples_for_half_counts_the_largest_shares():
    history = made_history([[0.2, 0.1], [0.4, 0.1], [-0.3, 0.0], [0.3, 0.1], [0.4, 0.1]])
    assert history.n_for().tolist() == [2, -1]
    assert history.n_for(0.4).tolist() == [1, 4]
    assert history.classes.tolist() == [0, 1]
