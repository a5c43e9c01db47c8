"""Texts: characters and words, vocabularies, and three contiguous parts."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from idwbench.data import text as texts
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.data.text import CHARACTERS, SPACED_WORDS, UNKNOWN, WORDS, Tokenizer, build_vocabulary
from idwbench.errors import DatasetError
from idwbench.runs.config import run_config
from idwbench.runs.datasets import TextConfig, parse_dataset

LETTERS = "abcdefghijklmnopqrst"
AESOP = "aesop/49010-0.txt"
TEXT = "The fox ran.\nThe crow sat, and the fox didn't.\n"
TOKENS = ["The", "fox", "ran", ".", "\n", "The", "crow", "sat", ",", "and", "the", "fox", "didn't", ".", "\n"]


@pytest.fixture
def load(tmp_path):
    def load(text, **settings):
        path = tmp_path / "own.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_dataset(TextConfig(path=str(path), **settings))

    return load


def tokens(data: Dataset, split: str) -> list[str]:
    """Return the token before a part, and its tokens."""
    part = data.splits[split]
    return [data.class_names[code] for code in np.append(part.inputs[:1, 0].astype(int), part.labels)]


def assert_parts(data: Dataset, **parts: str | list[str]) -> None:
    assert {split: tokens(data, split) for split in data.splits} == {name: [*part] for name, part in parts.items()}
    for split in data.splits.values():  # each token is predicted from the one before
        assert split.inputs[1:, 0].astype(int).tolist() == split.labels[:-1].tolist()


def test_a_text_is_cut_into_contiguous_parts(load):
    text = LETTERS * 2
    data = load(text, test_fraction=0.25, validation=0.2)  # the fraction is that of the 30 other characters
    assert_parts(data, train=text[:24], validation=text[23:30], test=text[29:])
    assert_parts(load(LETTERS, validation=0), train=LETTERS[:18], test=["r", UNKNOWN, UNKNOWN])
    data = load(TEXT, tokens="words", test_fraction=0.2, validation=3)
    unknown = "<unk>"
    parts = {"validation": [",", unknown, unknown, "fox"], "test": ["fox", unknown, ".", "\n"]}
    assert_parts(data, train=TOKENS[:9], **parts)
    assert data.class_names == (unknown, *sorted({*TOKENS[:9]}))


def test_a_bounded_vocabulary_has_an_unknown_word_for_the_others(load):
    data = load(TEXT * 5, tokens="words", vocabulary_size=2)
    assert data.class_names == ("<unk>", "\n", ".") and set(tokens(data, "train")) == {*data.class_names}


def test_the_characters_of_all_parts_are_those_of_the_text_after_its_first_word(load):
    data = load("  " + TEXT * 5, tokens="words")
    assert sum(part.characters.sum() for part in data.splits.values()) == len(TEXT * 5) - len("The ")
    assert data.sha256 != load(TEXT.replace(" ", "  ") * 5, tokens="words").sha256  # spaces count as characters


def test_the_vocabulary_is_that_of_the_training_part(load):
    data = load("abba" * 10 + "abcæ", test_fraction=4 / 44, validation=0)
    assert data.class_names == (UNKNOWN, "a", "b")
    assert tokens(data, "test") == [*f"aab{UNKNOWN}{UNKNOWN}"]
    assert data.task == "language" and data.n_outputs == 3


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
    assert build_vocabulary("abcb", size=1) == (UNKNOWN, "b")


def test_characters_are_numbered_by_code_point():
    names = build_vocabulary("zebra—😀\n")
    assert names == (UNKNOWN, "\n", "a", "b", "e", "r", "z", "—", "😀")
    assert CHARACTERS.encode("😀\nz?€😁", names).tolist() == [8, 1, 6, 0, 0, 0]
    assert CHARACTERS.encode(f"a{UNKNOWN}", build_vocabulary(UNKNOWN * 3)).tolist() == [0, 0]


@pytest.mark.parametrize("tokenizer", [CHARACTERS, WORDS])
def test_a_vocabulary_survives_as_an_array(tokenizer: Tokenizer):
    names = build_vocabulary(tokenizer.split(TEXT + "é\U0001f98a"), tokenizer.unknown)
    array = tokenizer.vocabulary_array(names)
    assert tokenizer.vocabulary(array) == names
    np.testing.assert_array_equal(
        tokenizer.encode(names, names),
        np.arange(len(names)),
    )


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_and_a_byte_order_mark_do_not_matter(ending, load):
    lines = "one\ntwo\nthree\n"
    assert load("\ufeff" + lines.replace("\n", ending)).sha256 == load(lines).sha256


def test_a_file_is_known_by_its_content_and_not_by_its_place(tmp_path):
    keys = set()
    for folder in ("here", "there"):
        path = tmp_path / folder / "own.txt"
        path.parent.mkdir()
        path.write_text(LETTERS)
        config = run_config({"name": "text", "path": str(path)}, kind="transformer_lm")
        keys.add(config.model_copy(update={"dataset": load_dataset(config.dataset).config}).run_key)
    assert len(keys) == 1
    path.write_text(LETTERS + "u")
    assert load_dataset(TextConfig(path=str(path))).config.sha256 not in (None, hashlib.sha256(b"").hexdigest())
    with pytest.raises(DatasetError, match="has changed"):
        load_dataset(config.dataset.model_copy(update={"sha256": hashlib.sha256(LETTERS.encode()).hexdigest()}))


def test_a_name_that_ends_in_txt_is_the_path_of_a_text():
    assert parse_dataset("fables/Æsop.TXT") == TextConfig(path="fables/Æsop.TXT")
    assert parse_dataset({"name": "own.txt", "validation": 5}) == TextConfig(path="own.txt", validation=5)


OF_WORDS = {"tokens": "words"}
REFUSED = [
    (b"", {}, "the file is empty"),
    (b"abc", {}, "too short: of 3 characters 1 would be for training, 1 for validation and 1 for test"),
    (LETTERS.encode(), {"validation": 30}, "too short: of 20 characters 0 would be for training, 30 for validation"),
    (b"caf\xe9\n", {}, "not UTF-8 text: line 1, byte 4 is 0xe9"),
    (b"one\ntwo \xff\xfe", {}, "not UTF-8 text: line 2, byte 5 is 0xff"),
    (b"  \t", OF_WORDS, "the file has no words"),
    (b"one two", OF_WORDS, "too short: of 2 words 0 would be for training, 1 for validation and 1 for test"),
    (b"one", OF_WORDS, "too short: of 1 word 0 would be for training, 1 for validation and 1 for test"),
]


@pytest.mark.parametrize(("content", "settings", "problem"), REFUSED)
def test_a_file_that_is_no_text_or_too_short_gets_one_line(content, settings, problem, load, tmp_path):
    with pytest.raises(DatasetError) as error:
        load(content, **settings)
    assert str(error.value).startswith(f"{tmp_path / 'own.txt'}: {problem}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["aesop", "wikitext_2"])
def test_a_missing_text_of_the_data_folder_says_where_to_put_it(name, tmp_path):
    with pytest.raises(DatasetError) as error:
        load_dataset(parse_dataset(name), tmp_path)
    file = {"aesop": "aesop/49010-0.txt", "wikitext_2": "wikitext-2/valid.txt"}[name]
    assert str(error.value).startswith(f"{tmp_path / file}: no such file (copy it there: ")


def test_an_altered_text_of_the_data_folder_is_refused(tmp_path):
    path = tmp_path / AESOP
    path.parent.mkdir()
    path.write_text("THE END\n")
    with pytest.raises(DatasetError, match="truncated or altered: its SHA-256 begins with"):
        load_dataset(parse_dataset("aesop"), tmp_path)


def test_aesop_is_the_introduction_and_the_fables(tmp_path, monkeypatch):
    book = "Title\n\nINTRODUCTION\n\nOnce.\n\nTHE FOX\n\nSour grapes.\n\n\nAPPENDIX\n\nEnd of Project Gutenberg\n"
    path = tmp_path / AESOP
    path.parent.mkdir()
    path.write_text(book)
    monkeypatch.setattr(texts, "AESOP", {AESOP: hashlib.sha256(book.encode()).hexdigest()})
    found = load_dataset(parse_dataset({"name": "aesop", "validation": 0, "test_fraction": 0.02}), tmp_path)
    text = "INTRODUCTION\n\nOnce.\n\nTHE FOX\n\nSour grapes.\n"
    assert_parts(found, train=text[:-1], test=text[-2:])


def test_wikitext_2_is_trained_on_the_one_file_and_tested_on_the_other_in_its_own_words(wikitext):
    data = load_dataset(parse_dataset("wikitext_2"), wikitext(LETTERS * 2, "cab"))
    assert_parts(data, train=LETTERS + LETTERS[:16], validation="pqrst", test="tcab")
    folder = wikitext(" \n = A = \n \n It 's <unk> . \n" * 3, " \n A horse . \n")
    data = load_dataset(parse_dataset({"name": "wikitext_2", "tokens": "words", "validation": 0}), folder)
    train = ["\n", "=", "A", "=", "\n", "\n", "It", "'s", "<unk>", ".", "\n"] * 3
    assert_parts(data, train=train, test=["\n", "\n", "A", "<unk>", ".", "\n"])


def test_words_change_the_key_of_a_run_and_characters_do_not():
    settings = [{}, {"tokens": "characters", "vocabulary_size": 0}, {"tokens": "words"}, {"vocabulary_size": 9}]
    keys = [run_config({"name": "aesop", **one}, kind="lstm_lm").run_key for one in settings]
    assert keys[0] == keys[1] and len(set(keys)) == 3


REAL = [
    (AESOP, {"name": "aesop"}, [101_826, 11_314, 12_571, 92]),
    (AESOP, {"name": "aesop", "tokens": "words"}, [26_624, 2_958, 3_287, 3_075]),
    ("wikitext-2/valid.txt", {"name": "wikitext_2"}, [1_008_172, 112_019, 1_255_018, 120]),
    ("wikitext-2/valid.txt", {"name": "wikitext_2", "tokens": "words"}, [195_880, 21_765, 245_569, 10_001]),
]


@pytest.mark.parametrize(("file", "settings", "sizes"), REAL)
def test_the_real_texts_have_the_sizes_in_the_docs(data_dir, file, settings, sizes):
    if not (data_dir / file).exists():
        pytest.skip(f"the folder in IDWBENCH_DATA has no {file}")
    data = load_dataset(parse_dataset(settings), data_dir)
    assert [*(len(data.splits[split]) for split in ("train", "validation", "test")), data.n_outputs] == sizes
