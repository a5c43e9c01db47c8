"""The loop that a reader of the paper would write in PyTorch, in float64, and how far rounding may lead from it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch

from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.runs.config import RunConfig
from idwbench.runs.protocol import learning_rate
from idwbench.runs.results import RunResult


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


def start_with(monkeypatch: pytest.MonkeyPatch, prototypes=random_prototypes) -> None:
    """Let both engines begin at other prototypes."""
    for module in ("torch_engine", "kernel_runs"):
        monkeypatch.setattr(f"idwbench.training.{module}.initial_prototypes", prototypes)


def plain_loop(config: RunConfig, dataset: Dataset, dtype: torch.dtype, prototypes=random_prototypes):
    """Return keys, values and the loss of each epoch: one model, one optimizer, one loop."""
    p, generator = config.protocol, np.random.default_rng(config.seed)
    pair = prototypes(config.model, dataset, dataset.moments, generator)
    tensors = [torch.from_numpy(array).to(dtype).requires_grad_() for array in pair]
    optimizer = (
        torch.optim.SGD(tensors, momentum=p.momentum, weight_decay=p.weight_decay)
        if p.optimizer == "sgd"
        else torch.optim.Adam(tensors, amsgrad=p.optimizer == "adam_amsgrad", weight_decay=p.weight_decay)
    )
    inputs, targets = torch.from_numpy(dataset.train.inputs).to(dtype), torch.from_numpy(dataset.train.targets)
    loss_of = torch.nn.functional.cross_entropy
    if dataset.task == "regression":
        targets, loss_of = targets.to(dtype), torch.nn.functional.mse_loss
    method, losses = get_method(config.model.method), []
    for epoch in range(p.epochs):
        optimizer.param_groups[0]["lr"] = learning_rate(p, epoch)
        total = 0.0
        for batch in torch.from_numpy(generator.permutation(len(targets))).split(p.batch_size):
            loss = loss_of(prototype_logits(method, config.model.parameters, inputs[batch], *tensors), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            if p.gradient_clip:
                torch.nn.utils.clip_grad_norm_(tensors, p.gradient_clip)
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(targets))
    return [*(tensor.detach().double().numpy() for tensor in tensors), np.array(losses)]


def assert_near_float64(results: Iterable[RunResult], dataset: Dataset, prototypes=random_prototypes) -> None:
    """Compare keys, values and losses of runs with one configuration with the plain loop in float64.

    The bound is what rounding does to the same loop in float32, times 30, since another order of sums may be less
    fortunate; and 30 units in the last place of the largest number.
    """
    results = [*results]
    truth, rounded = (
        plain_loop(results[0].config, dataset, dtype, prototypes) for dtype in (torch.float64, torch.float32)
    )
    for result in results:
        losses = np.array([point.values["train", "loss"] for point in result.curve])
        arrays = result.arrays["keys"], result.arrays["values"], losses
        for name, array, true, nearby in zip(("keys", "values", "losses"), arrays, truth, rounded, strict=True):
            bound = 30 * np.abs(nearby - true).max() + 30 * np.finfo(np.float32).eps * np.abs(true).max()
            np.testing.assert_allclose(array, true, rtol=0, atol=bound, err_msg=name)
