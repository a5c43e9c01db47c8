"""Texts: characters and words, vocabularies, and three contiguous parts; pairs of sequences."""

import hashlib
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from case_tables import case_table

from idwbench.data import text as texts
from idwbench.data.loading import load_dataset
from idwbench.data.sequences import SEQUENCE_TASKS, Piece, sequence_task, transliterated
from idwbench.data.text import CHARACTERS, SPACED_WORDS, UNKNOWN, WORDS, build_vocabulary
from idwbench.errors import ConfigError, DatasetError
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


def tokens(data, split):
    """Return the token before a part, and its tokens."""
    part = data.splits[split]
    return [data.class_names[code] for code in np.append(part.inputs[:1, 0].astype(int), part.labels)]


def assert_parts(data, **parts):
    assert {split: tokens(data, split) for split in data.splits} == {name: [*part] for name, part in parts.items()}
    for split in data.splits.values():  # each token is predicted from the one before
        assert split.inputs[1:, 0].astype(int).tolist() == split.labels[:-1].tolist()


def test_characters_and_words_are_cut_into_contiguous_parts_whose_lengths_add_up(load):
    text, settings = LETTERS * 2, {"test_fraction": 0.25, "validation": 0.2}  # of the 30 other characters
    data = load(text, **settings)
    assert_parts(data, train=text[:24], validation=text[23:30], test=text[29:])
    assert_parts(load(LETTERS, validation=0), train=LETTERS[:18], test=["r", UNKNOWN, UNKNOWN])
    assert data.task == "language" and data.n_outputs == 21 and data.sha256 == load("\ufeff" + text, **settings).sha256
    data = load(TEXT, tokens="words", test_fraction=0.2, validation=3)
    unknown = "<unk>"
    parts = {"validation": [",", unknown, unknown, "fox"], "test": ["fox", unknown, ".", "\n"]}
    assert_parts(data, train=TOKENS[:9], **parts)
    assert data.class_names == (unknown, *sorted({*TOKENS[:9]}))
    data = load("  " + TEXT * 5, tokens="words", vocabulary_size=2)
    assert data.class_names == (unknown, "\n", ".") and set(tokens(data, "train")) == {*data.class_names}
    assert sum(part.characters.sum() for part in data.splits.values()) == len(TEXT * 5) - len("The ")
    assert data.sha256 != load(TEXT.replace(" ", "  ") * 5, tokens="words").sha256  # spaces count as characters
    assert len({load(TEXT.replace("\n", ending), tokens="words").sha256 for ending in ("\n", "\r\n", "\r")}) == 1


def test_tokens_are_words_signs_and_line_ends_and_the_most_frequent_make_the_vocabulary():
    assert list(WORDS.split(TEXT)) == TOKENS
    signs = ["“", "Don’t", "!", "”", "3", ".", "5", "x_1", "🦊"]
    assert list(WORDS.split("“Don’t!” 3.5\t\u00a0x_1 \U0001f98a")) == signs
    assert list(SPACED_WORDS.split(" = A <unk> = \n \n @-@ didn 't\u00a0. \n")) == [
        *("=", "A", "<unk>", "=", "\n", "\n", "@-@", "didn", "'t\u00a0.", "\n")
    ]
    assert WORDS.split("  \t ") == []
    tokens = ["b", "a", "c", "b", "<unk>", "<unk>", "<unk>", "a", "d"]
    assert build_vocabulary(tokens, "<unk>") == ("<unk>", "a", "b", "c", "d")
    assert build_vocabulary(tokens, "<unk>", 3) == ("<unk>", "a", "b", "c")
    assert build_vocabulary(tokens, "<unk>", 1) == ("<unk>", "a")
    names = build_vocabulary("zebra—😀\n")
    assert names == (UNKNOWN, "\n", "a", "b", "e", "r", "z", "—", "😀")
    assert CHARACTERS.encode("😀\nz?€😁", names).tolist() == [8, 1, 6, 0, 0, 0]
    assert CHARACTERS.encode(f"a{UNKNOWN}", build_vocabulary(UNKNOWN * 3)).tolist() == [0, 0]


@pytest.mark.parametrize("tokenizer", [CHARACTERS, WORDS])
def test_joined_tokens_are_the_text_but_for_its_spaces_and_a_vocabulary_survives_as_an_array(tokenizer):
    spaced = "The fox ran .\nThe crow sat , and the fox didn't .\n"
    assert tokenizer.join(tokenizer.split(TEXT)) == (TEXT if tokenizer is CHARACTERS else spaced)
    names = build_vocabulary(tokenizer.split(TEXT + "é\U0001f98a"), tokenizer.unknown)
    assert tokenizer.vocabulary(tokenizer.vocabulary_array(names)) == names
    np.testing.assert_array_equal(tokenizer.encode(names, names), np.arange(len(names)))


def test_a_name_that_ends_in_txt_is_the_path_of_a_text():
    assert parse_dataset("fables/Æsop.TXT") == TextConfig(path="fables/Æsop.TXT")
    assert parse_dataset({"name": "own.txt", "validation": 5}) == TextConfig(path="own.txt", validation=5)


@pytest.mark.parametrize(("content", "settings", "problem"), case_table("wrong_inputs")["text_files"])
def test_a_file_that_is_no_text_or_too_short_gets_one_line(content, settings, problem, load, tmp_path):
    with pytest.raises(DatasetError) as error:
        load(content.encode("latin-1"), **settings)
    assert str(error.value).startswith(f"{tmp_path / 'own.txt'}: {problem}") and "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "file"), [("aesop", AESOP), ("wikitext_2", "wikitext-2/valid.txt")])
def test_a_missing_text_of_the_data_folder_is_refused(name, file, tmp_path):
    with pytest.raises(DatasetError) as error:
        load_dataset(parse_dataset(name), tmp_path)
    assert str(error.value).startswith(f"{tmp_path / file}: no such file (copy it there: ")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes files into a data folder, with their checksums in place of the official."""

    def write(name, *contents):
        files = dict(zip(getattr(texts, name), contents, strict=True))
        for file, content in files.items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(content)
        checksums = {file: hashlib.sha256(content.encode()).hexdigest() for file, content in files.items()}
        monkeypatch.setattr(texts, name, checksums)
        return tmp_path

    return write


def test_aesop_is_its_introduction_and_fables_and_wikitext_2_has_its_own_words_and_test_file(write):
    book = "Title\n\nINTRODUCTION\n\nOnce.\n\nTHE FOX\n\nSour grapes.\n\n\nAPPENDIX\n\nEnd of Project Gutenberg\n"
    settings = {"name": "aesop", "validation": 0, "test_fraction": 0.02}
    text = "INTRODUCTION\n\nOnce.\n\nTHE FOX\n\nSour grapes.\n"
    assert_parts(load_dataset(parse_dataset(settings), write("AESOP", book)), train=text[:-1], test=text[-2:])
    data = load_dataset(parse_dataset("wikitext_2"), write("WIKITEXT_2", LETTERS * 2, "cab"))
    assert_parts(data, train=LETTERS + LETTERS[:16], validation="pqrst", test="tcab")
    folder = write("WIKITEXT_2", " \n = A = \n \n It 's <unk> . \n" * 3, " \n A horse . \n")
    data = load_dataset(parse_dataset({"name": "wikitext_2", "tokens": "words", "validation": 0}), folder)
    train = ["\n", "=", "A", "=", "\n", "\n", "It", "'s", "<unk>", ".", "\n"] * 3
    assert_parts(data, train=train, test=["\n", "\n", "A", "<unk>", ".", "\n"])


@pytest.mark.parametrize(("file", "settings", "sizes"), case_table("inputs")["text_sizes"])
def test_the_real_texts_have_the_sizes_in_the_docs(data_dir, file, settings, sizes):
    if not (data_dir / file).exists():
        pytest.skip(f"the folder in IDWBENCH_DATA has no {file}")
    data = load_dataset(parse_dataset(settings), data_dir)
    assert [*(len(data.splits[split]) for split in ("train", "validation", "test")), data.n_outputs] == sizes


# Pairs of sequences: the rules of each task, and what is drawn


PAGE = Path(__file__).parents[2] / "docs/sequence_to_sequence.md"
GREEK = {"philosophos": "φιλοσοφος", "psychē": "ψυχη", "angelos": "αγγελος", "anchos": "αγχος", "xenos": "ξενος"}
GREEK |= {"sphinx": "σφιγξ", "thōrax": "θωραξ", "nkn": "γκν", "ss": "σς", "s": "ς", "c": "κ", "kaps": "καψ"}


def task_of(name, **settings):
    return sequence_task(parse_dataset({"name": name, **settings}))


def texts_of(data):
    """Return the texts and their targets by split."""
    task = sequence_task(data.config)
    return {
        name: [
            (task.source.decode(source), task.target.decode(target))
            for source, target in zip(split.inputs.astype(int), split.targets.astype(int), strict=True)
        ]
        for name, split in data.splits.items()
    }


def test_each_task_writes_what_its_name_says_and_knows_what_each_letter_is_written_for():
    assert task_of("copying").pieces("cab") == [Piece("c", 0, 1), Piece("a", 1, 2), Piece("b", 2, 3)]
    assert task_of("reversing").pieces("cab") == [Piece("b", 2, 3), Piece("a", 1, 2), Piece("c", 0, 1)]
    assert transliterated("anchis") == [
        *(Piece("α", 0, 1), Piece("γ", 1, 2), Piece("χ", 2, 4), Piece("ι", 4, 5), Piece("ς", 5, 6))
    ]
    for name in SEQUENCE_TASKS:
        task = task_of(name)
        text = "abdegabde"[: 8 if name != "transliteration" else 9]
        pieces = task.pieces(text)
        assert sorted(place for piece in pieces for place in range(piece.start, piece.stop)) == [*range(len(text))]
        assert task.answer(text) == "".join(piece.letter for piece in pieces)


def test_a_transliteration_follows_the_rules_of_the_page_which_has_every_rule():
    assert {word: task_of("transliteration").answer(word) for word in GREEK} == GREEK
    rows = dict(re.findall(r"^\| `(\S+)` \| (\S+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    alphabet = task_of("transliteration").source.letters
    assert {*rows} == {*alphabet} - {"h", "c"} | {"ph", "th", "ch", "ps"}
    assert all(transliterated(latin + "a")[0].letter == greek for latin, greek in rows.items())


@pytest.mark.parametrize("name", SEQUENCE_TASKS)
def test_pairs_have_the_lengths_and_targets_that_are_asked_for_and_no_text_is_drawn_twice(name):
    sizes = {"train_size": 40, "test_size": 14, "holdout_size": 9, "validation": 7}
    config = parse_dataset({"name": name, "shortest": 4, "longest": 10, "longest_holdout": 12, **sizes})
    data, task = load_dataset(config), sequence_task(config)
    drawn = texts_of(data)
    assert [len(drawn[name]) for name in ("train", "validation", "test", "holdout")] == [33, 7, 14, 9]
    for pairs in drawn.values():
        assert all(task.answer(text) == target for text, target in pairs)
    assert Counter(len(text) for text, _ in drawn["test"]) == dict.fromkeys(range(4, 11), 2)
    assert {len(text) for text, _ in drawn["holdout"]} == {11, 12}
    assert {len(text) for text, _ in drawn["train"] + drawn["validation"]} == {*range(4, 11)}
    texts = [text for pairs in drawn.values() for text, _ in pairs]
    assert len({*texts}) == len(texts) == 63
    for split in data.splits.values():  # the end, once, and then nothing
        ends = (split.targets == 1).argmax(1)
        assert all(
            (row[:end] > 1).all() and not row[end + 1 :].any() for row, end in zip(split.targets, ends, strict=True)
        )
    assert data.sha256 == load_dataset(config).sha256
    assert data.sha256 != load_dataset(config.model_copy(update={"seed": 1})).sha256


def test_texts_are_drawn_again_where_there_are_too_few_and_what_does_not_fit_is_refused():
    sizes = {"shortest": 1, "longest": 2, "symbols": 2, "train_size": 20, "test_size": 4, "holdout_size": 0}
    data = load_dataset(parse_dataset({"name": "copying", **sizes}))
    assert {text for text, _ in texts_of(data)["train"]} == {"a", "b", "aa", "ab", "ba", "bb"}
    assert data.holdout is None and data.train.inputs.shape == (20, 2) and data.train.targets.shape == (20, 3)
    with pytest.raises(DatasetError, match=r"^train_size: the data set reversing needs .* of memory"):
        load_dataset(parse_dataset({"name": "reversing", "train_size": 2**31 - 1}))
    with pytest.raises(ConfigError, match="is none of the letters"):
        task_of("copying", symbols=4).source.encode("abw")
    np.testing.assert_array_equal(task_of("copying").source.encode("abh"), [2, 3, 9])
