"""Pairs of sequences: the rules of each task, and what is drawn."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.data.sequences import SEQUENCE_TASKS, Piece, sequence_task, transliterated
from idwbench.errors import ConfigError, DatasetError
from idwbench.runs.datasets import parse_dataset

PAGE = Path(__file__).parents[2] / "docs/sequence_to_sequence.md"
WORDS = {"philosophos": "φιλοσοφος", "psychē": "ψυχη", "angelos": "αγγελος", "anchos": "αγχος", "xenos": "ξενος"}
WORDS |= {"sphinx": "σφιγξ", "thōrax": "θωραξ", "nkn": "γκν", "ss": "σς", "s": "ς", "c": "κ", "kaps": "καψ"}


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


@pytest.mark.parametrize(("word", "greek"), WORDS.items())
def test_a_transliteration_follows_the_rules_of_the_page(word, greek):
    assert task_of("transliteration").answer(word) == greek


def test_the_page_has_every_rule():
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
    assert {name: len(pairs) for name, pairs in drawn.items()} == {
        "train": 33,
        "validation": 7,
        "test": 14,
        "holdout": 9,
    }
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


def test_where_there_are_too_few_texts_some_are_drawn_again():
    sizes = {"shortest": 1, "longest": 2, "symbols": 2, "train_size": 20, "test_size": 4, "holdout_size": 0}
    data = load_dataset(parse_dataset({"name": "copying", **sizes}))
    assert {text for text, _ in texts_of(data)["train"]} == {"a", "b", "aa", "ab", "ba", "bb"}
    assert data.holdout is None and data.train.inputs.shape == (20, 2) and data.train.targets.shape == (20, 3)


def test_a_data_set_that_does_not_fit_into_memory_and_a_letter_that_is_unknown_are_refused():
    with pytest.raises(DatasetError, match=r"^train_size: the data set reversing needs .* of memory"):
        load_dataset(parse_dataset({"name": "reversing", "train_size": 2**31 - 1}))
    with pytest.raises(ConfigError, match="is none of the letters"):
        task_of("copying", symbols=4).source.encode("abw")
    np.testing.assert_array_equal(task_of("copying").source.encode("abh"), [2, 3, 9])
