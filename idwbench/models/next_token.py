"""Models that predict the next token of a text, and their perplexity."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from idwbench.data.dataset import Split

__all__ = ["NextTokenModel", "bits_per_character", "mean_loss", "text_metrics"]

# Largest number of logits that an evaluation computes at a time: 8 MiB in float32.
LOGITS_AT_A_TIME = 2**21


class NextTokenModel(nn.Module):
    """A module from numbers of tokens (batch, length) to logits (batch, length, vocabulary) of the token after each.

    Attributes:
        tokens: The embedding of tokens.
        context: Number of tokens in a window.
    """

    tokens: nn.Embedding
    context: int

    @abstractmethod
    def forward(self, codes: Tensor) -> Tensor:
        """Return the logits (batch, length, vocabulary) of the next token after each of `codes` (batch, length)."""


@torch.no_grad()
def mean_loss(model: NextTokenModel, inputs: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Return the mean of −ln P(label | inputs up to it) over all labels of one text, in nats.

    Each label is predicted once, in windows of C = `context` inputs that begin every ⌈C/2⌉ inputs: from more than ⌊C/2⌋
    inputs, or from all inputs before it at the beginning of the text.

    Args:
        model: The model, in evaluation mode.
        inputs: The numbers of consecutive tokens, (n,).
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
    return total / len(labels)


def bits_per_character(
    model: NextTokenModel, inputs: NDArray[np.int64], labels: NDArray[np.int64], characters: int | None = None
) -> float:
    """Return the sum of −log₂ P(label | inputs up to it) over all labels of one text, per character.

    Args:
        model: The model, in evaluation mode.
        inputs: The numbers of consecutive tokens, (n,).
        labels: Those that follow each, (n,).
        characters: Characters of all labels with what separates them; by default one for each label.
    """
    return _bits(mean_loss(model, inputs, labels), len(labels), characters)


def text_metrics(model: NextTokenModel, split: Split, first: int = 0) -> dict[str, float]:
    """Return ``bits_per_character`` and ``perplexity`` = exp(mean of −ln P(token)) of a split from a row on.

    A perplexity beyond the range of float64 is left out.
    """
    inputs, labels = split.inputs[first:, 0].astype(np.int64), split.labels[first:]
    characters = None if split.characters is None else int(split.characters[first:].sum())
    loss = mean_loss(model, inputs, labels)
    found = {"bits_per_character": _bits(loss, len(labels), characters)}
    if loss < math.log(np.finfo(np.float64).max):
        found["perplexity"] = math.exp(loss)
    return found


def _bits(loss: float, n_labels: int, characters: int | None) -> float:
    return loss / math.log(2) * (1.0 if characters is None else n_labels / characters)
