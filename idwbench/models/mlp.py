"""Multilayer perceptrons whose layers are accessible by name."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.data.dataset import Dataset
from idwbench.errors import TrainingError
from idwbench.models.batched_outputs import outputs_in_parts
from idwbench.results.store import Results
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = ["MultilayerPerceptron", "initial_mlp", "load_mlp", "mlp_from_arrays"]


class MultilayerPerceptron(nn.Module):
    """Linear layers ``layer_0``, ``layer_1``, …, with ReLU between them; the last gives the logits.

    Args:
        model: Width and depth.
        n_features: Features of the inputs.
        n_classes: Number of logits.
    """

    def __init__(self, model: MlpConfig, n_features: int, n_classes: int) -> None:
        super().__init__()
        sizes = [n_features, *[model.width] * model.depth, n_classes]
        for name, n_inputs, n_outputs in zip(model.layer_names, sizes[:-1], sizes[1:], strict=True):
            self.add_module(name, nn.Linear(n_inputs, n_outputs))
        self.layer_names = model.layer_names

    @property
    def layers(self) -> dict[str, nn.Linear]:
        """The layers by name, from inputs to logits."""
        found = {name: self.get_submodule(name) for name in self.layer_names}
        return {name: layer for name, layer in found.items() if isinstance(layer, nn.Linear)}

    def layer_inputs(self, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the input (batch, features of the layer) of each layer, and the logits (batch, classes)."""
        found, outputs = [], inputs
        for number, layer in enumerate(self.layers.values()):
            found.append(outputs.relu() if number else outputs)
            outputs = layer(found[-1])
        return found, outputs

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits (batch, classes) of inputs (batch, features)."""
        return self.layer_inputs(inputs)[1]

    def outputs(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the logits (n, classes) of scaled inputs, in parts of bounded memory."""
        return outputs_in_parts(self, inputs, next(self.parameters()).device)

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the labels (n,) of scaled inputs."""
        return np.asarray(self.outputs(inputs).argmax(1), np.int64)


def initial_mlp(model: MlpConfig, dataset: Dataset, generator: np.random.Generator) -> MultilayerPerceptron:
    """Return an untrained network; weights and biases are uniform in ±1/√inputs, from `generator`.

    This is the default of `torch.nn.Linear`. With the larger ±√(6/inputs) the initial weights have a larger share in
    the inputs of later layers, which then differ less between classes.
    """
    draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
    network = MultilayerPerceptron(model, dataset.n_features, dataset.n_outputs)
    with torch.no_grad():
        for layer in network.layers.values():
            bound = 1 / math.sqrt(layer.in_features)
            layer.weight.uniform_(-bound, bound, generator=draws)
            layer.bias.uniform_(-bound, bound, generator=draws)
    return network


def mlp_from_arrays(model: MlpConfig, arrays: Mapping[str, NDArray[np.generic]]) -> MultilayerPerceptron:
    """Return the network in evaluation mode whose parameters are `arrays`, by the names of its state dict."""
    first, last = (arrays[f"{model.layer_names[place]}.weight"].shape for place in (0, -1))
    network = MultilayerPerceptron(model, first[1], last[0])
    network.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in network.state_dict()})
    return network.eval()


def load_mlp(results: Results, run_key: str) -> MultilayerPerceptron:
    """Return the trained network of a stored run in evaluation mode; its inputs are scaled as those of its data set.

    Args:
        results: The database.
        run_key: The run's key, or the beginning of it.

    Raises:
        ResultsError: no such run.
        TrainingError: the run is of another kind, or is not complete.
    """
    run = results.find_run(run_key)
    model = run.config.model
    if not isinstance(model, MlpConfig):
        raise TrainingError(f"a run of kind {model.kind} has no multilayer perceptron")
    if run.state != "complete":
        raise TrainingError(f"the run is {run.state}: it has no network")
    return mlp_from_arrays(model, results.load_arrays(run.run_key))
