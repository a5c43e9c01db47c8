"""An n-gram model: what a count of short sequences of tokens predicts, as a reference for language models."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from idwbench.data.dataset import Dataset

__all__ = ["ngram_bits_per_character"]


def ngram_bits_per_character(dataset: Dataset, order: int, split: str = "test") -> float:
    """Return the bits per character of a split under P(c | s) = (n(sc) + 1) / (n(s) + V).

    s are the `order` tokens before the token c, n counts the occurrences of a sequence before a token in the training
    part, and V is the size of the vocabulary: Laplace's add-one estimate (Jurafsky and Martin, "Speech and Language
    Processing", chapter 3). Order 0 are the frequencies of tokens. Tokens are characters or words.

    Each token of the split is predicted once; s is shorter for the first of them, which have fewer tokens before them
    in the rows of the split.

    Args:
        dataset: A text.
        order: Number of tokens that a prediction depends on, from 0.
        split: Name of the split.
    """
    train, test = (_codes(dataset, name) for name in ("train", split))
    counts: Counter[bytes] = Counter()
    contexts: Counter[bytes] = Counter()
    # Shorter strings are needed at the beginning of the split.
    for n in range(min(1, order), order + 1):
        for end in range(n, len(train)):
            before = train[end - n : end].tobytes()
            contexts[before] += 1
            counts[before + train[end].tobytes()] += 1
    total = 0.0
    for end in range(1, len(test)):
        before = test[max(0, end - order) : end].tobytes()
        count = counts[before + test[end].tobytes()]
        total -= math.log2((count + 1) / (contexts[before] + dataset.n_outputs))
    characters = dataset.splits[split].characters
    return total / (len(test) - 1 if characters is None else int(characters.sum()))


def _codes(dataset: Dataset, split: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    """Return all tokens of a split, with the one before its first label."""
    part = dataset.splits[split]
    return np.concatenate([part.inputs[:1, 0].astype(np.uint32), part.labels.astype(np.uint32)])
