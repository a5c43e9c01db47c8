"""What every engine promises, run on each: the numbers of a plain PyTorch loop in float64, and how runs end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from blob_data import make_dataset, make_regression
from engine_runs import train_run, train_runs
from float64_loop import assert_near_float64, numbers_of
from starts import random_prototypes

from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset, feature_moments
from idwbench.errors import ConfigError
from idwbench.models.initialisation import initial_prototypes
from idwbench.runs.config import RunConfig, run_config
from idwbench.training.threads import limited_threads

pytestmark = pytest.mark.slow

ENGINES = ("torch", "fused")
POWERS = [0.5, 1.0, 2.0, 4.0, 16.0, 64.0]
PROTOCOLS = [
    {},
    {"optimizer": "adam"},
    {"optimizer": "sgd", "learning_rate": 0.05},
    {"optimizer": "sgd", "momentum": 0.9, "schedule": "constant"},
    {"weight_decay": 0.1},
    {"optimizer": "adam", "weight_decay": 0.1, "gradient_clip": 0.05},
    {"optimizer": "sgd", "momentum": 0.5, "weight_decay": 0.1, "gradient_clip": 0.05, "warmup_epochs": 2},
    {"gradient_clip": 1e3, "warmup_epochs": 1},
    {"schedule": "constant"},
]


def datasets(n_train: int) -> list[Dataset]:
    """Return classes, one number and two numbers to learn, each from few features and from many.

    Keys of few and of many features lie differently in memory.
    """
    classes = [make_dataset(n_train, n_features) for n_features in (3, 40)]
    numbers = [make_regression(n_train, n_features, n_targets) for n_targets in (1, 2) for n_features in (40, 3)]
    return [classes[0], numbers[0], numbers[3], classes[1], numbers[1], numbers[2]]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with limited_threads(1):
        yield


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


def a_run(dataset: Dataset, method: str = "idw", **settings: object) -> RunConfig:
    base = {"epochs": 3, "batch_size": 4, "prototypes": 6, "seed": 3, "learning_rate": 0.01}
    return run_config(dataset.config, method=method, **{**base, **settings})


@pytest.fixture
def random_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("torch_engine", "kernel_runs"):
        monkeypatch.setattr(f"idwbench.training.{module}.initial_prototypes", random_prototypes)


def assert_engines_equal_the_plain_loop(config: RunConfig, dataset: Dataset) -> None:
    results = [train_run(config, dataset, engine=name) for name in ENGINES]
    assert_near_float64(config, dataset, map(numbers_of, results))


# Each method with each protocol, each on one data set: a method meets all of them over the protocols, and a protocol
# over the methods.
@pytest.mark.usefixtures("random_start")
@pytest.mark.parametrize("protocol", range(len(PROTOCOLS)), ids=lambda i: "-".join(map(str, PROTOCOLS[i].values())))
@pytest.mark.parametrize("method", METHODS)
def test_every_method_and_protocol_equals_a_plain_loop_in_pytorch(method, protocol):
    dataset = datasets(13)[(list(METHODS).index(method) + protocol) % 6]
    settings = {"epochs": 3, "batch_size": 5, **PROTOCOLS[protocol]}
    assert_engines_equal_the_plain_loop(a_run(dataset, method, **settings), dataset)


# (training size, batch size, epochs)
@pytest.mark.usefixtures("random_start")
@pytest.mark.parametrize("horizon", [(4, 9, 1), (20, 4, 12)], ids=["one step of less than a batch", "60 steps"])
@pytest.mark.parametrize("method", METHODS)
def test_short_and_long_runs_equal_a_plain_loop_in_pytorch(method, horizon):
    n_train, batch_size, epochs = horizon
    dataset = make_dataset(n_train, 40 if list(METHODS).index(method) % 2 else 2)
    assert_engines_equal_the_plain_loop(a_run(dataset, method, batch_size=batch_size, epochs=epochs), dataset)


@pytest.mark.parametrize("initialisation", ["samples", "kmeans"])
@pytest.mark.parametrize("dataset", [make_dataset(), make_regression()], ids=["classes", "numbers"])
def test_engines_begin_at_the_same_prototypes(engine, dataset, initialisation):
    config = a_run(dataset, initialisation=initialisation, epochs=1, batch_size=100, learning_rate=1e-30)
    moments = feature_moments(dataset.train.inputs)
    keys, values = initial_prototypes(config.model, dataset, moments, np.random.default_rng(config.seed))
    result = train_run(config, dataset, engine=engine)
    np.testing.assert_allclose(result.arrays["keys"], keys, rtol=0, atol=2e-30)
    np.testing.assert_allclose(result.arrays["values"], values, rtol=0, atol=2e-30)


def test_more_prototypes_than_inputs_to_begin_at_are_refused_in_one_line(engine, blobs):
    config = a_run(blobs, initialisation="samples", prototypes=24)
    with pytest.raises(ConfigError, match=r"^prototypes: expected at most 23, the number of training inputs, got 24$"):
        train_run(config, blobs, engine=engine)


def test_metrics_are_those_of_the_returned_prototypes_on_every_split(engine):
    for dataset in (make_dataset(validation=True), make_regression()):
        result = train_run(a_run(dataset), dataset, engine=engine)
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
        result = train_run(a_run(dataset), dataset, engine=engine, on_epoch=seen.append)
        assert seen == [point.epoch for point in result.curve] == [1, 2, 3]
        assert [point.values["train", "learning_rate"] for point in result.curve] == pytest.approx(
            [0.01, 0.0075, 0.0025]
        )
        names = {("train", "learning_rate"), ("train", "loss"), ("test", headline), ("validation", headline)}
        assert all(set(point.values) == names for point in result.curve)
        for split in ("test", "validation"):
            assert result.curve[-1].values[split, headline] == pytest.approx(result.metric(headline, split), rel=1e-6)


def test_a_result_says_how_it_was_trained(engine, blobs):
    result = train_run(a_run(blobs), blobs, engine=engine)
    assert result.engine == engine
    assert (result.state, result.device, result.threads) == ("complete", "cpu", 1)
    assert result.n_parameters == 6 * 3 + 6 * 3
    assert result.instruction_set
    assert {name: (array.shape, array.dtype) for name, array in result.arrays.items()} == {
        "keys": ((6, 3), np.float32),
        "values": ((6, 3), np.float32),
    }


def assert_same_end(dataset: Dataset, config: RunConfig) -> None:
    one, other = (train_run(config, dataset, engine=name) for name in ENGINES)
    assert (one.state, one.diverged_epoch) == (other.state, other.diverged_epoch)
    assert len(one.curve) == len(other.curve)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1.0])
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
    result = train_run(a_run(blobs, method, prototypes=1), blobs, engine=engine)
    assert result.state == "complete"
    assert result.arrays["keys"].shape == (1, 3)


def test_a_run_that_overflows_has_a_curve_up_to_that_epoch_and_no_arrays(engine, blobs):
    config = a_run(blobs, "fc_relu", epochs=5, learning_rate=3e37, prototypes=4, seed=0)
    seen: list[int] = []
    result = train_run(config, blobs, engine=engine, on_epoch=seen.append)
    assert result.state == "diverged"
    assert (dict(result.arrays), dict(result.metrics), result.n_parameters) == ({}, {}, None)
    assert [point.epoch for point in result.curve] == list(range(1, result.diverged_epoch))
    assert seen == list(range(1, result.diverged_epoch + 1))


def test_results_come_in_the_order_of_the_runs_and_every_epoch_is_reported(engine, blobs):
    runs = [a_run(blobs, seed=seed) for seed in (5, 1, 9)]
    seen: list[int] = []
    results = train_runs(runs, blobs, engine=engine, on_epoch=seen.append)
    assert [result.config for result in results] == runs
    assert sorted(set(seen)) == [1, 2, 3]


def test_runs_of_different_stacks_are_refused(engine, blobs):
    for other in (a_run(blobs, "gaussian"), a_run(blobs, power=1.0), a_run(blobs, gradient_clip=1.0)):
        with pytest.raises(ValueError, match="a stack holds"):
            train_runs([a_run(blobs), other], blobs, engine=engine)
