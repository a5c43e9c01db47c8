"""An LSTM language model: logits of the next token for each token of a text."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from idwbench.models.language import NextTokenModel
from idwbench.runs.kinds.lstm_lm import LstmConfig

__all__ = ["LstmLanguageModel"]


class LstmLanguageModel(NextTokenModel):
    """logits = head · h_t + b with the states h_t of one LSTM layer (Hochreiter and Schmidhuber 1997).

    The initial state of every sequence is zero. Initial embeddings are normal with standard deviation 1; other weights
    are uniform between ±1/√width, as those of `torch.nn.LSTM` and `torch.nn.Linear`.

    Args:
        vocabulary_size: Number of different tokens.
        embedding: Features of a token.
        width: Hidden units.
        context: Number of tokens in a window.
        generator: Source of the initial weights; by default that of torch.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding: int,
        width: int,
        context: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary_size, embedding)
        self.lstm = nn.LSTM(embedding, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary_size)
        with torch.no_grad():
            self.tokens.weight.normal_(generator=generator)
            for parameter in (*self.lstm.parameters(), *self.head.parameters()):
                parameter.uniform_(-(width**-0.5), width**-0.5, generator=generator)

    @classmethod
    def of(
        cls, config: LstmConfig, vocabulary_size: int, generator: torch.Generator | None = None
    ) -> LstmLanguageModel:
        """Return a model with the settings of a run."""
        return cls(
            vocabulary_size,
            embedding=config.embedding,
            width=config.width,
            context=config.context,
            generator=generator,
        )

    def forward(self, codes: Tensor) -> Tensor:
        """Return the logits (batch, length, vocabulary) of the next token after each of `codes` (batch, length)."""
        states, _ = self.lstm(self.tokens(codes))
        logits: Tensor = self.head(states)
        return logits
