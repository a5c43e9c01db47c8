"""What every engine promises, run on each: the numbers of a plain PyTorch loop in float64, and how runs end."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from blob_data import make_dataset, make_regression

from idwbench.attention.methods import METHODS
from idwbench.attention.weightings import prototype_logits
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.models.initialisation import feature_moments, initial_prototypes
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.protocol import learning_rate
from idwbench.training.engine import AbstractEngine
from idwbench.training.threads import limited_threads

ENGINES = {"torch": "torch_engine.TorchEngine", "fused": "fused_engine.FusedEngine"}
POWERS = [0.5, 1.0, 2.0, 4.0, 16.0, 64.0]
# (training size, batch size, epochs): one step of less than a batch, a hundred, one epoch whose last batch is smaller.
HORIZONS = {"one step": (4, 9, 1), "100 steps": (40, 4, 10), "one epoch": (103, 10, 1)}
PROTOCOLS = {
    "adam": {"optimizer": "adam"},
    "decay": {"weight_decay": 0.1},
    "sgd": {"optimizer": "sgd", "learning_rate": 0.05},
    "momentum": {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.01},
    "clip": {"gradient_clip": 0.05, "weight_decay": 0.01},
    "warmup": {"warmup_epochs": 2, "epochs": 5},
    "constant": {"schedule": "constant"},
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with limited_threads(1):
        yield


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> AbstractEngine:
    return make_engine(request.param)


def make_engine(name: str) -> AbstractEngine:
    module, _, word = ENGINES[name].partition(".")
    return getattr(importlib.import_module(f"idwbench.training.{module}"), word)()


def a_run(dataset: Dataset, method: str = "idw", **settings: object) -> RunConfig:
    base = {"epochs": 3, "batch_size": 4, "prototypes": 6, "seed": 3, "learning_rate": 0.01}
    return run_config(dataset.config, method=method, **{**base, **settings})


def random_prototypes(model, dataset, moments, generator):
    """Stand in for `initial_prototypes`.

    Values that start at zero make the first key gradients rounding noise, which Adam scales up to its step size.
    """
    keys = moments[0] + moments[1] * generator.normal(size=(model.prototypes, dataset.n_features))
    return keys.astype(np.float32), generator.normal(size=(model.prototypes, dataset.n_outputs)).astype(np.float32)


@pytest.fixture
def random_start(monkeypatch: pytest.MonkeyPatch, engine: AbstractEngine) -> None:
    monkeypatch.setattr(f"{type(engine).__module__}.initial_prototypes", random_prototypes)


def plain_loop(config: RunConfig, dataset: Dataset, dtype: torch.dtype) -> tuple[list[np.ndarray], list[float]]:
    """Return keys, values and losses of what a reader of the paper would write: one model, one optimizer, one loop."""
    protocol, generator = config.protocol, np.random.default_rng(config.seed)
    pair = random_prototypes(config.model, dataset, feature_moments(dataset.train.inputs), generator)
    tensors = [torch.from_numpy(array).to(dtype).requires_grad_() for array in pair]
    rate, decay = protocol.learning_rate, protocol.weight_decay
    if protocol.optimizer == "sgd":
        optimizer = torch.optim.SGD(tensors, lr=rate, momentum=protocol.momentum, weight_decay=decay)
    else:
        amsgrad = protocol.optimizer == "adam_amsgrad"
        optimizer = torch.optim.Adam(tensors, lr=rate, amsgrad=amsgrad, weight_decay=decay)
    inputs, targets = torch.from_numpy(dataset.train.inputs).to(dtype), torch.from_numpy(dataset.train.targets)
    loss_of = torch.nn.functional.cross_entropy
    if dataset.task == "regression":
        targets, loss_of = targets.to(dtype), torch.nn.functional.mse_loss
    losses = []
    for epoch in range(protocol.epochs):
        optimizer.param_groups[0]["lr"] = learning_rate(protocol, epoch)
        total = 0.0
        for batch in torch.from_numpy(generator.permutation(len(targets))).split(protocol.batch_size):
            outputs = prototype_logits(METHODS[config.model.method], config.model.parameters, inputs[batch], *tensors)
            loss = loss_of(outputs, targets[batch])
            optimizer.zero_grad()
            loss.backward()
            if protocol.gradient_clip:
                torch.nn.utils.clip_grad_norm_(tensors, protocol.gradient_clip)
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(targets))
    return [tensor.detach().double().numpy() for tensor in tensors], losses


def assert_equals_the_plain_loop(engine: AbstractEngine, config: RunConfig, dataset: Dataset) -> None:
    """Compare with float64: an engine may be ten times as far from it as the same loop in float32, and some ulps."""
    result = engine.train([config], dataset)[0]
    exact, losses = plain_loop(config, dataset, torch.float64)
    rounded, rounded_losses = plain_loop(config, dataset, torch.float32)
    for name, truth, close in zip(("keys", "values"), exact, rounded, strict=True):
        bound = 10 * np.abs(close - truth).max() + 2**-20 * np.abs(truth).max()
        np.testing.assert_allclose(result.arrays[name], truth, rtol=0, atol=bound, err_msg=name)
    found = [point.values["train", "loss"] for point in result.curve]
    bound = 10 * np.abs(np.subtract(losses, rounded_losses)).max() + 2**-20 * max(losses)
    np.testing.assert_allclose(found, losses, rtol=0, atol=bound)


@pytest.mark.usefixtures("random_start")
@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("n_features", [2, 40], ids=["narrow", "wide"])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_equals_a_plain_loop_in_pytorch(engine, method, n_features, horizon):
    n_train, batch_size, epochs = HORIZONS[horizon]
    dataset = dataset_of(n_train, n_features)
    assert_equals_the_plain_loop(engine, a_run(dataset, method, batch_size=batch_size, epochs=epochs), dataset)


@functools.cache
def dataset_of(n_train: int, n_features: int) -> Dataset:
    return make_dataset(n_train, n_features, 3)


@pytest.mark.usefixtures("random_start")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("method", ["idw", "fc_relu"])
def test_every_setting_of_the_protocol_is_that_of_pytorch(engine, method, protocol, blobs):
    assert_equals_the_plain_loop(engine, a_run(blobs, method, **PROTOCOLS[protocol]), blobs)


@pytest.mark.usefixtures("random_start")
@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_a_regression_equals_a_plain_loop_with_squared_error(engine, method, n_targets):
    dataset = make_regression(n_targets=n_targets)
    assert_equals_the_plain_loop(engine, a_run(dataset, method, gradient_clip=0.5), dataset)


@pytest.mark.parametrize("initialisation", ["samples", "kmeans"])
@pytest.mark.parametrize("dataset", [make_dataset(), make_regression()], ids=["classes", "numbers"])
def test_engines_begin_at_the_same_prototypes(engine, dataset, initialisation):
    config = a_run(dataset, initialisation=initialisation, epochs=1, batch_size=100, learning_rate=1e-30)
    moments = feature_moments(dataset.train.inputs)
    keys, values = initial_prototypes(config.model, dataset, moments, np.random.default_rng(config.seed))
    result = engine.train([config], dataset)[0]
    np.testing.assert_allclose(result.arrays["keys"], keys, rtol=0, atol=2e-30)
    np.testing.assert_allclose(result.arrays["values"], values, rtol=0, atol=2e-30)


def test_more_prototypes_than_inputs_to_begin_at_are_refused_in_one_line(engine, blobs):
    config = a_run(blobs, initialisation="samples", prototypes=24)
    with pytest.raises(ConfigError, match=r"^prototypes: expected at most 23, the number of training inputs, got 24$"):
        engine.train([config], blobs)


def test_metrics_are_those_of_the_returned_prototypes_on_every_split(engine):
    for dataset in (make_dataset(validation=True), make_regression()):
        result = engine.train([a_run(dataset)], dataset)[0]
        assert {split for split, _ in result.metrics} == set(dataset.splits)
        arrays = [torch.from_numpy(result.arrays[name]) for name in ("keys", "values")]
        for name, split in dataset.splits.items():
            inputs = torch.from_numpy(split.inputs)
            outputs = prototype_logits(METHODS["idw"], result.config.model.parameters, inputs, *arrays)
            expected = dataset.metrics(name, outputs.numpy())
            assert {key: result.metrics[key] for key in expected} == pytest.approx(expected, rel=1e-5)


def test_the_curve_has_the_headline_of_test_and_validation_and_the_cosine_rate(engine):
    headlines = {"accuracy": make_dataset(validation=True), "rmse": make_regression()}
    for headline, dataset in headlines.items():
        seen: list[int] = []
        result = engine.train([a_run(dataset)], dataset, seen.append)[0]
        assert seen == [point.epoch for point in result.curve] == [1, 2, 3]
        assert [point.values["train", "learning_rate"] for point in result.curve] == pytest.approx(
            [0.01, 0.0075, 0.0025]
        )
        names = {("train", "learning_rate"), ("train", "loss"), ("test", headline), ("validation", headline)}
        assert all(set(point.values) == names for point in result.curve)
        for split in ("test", "validation"):
            assert result.curve[-1].values[split, headline] == pytest.approx(result.metric(headline, split), rel=1e-6)


def test_a_result_says_how_it_was_trained(engine, blobs):
    result = engine.train([a_run(blobs)], blobs)[0]
    assert result.engine == engine.name
    assert (result.state, result.device, result.threads) == ("complete", "cpu", 1)
    assert result.n_parameters == 6 * 3 + 6 * 3
    assert result.instruction_set
    assert {name: (array.shape, array.dtype) for name, array in result.arrays.items()} == {
        "keys": ((6, 3), np.float32),
        "values": ((6, 3), np.float32),
    }


def assert_same_end(dataset: Dataset, config: RunConfig) -> None:
    one, other = (make_engine(name).train([config], dataset)[0] for name in ENGINES)
    assert (one.state, one.diverged_epoch) == (other.state, other.diverged_epoch)
    assert len(one.curve) == len(other.curve)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("method", ["idw", "inv_dist"])
def test_engines_are_both_finite_or_diverge_at_the_same_epoch(blobs, method, power, epsilon):
    assert_same_end(blobs, a_run(blobs, method, power=power, epsilon=epsilon))


@pytest.mark.parametrize("power", POWERS)
def test_engines_end_alike_for_every_power_of_a_negative_distance(blobs, power):
    assert_same_end(blobs, a_run(blobs, "neg_dist", power=power))


# Between 1e12 and 1e37 they may differ: torch's gradient of a distance is gradient · difference / distance, whose first
# product overflows before the gradient itself does.
@pytest.mark.parametrize("rate", [1e2, 1e10, 3e37])
@pytest.mark.parametrize("method", METHODS)
def test_engines_end_alike_at_rates_far_beyond_use(blobs, method, rate):
    assert_same_end(blobs, a_run(blobs, method, learning_rate=rate, prototypes=4, seed=0))


@pytest.mark.parametrize("method", METHODS)
def test_one_prototype_can_be_trained(engine, method, blobs):
    result = engine.train([a_run(blobs, method, prototypes=1)], blobs)[0]
    assert result.state == "complete"
    assert result.arrays["keys"].shape == (1, 3)


def test_a_run_that_overflows_has_a_curve_up_to_that_epoch_and_no_arrays(engine, blobs):
    config = a_run(blobs, "fc_relu", epochs=5, learning_rate=3e37, prototypes=4, seed=0)
    seen: list[int] = []
    result = engine.train([config], blobs, seen.append)[0]
    assert result.state == "diverged"
    assert (dict(result.arrays), dict(result.metrics), result.n_parameters) == ({}, {}, None)
    assert [point.epoch for point in result.curve] == list(range(1, result.diverged_epoch))
    assert seen == list(range(1, result.diverged_epoch + 1))


def test_results_come_in_the_order_of_the_runs_and_every_epoch_is_reported(engine, blobs):
    runs = [a_run(blobs, seed=seed) for seed in (5, 1, 9)]
    seen: list[int] = []
    results = engine.train(runs, blobs, seen.append)
    assert [result.config for result in results] == runs
    assert sorted(set(seen)) == [1, 2, 3]


def test_runs_of_different_stacks_are_refused(engine, blobs):
    for other in (a_run(blobs, "gaussian"), a_run(blobs, power=1.0), a_run(blobs, gradient_clip=1.0)):
        with pytest.raises(ValueError, match="a stack holds"):
            engine.train([a_run(blobs), other], blobs)
