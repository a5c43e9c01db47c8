"""Hand-written gradients against autograd and finite differences, both in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from idwbench.config import Protocol, TwoMoonsConfig, parse_run
from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.engine.fused_engine import KernelRun
from idwbench.methods import METHODS, get_method
from idwbench.scores import prototype_logits

# (batch, prototypes, features, classes): one of everything, both layouts of keys, and more inputs than a tile holds.
SHAPES = [(1, 1, 1, 2), (4, 5, 2, 3), (7, 20, 15, 4), (5, 3, 16, 2), (4, 20, 50, 10), (70, 300, 17, 3), (9, 9, 3, 2)]
PARAMETERS = {
    "cosine": [{}, {"temperature": 0.1}],
    "scaled_dot": [{}, {"scale": "prototypes"}],
    "gaussian": [{}, {"sigma_squared": 30.0}],
    "neg_dist": [{}, {"power": 1.0}, {"power": 3.0}],
    "inv_dist": [{"epsilon": 0.1}, {"epsilon": 0.5, "power": 1.5}],
    "idw": [{}, {"power": 1.0}, {"power": 7.0, "epsilon": 1.0}, {"epsilon": 0.0}, {"power": 0.5, "epsilon": 0.1}],
}
PROTOCOL = Protocol(epochs=1, batch_size=1, learning_rate=1e-3)
DATA = TwoMoonsConfig()
CASES = [(method, given) for method in METHODS for given in PARAMETERS.get(method, [{}])]


def problem(shape, seed=0):
    """One batch in which an input equals a key, a feature is constant, and class 0 is missing."""
    batch, prototypes, features, classes = shape
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(batch, features)) / np.sqrt(features)
    inputs[:, -1] = 0.25
    keys = generator.normal(size=(prototypes, features)) / np.sqrt(features)
    values = generator.normal(size=(prototypes, classes))
    labels = generator.integers(1, classes, batch)
    inputs, keys, values = (array.astype(np.float32) for array in (inputs, keys, values))
    if batch > 1:
        inputs[1] = keys[0]
    return inputs, labels, keys, values


def fused_loss_and_gradients(method, given, inputs, labels, keys, values):
    """Take one step from given keys and values; the mean of gradients that Adam keeps is then a tenth of them."""
    split = Split(inputs, labels)
    scaling, names = Scaling.identity(), tuple("abcdefghij"[: values.shape[1]])
    protocol = Protocol(epochs=1, batch_size=len(labels), learning_rate=1e-3)
    config = parse_run(DATA, method, len(keys), protocol, 0, given)
    dataset = Dataset(DATA, split, split, None, scaling, None, names, "")
    run = KernelRun(config, dataset, (inputs.mean(0), inputs.std(0)))
    run.state.keys[0] = keys.T if run.state.narrow else keys
    run.state.values[0] = values.T
    run.train_epochs(0, 1)
    key_gradient = run.state.keys[1].T if run.state.narrow else run.state.keys[1]
    return run.curve[0].train_loss, key_gradient / 0.1, run.state.values[1].T / 0.1


def autograd_loss_and_gradients(method, given, inputs, labels, keys, values):
    parameters = parse_run(DATA, method, len(keys), PROTOCOL, 0, given).parameters
    keys, values = (torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in (keys, values))
    logits = prototype_logits(get_method(method), parameters, torch.tensor(inputs, dtype=torch.float64), keys, values)
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
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


@pytest.mark.parametrize(("method", "given"), CASES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_equal_those_of_autograd_in_float64(method, given, shape):
    batch = problem(shape)
    loss, *gradients = fused_loss_and_gradients(method, given, *batch)
    true_loss, *true_gradients = autograd_loss_and_gradients(method, given, *batch)
    assert loss == pytest.approx(true_loss, rel=5e-6)
    for gradient, truth in zip(gradients, true_gradients, strict=True):
        error = np.abs(gradient - truth)
        size = np.abs(truth).max() + 1e-12
        assert error.max() / size < 1e-4
        assert error.mean() / size < 1e-5


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
