"""Texts as data sets: row i has the number of one token as its only input, and that of the next as its label.

The rows of a split are in the order of the text, so a model with a longer context reads its inputs as one sequence.
Tokens are characters, or words and line ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.folder import read_checked
from idwbench.data.preparation import RawData, RawSplit
from idwbench.errors import DatasetError
from idwbench.files import read_file
from idwbench.runs.dataset_base import LanguageConfig
from idwbench.runs.datasets import AesopConfig, TextConfig, WikiText2Config

__all__ = [
    "CHARACTERS",
    "MOST_WORDS",
    "SPACED_WORDS",
    "UNKNOWN",
    "WORDS",
    "Tokenizer",
    "build_vocabulary",
    "load_aesop",
    "load_text",
    "load_wikitext_2",
    "text_tokenizer",
]

# Files of the data folder, with their checksums.
AESOP = {"aesop/49010-0.txt": "ccc57f278fd84a9ea2193928cca1cbb14b37248c091f9b3edb7bb0b621bf9fc2"}
WIKITEXT_2 = {
    "wikitext-2/valid.txt": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
    "wikitext-2/test.txt": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
}
# Left out of the fables: title pages and table of contents before, and after them shorter forms of the first fables,
# the publisher's announcements and Project Gutenberg's last line.
_FIRST, _AFTER = "\nINTRODUCTION\n", "\nAPPENDIX\n"


def load_text(config: TextConfig, folder: Path) -> RawData:
    """Return the user's text, with the test part at its end and the validation part before it.

    Raises:
        DatasetError: the file is not UTF-8, or too short for its parts.
    """
    text = _decoded(read_file(Path(config.path), DatasetError))
    return _split_text(config, *_cut_text(config, text, config.test_fraction))


def load_aesop(config: AesopConfig, folder: Path) -> RawData:
    """Return the introduction and the fables; raises like `load_text`, and if the file is missing or altered."""
    (whole,) = _read_texts(folder, AESOP, "the plain text of https://www.gutenberg.org/ebooks/49010")
    start = whole.index(_FIRST)
    text = whole[start : whole.index(_AFTER, start)].strip() + "\n"
    return _split_text(config, *_cut_text(config, text, config.test_fraction))


def load_wikitext_2(config: WikiText2Config, folder: Path) -> RawData:
    """Return the validation file for training and validation, and the test file; raises like `load_aesop`.

    The training file is ten times as long, and is not used: results do not compare with published ones.
    """
    train, test = _read_texts(folder, WIKITEXT_2, "the files of wikitext-2-v1")
    return _split_text(config, train, test)


def _read_texts(folder: Path, checksums: Mapping[str, str], source: str) -> list[str]:
    """Return the texts of files of the data folder, which are checked at every read.

    Raises:
        DatasetError: a file is missing (`source` says where it comes from), cannot be read, or has another checksum.
    """
    texts = []
    for file, sha256 in checksums.items():
        path = folder / file
        if not path.exists():
            hint = f"copy it there: {source}; any text works with {{name: text, path: …}}"
            raise DatasetError("no such file", file=path, hint=hint)
        texts.append(_decoded(read_checked(path, sha256, f"replace it: {source}")))
    return texts


def _decoded(content: bytes) -> str:
    """Return UTF-8 text without byte order mark, with a line feed at the end of each line.

    Raises:
        DatasetError: not UTF-8; the problem has line and column.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise DatasetError(f"not UTF-8 text: line {line}, byte {column} is 0x{error.object[error.start]:02x}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _cut_text(config: LanguageConfig, text: str, test_fraction: float) -> tuple[str, str]:
    """Return a text in two parts; the second has a fraction of the tokens, rounded, and at least one."""
    lengths = text_tokenizer(config).lengths(text)
    if lengths is None:
        n_test = max(1, round(len(text) * test_fraction))
    else:
        n_test = int(lengths[len(lengths) - max(1, round(len(lengths) * test_fraction)) :].sum())
    return text[: len(text) - n_test], text[len(text) - n_test :]


def _split_text(config: LanguageConfig, train: str, test: str) -> RawData:
    """Return the parts of a text as a data set; the validation part is the end of `train`.

    Args:
        config: The kind of tokens, the largest vocabulary, and the length of the validation part: a number of tokens,
            or a fraction of `train`.
        train: Text for training and validation.
        test: The text that follows it, or another.

    Raises:
        DatasetError: a part has too few tokens.
    """
    tokenizer = text_tokenizer(config)
    tokens, test_tokens = tokenizer.split(train), tokenizer.split(test)
    n_train = _check_lengths(config, tokenizer.unit, len(tokens), len(test_tokens))
    size = config.vocabulary_size or (MOST_WORDS if tokenizer.pattern else 0)
    names = build_vocabulary(tokens[:n_train], tokenizer.unknown, size)
    codes = tokenizer.encode(tokens, names)
    rows = _rows(codes, tokenizer.lengths(train))
    # The first row of a part begins with the token before it, so that each of its tokens is a label.
    test_codes = np.concatenate([codes[-1:], tokenizer.encode(test_tokens, names)])
    test_lengths = tokenizer.lengths(test)
    return RawData(
        train=rows.rows(np.arange(n_train - 1)),
        validation=rows.rows(np.arange(n_train - 1, len(codes) - 1)) if n_train < len(codes) else None,
        test=_rows(test_codes, None if test_lengths is None else np.append(0, test_lengths)),
        class_names=names,
        scaling=Scaling.identity(),
    )


def _check_lengths(config: LanguageConfig, unit: str, n_tokens: int, n_test: int) -> int:
    """Return the number of training tokens."""
    if n_tokens + n_test == 0:
        raise DatasetError("the file is empty" if unit == "characters" else f"the file has no {unit}")
    validation = config.validation
    size = validation if isinstance(validation, int) else max(1, round(n_tokens * validation))
    n_train = n_tokens - size
    if n_train < 2 or not n_test:
        total = n_tokens + n_test
        raise DatasetError(
            f"too short: of {total:,} {unit.removesuffix('s') if total == 1 else unit} {max(n_train, 0):,} would be "
            f"for training, {size:,} for validation and {n_test:,} for test; expected at least 2 for training"
        )
    return n_train


def _rows(codes: NDArray[np.int64], lengths: NDArray[np.int64] | None) -> RawSplit:
    return RawSplit(codes[:-1, None], codes[1:], characters=None if lengths is None else lengths[1:])


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
