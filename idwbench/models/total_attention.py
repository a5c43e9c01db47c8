"""The total attention of the layers of a multilayer perceptron to the training inputs of each class.

A linear layer that was trained by gradient descent is attention over the inputs x_t that it was shown: its attention to
x_t for an input x is α_t = x_t·x + 1, where 1 is the product of the constant inputs of the bias. The total attention of
a class is linear in x, so it needs the sum of the class's keys x_t and their number, and no recording (Irie, Csordás,
Schmidhuber, *The Dual Form of Neural Networks Revisited*, arXiv 2202.05798).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from idwbench.data.dataset import Split
from idwbench.models.mlp import MultilayerPerceptron

__all__ = ["KeySums", "attention_metrics", "total_attention"]

_ROWS_AT_ONCE = 1024

Metrics = dict[tuple[str, str], float]


class KeySums(nn.Module):
    """Sums of the inputs of each layer over training steps, by class, in float64; they are buffers.

    Args:
        n_features: Features of the inputs of each layer, by its name.
        n_classes: Number of classes.
    """

    counts: Tensor

    def __init__(self, n_features: Mapping[str, int], n_classes: int) -> None:
        super().__init__()
        self.names, self.n_classes = tuple(n_features), n_classes
        for name, size in n_features.items():
            self.register_buffer(name, torch.zeros(n_classes, size, dtype=torch.float64))
        self.register_buffer("counts", torch.zeros(n_classes, dtype=torch.float64))

    @torch.no_grad()
    def add(self, layer_inputs: Sequence[Tensor], labels: Tensor) -> None:
        """Add the inputs (batch, features) of each layer in one training step, with the labels (batch,)."""
        # A product, since sums by index have no fixed order on a GPU.
        of_class = functional.one_hot(labels, self.n_classes).double().T
        for name, keys in zip(self.names, layer_inputs, strict=True):
            self.get_buffer(name).add_(of_class @ keys.detach().double())
        self.counts.add_(of_class.sum(1))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return ``key_sums_<layer>`` (classes, features) of each layer, and ``key_counts`` (classes,)."""
        found = {f"key_sums_{name}": self.get_buffer(name) for name in self.names} | {"key_counts": self.counts}
        return {name: tensor.cpu().numpy().copy() for name, tensor in found.items()}


def total_attention(inputs: Tensor, sums: Tensor, counts: Tensor) -> Tensor:
    """Return the total attention (n, classes), Σ_t (x_t·x + 1) over the training inputs x_t of each class, in float64.

    Args:
        inputs: Inputs x of one layer, (n, features).
        sums: The sum of the x_t of each class, (classes, features), float64.
        counts: Their number, (classes,), float64.
    """
    return inputs.double() @ sums.T + counts


@torch.no_grad()
def attention_metrics(network: MultilayerPerceptron, sums: KeySums, name: str, split: Split) -> Metrics:
    """Return how often the class with the largest total attention is the target or the output, on the split `name`.

    ``target_if_wrong_0`` and ``output_if_wrong_0`` are shares of the inputs with a wrong answer in which the class with
    the largest total attention in layer 0 is the target, or the class that was answered; ``output_if_right_0`` is the
    share of the others in which it is both. Shares of nothing are left out. ``wrong_inputs`` is the number of wrong
    answers.
    """
    device = sums.counts.device
    outputs: list[Tensor] = []
    attended: dict[str, list[Tensor]] = {layer: [] for layer in sums.names}
    for part in torch.split(torch.from_numpy(split.inputs), _ROWS_AT_ONCE):
        of_layers, logits = network.layer_inputs(part.to(device))
        outputs.append(logits.argmax(1).cpu())
        for layer, inputs in zip(sums.names, of_layers, strict=True):
            attended[layer].append(total_attention(inputs, sums.get_buffer(layer), sums.counts).argmax(1).cpu())
    answers, targets = torch.cat(outputs).numpy(), split.labels
    wrong = answers != targets
    found: Metrics = {(name, "wrong_inputs"): float(wrong.sum())}
    for number, parts in enumerate(attended.values()):
        classes = torch.cat(parts).numpy()
        shares = {
            "target_if_wrong": (classes == targets)[wrong],
            "output_if_wrong": (classes == answers)[wrong],
            "output_if_right": (classes == answers)[~wrong],
        }
        found |= {(name, f"{share}_{number}"): float(hits.mean()) for share, hits in shares.items() if len(hits)}
    return found
