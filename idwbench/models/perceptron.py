"""Multilayer perceptrons whose layers are accessible by name, and what these layers attend to.

A linear layer that was trained by gradient descent is attention over the inputs x_t that it was shown: its attention to
x_t for an input x is α_t = x_t·x + 1, where 1 is the product of the constant inputs of the bias. The total attention of
a class is linear in x, so it needs the sum of the class's keys x_t and their number, and no recording (Irie, Csordás,
Schmidhuber, *The Dual Form of Neural Networks Revisited*, arXiv 2202.05798).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from idwbench.data.dataset import Dataset, Split
from idwbench.models.modules import RowModule, complete_run, parameter_arrays, with_parameters
from idwbench.results.store import Results
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = [
    "KeySums",
    "MultilayerPerceptron",
    "attention_metrics",
    "initial_mlp",
    "load_mlp",
    "mlp_from_arrays",
]

Metrics = dict[tuple[str, str], float]


class MultilayerPerceptron(RowModule):
    """Linear layers by name, with ReLU between them: outputs = W_n relu(… relu(W_0 inputs + b_0) …) + b_n.

    Args:
        sizes: Features of the inputs, units of each hidden layer, and the number of outputs.
        names: The name of each layer, from inputs to outputs.
    """

    def __init__(self, sizes: Sequence[int], names: Sequence[str]) -> None:
        super().__init__()
        for name, n_inputs, n_outputs in zip(names, sizes[:-1], sizes[1:], strict=True):
            self.add_module(name, nn.Linear(n_inputs, n_outputs))
        self.layer_names = tuple(names)

    @property
    def layers(self) -> dict[str, nn.Linear]:
        """The layers by name, from inputs to outputs."""
        return {name: layer for name, layer in self.named_children() if isinstance(layer, nn.Linear)}

    def layer_inputs(self, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the input (batch, features of the layer) of each layer, and the outputs (batch, outputs)."""
        inputs_by_layer, outputs = [], inputs
        for number, layer in enumerate(self.layers.values()):
            inputs_by_layer.append(outputs.relu() if number else outputs)
            outputs = layer(inputs_by_layer[-1])
        return inputs_by_layer, outputs

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs (batch, outputs) of inputs (batch, features)."""
        return self.layer_inputs(inputs)[1]


def initial_mlp(model: MlpConfig, dataset: Dataset, generator: np.random.Generator) -> MultilayerPerceptron:
    """Return an untrained network; weights and biases are uniform in ±1/√inputs, from `generator`.

    This is the default of `torch.nn.Linear`. With the larger ±√(6/inputs) the initial weights have a larger share in
    the inputs of later layers, which then differ less between classes.
    """
    draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
    network = _network(model, dataset.n_features, dataset.n_outputs)
    with torch.no_grad():
        for layer in network.layers.values():
            bound = 1 / math.sqrt(layer.in_features)
            layer.weight.uniform_(-bound, bound, generator=draws)
            layer.bias.uniform_(-bound, bound, generator=draws)
    return network


def mlp_from_arrays(model: MlpConfig, arrays: Mapping[str, NDArray[np.generic]]) -> MultilayerPerceptron:
    """Return the network in evaluation mode whose parameters are `arrays`, by the names of its state dict."""
    first, last = (arrays[f"{model.layer_names[place]}.weight"].shape for place in (0, -1))
    return with_parameters(_network(model, first[1], last[0]), arrays)


def load_mlp(results: Results, run_key: str) -> MultilayerPerceptron:
    """Return the trained network of a stored run in evaluation mode; its inputs are scaled as those of its data set.

    Arguments and errors as for `idwbench.models.modules.complete_run`.
    """
    run = complete_run(results, run_key, MlpConfig, ("multilayer perceptron", "network"))
    assert isinstance(run.config.model, MlpConfig)
    return mlp_from_arrays(run.config.model, results.load_arrays(run.run_key))


def _network(model: MlpConfig, n_features: int, n_classes: int) -> MultilayerPerceptron:
    return MultilayerPerceptron([n_features, *[model.width] * model.depth, n_classes], model.layer_names)


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
        memberships = functional.one_hot(labels, self.n_classes).double().T
        for name, keys in zip(self.names, layer_inputs, strict=True):
            self.get_buffer(name).add_(memberships @ keys.detach().double())
        self.counts.add_(memberships.sum(1))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return ``key_sums_<layer>`` (classes, features) of each layer, and ``key_counts`` (classes,)."""
        arrays = parameter_arrays(self)
        counts = arrays.pop("counts")
        return {f"key_sums_{name}": sums for name, sums in arrays.items()} | {"key_counts": counts}


def attention_metrics(network: MultilayerPerceptron, sums: KeySums, name: str, split: Split) -> Metrics:
    """Return how often the class with the largest total attention is the target or the output, on the split `name`.

    ``target_if_wrong_0`` and ``output_if_wrong_0`` are shares of the inputs with a wrong answer in which the class with
    the largest total attention in layer 0 is the target, or the class that was answered; ``output_if_right_0`` is the
    share of the others in which it is both. Shares of nothing are left out. ``wrong_inputs`` is the number of wrong
    answers. The total attention of an input x to a class is Σ_t (x_t·x + 1) over its training inputs x_t, in float64.
    """

    def classes(inputs: Tensor) -> Tensor:
        """Return the answer to each input and the class that each layer attends to most, (batch, 1 + layers)."""
        layer_inputs, logits = network.layer_inputs(inputs)
        attended = [
            keys.double() @ sums.get_buffer(layer).T + sums.counts
            for layer, keys in zip(sums.names, layer_inputs, strict=True)
        ]
        return torch.stack([scores.argmax(1) for scores in (logits, *attended)], dim=1)

    answers, *attended = network.in_parts(classes, split.inputs).T
    targets, wrong = split.labels, answers != split.labels
    metrics: Metrics = {(name, "wrong_inputs"): float(wrong.sum())}
    for number, largest in enumerate(attended):
        shares = {
            "target_if_wrong": (largest == targets)[wrong],
            "output_if_wrong": (largest == answers)[wrong],
            "output_if_right": (largest == answers)[~wrong],
        }
        metrics |= {(name, f"{share}_{number}"): float(hits.mean()) for share, hits in shares.items() if len(hits)}
    return metrics
