from __future__ import annotations

import numpy as np
import pytest
import torch
from blob_data import make_dataset, make_regression
from engine_runs import train_run, train_runs

from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError
from idwbench.runs.config import run_config
from idwbench.training.threads import limited_threads
from idwbench.training.torch_engine import ENGINES, TorchStack, resolve_device

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with limited_threads(1):
        yield


def runs(dataset, method, seeds, **settings):
    base = {"epochs": 2, "batch_size": 5, "prototypes": 4}
    return [run_config(dataset.config, method=method, seed=seed, **{**base, **settings}) for seed in seeds]


def assert_equal_alone(stack, dataset):
    for config, result in zip(stack, train_runs(stack, dataset, engine="torch"), strict=True):
        alone = train_run(config, dataset, engine="torch")
        for name in ("keys", "values"):
            np.testing.assert_array_equal(alone.arrays[name], result.arrays[name])
        assert alone.curve == result.curve
        assert alone.metrics == result.metrics


@pytest.mark.parametrize("method", METHODS)
def test_a_run_in_a_stack_is_bit_for_bit_the_run_alone(blobs, method):
    assert_equal_alone(runs(blobs, method, range(3)), blobs)


# (training size, features, classes, prototypes, batch size): the protocols of Two Moons and MNIST with an odd last
# batch, shapes where BLAS rounds single and stacked products differently, and one prototype.
@pytest.mark.parametrize("shape", [(33, 2, 2, 16, 10), (11, 784, 10, 20, 4), (67, 7, 10, 200, 64), (9, 3, 1, 1, 3)])
@pytest.mark.parametrize("method", ["scaled_dot", "idw"])
def test_a_run_in_a_stack_is_the_run_alone_at_any_shape(method, shape):
    n_train, n_features, n_classes, prototypes, batch_size = shape
    dataset = make_dataset(n_train, n_features, n_classes)
    assert_equal_alone(runs(dataset, method, range(2), prototypes=prototypes, batch_size=batch_size), dataset)


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1},
        {"gradient_clip": 0.01},
        {"initialisation": "samples"},
        {"initialisation": "kmeans"},
    ],
)
def test_protocol_and_initialisation_leave_a_run_in_a_stack_as_it_is_alone(settings):
    for dataset in (make_dataset(40), make_regression(40)):
        assert_equal_alone(runs(dataset, "idw", range(2), **settings), dataset)


@pytest.mark.parametrize("method", ["idw", "inv_dist"])
@pytest.mark.parametrize(
    "grid",
    [
        [(1.0, 1e-3), (1.0, 1e-40), (16.0, 1.0), (0.5, 1e-12)],
        [(2.0, 1e-2), (2.0, 1.0), (2.0, 1e-12), (2.0, 1e-40)],
        [(1.0, 0.0), (0.5, 0.0), (3.0, 0.0)],
    ],
    ids=["powers", "power 2", "epsilon 0"],
)
def test_powers_and_epsilons_of_one_formula_train_in_one_stack(blobs, method, grid):
    assert_equal_alone([runs(blobs, method, [0], power=power, epsilon=epsilon)[0] for power, epsilon in grid], blobs)


def test_a_diverged_run_leaves_its_neighbours_alone(blobs):
    stack = runs(blobs, "gaussian", [0, 1], learning_rate=1.0)
    alone = train_runs(stack[1:], blobs, engine="torch")[0]
    started = TorchStack(stack, blobs, blobs.moments, torch.device("cpu"))
    started.numbers[0] = float("nan")
    started.train_epoch(0)
    started.train_epoch(1)
    diverged, sound = started.results(0.0)
    assert (diverged.state, diverged.diverged_epoch, diverged.curve) == ("diverged", 1, ())
    np.testing.assert_array_equal(sound.arrays["keys"], alone.arrays["keys"])
    assert sound.curve == alone.curve


def test_stacks_are_cut_to_bounded_memory(blobs):
    engine = ENGINES["torch"]
    small, large = runs(blobs, "idw", [0]), runs(blobs, "idw", [0], prototypes=2000, batch_size=1024)
    assert engine.max_stack(small[0], blobs) == 1024
    assert engine.max_stack(large[0], blobs) == 5


def test_many_outputs_are_evaluated_some_runs_at_a_time(blobs, monkeypatch):
    stack = runs(blobs, "idw", range(5))
    together = train_runs(stack, blobs, engine="torch")
    monkeypatch.setattr("idwbench.training.torch_engine.OUTPUT_NUMBERS", 2 * 23 * 3)
    apart = train_runs(stack, blobs, engine="torch")
    assert [result.metrics for result in apart] == [result.metrics for result in together]


def test_an_absent_device_is_refused_in_one_line():
    with pytest.raises(ConfigError, match=r"^device: 'nonsense' is not available here") as error:
        resolve_device("nonsense")
    assert "\n" not in str(error.value)
