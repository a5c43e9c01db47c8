"""The loop that a reader of the paper would write in PyTorch, in float64, and how far rounding may lead from it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from starts import random_prototypes

from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset, feature_moments
from idwbench.runs.config import RunConfig
from idwbench.runs.protocol import Protocol, learning_rate
from idwbench.runs.results import RunResult


def plain_loop(config: RunConfig, dataset: Dataset, dtype: torch.dtype) -> list[np.ndarray]:
    """Return keys, values and the loss of each epoch: one model, one optimizer, one loop, from random prototypes."""
    protocol, generator = config.protocol, np.random.default_rng(config.seed)
    pair = random_prototypes(config.model, dataset, feature_moments(dataset.train.inputs), generator)
    tensors = [torch.from_numpy(array).to(dtype).requires_grad_() for array in pair]
    optimizer = make_optimizer(tensors, protocol)
    inputs, targets = torch.from_numpy(dataset.train.inputs).to(dtype), torch.from_numpy(dataset.train.targets)
    loss_of = torch.nn.functional.cross_entropy
    if dataset.task == "regression":
        targets, loss_of = targets.to(dtype), torch.nn.functional.mse_loss
    method, losses = get_method(config.model.method), []
    for epoch in range(protocol.epochs):
        optimizer.param_groups[0]["lr"] = learning_rate(protocol, epoch)
        total = 0.0
        for batch in torch.from_numpy(generator.permutation(len(targets))).split(protocol.batch_size):
            loss = loss_of(prototype_logits(method, config.model.parameters, inputs[batch], *tensors), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            if protocol.gradient_clip:
                torch.nn.utils.clip_grad_norm_(tensors, protocol.gradient_clip)
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(targets))
    return [*(tensor.detach().double().numpy() for tensor in tensors), np.array(losses)]


def make_optimizer(parameters: list[torch.Tensor], protocol: Protocol) -> torch.optim.Optimizer:
    settings = {"lr": protocol.learning_rate, "weight_decay": protocol.weight_decay}
    if protocol.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=protocol.momentum, **settings)
    return torch.optim.Adam(parameters, amsgrad=protocol.optimizer == "adam_amsgrad", **settings)


def numbers_of(result: RunResult) -> list[np.ndarray]:
    """Return keys, values and losses of a result."""
    losses = [point.values["train", "loss"] for point in result.curve]
    return [result.arrays["keys"], result.arrays["values"], np.array(losses)]


def assert_near_float64(config: RunConfig, dataset: Dataset, found: Iterable[list[np.ndarray]]) -> None:
    """Compare keys, values and losses of some programs with the plain loop in float64.

    The bound is what rounding does to the same loop in float32, times 30, since another order of sums may be less
    fortunate; and 30 units in the last place of the largest number.
    """
    truth, rounded = (plain_loop(config, dataset, dtype) for dtype in (torch.float64, torch.float32))
    for arrays in found:
        for name, array, true, nearby in zip(("keys", "values", "losses"), arrays, truth, rounded, strict=True):
            bound = 30 * np.abs(nearby - true).max() + 30 * np.finfo(np.float32).eps * np.abs(true).max()
            np.testing.assert_allclose(array, true, rtol=0, atol=bound, err_msg=name)
