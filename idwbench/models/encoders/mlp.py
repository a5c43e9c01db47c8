"""A multilayer perceptron as encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from idwbench.models.encoders.initialisation import initialise_layers

__all__ = ["Mlp"]


class Mlp(nn.Module):
    """`depth` layers h ← relu(W h + b) with `width` units each; the last h is the output.

    Args:
        n_features: Features of the inputs.
        width: Units of each layer, and features of the output.
        depth: Number of layers.
        generator: Source of the initial weights.
    """

    def __init__(self, n_features: int, width: int, depth: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width if i else n_features, width) for i in range(depth))
        self.n_outputs = width
        initialise_layers(self, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features (batch, width) of inputs (batch, n_features)."""
        for layer in self.layers:
            inputs = layer(inputs).relu()
        return inputs
