"""What both engines of prototypes promise: the numbers of a plain PyTorch loop in float64, stacks, and how runs end."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from array_models import SCORE_SETTINGS
from blob_data import make_dataset, make_regression
from engine_runs import torch_optimizer, torch_step, train_run, train_runs
from kinds import EXAMPLES as EXAMPLES_OF_KINDS
from kinds import PROTOCOLS, prototypes_run
from sweep_specs import sweep_spec

from idwbench import Results, run_config, run_sweep, train
from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.data.dataset import Split
from idwbench.errors import ConfigError
from idwbench.models.initialisation import initial_slopes, learned_arrays
from idwbench.runs.datasets import parse_dataset
from idwbench.runs.protocol import learning_rate
from idwbench.training.engine import stack_key
from idwbench.training.fused_engine import has_kernel
from idwbench.training.kernel_runs import MOST_THREADS, useful_threads
from idwbench.training.threads import limited_threads
from idwbench.training.torch_engine import ENGINES as TORCH

pytestmark = pytest.mark.slow

# The loop that a reader of the paper would write in PyTorch, and how far rounding may lead from it


def random_prototypes(model, dataset, moments, generator):
    """Stand in for `initial_prototypes`, with values that are not zero.

    With values of zero the first gradients of keys would be rounding errors alone, which Adam scales to the size of its
    step, so that no two programs need agree.
    """
    keys = moments[0] + moments[1] * generator.normal(size=(model.prototypes, dataset.n_features))
    return keys.astype(np.float32), generator.normal(size=(model.prototypes, dataset.n_outputs)).astype(np.float32)


def prototypes_with_a_hit(model, dataset, moments, generator):
    """Stand in for `initial_prototypes`, with a key that equals an input."""
    keys, values = random_prototypes(model, dataset, moments, generator)
    keys[0] = dataset.train.inputs[0]
    return keys, values


def random_slopes(model, dataset, generator):
    """Stand in for `initial_slopes`, with slopes that are not zero, for the same reason."""
    slopes = initial_slopes(model, dataset, generator)
    return {name: generator.normal(size=array.shape).astype(np.float32) for name, array in slopes.items()}


def start_with(monkeypatch, prototypes=random_prototypes):
    """Let both engines begin at other prototypes, and at other slopes."""
    for module in ("torch_engine", "kernel_runs"):
        monkeypatch.setattr(f"idwbench.training.{module}.initial_prototypes", prototypes)
        monkeypatch.setattr(f"idwbench.training.{module}.initial_slopes", random_slopes)


def plain_loop(config, dataset, dtype, prototypes=random_prototypes):
    """Return what a run learns and the loss of each epoch, by name: one model, one optimizer, one loop."""
    p, generator = config.protocol, np.random.default_rng(config.seed)
    method, losses = config.model.method_record, []
    pair = prototypes(config.model, dataset, dataset.moments, generator)
    learned = learned_arrays(method, config.model.parameters, dataset.n_features, generator)
    slopes = random_slopes(config.model, dataset, generator)
    arrays = {"keys": pair[0], "values": pair[1], **learned, **slopes}
    by_name = {name: torch.from_numpy(array).to(dtype).requires_grad_() for name, array in arrays.items()}
    tensors = [*by_name.values()]
    arguments = {**config.model.parameters, **{name: by_name[name] for name in learned}}
    sloped = {name: by_name[name] for name in slopes}
    optimizer = torch_optimizer(p, tensors)
    inputs, targets = torch.from_numpy(dataset.train.inputs).to(dtype), torch.from_numpy(dataset.train.targets)
    loss_of = partial(torch.nn.functional.cross_entropy, label_smoothing=config.model.label_smoothing)
    if dataset.task == "regression":
        targets, loss_of = targets.to(dtype), torch.nn.functional.mse_loss
    for epoch in range(p.epochs):
        total = 0.0
        for batch in torch.from_numpy(generator.permutation(len(targets))).split(p.batch_size):
            loss = loss_of(prototype_logits(method, arguments, inputs[batch], *tensors[:2], sloped), targets[batch])
            if config.model.key_penalty:
                distances = (inputs[batch, None] - tensors[0]).norm(dim=2)
                if dataset.task == "classification":  # from keys to the inputs of their class, if there are any
                    distances = distances.masked_fill(targets[batch][:, None] != tensors[1].argmax(1), torch.inf)
                nearest = distances.amin(0)
                loss = loss + config.model.key_penalty * nearest[nearest.isfinite()].sum() / len(nearest)
            torch_step(optimizer, p, loss, learning_rate(p, epoch))
            if config.model.key_bounds == "data":
                tensors[0].detach().clamp_(inputs.amin(0), inputs.amax(0))
            total += loss.item() * len(batch)
        losses.append(total / len(targets))
    learned_by_name = {name: tensor.detach().double().numpy() for name, tensor in by_name.items()}
    return {**learned_by_name, "losses": np.array(losses)}


def assert_near_float64(results, dataset, prototypes=random_prototypes):
    """Compare keys, values and losses of runs with one configuration with the plain loop in float64.

    The bound is what rounding does to the same loop in float32, times 30, since another order of sums may be less
    fortunate; and 30 units in the last place of the largest number.
    """
    results = [*results]
    given = results[0].config, dataset
    truth, rounded = (plain_loop(*given, dtype, prototypes) for dtype in (torch.float64, torch.float32))
    for result in results:
        losses = np.array([point.values["train", "loss"] for point in result.curve])
        arrays = {**result.arrays, "losses": losses}
        assert arrays.keys() == truth.keys()
        for name, array in arrays.items():
            true, nearby = truth[name], rounded[name]
            bound = 30 * np.abs(nearby - true).max() + 30 * np.finfo(np.float32).eps * np.abs(true).max()
            np.testing.assert_allclose(array, true, rtol=0, atol=bound, err_msg=name)


ENGINES = ("torch", "fused")
# Classes, one number and two numbers to learn, from few features and from many, whose keys lie differently in memory.
DATASETS = [make_dataset(13), make_regression(13, 40, 1), make_regression(13, 3, 2)]
DATASETS += [make_dataset(13, 40), make_regression(13, 3, 1), make_regression(13, 40, 2)]
# Noise with squared distances near 2: no method has gradients of 0.
NOISE = (0.05 * np.random.default_rng(1).normal(size=(600, 450))).astype(np.float32)
LARGE = make_dataset(n_train=600, n_features=450)
LARGE = replace(LARGE, train=Split(NOISE, LARGE.train.labels))


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with limited_threads(1):
        yield


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


def by_both(config, dataset):
    return [train_run(config, dataset, engine=name) for name in (ENGINES if has_kernel(config) else ["torch"])]


# Each method with every other protocol, and each on one data set: a protocol meets all data sets over the methods.
LOOPS = [
    (method, (number + protocol) % 6, PROTOCOLS[protocol])
    for number, method in enumerate(METHODS)
    for protocol in ((2 * i + number) % 8 for i in range(4))
]
LOOPS += [
    (("idw", "scaled_dot", "additive")[place % 3], place % 6, {"weighting": weighting})
    for place, weighting in enumerate(WEIGHTINGS)
    if weighting != "exact_match"
]
LOOPS += [("idw", place, {"key_bounds": "data"}) for place in range(6)]
LOOPS += [(method, place, {"label_smoothing": 0.3}) for method in ("idw", "additive") for place in (0, 3)]
NEAR = enumerate(["idw", "neg_dist", "idw", "gaussian", "inv_dist", "idw"])
LOOPS += [(method, place, {"key_penalty": 0.3, "slope_rank": place % 2 and 2}) for place, method in NEAR]
LOOPS += [
    (method, place, {"slope_rank": 2, **PROTOCOLS[place]})
    for place, method in enumerate(["idw", "cosine", "neg_dist", "additive", "gaussian", "inv_dist"])
]


@pytest.mark.parametrize(("method", "place", "settings"), LOOPS)
def test_every_method_protocol_weighting_bound_and_slope_equals_a_plain_loop(method, place, settings, monkeypatch):
    start_with(monkeypatch)
    if "slope_rank" in settings and place % 2:
        monkeypatch.setattr("idwbench.training.kernel_runs.PRODUCT_SIZES", (1, 1, 1))
    dataset = DATASETS[place]
    results = by_both(prototypes_run(dataset, method, **{"epochs": 3, "batch_size": 5, **settings}), dataset)
    assert_near_float64(results, dataset)
    assert results[0].n_parameters == sum(array.size for array in results[0].arrays.values())
    low, high = dataset.train.inputs.min(0), dataset.train.inputs.max(0)
    inside = [((result.arrays["keys"] >= low) & (result.arrays["keys"] <= high)).all() for result in results]
    assert "key_bounds" not in settings or all(inside)


# (batch, prototypes, features, outputs): one of everything, both layouts of keys, and more inputs than a tile holds.
# Those of `PRODUCTS` are computed by matrix products.
SHAPES = [(1, 1, 1, 2), (7, 20, 15, 4), (5, 3, 16, 2), (4, 20, 50, 10), (70, 300, 17, 3), (9, 9, 3, 2)]
PRODUCTS = [(5, 3, 16, 2), (9, 20, 50, 10), (70, 40, 17, 3)]


@pytest.mark.parametrize(("method", "parameters"), SCORE_SETTINGS)
@pytest.mark.parametrize("way", ["classes", "numbers", "products"])
def test_a_step_is_the_gradient_of_float64_also_where_a_key_equals_an_input(method, parameters, way, monkeypatch):
    start_with(monkeypatch, prototypes_with_a_hit)
    number = SCORE_SETTINGS.index((method, parameters))
    shapes = SHAPES if way != "products" else PRODUCTS
    shapes = shapes[number % len(shapes) :] + shapes[: number % len(shapes)]
    if way == "products":
        monkeypatch.setattr("idwbench.training.kernel_runs.PRODUCT_SIZES", (1, 1, 1))
    for batch, prototypes, features, outputs in shapes[:2]:
        data = (make_regression if way == "numbers" else make_dataset)(batch, features, outputs)
        train = replace(data.train, inputs=data.train.inputs / np.float32(features**0.5))
        data = replace(data, train=train, validation=None)
        settings = {"epochs": 1, "batch_size": batch, "optimizer": "sgd", "learning_rate": 1.0, **parameters}
        run = train_run(prototypes_run(data, method, prototypes=prototypes, **settings), data, engine="auto")
        assert_near_float64([run], data, prototypes_with_a_hit)


def large(**settings):
    return prototypes_run(LARGE, **{"prototypes": 300, "batch_size": 250, "epochs": 1, **settings})


def test_a_large_run_equals_a_plain_loop_and_has_the_same_bytes_on_as_many_threads(monkeypatch):
    start_with(monkeypatch)
    results = []
    for threads in (1, 2, 2):
        with limited_threads(threads):
            results.append(train_run(large(), LARGE, engine="fused"))
    assert [result.threads for result in results] == [1, 2, 2]
    assert_near_float64(results[:2], LARGE)
    assert all(array.tobytes() == results[1].arrays[name].tobytes() for name, array in results[2].arrays.items())


def test_small_runs_and_those_of_sweeps_need_one_thread_and_large_ones_what_they_gain_by(tmp_path, monkeypatch):
    with limited_threads(2):
        assert useful_threads(large(), LARGE) == 2
        for small in (large(prototypes=20), large(prototypes=64), large(batch_size=31)):
            assert useful_threads(small, LARGE) == 1
    assert 1 <= useful_threads(large(), LARGE) <= MOST_THREADS
    monkeypatch.setattr("idwbench.training.kernel_runs.THREADED_PRODUCT", 1)
    data, block = parse_dataset("digits"), {"method": "idw", "prototypes": 64}
    config = run_config(data, **block, batch_size=32, epochs=1, seed=5)
    for threads in (2, 1):
        with limited_threads(threads):
            assert train(config, tmp_path / f"{threads}.db").threads == threads
    with limited_threads(2):
        run_sweep(sweep_spec("test", (data, config.protocol), grid=[block]), tmp_path / "2.db")
    assert [run.threads for run in Results(tmp_path / "2.db").find_runs(sweep="test")] == [1]


POWERS = [0.5, 1.0, 2.0, 64.0]
ENDS = [
    *(("neg_dist", {"power": power}) for power in POWERS),
    *((method, {"power": p, "epsilon": 0.0}) for method, p in product(["idw", "inv_dist"], POWERS)),
    ("inv_dist", {"power": 64.0, "epsilon": 1e-6}),
    # Between 1e12 and 1e37 they may differ: torch's gradient of a distance is gradient · difference / distance, whose
    # first product overflows before the gradient itself does.
    *((method, {"learning_rate": rate, "prototypes": 4, "seed": 0}) for method, rate in product(METHODS, [1e10, 3e37])),
]


@pytest.mark.parametrize(("method", "settings"), ENDS)
def test_engines_are_both_finite_or_diverge_at_the_same_epoch(blobs, method, settings):
    runs = by_both(prototypes_run(blobs, method, **settings), blobs)
    assert len({(run.state, run.diverged_epoch, len(run.curve)) for run in runs}) == 1


# Stacks

STACKS = [(make_dataset(), {"method": method}, {}) for method in METHODS]
STACKS += [
    ((make_dataset if kind == "classes" else make_regression)(*sizes), settings, grid)
    for kind, sizes, settings, grid in EXAMPLES_OF_KINDS["stacks"]
]


@pytest.mark.parametrize(("dataset", "settings", "grid"), STACKS)
def test_a_run_in_a_stack_is_bit_for_bit_the_run_alone(engine, dataset, settings, grid):
    ((name, values),) = (grid or {"seed": [0, 1]}).items()
    base = {"epochs": 2, "batch_size": 5, "prototypes": 4, **settings}
    stack = [prototypes_run(dataset, **base, **{name: value}) for value in values]
    engine = engine if has_kernel(stack[0]) else "torch"
    results = train_runs(stack, dataset, engine=engine)
    assert len({result.arrays["keys"].tobytes() for result in results}) > 1
    for config, result in zip(stack, results, strict=True):
        alone = train_run(config, dataset, engine=engine)
        for name, array in alone.arrays.items():
            np.testing.assert_array_equal(array, result.arrays[name])
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


APART = [({}, {"method": "gaussian"}), ({}, {"power": 1.0}), ({}, {"gradient_clip": 1.0})]
APART += [({"method": "additive", "hidden": 2}, {"method": "additive", "hidden": 3})]
APART += [({"weighting": "top_k", "k": 2}, {"weighting": "top_k", "k": 3})]


@pytest.mark.parametrize(("one", "other"), APART)
def test_runs_of_different_methods_or_sizes_have_different_stacks_and_are_refused_in_one(engine, blobs, one, other):
    runs = [prototypes_run(blobs, **one), prototypes_run(blobs, **other)]
    engine = engine if has_kernel(runs[0]) else "torch"
    assert stack_key(runs[0]) == stack_key(runs[0].with_seed(0)) != stack_key(runs[1])
    with pytest.raises(ValueError, match="a stack holds"):
        train_runs(runs, blobs, engine=engine)


def test_stacks_of_torch_fit_a_bounded_memory_and_a_device_that_is_there(blobs, monkeypatch):
    small, large = prototypes_run(blobs, prototypes=4), prototypes_run(blobs, prototypes=2000, batch_size=1024)
    assert [TORCH["torch"].max_stack(config, blobs) for config in (small, large)] == [1024, 5]
    stack = [prototypes_run(blobs, seed=seed) for seed in range(5)]
    together = train_runs(stack, blobs, engine="torch")
    monkeypatch.setattr("idwbench.training.torch_engine.OUTPUT_NUMBERS", 2 * 23 * 3)
    apart = train_runs(stack, blobs, engine="torch")
    assert [result.metrics for result in apart] == [result.metrics for result in together]
    with pytest.raises(ConfigError, match=r"^device: 'nonsense' is not available here[^\n]*$"):
        train_runs(stack, blobs, engine="torch", device="nonsense")
