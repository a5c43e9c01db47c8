"""Scores of training rows are sums over their slots, and sum to the answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from recorded import RecordedTraining

from idwbench.dual import memory as memory_module
from idwbench.dual.attribution import layer_queries, own_contributions, row_attention, row_contributions
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
RECORDED = {
    "all keys": {},
    "folded": {"fold": True},
    "half precision": {"dtype": torch.float32, "record_dtype": "float16"},
}


@pytest.fixture(scope="module", params=RECORDED)
def trained(request, tmp_path_factory):
    """A training, its recording, and how exact scores are in its type."""
    options = RECORDED[request.param]
    made = RecordedTraining(PROTOCOL, tmp_path_factory.mktemp("recorded") / "run", **options)
    return made, made.run(), 1e-5 if options.get("dtype") else 1e-12


@pytest.fixture
def asked(trained):
    """Queries to each layer, and the outputs that they explain."""
    made = trained[0]
    inputs = np.random.default_rng(0).uniform(size=(14, 4)).astype(made.inputs.dtype)
    outputs = np.arange(14) % 3
    return inputs, outputs, layer_queries(made.module, made.module.layers, inputs, outputs)


@pytest.mark.parametrize("chunk", [2**22, 40])
@pytest.mark.parametrize("layer", ["layer_0", "layer_1", "layer_2"])
def test_scores_of_rows_are_sums_over_their_slots(trained, asked, layer, chunk, monkeypatch):
    made, recording, error = trained
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", chunk)
    monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 2 * chunk)
    memory, rows, queries = recording.layers[layer], recording.rows, asked[2][layer]
    n_rows = made.n_train + 2  # two rows that were not trained on have no score
    attention, contributions = np.zeros((2, len(queries.inputs), n_rows))
    for slot, row in enumerate(rows):
        key, gradient = (part(slice(slot, slot + 1))[0] for part in (memory.keys, memory.errors))
        alpha = queries.inputs @ key + memory.has_bias
        attention[:, row] += alpha
        contributions[:, row] += alpha * (queries.directions @ gradient)
    for scores, expected in (
        (row_attention(memory, rows, n_rows, queries.inputs), attention),
        (row_contributions(memory, rows, n_rows, queries), contributions),
    ):
        assert scores.dtype == made.inputs.dtype
        np.testing.assert_allclose(scores, expected, rtol=error, atol=error)


def test_contributions_to_each_layer_and_the_initial_weights_make_the_answer(trained, asked):
    made, recording, error = trained
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
        # In half precision a key and a gradient have three digits.
        np.testing.assert_allclose(found, answers, atol=1e-10 if error < 1e-10 else 2e-2)


def test_own_contributions_are_those_of_each_row_to_itself(trained):
    made, recording, error = trained
    for layer, queries in layer_queries(made.module, made.module.layers, made.inputs, made.labels.numpy()).items():
        memory = recording.layers[layer]
        everything = row_contributions(memory, recording.rows, made.n_train, queries)
        found = own_contributions(memory, recording.rows, queries)
        np.testing.assert_allclose(found, np.diag(everything), rtol=error, atol=error)
