"""Initial weights of linear and convolutional layers."""

from __future__ import annotations

import math

import torch
from torch import nn

__all__ = ["initialise_layers"]


@torch.no_grad()
def initialise_layers(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of linear and convolutional layers anew, in their order, and set their biases to 0.

    Weights are uniform in ±√(6/inputs), where a convolution has channels · kernel pixels inputs (He et al. 2015,
    *Delving Deep into Rectifiers*).
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = math.sqrt(6 / layer.weight[0].numel())
            layer.weight.uniform_(-bound, bound, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()
