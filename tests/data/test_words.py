"""Texts of words: tokens, vocabulary, parts and characters."""

from __future__ import annotations

import numpy as np
import pytest

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.data.text import CHARACTERS, SPACED_WORDS, WORDS, Tokenizer, build_vocabulary, text_tokenizer
from idwbench.runs.config import run_config
from idwbench.runs.datasets import AesopConfig, TextConfig, WikiText2Config, parse_dataset

TEXT = "The fox ran.\nThe crow sat, and the fox didn't.\n"
TOKENS = ["The", "fox", "ran", ".", "\n", "The", "crow", "sat", ",", "and", "the", "fox", "didn't", ".", "\n"]


@pytest.fixture
def load(tmp_path):
    def load(text: str, **settings: object) -> Dataset:
        path = tmp_path / "own.txt"
        path.write_text(text, encoding="utf-8")
        return load_dataset(TextConfig(path=str(path), tokens="words", **settings))

    return load


def words(dataset: Dataset, split: str) -> list[str]:
    part = dataset.splits[split]
    codes = np.append(part.inputs[:1, 0].astype(int), part.labels)
    return [dataset.class_names[code] for code in codes]


def test_tokens_are_words_signs_and_line_ends():
    assert list(WORDS.split(TEXT)) == TOKENS
    assert list(WORDS.split("“Don’t!” 3.5\t\u00a0x_1 \U0001f98a")) == [
        *("“", "Don’t", "!", "”", "3", ".", "5", "x_1", "\U0001f98a")
    ]
    assert list(SPACED_WORDS.split(" = A <unk> = \n \n @-@ didn 't\u00a0. \n")) == [
        *("=", "A", "<unk>", "=", "\n", "\n", "@-@", "didn", "'t\u00a0.", "\n")
    ]
    assert WORDS.split("  \t ") == []


@pytest.mark.parametrize("tokenizer", [WORDS, SPACED_WORDS])
@pytest.mark.parametrize("text", [TEXT, "  one  two \n\n three\t", "x", "\n"])
def test_the_lengths_of_tokens_sum_to_the_text_and_begin_with_the_token(tokenizer: Tokenizer, text: str):
    tokens, lengths = tokenizer.split(text), tokenizer.lengths(text)
    assert lengths is not None and lengths.sum() == len(text) and len(lengths) == len(tokens)
    starts = np.cumsum(lengths) - lengths
    for token, start, length in list(zip(tokens, starts, lengths, strict=True))[1:]:
        assert text[start : start + length].startswith(token)


def test_joined_words_are_the_text_but_for_its_spaces():
    assert WORDS.join(TOKENS) == "The fox ran .\nThe crow sat , and the fox didn't .\n"
    assert WORDS.split(WORDS.join(TOKENS)) == TOKENS
    assert CHARACTERS.join(list(TEXT)) == TEXT
    assert CHARACTERS.lengths(TEXT) is None


def test_the_vocabulary_has_the_most_frequent_words_in_order():
    tokens = ["b", "a", "c", "b", "<unk>", "<unk>", "<unk>", "a", "d"]
    assert build_vocabulary(tokens, "<unk>") == ("<unk>", "a", "b", "c", "d")
    assert build_vocabulary(tokens, "<unk>", 3) == ("<unk>", "a", "b", "c")
    assert build_vocabulary(tokens, "<unk>", 1) == ("<unk>", "a")
    assert build_vocabulary("abcb", size=1) == ("\ufffd", "b")


@pytest.mark.parametrize("tokenizer", [CHARACTERS, WORDS])
def test_a_vocabulary_survives_as_an_array(tokenizer: Tokenizer):
    names = build_vocabulary(tokenizer.split(TEXT + "é\U0001f98a"), tokenizer.unknown)
    array = tokenizer.vocabulary_array(names)
    assert tokenizer.vocabulary(array) == names
    np.testing.assert_array_equal(
        tokenizer.encode([*names, "not there"[: 1 if tokenizer is CHARACTERS else None]], names)[: len(names)],
        np.arange(len(names)),
    )


def test_a_text_is_cut_between_words(load):
    found = load(TEXT, test_fraction=0.2, validation=3)
    assert words(found, "train") == TOKENS[:9]
    # The word before a part, and its words.
    assert words(found, "validation") == [",", "<unk>", "<unk>", "fox"]
    assert words(found, "test") == ["fox", "<unk>", ".", "\n"]
    assert found.class_names == ("<unk>", *sorted({*TOKENS[:9]}))


def test_the_characters_of_all_parts_are_those_of_the_text_after_its_first_word(load):
    found = load("  " + TEXT * 5)
    counted = [part.characters.sum() for part in found.splits.values() if part.characters is not None]
    assert len(counted) == 3
    assert sum(counted) == len(TEXT * 5) - len("The ")


def test_a_bounded_vocabulary_has_an_unknown_word_for_the_others(load):
    found = load(TEXT * 5, vocabulary_size=2)
    assert found.class_names == ("<unk>", "\n", ".")
    assert set(words(found, "train")) == {"<unk>", "\n", "."}


def test_spaces_change_the_data_since_they_count_as_characters(load):
    assert load("a b  c d e f g h i j k l").sha256 != load("a b c d e f g h i j k l").sha256


def test_texts_are_tokenised_by_their_data_set():
    assert text_tokenizer(AesopConfig(tokens="words")) is text_tokenizer(TextConfig(path="x", tokens="words")) is WORDS
    assert text_tokenizer(WikiText2Config(tokens="words")) is SPACED_WORDS
    assert text_tokenizer(WikiText2Config()) is CHARACTERS


def test_wikitext_2_keeps_its_own_words(wikitext):
    train, test = " \n = A = \n \n It 's <unk> . \n" * 3, " \n A horse . \n"
    found = load_dataset(
        parse_dataset({"name": "wikitext_2", "tokens": "words", "validation": 0}), wikitext(train, test)
    )
    assert words(found, "train") == ["\n", "=", "A", "=", "\n", "\n", "It", "'s", "<unk>", ".", "\n"] * 3
    assert words(found, "test") == ["\n", "\n", "A", "<unk>", ".", "\n"]


def test_words_change_the_key_of_a_run_and_characters_do_not():
    keys = [
        run_config({"name": "aesop", **settings}, kind="lstm_lm").run_key
        for settings in (
            {},
            {"tokens": "characters", "vocabulary_size": 0},
            {"tokens": "words"},
            {"vocabulary_size": 9},
        )
    ]
    assert keys[0] == keys[1] and len(set(keys)) == 3


def test_the_real_texts_have_the_words_in_the_docs(data_dir):
    for name, file in (("aesop", "aesop/49010-0.txt"), ("wikitext_2", "wikitext-2/valid.txt")):
        if not (data_dir / file).exists():
            pytest.skip(f"the folder in IDWBENCH_DATA has no {file}")
        found = load_dataset(parse_dataset({"name": name, "tokens": "words"}), data_dir)
        sizes = [len(found.splits[split]) for split in ("train", "validation", "test")]
        expected = {"aesop": [26_624, 2_958, 3_287, 3_075], "wikitext_2": [195_880, 21_765, 245_569, 10_001]}[name]
        assert [*sizes, found.n_outputs] == expected
