"""What both engines of prototypes promise: the numbers of a plain PyTorch loop in float64, stacks, and how runs end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from engine_runs import train_run, train_runs
from float64_loop import assert_near_float64, random_prototypes, start_with
from kinds import prototypes_run

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.models.initialisation import initial_prototypes
from idwbench.runs.config import RunConfig
from idwbench.training.threads import limited_threads
from idwbench.training.torch_engine import ENGINES as TORCH
from idwbench.training.torch_engine import resolve_device

pytestmark = pytest.mark.slow

ENGINES = ("torch", "fused")
PROTOCOLS = [
    {},
    {"optimizer": "adam"},
    {"optimizer": "sgd", "learning_rate": 0.05},
    {"optimizer": "sgd", "momentum": 0.9, "schedule": "constant"},
    {"weight_decay": 0.1},
    {"optimizer": "adam", "weight_decay": 0.1, "gradient_clip": 0.05},
    {"optimizer": "sgd", "momentum": 0.5, "weight_decay": 0.1, "gradient_clip": 0.05, "warmup_epochs": 2},
    {"gradient_clip": 1e3, "warmup_epochs": 1},
]
# Classes, one number and two numbers to learn, each from few features and from many: their keys lie differently in
# memory.
DATASETS = [
    make_dataset(13),
    make_regression(13, 40, 1),
    make_regression(13, 3, 2),
    make_dataset(13, 40),
    make_regression(13, 3, 1),
    make_regression(13, 40, 2),
]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with limited_threads(1):
        yield


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


def by_both(config: RunConfig, dataset: Dataset):
    return [train_run(config, dataset, engine=name) for name in ENGINES]


# Each method with each protocol, each on one data set: a method meets all of them over the protocols, and a protocol
# over the methods.
@pytest.mark.parametrize("protocol", range(len(PROTOCOLS)), ids=lambda i: "-".join(map(str, PROTOCOLS[i].values())))
@pytest.mark.parametrize("method", METHODS)
def test_every_method_and_protocol_equals_a_plain_loop_in_pytorch(method, protocol, monkeypatch):
    start_with(monkeypatch)
    dataset = DATASETS[(list(METHODS).index(method) + protocol) % 6]
    settings = {"epochs": 3, "batch_size": 5, **PROTOCOLS[protocol]}
    assert_near_float64(by_both(prototypes_run(dataset, method, **settings), dataset), dataset)


@pytest.mark.parametrize("initialisation", ["samples", "kmeans"])
@pytest.mark.parametrize("dataset", [make_dataset(), make_regression()], ids=["classes", "numbers"])
def test_engines_begin_at_the_same_prototypes(dataset, initialisation):
    config = prototypes_run(dataset, initialisation=initialisation, epochs=1, batch_size=100, learning_rate=1e-30)
    keys, values = initial_prototypes(config.model, dataset, dataset.moments, np.random.default_rng(config.seed))
    for result in by_both(config, dataset):
        np.testing.assert_allclose(result.arrays["keys"], keys, rtol=0, atol=2e-30)
        np.testing.assert_allclose(result.arrays["values"], values, rtol=0, atol=2e-30)


def test_more_prototypes_than_inputs_to_begin_at_are_refused_in_one_line(engine, blobs):
    config = prototypes_run(blobs, initialisation="samples", prototypes=24)
    with pytest.raises(ConfigError, match=r"^prototypes: expected at most 23, the number of training inputs, got 24$"):
        train_run(config, blobs, engine=engine)


POWERS = [0.5, 1.0, 2.0, 64.0]
ENDS = [
    *(("neg_dist", {"power": power}) for power in POWERS),
    *(
        (method, {"power": power, "epsilon": epsilon})
        for method, power, epsilon in product(["idw", "inv_dist"], POWERS, [0.0, 1e-6])
    ),
    # Between 1e12 and 1e37 they may differ: torch's gradient of a distance is gradient · difference / distance, whose
    # first product overflows before the gradient itself does.
    *((method, {"learning_rate": rate, "prototypes": 4, "seed": 0}) for method, rate in product(METHODS, [1e10, 3e37])),
]


@pytest.mark.parametrize(("method", "settings"), ENDS)
def test_engines_are_both_finite_or_diverge_at_the_same_epoch(blobs, method, settings):
    ends = [
        (run.state, run.diverged_epoch, len(run.curve))
        for run in by_both(prototypes_run(blobs, method, **settings), blobs)
    ]
    assert ends[0] == ends[1]


# Stacks

# (training size, features, classes, prototypes, batch size): the protocols of Two Moons and MNIST with an odd last
# batch, shapes where BLAS rounds single and stacked products differently, and one prototype.
SHAPES = [(33, 2, 2, 16, 10), (11, 784, 10, 20, 4), (67, 7, 10, 200, 64), (9, 3, 1, 1, 3)]
OPTIONS = [
    {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1},
    {"gradient_clip": 0.01},
    {"initialisation": "samples"},
    {"initialisation": "kmeans"},
]
# Powers and epsilons of one formula.
GRIDS = [
    ("idw", [(1.0, 1e-3), (1.0, 1e-40), (16.0, 1.0), (0.5, 1e-12)]),
    ("inv_dist", [(2.0, 1e-2), (2.0, 1.0), (2.0, 1e-12), (2.0, 1e-40)]),
    ("idw", [(1.0, 0.0), (0.5, 0.0), (3.0, 0.0)]),
    ("inv_dist", [(1.0, 0.0), (0.5, 0.0), (3.0, 0.0)]),
]


def stacks() -> Iterator[tuple[Dataset, list[RunConfig]]]:
    """Yield runs that train in one stack, with their data."""
    blobs = make_dataset()

    def seeds(dataset: Dataset, method: str = "idw", **settings: object) -> tuple[Dataset, list[RunConfig]]:
        base = {"epochs": 2, "batch_size": 5, "prototypes": 4, **settings}
        return dataset, [prototypes_run(dataset, method, seed=seed, **base) for seed in range(2)]

    yield from (seeds(blobs, method) for method in METHODS)
    for number, (n_train, n_features, n_classes, prototypes, batch_size) in enumerate(SHAPES):
        sizes = {"prototypes": prototypes, "batch_size": batch_size}
        yield seeds(make_dataset(n_train, n_features, n_classes), ("scaled_dot", "idw")[number % 2], **sizes)
    for number, options in enumerate(OPTIONS):
        yield seeds(make_regression(40) if number % 2 else make_dataset(40), **options)
    for method, grid in GRIDS:
        yield blobs, [prototypes_run(blobs, method, epochs=2, power=p, epsilon=e) for p, e in grid]


@pytest.mark.parametrize(("dataset", "stack"), [*stacks()], ids=lambda value: "")
def test_a_run_in_a_stack_is_bit_for_bit_the_run_alone(engine, dataset, stack):
    results = train_runs(stack, dataset, engine=engine)
    assert len({result.arrays["keys"].tobytes() for result in results}) > 1
    for config, result in zip(stack, results, strict=True):
        alone = train_run(config, dataset, engine=engine)
        for name in ("keys", "values"):
            np.testing.assert_array_equal(alone.arrays[name], result.arrays[name])
        assert (alone.curve, alone.metrics) == (result.curve, result.metrics)


def test_a_diverged_run_leaves_its_neighbours_alone(engine, blobs, monkeypatch):
    def first_is_not_finite(model, dataset, moments, generator):
        keys, values = random_prototypes(model, dataset, moments, generator)
        is_first = generator.bit_generator.seed_seq.entropy == 0
        return (keys * np.nan if is_first else keys), values

    monkeypatch.setattr("idwbench.training.fused_engine.CALL_NUMBERS", 1)
    start_with(monkeypatch, first_is_not_finite)
    stack = [prototypes_run(blobs, seed=seed) for seed in (0, 1)]
    diverged, sound = train_runs(stack, blobs, engine=engine)
    assert (diverged.state, diverged.diverged_epoch, diverged.curve) == ("diverged", 1, ())
    alone = train_run(stack[1], blobs, engine=engine)
    assert (sound.state, sound.curve, sound.metrics) == ("complete", alone.curve, alone.metrics)
    np.testing.assert_array_equal(sound.arrays["keys"], alone.arrays["keys"])


@pytest.mark.parametrize("other", [{"method": "gaussian"}, {"power": 1.0}, {"gradient_clip": 1.0}])
def test_runs_of_different_stacks_are_refused(engine, blobs, other):
    with pytest.raises(ValueError, match="a stack holds"):
        train_runs([prototypes_run(blobs), prototypes_run(blobs, **other)], blobs, engine=engine)


def test_stacks_of_torch_are_cut_to_bounded_memory_and_evaluated_some_runs_at_a_time(blobs, monkeypatch):
    small, large = prototypes_run(blobs, prototypes=4), prototypes_run(blobs, prototypes=2000, batch_size=1024)
    assert [TORCH["torch"].max_stack(config, blobs) for config in (small, large)] == [1024, 5]
    stack = [prototypes_run(blobs, seed=seed) for seed in range(5)]
    together = train_runs(stack, blobs, engine="torch")
    monkeypatch.setattr("idwbench.training.torch_engine.OUTPUT_NUMBERS", 2 * 23 * 3)
    apart = train_runs(stack, blobs, engine="torch")
    assert [result.metrics for result in apart] == [result.metrics for result in together]


def test_an_absent_device_is_refused_in_one_line():
    with pytest.raises(ConfigError, match=r"^device: 'nonsense' is not available here") as error:
        resolve_device("nonsense")
    assert "\n" not in str(error.value)
