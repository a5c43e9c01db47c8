"""Texts as data sets: row i has the number of one token as its only input, and that of the next as its label.

The rows of a split are in the order of the text, so a model with a longer context reads its inputs as one sequence.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import RawData, RawSplit
from idwbench.data.tokens import MOST_WORDS, tokenizer_of, vocabulary_of
from idwbench.errors import DatasetError
from idwbench.files import read_file
from idwbench.runs.datasets import LanguageConfig, TextConfig

__all__ = ["cut_text", "decode", "load_text", "split_text"]


def load_text(config: TextConfig, folder: Path) -> RawData:
    """Return the user's text, with the test part at its end and the validation part before it.

    Raises:
        DatasetError: the file is not UTF-8, or too short for its parts.
    """
    text = decode(read_file(Path(config.path), DatasetError))
    return split_text(config, *cut_text(config, text, config.test_fraction))


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


def cut_text(config: LanguageConfig, text: str, test_fraction: float) -> tuple[str, str]:
    """Return a text in two parts; the second has a fraction of the tokens, rounded, and at least one."""
    lengths = tokenizer_of(config).lengths(text)
    if lengths is None:
        n_test = max(1, round(len(text) * test_fraction))
    else:
        n_test = int(lengths[len(lengths) - max(1, round(len(lengths) * test_fraction)) :].sum())
    return text[: len(text) - n_test], text[len(text) - n_test :]


def split_text(config: LanguageConfig, train: str, test: str) -> RawData:
    """Return the parts of a text as a data set; the validation part is the end of `train`.

    Args:
        config: The kind of tokens, the largest vocabulary, and the length of the validation part: a number of tokens,
            or a fraction of `train`.
        train: Text for training and validation.
        test: The text that follows it, or another.

    Raises:
        DatasetError: a part has too few tokens.
    """
    tokenizer = tokenizer_of(config)
    tokens, test_tokens = tokenizer.split(train), tokenizer.split(test)
    n_train = _check_lengths(config, tokenizer.unit, len(tokens), len(test_tokens))
    size = config.vocabulary_size or (MOST_WORDS if tokenizer.pattern else 0)
    names = vocabulary_of(tokens[:n_train], tokenizer.unknown, size)
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
