"""Hand-written gradients against autograd in float64, and scores and distances against their formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from blob_data import make_dataset

from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import METHODS, get_method
from idwbench.data.dataset import Split
from idwbench.runs.config import run_config
from idwbench.training.kernel_runs import KernelRun

# (batch, prototypes, features, outputs): one of everything, both layouts of keys, and more inputs than a tile holds.
SHAPES = [(1, 1, 1, 2), (7, 20, 15, 4), (5, 3, 16, 2), (4, 20, 50, 10), (70, 300, 17, 3), (9, 9, 3, 2)]
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
    config = run_config("two_moons", method=method, prototypes=len(keys), epochs=1, **given, **options)
    split, names = Split(inputs, targets), () if targets.ndim == 2 else tuple("abcdefghij"[: values.shape[1]])
    dataset = replace(make_dataset(), train=split, test=split, holdout=None, class_names=names)
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


# All shapes by loops, and some by matrix products as well, which take the classes alone.
WAYS = [(shape, task, False) for shape in SHAPES for task in ("classification", "regression")]
WAYS += [(shape, "classification", True) for shape in [(5, 3, 16, 2), (9, 20, 50, 10), (70, 40, 17, 3)]]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "given"), CASES)
@pytest.mark.parametrize(("shape", "task", "by_products"), WAYS, ids=str)
def test_gradients_equal_those_of_autograd_in_float64(method, given, shape, task, by_products, monkeypatch):
    if by_products:
        monkeypatch.setattr("idwbench.training.kernel_runs.PRODUCT_SIZES", (1, 1, 1))
    batch = problem(shape, task)
    loss, *gradients = fused_loss_and_gradients(method, given, *batch)
    true_loss, *true_gradients = autograd_loss_and_gradients(method, given, *batch)
    assert loss == pytest.approx(true_loss, rel=5e-6)
    for gradient, truth in zip(gradients, true_gradients, strict=True):
        error = np.abs(gradient - truth)
        size = np.abs(truth).max() + 1e-12
        assert error.max() / size < 1e-4
        assert error.mean() / size < 1e-5


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
    if method == "inv_dist" and "power" not in given:  # a plain reciprocal
        plain = truth <= 1e9
        np.testing.assert_allclose(scores[plain], truth[plain], rtol=3 * np.finfo(np.float32).eps)
