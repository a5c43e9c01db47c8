"""Pairs of sequences that are drawn by rules: copying, reversing, and Latin letters written in Greek ones.

Texts of copying and reversing are letters, independent and equally likely. Words of the transliteration are syllables
of a consonant, a vowel and often a second consonant, cut off at their length. Their rules are those of the romanisation
of ancient Greek by ALA-LC, read backwards and without accents and breathings: ``ph``, ``th``, ``ch`` and ``ps`` are
one Greek letter, ``n`` before ``g``, ``k``, ``x`` or ``ch`` is γ, and ``s`` at the end of a word is ς. A ``c`` that the
end of a word cuts off is κ.

In arrays a letter is its place in the alphabet, from 2; a target ends with 1, and 0 fills the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import count, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import RawData, RawSplit
from idwbench.errors import ConfigError
from idwbench.runs.dataset_base import SequencePairsConfig
from idwbench.runs.datasets import SymbolsConfig

__all__ = [
    "END",
    "PADDING",
    "SEQUENCE_TASKS",
    "Alphabet",
    "Piece",
    "SequenceTask",
    "load_sequences",
    "sequence_task",
    "transliterated",
]

PADDING, END = 0, 1
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_GREEK = {
    **{"ph": "φ", "th": "θ", "ch": "χ", "ps": "ψ", "a": "α", "b": "β", "c": "κ", "d": "δ", "e": "ε", "ē": "η"},
    **{"g": "γ", "i": "ι", "k": "κ", "l": "λ", "m": "μ", "n": "ν", "o": "ο", "ō": "ω", "p": "π", "r": "ρ", "s": "σ"},
    **{"t": "τ", "x": "ξ", "y": "υ", "z": "ζ"},
}
_PIECES = re.compile(r"(?P<nasal>n(?=[gkx]|ch))|(?P<last>s$)|[ptc]h|ps|.")
_IN_CONTEXT = {"nasal": "γ", "last": "ς"}
_SYLLABLE = (
    ("b", "g", "d", "z", "th", "k", "l", "m", "n", "x", "p", "r", "s", "t", "ph", "ch", "ps"),
    ("a", "e", "ē", "i", "o", "ō", "y"),
    ("", "", "n", "s", "r"),
)
_TRIES = 100


class Piece(NamedTuple):
    """A letter of a target, and the letters of the source that it is written for: those from `start` to `stop`."""

    letter: str
    start: int
    stop: int


class Alphabet(NamedTuple):
    """The letters of sequences, in the order of their numbers."""

    letters: str

    @property
    def n_codes(self) -> int:
        """How many numbers there are, with those of the end and of what fills rows."""
        return len(self.letters) + END + 1

    def encode(self, text: str) -> list[int]:
        """Return the number of each letter; raises `ConfigError` for one that is not in the alphabet."""
        for letter in text:
            if letter not in self.letters:
                raise ConfigError(f"{letter!r} is none of the letters {self.letters}", location=("text",))
        return [END + 1 + self.letters.index(letter) for letter in text]

    def decode(self, codes: Iterable[int]) -> str:
        """Return the letters of numbers up to the end."""
        return "".join(self.letters[code - END - 1] for code in takewhile(lambda code: code > END, codes))


class SequenceTask(NamedTuple):
    """What is to be written for a text.

    Attributes:
        pieces: Returns the target of a text, letter by letter.
        source: The letters of texts.
        target: The letters of targets.
        draw: Returns a text of a given length.
    """

    pieces: Callable[[str], list[Piece]]
    source: Alphabet
    target: Alphabet
    draw: Callable[[int, np.random.RandomState], str]

    def answer(self, text: str) -> str:
        """Return the target of a text."""
        return "".join(piece.letter for piece in self.pieces(text))


def _copied(text: str) -> list[Piece]:
    return [Piece(letter, place, place + 1) for place, letter in enumerate(text)]


def transliterated(text: str) -> list[Piece]:
    """Return the Greek letters of a Latin word, by the rules above."""
    matches = _PIECES.finditer(text)
    return [Piece(_IN_CONTEXT.get(str(m.lastgroup), _GREEK.get(m[0], "")), *m.span()) for m in matches]


def _word(length: int, random: np.random.RandomState) -> str:
    word = ""
    while len(word) < length:
        word += "".join(part[random.randint(len(part))] for part in _SYLLABLE)
    return word[:length]


def _of_symbols(pieces: Callable[[str], list[Piece]], n: int) -> SequenceTask:
    letters = Alphabet(_LETTERS[:n])

    def draw(length: int, random: np.random.RandomState) -> str:
        return "".join(letters.letters[number] for number in random.randint(n, size=length))

    return SequenceTask(pieces, letters, letters, draw)


_TRANSLITERATION = SequenceTask(
    transliterated,
    Alphabet("".join(sorted({letter for key in _GREEK for letter in key}))),
    Alphabet("".join(sorted({*_GREEK.values(), *_IN_CONTEXT.values()}))),
    _word,
)
# By the name of the data set.
SEQUENCE_TASKS: dict[str, Callable[[int], SequenceTask]] = {
    "copying": lambda symbols: _of_symbols(_copied, symbols),
    "reversing": lambda symbols: _of_symbols(lambda text: _copied(text)[::-1], symbols),
    "transliteration": lambda symbols: _TRANSLITERATION,
}


def sequence_task(config: SequencePairsConfig) -> SequenceTask:
    """Return the task of a data set."""
    return SEQUENCE_TASKS[config.name](config.symbols if isinstance(config, SymbolsConfig) else 0)


def load_sequences(config: SequencePairsConfig, folder: Path) -> RawData:
    """Return train, test and holdout, drawn in this order; the lengths of each follow each other in turn.

    No text is drawn twice, in no split, unless a hundred tries give none that is new.
    """
    task, random = sequence_task(config), np.random.RandomState(config.seed)
    drawn: set[str] = set()

    def split(size: int, shortest: int, longest: int) -> RawSplit:
        texts = []
        for number in range(size):
            length = shortest + number % (longest - shortest + 1)
            tries = (task.draw(length, random) for _ in count())
            text = next(text for used, text in enumerate(tries) if text not in drawn or used == _TRIES)
            drawn.add(text)
            texts.append(text)
        targets = [[*task.target.encode(task.answer(text)), END] for text in texts]
        # As wide for each split, since all are arrays of one data set.
        return RawSplit(_rows(map(task.source.encode, texts), width), _rows(targets, width + 1))

    width = config.longest_holdout if config.holdout_size else config.longest
    usual = (config.shortest, config.longest)
    train, test = split(config.train_size, *usual), split(config.test_size, *usual)
    longer = (config.longest + 1, config.longest_holdout)
    holdout = split(config.holdout_size, *longer) if config.holdout_size else None
    return RawData(train, test, holdout, target_scaling=Scaling.identity())


def _rows(sequences: Iterable[list[int]], width: int) -> NDArray[np.float32]:
    return np.array([[*codes, *[PADDING] * (width - len(codes))] for codes in sequences], np.float32)
