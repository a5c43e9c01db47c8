"""Multilayer perceptrons whose layers are accessible by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.data.dataset import Dataset
from idwbench.models.modules import RowModule, complete_run, with_parameters
from idwbench.results.store import Results
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = ["MultilayerPerceptron", "initial_mlp", "load_mlp", "mlp_from_arrays"]


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
