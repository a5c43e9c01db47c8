"""Scores of training rows are sums over their slots, and sum to the answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from recorded import RecordedTraining

from idwbench.dual import memory as memory_module
from idwbench.dual.attribution import layer_queries, own_contributions, row_attention, row_contributions
from idwbench.runs.protocol import Protocol

SETTINGS = {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.02, "gradient_clip": 0.3, "schedule": "constant"}
PROTOCOL = Protocol(epochs=3, batch_size=8, learning_rate=0.5, **SETTINGS)


@pytest.fixture(scope="module", params=[{}, {"fold": True}, {"dtype": torch.float32, "record_dtype": "float16"}])
def trained(request, tmp_path_factory):
    """A training, its recording, and how exact scores are in its type."""
    training = RecordedTraining(PROTOCOL, tmp_path_factory.mktemp("recorded") / "run", **request.param)
    return training, training.run(), 1e-5 if "dtype" in request.param else 1e-12


@pytest.fixture
def asked(trained):
    """Queries to each layer, and the outputs that they explain."""
    training = trained[0]
    inputs = np.random.default_rng(0).uniform(size=(14, 4)).astype(training.inputs.dtype)
    outputs = np.arange(14) % 3
    return inputs, outputs, layer_queries(training.module, training.layers, inputs, outputs)


@pytest.mark.parametrize("chunk", [2**22, 40])
@pytest.mark.parametrize("layer", ["layer_0", "layer_1"])
def test_scores_of_rows_are_sums_over_their_slots(trained, asked, layer, chunk, monkeypatch):
    training, recording, error = trained
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", chunk)
    monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 2 * chunk)
    memory, rows, queries = recording.layers[layer], recording.rows, asked[2][layer]
    n_rows, every = training.n_train + 2, slice(0, len(rows))  # two rows that were not trained on have no score
    visits = (rows[:, None] == np.arange(n_rows)).astype(np.float64)
    alpha = queries.inputs @ memory.keys(every).astype(np.float64).T + memory.has_bias
    contributions = alpha * (queries.directions @ memory.errors(every).T)
    for scores, expected in (
        (row_attention(memory, rows, n_rows, queries.inputs), alpha @ visits),
        (row_contributions(memory, rows, n_rows, queries), contributions @ visits),
    ):
        assert scores.dtype == training.inputs.dtype
        np.testing.assert_allclose(scores, expected, rtol=error, atol=error)


def test_contributions_to_each_layer_and_the_initial_weights_make_the_answer(trained, asked):
    training, recording, error = trained
    inputs, outputs, queries = asked
    answers = training.module(torch.from_numpy(inputs)).detach().numpy()[np.arange(len(inputs)), outputs]
    added = {  # by the biases
        name: queries[name].directions @ layer.bias.detach().numpy() if layer.bias is not None else 0.0
        for name, layer in training.layers.items()
    }
    for name, memory in recording.layers.items():
        n = memory.features
        initial = queries[name].inputs @ memory.initial[:, :n].T + memory.initial[:, n:].sum(1)
        answer = row_contributions(memory, recording.rows, training.n_train, queries[name]).sum(1)
        answer += memory.initial_factor * (initial * queries[name].directions).sum(1)
        answer += sum(by_bias for later, by_bias in added.items() if later > name)
        # In half precision a key and a gradient have three digits.
        np.testing.assert_allclose(answer, answers, atol=1e-10 if error < 1e-10 else 2e-2)


def test_own_contributions_are_those_of_each_row_to_itself(trained):
    training, recording, error = trained
    queries_of_rows = layer_queries(training.module, training.layers, training.inputs, training.labels.numpy())
    for layer, queries in queries_of_rows.items():
        memory = recording.layers[layer]
        everything = row_contributions(memory, recording.rows, training.n_train, queries)
        own = own_contributions(memory, recording.rows, queries)
        np.testing.assert_allclose(own, np.diag(everything), rtol=error, atol=error)
