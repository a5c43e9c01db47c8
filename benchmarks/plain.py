"""The yardstick: training as a PyTorch user would write it, with tensors in memory and nothing of ours in a step."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from idwbench.data.dataset import Dataset, FeatureMoments
from idwbench.models.initialisation import initial_prototypes, initial_slopes
from idwbench.runs.config import RunConfig

__all__ = ["PlainLoop"]

SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "idw": lambda inputs, keys: -torch.log(1e-3 + torch.cdist(inputs, keys) ** 2),
    "fc_relu": lambda inputs, keys: inputs @ keys.T,
    "scaled_dot": lambda inputs, keys: inputs @ keys.T / math.sqrt(keys.shape[1]),
    "neg_dist": lambda inputs, keys: -(torch.cdist(inputs, keys) ** 2),
    "gaussian": lambda inputs, keys: torch.exp(-(torch.cdist(inputs, keys) ** 2) / 2),
    "inv_dist": lambda inputs, keys: 1 / (1e-3 + torch.cdist(inputs, keys) ** 2),
}


class PlainLoop:
    """One run with default parameters of the paper: cdist, softmax, cross-entropy, Adam with amsgrad."""

    def __init__(self, config: RunConfig, dataset: Dataset, moments: FeatureMoments) -> None:
        self.score = SCORES[config.model.method]
        self.weigh = torch.relu if config.model.method == "fc_relu" else lambda scores: scores.softmax(1)
        generator = np.random.default_rng(config.seed)
        arrays = initial_prototypes(config.model, dataset, moments, generator)
        self.keys, self.values = (torch.from_numpy(array).requires_grad_() for array in arrays)
        slopes = initial_slopes(config.model, dataset, generator)
        self.slopes = [torch.from_numpy(array).requires_grad_() for array in slopes.values()]
        protocol = config.protocol
        self.optimizer = torch.optim.Adam(
            [self.keys, self.values, *self.slopes], lr=protocol.learning_rate, amsgrad=True
        )
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=protocol.epochs)
        self.batch_size = protocol.batch_size
        self.inputs, self.labels = torch.from_numpy(dataset.train.inputs), torch.from_numpy(dataset.train.labels)
        self.test_inputs, self.test_labels = (
            torch.from_numpy(dataset.test.inputs),
            torch.from_numpy(dataset.test.labels),
        )

    def logits(self, inputs: Tensor) -> Tensor:
        """Return Σ_j a_j v_j, of values with a slope Σ_j a_j (v_j + U_j W_j (x − k_j))."""
        weights = self.weigh(self.score(inputs, self.keys))
        if not self.slopes:
            return weights @ self.values
        factors, outputs = self.slopes  # (rank, prototypes, features), (rank, prototypes, classes)
        heights = inputs @ factors.flatten(0, 1).T - (factors * self.keys).sum(-1).flatten()
        return weights @ self.values + (weights.repeat(1, len(factors)) * heights) @ outputs.flatten(0, 1)

    def train(self, n_steps: int) -> float:
        """Take some steps in a random order and return their mean loss."""
        total = 0.0
        order = torch.randperm(len(self.inputs))[: n_steps * self.batch_size]
        for batch in order.split(self.batch_size):
            loss = functional.cross_entropy(self.logits(self.inputs[batch]), self.labels[batch])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(batch)
        return total / len(order)

    @torch.no_grad()
    def test(self) -> float:
        """Return the test accuracy."""
        return float((self.logits(self.test_inputs).argmax(1) == self.test_labels).float().mean())

    def train_epoch(self) -> None:
        """Take one step for each batch of the training data, and test."""
        self.train(math.ceil(len(self.inputs) / self.batch_size))
        self.schedule.step()
        self.test()
