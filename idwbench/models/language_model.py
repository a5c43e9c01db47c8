"""A causal transformer language model: logits of the next character for each character of a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from idwbench.attention.definitions import ParameterValue
from idwbench.models.transformer import Transformer, initialise_transformer
from idwbench.runs.language_models import LanguageModelConfig

__all__ = ["LanguageModel", "bits_per_character"]

# Largest number of logits that an evaluation computes at a time: 8 MiB in float32.
LOGITS_AT_A_TIME = 2**21


class LanguageModel(nn.Module):
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


@torch.no_grad()
def bits_per_character(model: LanguageModel, inputs: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Return the mean of −log₂ P(label | inputs up to it) over all labels of one text.

    Each label is predicted once, in windows of C = `context` inputs that begin every ⌈C/2⌉ inputs: from more than ⌊C/2⌋
    inputs, or from all inputs before it at the beginning of the text.

    Args:
        model: The model, in evaluation mode.
        inputs: The numbers of consecutive characters, (n,).
        labels: Those that follow each, (n,).
    """
    length = min(model.context, len(inputs))
    stride = (length + 1) // 2
    # The last window ends with the text.
    starts = np.append(np.arange(0, len(inputs) - length, stride), len(inputs) - length)
    counted_from = np.concatenate([[0], starts[:-1] + length])
    device = model.tokens.weight.device
    at_a_time = max(1, LOGITS_AT_A_TIME // (length * model.tokens.num_embeddings))
    total = 0.0
    for first in range(0, len(starts), at_a_time):
        some = slice(first, first + at_a_time)
        rows = starts[some, None] + np.arange(length)
        logits = model(torch.from_numpy(inputs[rows]).to(device))
        targets = torch.from_numpy(labels[rows]).to(device)
        losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        counted = torch.from_numpy(rows >= counted_from[some, None]).to(device)
        total += float(losses.double()[counted].sum())
    return total / len(labels) / math.log(2)
