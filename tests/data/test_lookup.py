"""The data set of lookups, random tables and noisy queries; and metrics of outputs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from blob_data import make_dataset

from idwbench.data.dataset import Split, nearest_values
from idwbench.data.loading import load_dataset
from idwbench.data.synthetic import draw_queries, draw_table
from idwbench.runs.datasets import LookupConfig


def test_keys_values_and_noise_have_the_declared_moments() -> None:
    config = LookupConfig(items=2000, dimensions=20, queries=4000, noise=0.3, mean=2.0)
    table = draw_table(config, 5)
    queries = draw_queries(config, 5, table)
    noise = queries.inputs - table.keys[queries.items]
    for numbers, mean, std in ((table.keys, 2, 1), (table.values, 0, 1), (noise, 0, 0.3)):
        n = numbers.size
        assert abs(numbers.mean() - mean) < 5 * std / np.sqrt(n)
        assert abs(numbers.std() - std) < 5 * std / np.sqrt(2 * n)
    assert abs(np.corrcoef(table.keys.ravel(), table.values.ravel())[0, 1]) < 5 / np.sqrt(table.keys.size)


def test_queries_ask_for_all_items_in_turn_and_without_noise_by_their_keys() -> None:
    config = LookupConfig(items=3, dimensions=2, queries=7, noise=0.0)
    table = draw_table(config, 0)
    queries = draw_queries(config, 0, table)
    assert queries.items.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert (queries.inputs == table.keys[queries.items]).all()


def test_each_seed_and_each_data_seed_has_its_own_table_and_the_holdout_is_another() -> None:
    config = LookupConfig(items=4, dimensions=3)
    other = LookupConfig(items=4, dimensions=3, seed=1)
    tables = [draw_table(config, 0), draw_table(config, 1), draw_table(other, 0), draw_table(config, 0, holdout=True)]
    assert len({table.keys.tobytes() for table in tables}) == 4
    assert draw_table(config, 1).keys.tobytes() == tables[1].keys.tobytes()


def test_a_larger_table_begins_with_the_smaller_one() -> None:
    small, large = (draw_table(LookupConfig(items=n, dimensions=3), 2) for n in (4, 9))
    assert (large.keys[:4] == small.keys).all() and (large.values[:4] == small.values).all()


def test_other_kinds_train_on_the_pairs_and_are_tested_by_queries() -> None:
    config = LookupConfig(items=6, dimensions=3, queries=8, validation=4)
    data, table = load_dataset(config), draw_table(config, 0)
    assert data.task == "regression"
    assert (data.train.inputs == table.keys).all() and (data.train.targets == table.values).all()
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 6, "validation": 4, "test": 8, "holdout": 6}


def test_the_recall_of_outputs_counts_the_queries_whose_value_is_nearest() -> None:
    data = load_dataset(LookupConfig(items=4, dimensions=3, queries=4))
    outputs = data.train.targets.copy()
    assert data.metrics("test", outputs)["test", "recall"] == 1
    outputs[0], outputs[1] = data.train.targets[1], np.nan
    assert data.metrics("test", outputs)["test", "recall"] == 0.5


def test_nearest_values_are_those_of_all_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    outputs, stored = generator.normal(size=(50, 3)), generator.normal(size=(20, 3))
    expected = ((outputs[:, None] - stored) ** 2).sum(-1).argmin(1)
    assert (nearest_values(outputs, stored) == expected).all()
    outputs[0, 0], outputs[1, 2] = np.nan, np.inf
    expected[:2] = -1  # they are near no value
    monkeypatch.setattr("idwbench.data.dataset._NUMBERS_AT_ONCE", 60)
    assert (nearest_values(outputs, stored) == expected).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_class_of_an_output_is_its_argmax_also_with_ties_and_nan(n_classes):
    numbers = [0.0, -0.0, 1.0, -np.inf, np.inf, np.nan]
    logits = np.array([*itertools.product(numbers, repeat=n_classes)], np.float32)
    dataset = make_dataset(n_classes=n_classes)
    for label in range(n_classes):
        inputs = np.zeros((len(logits), dataset.n_features), np.float32)
        labelled = replace(dataset, test=Split(inputs, np.full(len(logits), label)))
        expected = np.mean([int(np.argmax(row)) == label for row in logits])
        assert labelled.metrics("test", logits) == {("test", "accuracy"): pytest.approx(expected, abs=1e-12)}
