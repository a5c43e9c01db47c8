"""Scores of training rows are sums over their slots, and sum to the answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from recorded import RecordedTraining

from idwbench.dual import memory as memory_module
from idwbench.dual.attribution import (
    LayerQueries,
    layer_queries,
    own_contributions,
    row_attention,
    row_contributions,
)
from idwbench.runs.protocol import Protocol

PROTOCOL = Protocol(
    epochs=3,
    batch_size=8,
    learning_rate=0.5,
    optimizer="sgd",
    schedule="constant",
    momentum=0.9,
    weight_decay=0.02,
    gradient_clip=0.3,
)


@pytest.fixture(params=[False, True], ids=["all keys", "folded"])
def trained(request, tmp_path: Path):
    made = RecordedTraining(PROTOCOL, tmp_path / "run", fold=request.param)
    return made, made.run()


@pytest.fixture
def asked(trained):
    """Queries to each layer, and the outputs that they explain."""
    inputs = np.random.default_rng(0).uniform(size=(14, 4))
    outputs = np.arange(14) % 3
    return inputs, outputs, layer_queries(trained[0].module, trained[0].module.layers, inputs, outputs)


def brute_force(memory, rows, n_rows, queries):
    """Attention and contributions of each row (n, rows), slot by slot."""
    attention, contributions = np.zeros((2, len(queries.inputs), n_rows))
    for slot, row in enumerate(rows):
        key, error = (part(slice(slot, slot + 1))[0] for part in (memory.keys, memory.errors))
        for query in range(len(queries.inputs)):
            alpha = key @ queries.inputs[query] + (1 if memory.has_bias else 0)
            attention[query, row] += alpha
            contributions[query, row] += alpha * (error @ queries.directions[query])
    return attention, contributions


@pytest.mark.parametrize("layer", ["layer_0", "layer_1", "layer_2"])
def test_scores_of_rows_are_sums_over_their_slots(trained, asked, layer):
    made, recording = trained
    memory, rows, queries = recording.layers[layer], recording.rows, asked[2][layer]
    n_rows = made.n_train + 2  # two rows that were not trained on have no score
    attention, contributions = brute_force(memory, rows, n_rows, queries)
    np.testing.assert_allclose(row_attention(memory, rows, n_rows, queries.inputs), attention, atol=1e-12)
    np.testing.assert_allclose(row_contributions(memory, rows, n_rows, queries), contributions, atol=1e-12)
    few = LayerQueries(queries.inputs, np.repeat(queries.directions[:1], len(queries.inputs), 0))
    expected = brute_force(memory, rows, n_rows, few)[1]
    np.testing.assert_allclose(row_contributions(memory, rows, n_rows, few), expected, atol=1e-12)


def test_chunks_of_any_length_give_the_same_scores(trained, asked, monkeypatch):
    made, recording = trained
    for layer, queries in asked[2].items():
        memory, arguments = recording.layers[layer], (recording.rows, made.n_train, queries)
        monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", 2**22)
        monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 2**24)
        whole = row_contributions(memory, *arguments)
        monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", 40)
        monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 50)
        np.testing.assert_allclose(row_contributions(memory, *arguments), whole, atol=1e-12)


def test_contributions_to_each_layer_and_the_initial_weights_make_the_answer(trained, asked):
    made, recording = trained
    inputs, outputs, queries = asked
    answers = made.module(torch.from_numpy(inputs)).detach().numpy()[np.arange(len(inputs)), outputs]
    layers = made.module.layers
    later = {  # what the biases of later layers add
        name: sum(
            queries[other].directions @ layers[other].bias.detach().numpy()
            for other in layers
            if other > name and layers[other].bias is not None
        )
        for name in layers
    }
    for name, memory in recording.layers.items():
        n = memory.features
        initial = queries[name].inputs @ memory.initial[:, :n].T + memory.initial[:, n:].sum(1)
        found = row_contributions(memory, recording.rows, made.n_train, queries[name]).sum(1)
        found += memory.initial_factor * (initial * queries[name].directions).sum(1) + later[name]
        np.testing.assert_allclose(found, answers, atol=1e-10)


def test_own_contributions_are_those_of_each_row_to_itself(trained):
    made, recording = trained
    labels = made.labels.numpy()
    for layer, queries in layer_queries(made.module, made.module.layers, made.inputs, labels).items():
        memory = recording.layers[layer]
        everything = row_contributions(memory, recording.rows, made.n_train, queries)
        found = own_contributions(memory, recording.rows, queries)
        np.testing.assert_allclose(found, np.diag(everything), atol=1e-12)


def test_a_recording_in_half_precision_gives_scores_in_single_precision(tmp_path: Path):
    made = RecordedTraining(PROTOCOL, tmp_path / "run", dtype=torch.float32, record_dtype="float16")
    recording = made.run()
    inputs = np.random.default_rng(0).uniform(size=(9, 4)).astype(np.float32)
    for layer, queries in layer_queries(made.module, made.module.layers, inputs, np.arange(9) % 3).items():
        memory = recording.layers[layer]
        attention, contributions = brute_force(memory, recording.rows, made.n_train, queries)
        found = row_attention(memory, recording.rows, made.n_train, queries.inputs)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, attention, rtol=1e-5)
        found = row_contributions(memory, recording.rows, made.n_train, queries)
        np.testing.assert_allclose(found, contributions, atol=1e-5)
