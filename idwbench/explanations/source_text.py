"""The text that a language model was trained on: the title above each of its tokens, and where a passage stands."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np

from idwbench.data.loading import load_dataset
from idwbench.data.text import Tokenizer
from idwbench.errors import ExplanationError, did_you_mean
from idwbench.runs.dataset_base import DatasetConfig

__all__ = ["TrainingText", "placed_text"]


@dataclass(frozen=True)
class TrainingText:
    """The tokens of a training text.

    Attributes:
        tokens: Token r is the input of row r of the training data, and the last one the label of the last row.
        tokenizer: What the tokens are.
    """

    tokens: tuple[str, ...]
    tokenizer: Tokenizer

    def title(self, row: int) -> str | None:
        """Return the last title at or before a row, such as that of its fable; None if there is none."""
        place = bisect_right(self._titles, row, key=lambda title: title[0])
        return self._titles[place - 1][1] if place else None

    def find(self, text: str) -> list[int]:
        """Return the rows at which a passage begins.

        Raises:
            ExplanationError: the text does not have it; `location` is ``passage``.
        """
        wanted = tuple(self.tokenizer.split(text))
        if not wanted:
            raise ExplanationError("expected a part of the training text", location=("passage",))
        first = (row for row, token in enumerate(self.tokens) if token == wanted[0])
        rows = [row for row in first if self.tokens[row : row + len(wanted)] == wanted]
        if not rows:
            hint = "line ends and spaces count" if self.tokenizer.unit == "characters" else ""
            raise ExplanationError("it is no part of the training text", location=("passage",), hint=hint)
        return rows

    @cached_property
    def _titles(self) -> list[tuple[int, str]]:
        """The first row and the text of each title: a paragraph without small letters, or one between ``=``."""
        titles = []
        for is_text, lines in groupby(self._lines(), key=lambda line: bool(line[1].strip())):
            paragraph = list(lines)
            words = " ".join(" ".join(line for _, line in paragraph).split())
            is_marked = len(words) > 2 and words.startswith("=") and words.endswith("=")
            if is_text and (is_marked or (words == words.upper() and words != words.lower())):
                titles.append((paragraph[0][0], words.strip("= ")))
        return titles

    def _lines(self) -> list[tuple[int, str]]:
        """Return the row of the first token and the text of each line."""
        ends = [row for row, token in enumerate(self.tokens) if token == "\n"]
        starts = [0, *(row + 1 for row in ends)]
        stops = [*ends, len(self.tokens)]
        return [(a, self.tokenizer.join(self.tokens[a:b])) for a, b in zip(starts, stops, strict=True)]


def placed_text(
    config: DatasetConfig, tokenizer: Tokenizer, prompt: str, context: int, data_dir: Path | None = None
) -> tuple[str, str | None]:
    """Return the text of a place in a data set, and the token that follows; another prompt as it is, and None.

    Args:
        config: The data set.
        tokenizer: What its tokens are.
        prompt: A place, such as ``aesop:test:100``, the text up to token 100 of the test text, from 0; or any text.
        context: Largest number of tokens to return.
        data_dir: Folder of the texts.

    Raises:
        ExplanationError: there is no such split or token.
        DatasetError: the data set cannot be loaded.
    """
    name, *place = prompt.split(":")
    if name != config.name or len(place) != 2 or not place[1].isdecimal():
        return prompt, None
    dataset, (split, row) = load_dataset(config, data_dir), (place[0], int(place[1]))
    if split not in dataset.splits:
        hint = did_you_mean(split, dataset.splits)
        raise ExplanationError(f"the data set {name} has no split '{split}'", location=("prompt",), hint=hint)
    data = dataset.splits[split]
    if row >= len(data):
        problem = f"the {split} text of {name} has the tokens 0 to {len(data) - 1:,}, got {row:,}"
        raise ExplanationError(problem, location=("prompt",))
    codes = data.inputs[max(0, row + 1 - context) : row + 1, 0].astype(np.int64)
    return tokenizer.join([dataset.class_names[code] for code in codes]), dataset.class_names[data.labels[row]]
