"""A small vision transformer with any attention score as encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from idwbench.models.transformer import Transformer
from idwbench.runs.kinds.network import check_patch

__all__ = ["VitTiny"]


POSITION_STD = 0.5  # of the order of the projected pixels, so that tokens differ by place from the start


class VitTiny(nn.Module):
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
        images = inputs.view(-1, rows, side, columns, side)
        return images.transpose(2, 3).reshape(-1, rows * columns, side * side)
