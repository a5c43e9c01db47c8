"""Explained prompts: passages of the training text with their attention."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from idwbench.data.tokens import Tokenizer

__all__ = ["LINE_END", "ExplainedPrompt", "Passage", "PassageLayer"]

LINE_END = "⏎"  # in texts of one line


@dataclass(frozen=True)
class Passage:
    """Attended tokens of the training text, with those around them.

    Attributes:
        rows: The attended positions: rows of the training data, in order, without gaps.
        tokens: The text.
        marked: Whether each of `tokens` is attended: it was the input of an attended step, as the last token of the
            prompt is that of the query.
        hits: Number of slots: visits of these positions that are among the largest attentions.
        attention: The sum of their attention.
        largest: The largest of it.
        step: The training step, from 1, of the largest.
        contribution: What the hits add to the logit of the most probable next token; None in layers without logits.
    """

    rows: tuple[int, ...]
    tokens: tuple[str, ...]
    marked: tuple[bool, ...]
    hits: int
    attention: float
    largest: float
    step: int
    contribution: float | None = None


@dataclass(frozen=True)
class PassageLayer:
    """The passages of one layer.

    Attributes:
        name: The layer.
        slots: Number of slots in its memory.
        hits: Number of slots with the largest attention that passages are made of.
        total: The sum of the attention to all slots.
        passages: In order of decreasing attention.
    """

    name: str
    slots: int
    hits: int
    total: float
    passages: tuple[Passage, ...]


@dataclass(frozen=True)
class ExplainedPrompt:
    """What a recorded language model attends to at the last token of a prompt.

    Attributes:
        run_key: Key of the run.
        model: Label of the model.
        tokenizer: What the tokens are.
        prompt: The tokens that were read.
        next_tokens: The most probable next tokens with their probability.
        layers: The recorded layers.
        warnings: One line for each.
    """

    run_key: str
    model: str
    tokenizer: Tokenizer
    prompt: tuple[str, ...]
    next_tokens: tuple[tuple[str, float], ...]
    layers: tuple[PassageLayer, ...]
    warnings: tuple[str, ...] = ()

    def text(self, passage: Passage, mark: tuple[str, str] = ("[", "]")) -> str:
        """Return a passage as one line: neighbouring attended tokens between marks, line ends as ⏎."""
        begin, end = mark
        parts = []
        for is_marked, run in groupby(zip(passage.tokens, passage.marked, strict=True), key=lambda pair: pair[1]):
            # The spaces between words stand outside the marks.
            text = self.tokenizer.join([token.replace("\n", LINE_END) for token, _ in run])
            parts.append(f"{begin}{text}{end}" if is_marked else text)
        return self.tokenizer.join(parts)

    def facts(self) -> dict[str, Any]:
        """Return the explanation as values for JSON."""
        return {
            "run_key": self.run_key,
            "model": self.model,
            "tokens": self.tokenizer.unit,
            "prompt": list(self.prompt),
            "next": [{"token": token, "probability": probability} for token, probability in self.next_tokens],
            "layers": [
                {
                    "layer": layer.name,
                    "slots": layer.slots,
                    "hits": layer.hits,
                    "total": layer.total,
                    "passages": [{**vars(passage), "text": self.text(passage)} for passage in layer.passages],
                }
                for layer in self.layers
            ],
            "warnings": list(self.warnings),
        }
