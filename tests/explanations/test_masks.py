from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from idwbench.errors import ExplanationError
from idwbench.explanations.memory import Memory, masked_entries
from idwbench.runs.config import run_config

NAMES = ("shirt", "shoe", "bag")
LABELS, TASKS = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
PARTS = {"name": "joint", "of": ["mnist", "fashion_mnist"]}


def memory(dataset: object = PARTS, names=NAMES, labels=LABELS, tasks=TASKS) -> Memory:
    """Entries with classes and tasks, and nothing that answers."""
    data = SimpleNamespace(class_names=names)
    return Memory(run_config(dataset), "training data", data, {}, None, None, None, labels, tasks)


@pytest.mark.parametrize(
    ("texts", "removed"),
    [
        (["label=shoe"], [1, 4]),
        (["label=2"], [2, 5]),
        (["label=shoe", "label=bag"], [1, 2, 4, 5]),
        (["task=fashion_mnist"], [3, 4, 5]),
        (["label=shoe", "task=mnist", "label=shirt"], [0, 1]),
    ],
)
def test_one_word_means_any_of_its_values_and_two_words_mean_both(texts, removed):
    assert np.flatnonzero(masked_entries(texts, memory())).tolist() == removed
    assert masked_entries([], memory()) is None


LEARNED = "mask: a prototype has a class but no task: it is learned from all parts of the data (expected label=CLASS)"


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("shoe", {}, "mask: expected label=CLASS or task=NAME, got 'shoe'"),
        ("label=", {}, "expected label=CLASS or task=NAME, got 'label='"),
        ("lable=1", {}, "mask: unknown 'lable' (did you mean 'label'?)"),
        ("label=sho", {}, "mask: no class is called 'sho' (did you mean 'shoe'?)"),
        ("label=3", {}, "mask: expected 0 to 2, got 3"),
        ("task=mnst", {}, "mask: no task is called 'mnst' (did you mean 'mnist'?)"),
        ("task=mnist", {"dataset": "digits", "tasks": None}, "the data set digits has no tasks"),
        ("label=0", {"dataset": "sine", "names": (), "labels": None}, "the data set sine has no classes"),
        ("task=mnist", {"tasks": None}, LEARNED),
        ("label=bag", {"labels": np.array([0, 1])}, "no part of the memory has label=bag"),
        ("label=bag", {"labels": np.array([2, 2])}, "the whole memory has label=bag; nothing is left to answer with"),
    ],
)
def test_a_mask_that_is_none_or_that_the_memory_has_no_use_for_is_refused(text, given, message):
    with pytest.raises(ExplanationError, match=re.escape(message)):
        masked_entries([text], memory(**given))
