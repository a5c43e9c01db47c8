"""The tokens of a text: its characters, or its words and line ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idwbench.runs.datasets import LanguageConfig

__all__ = [
    "CHARACTERS",
    "MOST_WORDS",
    "SPACED_WORDS",
    "UNKNOWN",
    "WORDS",
    "Tokenizer",
    "build_vocabulary",
    "text_tokenizer",
]

# Stands for each character that is not in the vocabulary: U+FFFD, the replacement character.
UNKNOWN = "\ufffd"
# The largest vocabulary of words without a setting.
MOST_WORDS = 10_000


@dataclass(frozen=True)
class Tokenizer:
    """Splits texts into tokens.

    Attributes:
        unit: The tokens in messages: ``characters`` or ``words``.
        unknown: The token that stands for all that are not in the vocabulary; its number is 0.
        pattern: A regular expression of one token; empty for characters.
    """

    unit: str
    unknown: str
    pattern: str = ""

    def split(self, text: str) -> Sequence[str]:
        """Return the tokens of a text in order."""
        return re.findall(self.pattern, text) if self.pattern else text

    def lengths(self, text: str) -> NDArray[np.int64] | None:
        """Return the characters (n,) from each token to the next, or None if a token is a character.

        They sum to the length of the text: the first token has the spaces before it, the last those after it.
        """
        if not self.pattern:
            return None
        ends = [token.start() for token in re.finditer(self.pattern, text)][1:]
        return np.diff([0, *ends, len(text)]).astype(np.int64)

    def join(self, tokens: Sequence[str]) -> str:
        """Return tokens as a text: words with a space between them, except at line ends."""
        if not self.pattern:
            return "".join(tokens)
        return re.sub(" ?\n ?", "\n", " ".join(tokens))

    def encode(self, tokens: Sequence[str], names: tuple[str, ...]) -> NDArray[np.int64]:
        """Return the number of each token in the vocabulary `names`, and 0 for others."""
        numbers = {name: number for number, name in enumerate(names)}
        return np.fromiter((numbers.get(token, 0) for token in tokens), np.int64, len(tokens))

    def vocabulary_array(self, names: tuple[str, ...]) -> NDArray[np.generic]:
        """Return a vocabulary as numbers: code points of characters, or the UTF-8 bytes of words joined by spaces."""
        if not self.pattern:
            return np.array([ord(name) for name in names], np.int64)
        return np.frombuffer(" ".join(names).encode("utf-8", "surrogatepass"), np.uint8).copy()

    def vocabulary(self, array: NDArray[np.generic]) -> tuple[str, ...]:
        """Return the vocabulary of a `vocabulary_array`."""
        if not self.pattern:
            return tuple(chr(point) for point in array.tolist())
        return tuple(array.tobytes().decode("utf-8", "surrogatepass").split(" "))


CHARACTERS = Tokenizer("characters", UNKNOWN)
# Words, with apostrophes inside, and single signs of punctuation.
WORDS = Tokenizer("words", "<unk>", r"\n|\w+(?:['’]\w+)*|[^\w\s]")
# Of a text whose tokens are already separated by spaces.
SPACED_WORDS = Tokenizer("words", "<unk>", r"\n|[^ \n]+")


def text_tokenizer(config: LanguageConfig) -> Tokenizer:
    """Return the tokenizer of a text."""
    if config.tokens == "characters":
        return CHARACTERS
    return SPACED_WORDS if config.is_spaced else WORDS


def build_vocabulary(tokens: Sequence[str], unknown: str = UNKNOWN, size: int = 0) -> tuple[str, ...]:
    """Return `unknown`, and the different tokens of a text by code point.

    Args:
        tokens: A text, or its words.
        unknown: The token for all others.
        size: Largest number of other tokens, the most frequent; of equally frequent ones the first by code point. 0 for
            all.
    """
    counts = Counter(tokens)
    counts.pop(unknown, None)
    names = sorted(counts)
    if size:
        names = sorted(sorted(names, key=lambda name: -counts[name])[:size])
    return (unknown, *names)
