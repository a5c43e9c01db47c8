from __future__ import annotations

import math

import pytest
from texts import TEXT, text_dataset, text_file

from idwbench.models.text_model import ngram_bits_per_character


def occurrences(text: str, part: str) -> int:
    return sum(text.startswith(part, start) for start in range(len(text)))


@pytest.mark.parametrize("order", [0, 1, 2, 4])
def test_an_ngram_model_adds_one_to_every_count(order, tmp_path):
    text = TEXT * 4
    n_test, n_validation = round(0.1 * len(text)), round(0.1 * (len(text) - round(0.1 * len(text))))
    train, test = text[: len(text) - n_test - n_validation], text[-n_test - 1 :]
    bits = 0.0
    for place in range(1, len(test)):
        before = test[max(0, place - order) : place]
        n_before = sum(occurrences(train, before + c) for c in set(train))
        bits -= math.log2((occurrences(train, before + test[place]) + 1) / (n_before + len(set(train)) + 1))
    found = ngram_bits_per_character(text_dataset(text_file(tmp_path, text)), order)
    assert found == pytest.approx(bits / n_test, rel=1e-12)


def test_a_longer_memory_helps_with_a_text_that_repeats_itself(tmp_path):
    dataset = text_dataset(text_file(tmp_path))
    assert ngram_bits_per_character(dataset, 3) < ngram_bits_per_character(dataset, 1)
    assert ngram_bits_per_character(dataset, 1, "validation") < ngram_bits_per_character(dataset, 0, "validation")
