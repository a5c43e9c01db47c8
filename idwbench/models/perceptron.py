"""Multilayer perceptrons whose layers are accessible by name, and what these layers attend to.

A linear layer that was trained by gradient descent is attention over the inputs x_t that it was shown: its attention to
x_t for an input x is α_t = x_t·x + 1, where 1 is the product of the constant inputs of the bias. The total attention of
a class is linear in x, so it needs the sum of the class's keys x_t and their number, and no recording (Irie, Csordás,
Schmidhuber, *The Dual Form of Neural Networks Revisited*, arXiv 2202.05798).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from idwbench.data.dataset import Dataset, Split
from idwbench.errors import TrainingError
from idwbench.results.store import Results
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = [
    "KeySums",
    "MultilayerPerceptron",
    "attention_metrics",
    "initial_mlp",
    "load_mlp",
    "mlp_from_arrays",
    "outputs_in_parts",
    "total_attention",
]

_ROWS_AT_ONCE = 1024

Metrics = dict[tuple[str, str], float]


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


@torch.no_grad()
def outputs_in_parts(
    function: Callable[[Tensor], Tensor], inputs: NDArray[np.float32], device: torch.device
) -> NDArray[np.float32]:
    """Return the outputs (n, outputs) of a function of tensors for rows (n, features), contiguous.

    Args:
        function: A module, or another function of inputs (batch, features).
        inputs: The rows.
        device: Where the function computes.
    """
    parts = [function(part.to(device)) for part in torch.split(torch.from_numpy(inputs), _ROWS_AT_ONCE)]
    return np.ascontiguousarray(torch.cat(parts).cpu().numpy())


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
