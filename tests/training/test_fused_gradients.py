"""Hand-written gradients against autograd and finite differences, both in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import METHODS, get_method
from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.runs.config import run_config
from idwbench.training.kernel_runs import KernelRun

# (batch, prototypes, features, outputs): one of everything, both layouts of keys, and more inputs than a tile holds.
SHAPES = [(1, 1, 1, 2), (4, 5, 2, 3), (7, 20, 15, 4), (5, 3, 16, 2), (4, 20, 50, 10), (70, 300, 17, 3), (9, 9, 3, 2)]
PARAMETERS = {
    "cosine": [{}, {"temperature": 0.1}],
    "scaled_dot": [{}, {"scale": "prototypes"}],
    "gaussian": [{}, {"sigma_squared": 30.0}],
    "neg_dist": [{}, {"power": 1.0}, {"power": 3.0}],
    "inv_dist": [{"epsilon": 0.1}, {"epsilon": 0.5, "power": 1.5}],
    "idw": [{}, {"power": 1.0}, {"power": 7.0, "epsilon": 1.0}, {"epsilon": 0.0}, {"power": 0.5, "epsilon": 0.1}],
}
CASES = [(method, given) for method in METHODS for given in PARAMETERS.get(method, [{}])]


def problem(shape, task="classification", seed=0):
    """One batch in which an input equals a key, a feature is constant, and class 0 is missing."""
    batch, prototypes, features, outputs = shape
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(batch, features)) / np.sqrt(features)
    inputs[:, -1] = 0.25
    keys = generator.normal(size=(prototypes, features)) / np.sqrt(features)
    values = generator.normal(size=(prototypes, outputs))
    targets = generator.integers(1, outputs, batch)
    if task == "regression":
        targets = generator.normal(size=(batch, outputs)).astype(np.float32)
    inputs, keys, values = (array.astype(np.float32) for array in (inputs, keys, values))
    if batch > 1:
        inputs[1] = keys[0]
    return inputs, targets, keys, values


def kernel_run(method, given, inputs, targets, keys, values, **options):
    split = Split(inputs, targets)
    config = run_config("two_moons", method=method, prototypes=len(keys), epochs=1, **given, **options)
    names = () if targets.ndim == 2 else tuple("abcdefghij"[: values.shape[1]])
    dataset = Dataset(
        config=config.dataset,
        train=split,
        test=split,
        holdout=None,
        scaling=Scaling.identity(),
        image_shape=None,
        class_names=names,
        sha256="",
    )
    run = KernelRun(config, dataset, (inputs.mean(0), inputs.std(0)))
    run.keys[0][0] = keys.T if run.narrow else keys
    run.values[0][0] = values.T
    return run


def fused_loss_and_gradients(method, given, inputs, targets, keys, values):
    """Take one step of plain descent, whose momentum buffer then holds the gradient."""
    options = {"optimizer": "sgd", "batch_size": len(targets), "learning_rate": 1e-3}
    run = kernel_run(method, given, inputs, targets, keys, values, **options)
    run.train_epochs(0, 1)
    key_gradient = run.keys[0][1].T if run.narrow else run.keys[0][1]
    return run.curve[0].values["train", "loss"], key_gradient, run.values[0][1].T


def autograd_loss_and_gradients(method, given, inputs, targets, keys, values):
    parameters = run_config("two_moons", method=method, **given).model.parameters
    keys, values = (torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in (keys, values))
    outputs = prototype_logits(get_method(method), parameters, torch.tensor(inputs, dtype=torch.float64), keys, values)
    if targets.ndim == 2:
        loss = torch.nn.functional.mse_loss(outputs, torch.tensor(targets, dtype=torch.float64))
    else:
        loss = torch.nn.functional.cross_entropy(outputs, torch.tensor(targets))
    loss.backward()
    return loss.item(), keys.grad.numpy(), values.grad.numpy()


def plain_loss(method, given, inputs, labels, keys, values):
    """The formulas as the paper prints them, in float64."""
    distance = np.sqrt(((inputs[:, None] - keys[None]) ** 2).sum(-1))
    products = inputs @ keys.T
    power, epsilon = given.get("power", 2.0), given.get("epsilon", 1e-3)
    norms = np.linalg.norm(inputs, axis=1)[:, None] * np.linalg.norm(keys, axis=1)
    columns = len(keys) if given.get("scale") == "prototypes" else keys.shape[1]
    scores = {
        "fc_relu": lambda: products,
        "scaled_dot": lambda: products / np.sqrt(columns),
        "cosine": lambda: products / norms / given.get("temperature", 1.0),
        "neg_dist": lambda: -(distance**power),
        "gaussian": lambda: np.exp(-(distance**2) / given.get("sigma_squared", 2.0)),
        "inv_dist": lambda: 1 / (epsilon + distance**power),
        "idw": lambda: -np.log(epsilon + distance**power),
    }[method]()
    weights = np.maximum(scores, 0) if method == "fc_relu" else np.exp(scores - scores.max(1, keepdims=True))
    if method != "fc_relu":
        weights /= weights.sum(1, keepdims=True)
    logits = weights @ values
    logits -= logits.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels]))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(("method", "given"), CASES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_equal_those_of_autograd_in_float64(method, given, shape, task):
    assert_gradients_equal_autograd(method, given, problem(shape, task))


def assert_gradients_equal_autograd(method, given, batch):
    loss, *gradients = fused_loss_and_gradients(method, given, *batch)
    true_loss, *true_gradients = autograd_loss_and_gradients(method, given, *batch)
    assert loss == pytest.approx(true_loss, rel=5e-6)
    for gradient, truth in zip(gradients, true_gradients, strict=True):
        error = np.abs(gradient - truth)
        size = np.abs(truth).max() + 1e-12
        assert error.max() / size < 1e-4
        assert error.mean() / size < 1e-5


@pytest.mark.parametrize(("method", "given"), CASES)
@pytest.mark.parametrize("shape", [(5, 3, 16, 2), (9, 20, 50, 10), (70, 40, 17, 3)], ids=str)
def test_gradients_by_matrix_products_equal_those_of_autograd_in_float64(method, given, shape, monkeypatch):
    monkeypatch.setattr("idwbench.training.kernel_runs.PRODUCT_SIZES", (1, 1, 1))
    assert_gradients_equal_autograd(method, given, problem(shape))


@pytest.mark.parametrize("share", [0.01, 0.5], ids=["few near pairs", "more than there is room for"])
def test_squared_distances_by_products_are_exact_near_keys_too(share, monkeypatch):
    monkeypatch.setattr("idwbench.training.kernel_runs.PRODUCT_SIZES", (1, 1, 1))
    generator = np.random.default_rng(0)
    inputs, keys = generator.normal(size=(64, 300)), generator.normal(size=(40, 300))
    near = generator.random((64, 40)) < share
    for b, p in zip(*np.nonzero(near), strict=True):
        inputs[b] = keys[p] + generator.normal(size=300) * 10.0 ** generator.integers(-6, 0)
    inputs[0] = keys[0]
    inputs, keys = inputs.astype(np.float32), keys.astype(np.float32)
    labels, values = np.zeros(64, np.int64), np.zeros((40, 2), np.float32)
    run = kernel_run("idw", {}, inputs, labels, keys, values, batch_size=64)
    assert run.scratch.by_products
    run.train_epochs(0, 1)  # with values of 0 the keys stay
    truth = ((inputs[:, None].astype(np.float64) - keys) ** 2).sum(-1)
    assert truth[0, 0] == run.scratch.similarities[0, 0] == 0
    # 300 terms, and the norms are at most 8 times what is computed by products.
    np.testing.assert_allclose(run.scratch.similarities, truth, rtol=8 * np.sqrt(300) * 2**-24)


@pytest.mark.parametrize(("method", "given"), [case for case in CASES if case[1].get("epsilon") != 0])
def test_gradients_equal_finite_differences_of_the_printed_formulas(method, given):
    inputs, labels, keys, values = problem((4, 5, 3, 3))
    if method in ("neg_dist", "idw") and given.get("power", 2.0) <= 1:
        inputs[1] += 0.5  # d^p has a corner at d = 0 for p <= 1, so there is nothing to compare with
    _, key_gradient, value_gradient = fused_loss_and_gradients(method, given, inputs, labels, keys, values)
    inputs, keys, values = (array.astype(np.float64) for array in (inputs, keys, values))
    width = 1e-5
    for array, gradient in ((keys, key_gradient), (values, value_gradient)):
        for index in np.ndindex(array.shape):
            here = array[index]
            array[index] = here + width
            above = plain_loss(method, given, inputs, labels, keys, values)
            array[index] = here - width
            below = plain_loss(method, given, inputs, labels, keys, values)
            array[index] = here
            assert gradient[index] == pytest.approx((above - below) / (2 * width), rel=2e-4, abs=2e-5)


DISTANCES = np.concatenate([[0, 1e-13], np.geomspace(1e-7, 1e4, 60)]).astype(np.float32)
# The last three reach the bound of the exponential, or use it.
SCORES = [*CASES, ("inv_dist", {"epsilon": 1e-6}), ("inv_dist", {"epsilon": 1e-12}), ("inv_dist", {"power": 3.0})]


def scores_of_kernel_and_float64(method, given):
    """Return the scores of an input at 0 and keys at `DISTANCES`."""
    keys, values = DISTANCES[:, None], np.zeros((len(DISTANCES), 2), np.float32)
    run = kernel_run(method, given, np.zeros((1, 1), np.float32), np.zeros(1, np.int64), keys, values)
    run.train_epochs(0, 1)  # with values of 0 the keys stay
    at_zero = torch.zeros(1, 1, dtype=torch.float64)
    truth = get_method(method).score(at_zero, torch.tensor(keys).double(), **run.config.model.parameters)
    return run.scratch.scores[0].astype(np.float64), truth[0].numpy()


@pytest.mark.parametrize(("method", "given"), [case for case in SCORES if case[0] not in ("fc_relu", "cosine")])
def test_scores_equal_those_of_tensors_at_all_distances(method, given):
    scores, truth = scores_of_kernel_and_float64(method, given)
    np.testing.assert_array_equal(np.isposinf(scores), np.isposinf(truth))
    finite = np.isfinite(truth)
    # exp(x) and log(x) lose as many units in the last place as x, or log x, is large; what is tiny may become 0.
    size = np.maximum(np.abs(truth[finite]), 1.0 if method == "idw" else 1e-30)
    units = np.abs(scores[finite] - truth[finite]) / (np.finfo(np.float32).eps * size)
    assert (units <= 4 * (1 + np.abs(np.log(size)))).all()


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1])
def test_an_inverse_square_is_a_plain_reciprocal(epsilon):
    scores, truth = scores_of_kernel_and_float64("inv_dist", {"epsilon": epsilon})
    plain = truth <= 1e9
    np.testing.assert_allclose(scores[plain], truth[plain], rtol=3 * np.finfo(np.float32).eps)
