"""The loop that a reader of the paper would write in PyTorch, in float64, and how far rounding may lead from it."""

from __future__ import annotations

import copy

import numpy as np
import torch

from idwbench.attention.methods import get_method
from idwbench.attention.weightings import prototype_logits
from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.runs.config import run_config
from idwbench.runs.protocol import learning_rate
from idwbench.training.engine import batch_order
from idwbench.training.fused_engine import KernelRun


def make_regression(n_features=3, n_outputs=2, sizes=(23, 11, 7), seed=0):
    """Return train, test and validation data whose targets have other units than the model."""
    generator = np.random.default_rng(seed)
    wanted = generator.normal(size=(n_features, n_outputs)) / np.sqrt(n_features)

    def split(n):
        inputs = generator.normal(size=(n, n_features))
        targets = np.sin(inputs @ wanted) + 0.1 * generator.normal(size=(n, n_outputs))
        return Split(inputs.astype(np.float32), targets.astype(np.float32))

    train, test, validation = (split(n) for n in sizes)
    scaling = Scaling(np.arange(n_outputs) * 5.0, np.arange(1.0, n_outputs + 1))
    config = run_config("sine").dataset
    identity = Scaling.identity()
    return Dataset(config, train, test, None, identity, None, (), "0" * 64, validation, scaling)


def run_from_random_values(config, dataset):
    """Return a run whose first values are not zero: the first gradients of keys would be rounding errors alone.

    Adam scales gradients to the size of its step, so that with such a start no two programs need agree.
    """
    run = KernelRun(config, dataset, (dataset.train.inputs.mean(0), dataset.train.inputs.std(0)))
    shape = (config.model.prototypes, dataset.n_outputs)
    values = np.random.default_rng(config.seed + 1).normal(size=shape).astype(np.float32)
    run.state.values[0] = values.T
    return run


def keys_and_values(run):
    keys = run.state.keys[0].T if run.state.narrow else run.state.keys[0]
    return np.array(keys), np.array(run.state.values[0].T)


def plain_loop(run, dtype):
    """Train a copy of a run that has not begun; return keys, values and the loss of each epoch."""
    protocol, model, train = run.protocol, run.config.model, run.dataset.train
    generator = copy.deepcopy(run.generator)
    keys, values = (torch.tensor(array, dtype=dtype, requires_grad=True) for array in keys_and_values(run))
    optimizer = make_optimizer([keys, values], protocol)
    inputs, targets = torch.from_numpy(train.inputs).to(dtype), torch.from_numpy(train.targets)
    losses = []
    for epoch in range(protocol.epochs):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(protocol, epoch)
        total = 0.0
        for batch in torch.from_numpy(batch_order(generator, len(train))).split(protocol.batch_size):
            optimizer.zero_grad()
            outputs = prototype_logits(get_method(model.method), model.parameters, inputs[batch], keys, values)
            if run.dataset.task == "regression":
                loss = torch.nn.functional.mse_loss(outputs, targets[batch].to(dtype))
            else:
                loss = torch.nn.functional.cross_entropy(outputs, targets[batch])
            loss.backward()
            if protocol.gradient_clip:
                torch.nn.utils.clip_grad_norm_([keys, values], protocol.gradient_clip)
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(train))
    return keys.detach().double().numpy(), values.detach().double().numpy(), np.array(losses)


def make_optimizer(parameters, protocol):
    settings = {"lr": protocol.learning_rate, "weight_decay": protocol.weight_decay}
    if protocol.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=protocol.momentum, **settings)
    return torch.optim.Adam(parameters, amsgrad=protocol.optimizer == "adam_amsgrad", **settings)


def assert_trains_as_in_float64(run):
    """Train a copy of a run, and compare keys, values and losses with float64."""
    trained = copy.deepcopy(run)
    assert trained.train_epochs(0, run.protocol.epochs) == run.protocol.epochs
    losses = np.array([point.values["train", "loss"] for point in trained.curve])
    assert_near_float64(run, [*keys_and_values(trained), losses])


def assert_near_float64(run, found):
    """Compare what a run that has not begun gave elsewhere, keys, values and perhaps losses, with float64.

    The bound is what rounding does to the same loop in float32, times 30, since another order of sums may be less
    fortunate; and 30 units in the last place of the largest number.
    """
    truth, rounded = plain_loop(run, torch.float64), plain_loop(run, torch.float32)
    for array, true, nearby in zip(found, truth, rounded, strict=False):
        bound = 30 * np.abs(nearby - true).max() + 30 * np.finfo(np.float32).eps * np.abs(true).max()
        assert np.abs(array.reshape(true.shape) - true).max() <= bound
