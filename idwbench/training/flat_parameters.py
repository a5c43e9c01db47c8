"""The parameters of a module as views of one vector, so that an optimizer makes one pass over them."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["FlatParameters"]

# A parameter starts at a multiple of 64 bytes, as a tensor of its own does: some kernels round differently elsewhere.
ALIGNMENT = 16


class FlatParameters:
    """Makes the parameters of a module views of `numbers`, and their gradients views of `gradients`.

    Attributes:
        numbers: (length,), with zeros between parameters.
        gradients: (length,); `backward` adds to it.
    """

    def __init__(self, module: nn.Module) -> None:
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not parameters:
            raise ValueError("the module has no parameters to train")
        starts, length = [], 0
        for parameter in parameters:
            starts.append(length)
            length += -(-parameter.numel() // ALIGNMENT) * ALIGNMENT
        self.numbers = torch.zeros(length, dtype=parameters[0].dtype, device=parameters[0].device)
        self.gradients = torch.zeros_like(self.numbers)
        for parameter, start in zip(parameters, starts, strict=True):
            place, shape = slice(start, start + parameter.numel()), parameter.shape
            self.numbers[place] = parameter.detach().flatten()
            parameter.data = self.numbers[place].view(shape)
            parameter.grad = self.gradients[place].view(shape)
