"""The memory of a layer against sums over all slots in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from idwbench.dual import memory as memory_module
from idwbench.dual.memory import LayerMemory

SLOTS, FEATURES, OUTPUTS, STEPS = 60, 5, 3, 12


def made_memory(
    *, bias: bool = True, folded: bool = False, dtype: str = "float32", integers: bool = False
) -> LayerMemory:
    """Return a memory; with integers, many attentions are equal."""
    generator = np.random.default_rng(4)
    keys = generator.integers(0, 3, (SLOTS, FEATURES)) if integers else generator.normal(size=(SLOTS, FEATURES))
    rows = generator.integers(0, 20, SLOTS) if folded else None
    return LayerMemory(
        stored_keys=(keys[:20] if folded else keys).astype(dtype),
        gradients=generator.normal(size=(SLOTS, OUTPUTS)).astype(dtype),
        slot_steps=np.repeat(np.arange(STEPS), SLOTS // STEPS),
        coefficients=generator.normal(size=STEPS),
        units=np.ones(STEPS),
        initial=generator.normal(size=(OUTPUTS, FEATURES + bias)),
        initial_factor=0.7,
        final=generator.normal(size=(OUTPUTS, FEATURES + bias)),
        key_rows=rows,
    )


def plain(memory: LayerMemory) -> tuple[np.ndarray, np.ndarray]:
    """Return keys, with a 1 for a bias, and error signals, in float64."""
    keys = memory.stored_keys.astype(np.float64)
    if memory.key_rows is not None:
        keys = keys[memory.key_rows]
    if memory.has_bias:
        keys = np.column_stack([keys, np.ones(SLOTS)])
    return keys, memory.gradients.astype(np.float64) * memory.coefficients[memory.slot_steps][:, None]


@pytest.fixture(params=[{}, {"bias": False}, {"folded": True}, {"dtype": "float16"}, {"dtype": "float64"}])
def memory(request) -> LayerMemory:
    return made_memory(**request.param)


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(8, FEATURES)).astype(np.float32)


@pytest.fixture(params=[2**22, 35, 1])
def chunks(request, monkeypatch) -> None:
    """Read the memory in one chunk, in several, and slot by slot."""
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", request.param)


def with_ones(memory: LayerMemory, queries: np.ndarray) -> np.ndarray:
    inputs = queries.astype(np.float64)
    return np.column_stack([inputs, np.ones(len(inputs))]) if memory.has_bias else inputs


@pytest.mark.usefixtures("chunks")
def test_answers_are_those_of_the_initial_layer_and_all_slots(memory, queries) -> None:
    keys, errors = plain(memory)
    inputs = with_ones(memory, queries)
    expected = inputs @ (0.7 * memory.initial).T + (inputs @ keys.T) @ errors
    assert np.allclose(memory.answers(queries), expected, atol=1e-4)
    assert np.allclose(memory.attention(queries), inputs @ keys.T, atol=1e-5)
    assert np.allclose(memory.attention(queries, slice(3, 9)), (inputs @ keys.T)[:, 3:9], atol=1e-5)
    assert np.allclose(memory.contributions(queries, 1), (inputs @ keys.T) * errors[:, 1], atol=1e-4)
    chosen = np.array([7, 2, 59])
    assert np.allclose(
        memory.contributions(queries, 2, chosen), ((inputs @ keys.T) * errors[:, 2])[:, chosen], atol=1e-4
    )


def test_a_residual_takes_part_in_answers(queries) -> None:
    memory = made_memory()
    weight, bias = np.ones((OUTPUTS, FEATURES)), np.arange(3.0)
    found = replace(memory, residual=np.column_stack([weight, bias])).answers(queries)
    assert np.allclose(found - memory.answers(queries), queries.sum(1, keepdims=True) + bias, atol=1e-5)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("k", [1, 4, 59, 60, 100])
@pytest.mark.parametrize("masked", [False, True])
def test_top_slots_are_those_of_a_sort_also_among_equal_attentions(k, masked) -> None:
    memory = made_memory(integers=True)
    queries = np.random.default_rng(0).integers(0, 2, (9, FEATURES)).astype(np.float32)
    where = np.random.default_rng(1).random(SLOTS) < 0.4 if masked else None
    seen: list[tuple[int, int]] = []
    slots, attention = memory.top(queries, k, where=where, on_slots=lambda *counts: seen.append(counts))
    every = memory.attention(queries)
    if where is not None:
        every[:, ~where] = -np.inf
    expected = np.argsort(-every, axis=1, kind="stable")[:, : min(k, SLOTS if where is None else where.sum())]
    assert np.array_equal(slots, expected)
    assert np.array_equal(attention, np.take_along_axis(every, expected, 1))
    assert seen[-1] == (SLOTS, SLOTS)


def test_no_slots_are_the_top_of_nothing() -> None:
    memory = made_memory()
    slots, attention = memory.top(np.ones((2, FEATURES)), 3, where=np.zeros(SLOTS, bool))
    assert slots.shape == attention.shape == (2, 0)
    slots, attention = memory.top(np.ones((0, FEATURES)), 3)
    assert slots.shape == attention.shape == (0, 3)


def with_keys(keys: np.ndarray) -> LayerMemory:
    """Return a memory with these keys (slots, features), without a bias."""
    slots, features = keys.shape
    return LayerMemory(
        stored_keys=keys.astype(np.float32),
        gradients=np.zeros((slots, 1), np.float32),
        slot_steps=np.arange(slots),
        coefficients=np.zeros(slots),
        units=np.ones(slots),
        initial=np.zeros((1, features)),
        initial_factor=1.0,
        final=np.zeros((1, features)),
    )


def test_a_query_whose_attention_grows_all_the_time_keeps_the_last_slots(monkeypatch) -> None:
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", 700)
    slots, _ = with_keys(np.arange(5000.0)[:, None]).top(np.array([[1.0], [0.0], [-1.0]], np.float32), 4)
    assert slots.tolist() == [[4999, 4998, 4997, 4996], [0, 1, 2, 3], [0, 1, 2, 3]]


def test_the_top_of_many_queries_to_many_slots_with_ties_is_that_of_a_sort(monkeypatch) -> None:
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", 1500)
    keys = np.random.default_rng(0).integers(0, 20, (5000, 3))
    queries = np.random.default_rng(1).integers(-5, 9, (100, 3)).astype(np.float32)
    slots, attention = with_keys(keys).top(queries, 30)
    every = queries @ keys.T.astype(np.float32)
    expected = np.argsort(-every, axis=1, kind="stable")[:, :30]
    assert np.array_equal(slots, expected)
    assert np.array_equal(attention, np.take_along_axis(every, expected, 1))


def test_attention_that_is_no_number_comes_last() -> None:
    keys = np.arange(6.0)[:, None]
    keys[[0, 5]] = np.nan
    slots, _ = with_keys(keys).top(np.ones((1, 1), np.float32), 6)
    assert slots.tolist() == [[4, 3, 2, 1, 0, 5]]


@pytest.mark.usefixtures("chunks")
def test_totals_are_sums_of_attention_by_group(memory, queries) -> None:
    groups = np.random.default_rng(2).integers(-1, 4, SLOTS)
    keys, _ = plain(memory)
    attention = with_ones(memory, queries) @ keys.T
    expected = np.stack([attention[:, groups == group].sum(1) for group in range(5)], 1)
    found = memory.totals(queries, groups, 5)
    assert np.allclose(found, expected, atol=1e-4)
    assert np.array_equal(found[:, 4], np.zeros(len(queries)))  # a group without slots


@pytest.mark.usefixtures("chunks")
def test_a_layer_without_a_part_of_its_memory(memory, queries) -> None:
    where = np.random.default_rng(3).random(SLOTS) < 0.5
    keys, errors = plain(memory)
    part = errors[where].T @ keys[where]
    weight, bias = memory.without(where)
    assert np.allclose(weight, memory.weight - part[:, :FEATURES], atol=1e-4)
    assert (bias is None) == (memory.bias is None)
    if bias is not None:
        assert np.allclose(bias, memory.bias - part[:, -1], atol=1e-4)
    kept, _ = memory.without(np.zeros(SLOTS, bool))
    assert np.array_equal(kept, memory.weight)


def test_chunks_do_not_grow_with_the_memory_or_the_number_of_queries(monkeypatch) -> None:
    """Nothing larger than a chunk of keys and a block of attention is made at once."""
    assert memory_module._CHUNK_NUMBERS <= memory_module._BLOCK_NUMBERS <= 2**24  # numbers: 64 MB in float32
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", 2**10)
    monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 2**12)
    sizes: list[int] = []
    attention, errors = LayerMemory.attention, LayerMemory.errors

    def measured(self, queries, slots=None):
        sizes.append((slots.stop - slots.start) * max(8, len(queries)))
        return attention(self, queries, slots)

    def measured_errors(self, slots):
        sizes.append((slots.stop - slots.start) * 8)
        return errors(self, slots)

    monkeypatch.setattr(LayerMemory, "attention", measured)
    monkeypatch.setattr(LayerMemory, "errors", measured_errors)
    memory = with_keys(np.random.default_rng(0).normal(size=(6000, 8)))
    memory.top(np.zeros((100, 8), np.float32), 5)
    assert max(sizes) <= 2**12 and len(sizes) > 10
    sizes.clear()
    memory.answers(np.zeros((30, 8), np.float32))
    assert max(sizes) <= 2**12 and len(sizes) > 10
