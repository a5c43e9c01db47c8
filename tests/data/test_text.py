from __future__ import annotations

import hashlib

import pytest

from idwbench.data import text as texts
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.data.text import CHARACTERS, UNKNOWN, build_vocabulary
from idwbench.errors import DatasetError
from idwbench.runs.config import run_config
from idwbench.runs.datasets import TextConfig, parse_dataset

LETTERS = "abcdefghijklmnopqrst"
AESOP = "aesop/49010-0.txt"


@pytest.fixture
def load(tmp_path):
    def load(text, **settings):
        path = tmp_path / "own.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_dataset(TextConfig(path=str(path), **settings))

    return load


def labels(dataset: Dataset, split: str) -> str:
    return "".join(dataset.class_names[code] for code in dataset.splits[split].labels)


def inputs(dataset: Dataset, split: str) -> str:
    return "".join(dataset.class_names[int(code)] for code in dataset.splits[split].inputs[:, 0])


def test_a_text_is_cut_into_three_contiguous_parts(load):
    found = load(LETTERS * 2, test_fraction=0.25, validation=0.2)  # the fraction is that of the 30 other characters
    assert inputs(found, "train") + labels(found, "train")[-1] == LETTERS + LETTERS[:4]
    assert labels(found, "validation") == LETTERS[4:10]
    assert labels(found, "test") == LETTERS[10:]


def test_each_character_of_validation_and_test_is_predicted_from_the_one_before(load):
    found = load(LETTERS * 2, test_fraction=0.25, validation=6)
    assert inputs(found, "validation") == LETTERS[3:9]
    assert inputs(found, "test") == LETTERS[9:19]


def test_without_validation_there_are_two_parts(load):
    found = load(LETTERS, validation=0)
    assert sorted(found.splits) == ["test", "train"]
    assert labels(found, "train") == LETTERS[1:18]


def test_the_vocabulary_is_that_of_the_training_part(load):
    found = load("abba" * 10 + "abcæ", test_fraction=4 / 44, validation=0)
    assert found.class_names == (UNKNOWN, "a", "b")
    assert labels(found, "test") == f"ab{UNKNOWN}{UNKNOWN}"
    assert found.task == "language" and found.n_outputs == 3


def test_characters_are_numbered_by_code_point():
    names = build_vocabulary("zebra—😀\n")
    assert names == (UNKNOWN, "\n", "a", "b", "e", "r", "z", "—", "😀")
    assert CHARACTERS.encode("😀\nz?€😁", names).tolist() == [8, 1, 6, 0, 0, 0]


def test_a_text_of_unknown_characters_only_has_an_empty_vocabulary():
    assert CHARACTERS.encode(f"a{UNKNOWN}", build_vocabulary(UNKNOWN * 3)).tolist() == [0, 0]


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


WORDS = {"tokens": "words"}
REFUSED = [
    (b"", {}, "the file is empty"),
    (b"abc", {}, "too short: of 3 characters 1 would be for training, 1 for validation and 1 for test"),
    (LETTERS.encode(), {"validation": 30}, "too short: of 20 characters 0 would be for training, 30 for validation"),
    (b"caf\xe9\n", {}, "not UTF-8 text: line 1, byte 4 is 0xe9"),
    (b"one\ntwo \xff\xfe", {}, "not UTF-8 text: line 2, byte 5 is 0xff"),
    (b"  \t", WORDS, "the file has no words"),
    (b"one two", WORDS, "too short: of 2 words 0 would be for training, 1 for validation and 1 for test"),
    (b"one", WORDS, "too short: of 1 word 0 would be for training, 1 for validation and 1 for test"),
]


@pytest.mark.parametrize(("content", "settings", "problem"), REFUSED)
def test_a_file_that_is_no_text_or_too_short_gets_one_line(content, settings, problem, load, tmp_path):
    with pytest.raises(DatasetError) as error:
        load(content, **settings)
    assert str(error.value).startswith(f"{tmp_path / 'own.txt'}: {problem}")
    assert "\n" not in str(error.value)


def test_a_folder_gets_one_line(tmp_path):
    with pytest.raises(DatasetError, match="is a folder, expected a file"):
        load_dataset(TextConfig(path=str(tmp_path)))


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
    text = inputs(found, "train") + inputs(found, "test") + labels(found, "test")[-1]
    assert text == "INTRODUCTION\n\nOnce.\n\nTHE FOX\n\nSour grapes.\n"


def test_wikitext_2_is_trained_on_the_one_file_and_tested_on_the_other(wikitext):
    found = load_dataset(parse_dataset("wikitext_2"), wikitext(LETTERS * 2, "cab"))
    assert labels(found, "validation") == "qrst" and labels(found, "test") == "cab"
    assert inputs(found, "train") + labels(found, "train")[-1] == LETTERS + LETTERS[:16]


def test_the_real_texts_have_the_sizes_in_the_docs(data_dir):
    for name, file in (("aesop", AESOP), ("wikitext_2", "wikitext-2/valid.txt")):
        if not (data_dir / file).exists():
            pytest.skip(f"the folder in IDWBENCH_DATA has no {file}")
        found = load_dataset(parse_dataset(name), data_dir)
        sizes = [len(found.splits[split]) for split in ("train", "validation", "test")]
        expected = {"aesop": [101_826, 11_314, 12_571, 92], "wikitext_2": [1_008_172, 112_019, 1_255_018, 120]}[name]
        assert [*sizes, found.n_outputs] == expected
