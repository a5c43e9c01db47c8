"""Layers that keep a part of their memory, against sums over single slots; and histories with the same weights."""

from dataclasses import replace

import numpy as np
import pytest
from test_layer_memory import FEATURES, OUTPUTS, QUERIES, SLOTS, small_memory

from idwbench.dual import limited
from idwbench.dual.limited import limited_outputs, merged_slots

LABELS = np.arange(SLOTS) % 3
INTEGERS = np.random.default_rng(8).integers(0, 3, (8, FEATURES)).astype(np.float32)


def keys_and_errors(memory):
    """Return the keys, with a column of ones for the bias if there is one, and the error signals of all slots."""
    keys = memory.keys(slice(None)).astype(np.float64)
    ones = np.ones((len(keys), int(memory.has_bias)))
    return np.hstack([keys, ones]), memory.errors(slice(None)).astype(np.float64)


def expected(memory, queries, chosen):
    """Return the answers and the total attention by class with the slots `chosen` for each query."""
    keys, errors = keys_and_errors(memory)
    inputs = np.hstack([queries, np.ones((len(queries), int(memory.has_bias)))]).astype(np.float64)
    answers, totals = inputs @ memory.constant.T, np.zeros((len(queries), 3))
    for place, slots in enumerate(chosen):
        attention = keys[slots] @ inputs[place]
        answers[place] += attention @ errors[slots]
        totals[place] = np.bincount(LABELS[slots], attention, minlength=3)
    return answers, totals


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"folded": True}, {"integers": True}])
@pytest.mark.parametrize("n", [1, 7, SLOTS, SLOTS + 1])
def test_each_query_keeps_its_largest_attentions_and_of_equal_ones_the_first(options, n, monkeypatch):
    monkeypatch.setattr(limited, "_BLOCK_NUMBERS", 3 * SLOTS)
    memory, queries = small_memory(**options), INTEGERS if "integers" in options else QUERIES
    attention = memory.attention(queries)
    chosen = np.argsort(-attention, axis=1, kind="stable")[:, :n]
    if "integers" in options and n == 7:
        assert any(np.sort(row)[-7] == np.sort(row)[-8] for row in attention)
    answers, totals = expected(memory, queries, chosen)
    outputs, kept = limited_outputs([memory], queries, "top", n, LABELS)
    np.testing.assert_allclose(outputs, answers, atol=1e-4)
    np.testing.assert_allclose(kept, totals, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"folded": True}])
def test_the_most_recent_slots_are_the_last_and_random_ones_are_right_in_the_mean_if_rescaled(options):
    memory = small_memory(**options)
    last = np.arange(SLOTS - 13, SLOTS)
    outputs, totals = limited_outputs([memory], QUERIES, "recent", 13, LABELS)
    answers, kept = expected(memory, QUERIES, [last] * len(QUERIES))
    np.testing.assert_allclose(outputs, answers, atol=1e-4)
    np.testing.assert_allclose(totals, kept, atol=1e-4)
    constant = expected(memory, QUERIES, [[]] * len(QUERIES))[0]
    for seed in range(3):
        random, rescaled = (
            limited_outputs([memory], QUERIES, keep, 12, LABELS, seed)[0] for keep in ("random", "rescaled")
        )
        np.testing.assert_allclose(rescaled - constant, SLOTS / 12 * (random - constant), atol=1e-4)
    # Each slot is in one of the five parts of an order: the mean over the parts is the sum over all slots.
    order = np.random.default_rng(0).permutation(SLOTS)
    first = limited_outputs([memory], QUERIES, "random", 12, LABELS, 0)[0]
    np.testing.assert_allclose(first, expected(memory, QUERIES, [order[:12]] * len(QUERIES))[0], atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_merged_slots_are_the_nearest_sum_and_as_many_as_outputs_replace_all(bias):
    memory = small_memory(bias=bias)
    keys, errors = keys_and_errors(memory)
    change = errors.T @ keys
    sizes = np.linalg.svd(change, compute_uv=False)
    for n in range(1, OUTPUTS + 2):
        merged_keys, merged_errors = merged_slots(memory, n)
        assert merged_keys.shape == (min(n, OUTPUTS), FEATURES + bias) and merged_errors.shape == (
            min(n, OUTPUTS),
            OUTPUTS,
        )
        left = np.linalg.norm(change - merged_errors.T @ merged_keys)
        np.testing.assert_allclose(left, np.sqrt((sizes[n:] ** 2).sum()), atol=1e-4)
    outputs, totals = limited_outputs([memory], QUERIES, "merged", OUTPUTS, LABELS)
    np.testing.assert_allclose(outputs, memory.answers(QUERIES), atol=1e-4)
    assert totals is None


def other_histories(memory):
    """Return histories with the sum of error signals times keys of a memory: their keys, error signals and classes."""
    keys, errors = (part.astype(np.float32) for part in keys_and_errors(memory))
    order = np.random.default_rng(1).permutation(SLOTS)
    yield "in another order", keys[order], errors[order], LABELS[order]
    yield (
        "a slot in two halves",
        np.vstack([keys, keys[:1]]),
        np.vstack([errors[:1] / 2, errors[1:], errors[:1] / 2]),
        None,
    )
    more, cancelled = np.full((2, keys.shape[1]), 3.0, np.float32), np.array([[5.0] * OUTPUTS, [-5.0] * OUTPUTS])
    yield "slots that cancel", np.vstack([keys, more]), np.vstack([errors, cancelled]).astype(np.float32), None
    merged_keys, merged_errors = merged_slots(memory, OUTPUTS)
    yield "merged slots", merged_keys.astype(np.float32), merged_errors.astype(np.float32), np.arange(OUTPUTS)


def test_histories_with_the_same_weights_give_the_same_answers_with_other_attention():
    memory = small_memory(bias=False)
    before = memory.totals(QUERIES, LABELS, 3)
    for name, keys, errors, labels in other_histories(memory):
        slots = len(keys)
        own = np.concatenate([LABELS, np.full(slots - SLOTS, 2)]) if labels is None else labels
        ones = {"slot_steps": np.zeros(slots, np.int64), "coefficients": np.ones(1), "units": np.ones(1)}
        other = replace(memory, stored_keys=keys, gradients=errors, **ones)
        np.testing.assert_allclose(other.change(), memory.change(), atol=1e-4, err_msg=name)
        np.testing.assert_allclose(other.answers(QUERIES), memory.answers(QUERIES), atol=1e-4, err_msg=name)
        same = np.allclose(other.totals(QUERIES, own, 3), before, atol=1e-3)
        assert same == (name == "in another order"), name
