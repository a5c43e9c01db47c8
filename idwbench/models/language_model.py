"""A causal transformer language model: logits of the next character for each character of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from idwbench.attention.definitions import ParameterValue
from idwbench.models.next_token import NextTokenModel
from idwbench.models.transformer import Transformer, initialise_transformer
from idwbench.runs.kinds.transformer_lm import LanguageModelConfig

__all__ = ["LanguageModel"]


class LanguageModel(NextTokenModel):
    """A causal transformer: logits = head · transformer(tokens + positions), with learned embeddings of both.

    The architecture is that of GPT-2 (Radford et al. 2019) without biases and with a head of its own.

    Args:
        vocabulary_size: Number of different characters.
        context: Largest number of characters that the model reads.
        depth: Number of blocks.
        width: Features of a character.
        heads: Number of attention heads; a divisor of `width`.
        score: Name of the attention score.
        parameters: Parameters of the score.
        generator: Source of the initial weights; by default that of torch.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        context: int,
        depth: int,
        width: int,
        heads: int,
        score: str,
        parameters: Mapping[str, ParameterValue],
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary_size, width)
        self.positions = nn.Embedding(context, width)
        options: dict[str, Any] = dict(parameters)
        self.transformer = Transformer(depth, width, heads, score, causal=True, generator=generator, **options)
        self.head = nn.Linear(width, vocabulary_size, bias=False)
        initialise_transformer(self, depth, generator)

    @classmethod
    def of(
        cls, config: LanguageModelConfig, vocabulary_size: int, generator: torch.Generator | None = None
    ) -> LanguageModel:
        """Return a model with the settings of a run."""
        return cls(
            vocabulary_size,
            context=config.context,
            depth=config.depth,
            width=config.width,
            heads=config.heads,
            score=config.method,
            parameters=config.parameters,
            generator=generator,
        )

    def forward(self, codes: Tensor) -> Tensor:
        """Return the logits (batch, length, vocabulary) of the next character after each of `codes` (batch, length)."""
        positions = torch.arange(codes.shape[1], device=codes.device)
        logits: Tensor = self.head(self.transformer(self.tokens(codes) + self.positions(positions)))
        return logits
