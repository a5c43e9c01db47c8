"""The memory of a layer against sums over all slots in float64."""

from __future__ import annotations

import numpy as np
import pytest

from idwbench.dual import memory as memory_module
from idwbench.dual.memory import LayerMemory

SLOTS, FEATURES, OUTPUTS, STEPS = 60, 5, 3, 12
QUERIES = np.random.default_rng(1).normal(size=(8, FEATURES)).astype(np.float32)


def small_memory(
    *, bias: bool = True, folded: bool = False, dtype: str = "float32", integers: bool = False
) -> LayerMemory:
    """Return a memory; with integers, many attentions are equal."""
    generator = np.random.default_rng(4)
    keys = generator.integers(0, 3, (SLOTS, FEATURES)) if integers else generator.normal(size=(SLOTS, FEATURES))
    return LayerMemory(
        stored_keys=(keys[:20] if folded else keys).astype(dtype),
        gradients=generator.normal(size=(SLOTS, OUTPUTS)).astype(dtype),
        slot_steps=np.repeat(np.arange(STEPS), SLOTS // STEPS),
        coefficients=generator.normal(size=STEPS),
        units=np.ones(STEPS),
        initial=generator.normal(size=(OUTPUTS, FEATURES + bias)),
        initial_factor=0.7,
        final=generator.normal(size=(OUTPUTS, FEATURES + bias)),
        key_rows=generator.integers(0, 20, SLOTS) if folded else None,
    )


@pytest.fixture(params=[{}, {"bias": False}, {"folded": True}, {"dtype": "float16"}, {"dtype": "float64"}])
def memory(request) -> LayerMemory:
    return small_memory(**request.param)


@pytest.fixture(params=[2**22, 35, 1])
def chunks(request, monkeypatch) -> None:
    """Read the memory in one chunk, in several, and slot by slot."""
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", request.param)


def plain(memory: LayerMemory, queries: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return queries and keys, with a 1 for a bias, and error signals, in float64."""
    keys, inputs = memory.stored_keys.astype(np.float64), queries.astype(np.float64)
    if memory.key_rows is not None:
        keys = keys[memory.key_rows]
    if memory.has_bias:
        inputs, keys = (np.column_stack([part, np.ones(len(part))]) for part in (inputs, keys))
    return inputs, keys, memory.gradients.astype(np.float64) * memory.coefficients[memory.slot_steps][:, None]


@pytest.mark.usefixtures("chunks")
def test_answers_are_those_of_the_initial_layer_and_all_slots(memory) -> None:
    inputs, keys, errors = plain(memory, QUERIES)
    attention = inputs @ keys.T
    expected = inputs @ (0.7 * memory.initial).T + attention @ errors
    assert np.allclose(memory.answers(QUERIES), expected, atol=1e-4)
    assert np.allclose(memory.attention(QUERIES), attention, atol=1e-5)
    assert np.allclose(memory.attention(QUERIES, slice(3, 9)), attention[:, 3:9], atol=1e-5)
    assert np.allclose(memory.contributions(QUERIES, 1), attention * errors[:, 1], atol=1e-4)
    some = np.array([7, 2, 59])
    assert np.allclose(memory.contributions(QUERIES, 2, some), (attention * errors[:, 2])[:, some], atol=1e-4)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize(("k", "masked"), [(1, False), (4, True), (59, False), (60, True), (100, False)])
def test_top_slots_are_those_of_a_sort_also_among_equal_attentions(k, masked) -> None:
    memory = small_memory(integers=True)
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


def test_the_top_of_nothing_is_empty_and_attention_that_is_no_number_comes_last() -> None:
    memory = small_memory()
    for queries, k, where, shape in ((2, 3, np.zeros(SLOTS, bool), (2, 0)), (0, 3, None, (0, 3))):
        slots, attention = memory.top(np.ones((queries, FEATURES)), k, where=where)
        assert slots.shape == attention.shape == shape
    memory.stored_keys[:] = np.arange(float(SLOTS))[:, None]
    memory.stored_keys[[0, 59]] = np.nan
    slots, _ = memory.top(np.ones((1, FEATURES), np.float32), SLOTS)
    assert slots.tolist() == [[*range(58, 0, -1), 0, 59]]


@pytest.mark.usefixtures("chunks")
def test_totals_are_sums_of_attention_by_group(memory) -> None:
    groups = np.random.default_rng(2).integers(-1, 4, SLOTS)
    inputs, keys, _ = plain(memory, QUERIES)
    expected = np.stack([(inputs @ keys[groups == group].T).sum(1) for group in range(5)], 1)
    found = memory.totals(QUERIES, groups, 5)
    assert np.allclose(found, expected, atol=1e-4)
    assert np.array_equal(found[:, 4], np.zeros(len(QUERIES)))  # a group without slots


@pytest.mark.usefixtures("chunks")
def test_a_layer_without_a_part_of_its_memory(memory) -> None:
    where = np.random.default_rng(3).random(SLOTS) < 0.5
    _, keys, errors = plain(memory, QUERIES)
    part = errors[where].T @ keys[where]
    weight, bias = memory.without(where)
    assert np.allclose(weight, memory.weight - part[:, :FEATURES], atol=1e-4)
    assert (bias is None) == (memory.bias is None) == (memory.final.shape[1] == FEATURES)
    assert bias is None or np.allclose(bias, memory.bias - part[:, -1], atol=1e-4)
    assert np.array_equal(memory.without(np.zeros(SLOTS, bool))[0], memory.weight)


def test_chunks_do_not_grow_with_the_memory_or_the_number_of_queries(monkeypatch) -> None:
    """Nothing larger than a chunk of keys and a block of attention is computed at once."""
    assert memory_module._CHUNK_NUMBERS <= memory_module._BLOCK_NUMBERS <= 2**24  # numbers: 64 MB in float32
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", 2**10)
    monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 2**12)
    sizes: list[int] = []

    def counted(numbers: np.ndarray) -> np.ndarray:
        sizes.append(numbers.size)
        return numbers

    attention, errors = LayerMemory.attention, LayerMemory.errors
    monkeypatch.setattr(LayerMemory, "attention", lambda *arguments: counted(attention(*arguments)))
    monkeypatch.setattr(LayerMemory, "errors", lambda *arguments: counted(errors(*arguments)))
    keys, steps = np.random.default_rng(0).normal(size=(6000, 8)).astype(np.float32), np.arange(6000)
    none, initial = np.zeros(6000), np.zeros((1, 8))
    memory = LayerMemory(keys, keys[:, :1], steps, none, none, initial, 1.0, initial)
    for call in (lambda: memory.top(keys[:100], 5), lambda: memory.answers(keys[:30])):
        sizes.clear()
        call()
        assert max(sizes) <= 2**12 and len(sizes) > 10
