"""Texts as data sets: row i has the number of one character as its only input, and that of the next as its label.

The rows of a split are in the order of the text, so a model with a longer context reads its inputs as one sequence.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import RawData, RawSplit
from idwbench.errors import DatasetError
from idwbench.files import read_file
from idwbench.runs.datasets import TextConfig

__all__ = ["UNKNOWN", "decode", "encode", "load_text", "split_text", "vocabulary_of"]

# Stands for each character that is not in the training part: U+FFFD, the replacement character.
UNKNOWN = "\ufffd"


def load_text(config: TextConfig, folder: Path) -> RawData:
    """Return the user's text, with the test part at its end and the validation part before it.

    Raises:
        DatasetError: the file is not UTF-8, or too short for its parts.
    """
    text = decode(read_file(Path(config.path), DatasetError))
    n_test = max(1, round(len(text) * config.test_fraction))
    return split_text(text[: len(text) - n_test], text[len(text) - n_test :], config.validation)


def decode(content: bytes) -> str:
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


def split_text(train: str, test: str, validation: int | float) -> RawData:
    """Return the parts of a text as a data set; the validation part is the end of `train`.

    Args:
        train: Text for training and validation.
        test: The text that follows it, or another.
        validation: Length of the validation part: a number of characters, or a fraction of `train`.

    Raises:
        DatasetError: a part has too few characters.
    """
    n_characters = len(train) + len(test)
    if n_characters == 0:
        raise DatasetError("the file is empty")
    size = validation if isinstance(validation, int) else max(1, round(len(train) * validation))
    n_train = len(train) - size
    if n_train < 2 or not test:
        raise DatasetError(
            f"too short: of {n_characters:,} character{'' if n_characters == 1 else 's'} {max(n_train, 0):,} would be "
            f"for training, {size:,} for validation and {len(test):,} for test; expected at least 2 for training"
        )
    names = vocabulary_of(train[:n_train])
    codes, test_codes = encode(train, names), encode(test, names)
    return RawData(
        train=_rows(codes[:n_train]),
        # The first row of a part begins with the character before it, so that each of its characters is a label.
        validation=_rows(codes[n_train - 1 :]) if size else None,
        test=_rows(np.concatenate([codes[-1:], test_codes])),
        class_names=names,
        scaling=Scaling.identity(),
    )


def vocabulary_of(text: str) -> tuple[str, ...]:
    """Return the characters of a text by code point, after `UNKNOWN`."""
    return (UNKNOWN, *sorted(set(text) - {UNKNOWN}))


def encode(text: str, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the number of each character in the vocabulary `names`; 0, the number of `UNKNOWN`, for others."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    no_character = 2**32 - 1
    known = np.array([*map(ord, names[1:]), no_character], np.uint32)
    places = np.searchsorted(known, points)
    return np.where(known[places] == points, places + 1, 0).astype(np.int64)


def _rows(codes: NDArray[np.int64]) -> RawSplit:
    return RawSplit(codes[:-1, None], codes[1:])
