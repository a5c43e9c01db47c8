"""Encoders: modules from inputs (batch, features) to learned features (batch, width)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from idwbench.models.modules import RowModule
from idwbench.models.perceptron import MultilayerPerceptron
from idwbench.models.transformer import Transformer
from idwbench.runs.kinds.network import check_patch

__all__ = ["Conv", "Mlp", "VitTiny", "initialise_layers"]

POSITION_STD = 0.5  # of the order of the projected pixels, so that tokens differ by place from the start


class Mlp(RowModule):
    """`depth` layers h ← relu(W h + b) with `width` units each; the last h is the output.

    Args:
        n_features: Features of the inputs.
        width: Units of each layer, and features of the output.
        depth: Number of layers.
        generator: Source of the initial weights.
    """

    def __init__(self, n_features: int, width: int, depth: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = MultilayerPerceptron([n_features, *[width] * depth], [str(number) for number in range(depth)])
        self.n_outputs = width
        initialise_layers(self, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features (batch, width) of inputs (batch, n_features)."""
        features: Tensor = self.layers(inputs).relu()
        return features


class Conv(RowModule):
    """`depth` convolutions 3 x 3 with a ReLU each, and the mean over all places of the last one.

    The first layer has `width` channels; each further one has twice the channels of the one before and halves the
    sides of the image (stride 2, rounded up).

    Args:
        image_shape: Height and width of the images.
        width: Channels of the first layer.
        depth: Number of layers.
        generator: Source of the initial weights.
    """

    def __init__(self, image_shape: tuple[int, int], width: int, depth: int, generator: torch.Generator) -> None:
        super().__init__()
        self.image_shape = image_shape
        channels = [1, *(width * 2**i for i in range(depth))]
        self.layers = nn.ModuleList(
            nn.Conv2d(channels[i], channels[i + 1], kernel_size=3, stride=2 if i else 1, padding=1)
            for i in range(depth)
        )
        self.n_outputs = channels[-1]
        initialise_layers(self, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features (batch, channels of the last layer) of inputs (batch, pixels)."""
        images = inputs.view(len(inputs), 1, *self.image_shape)
        for layer in self.layers:
            images = layer(images).relu()
        return images.mean((2, 3))


class VitTiny(RowModule):
    """A vision transformer (Dosovitskiy et al. 2021, *An Image is Worth 16x16 Words*) without class token.

    The pixels of each square patch of the image are projected to a token, learned positions are added, transformer
    blocks follow, and the output is the mean of the tokens.

    Args:
        image_shape: Height and width of the images.
        patch: Side of a patch in pixels.
        width: Features of a token, and of the output.
        depth: Number of blocks.
        heads: Attention heads; a divisor of `width`.
        score: Name of the attention score.
        parameters: Parameters of the score.
        generator: Source of the initial weights.

    Raises:
        ConfigError: patches do not divide the image.
    """

    def __init__(
        self,
        image_shape: tuple[int, int],
        patch: int,
        width: int,
        depth: int,
        heads: int,
        score: str,
        parameters: Mapping[str, Any],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        check_patch(patch, image_shape)
        self.grid, self.patch = (image_shape[0] // patch, image_shape[1] // patch), patch
        self.embedding = nn.Linear(patch * patch, width)
        self.positions = nn.Parameter(torch.empty(self.grid[0] * self.grid[1], width))
        self.transformer = Transformer(depth, width, heads, score, generator=generator, **parameters)
        self.n_outputs = width
        nn.init.normal_(self.embedding.weight, std=(patch * patch) ** -0.5, generator=generator)
        nn.init.zeros_(self.embedding.bias)
        nn.init.normal_(self.positions, std=POSITION_STD, generator=generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features (batch, width) of inputs (batch, pixels)."""
        tokens = self.embedding(self.patches(inputs)) + self.positions
        features: Tensor = self.transformer(tokens).mean(1)
        return features

    def patches(self, inputs: Tensor) -> Tensor:
        """Return the pixels of each patch, (batch, patches, pixels of a patch), row by row."""
        (rows, columns), side = self.grid, self.patch
        images = inputs.view(len(inputs), rows, side, columns, side)
        return images.transpose(2, 3).reshape(len(inputs), rows * columns, side * side)


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
