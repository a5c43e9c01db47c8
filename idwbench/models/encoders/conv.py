"""A convolutional network as encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from idwbench.models.encoders.initialisation import initialise_layers

__all__ = ["Conv"]


class Conv(nn.Module):
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
        images = inputs.view(-1, 1, *self.image_shape)
        for layer in self.layers:
            images = layer(images).relu()
        return images.mean((2, 3))
