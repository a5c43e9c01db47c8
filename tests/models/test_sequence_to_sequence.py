"""Networks that write one sequence for another, against formulas in float64 and PyTorch's own layers."""

from functools import cache

import numpy as np
import pytest
import torch
from engine_runs import train_run
from torch import nn

from idwbench.attention.forward import apply_weighting
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.data.loading import load_dataset
from idwbench.data.sequences import PADDING, sequence_task
from idwbench.errors import ConfigError, TrainingError
from idwbench.models.sequence_to_sequence import (
    SequenceToSequence,
    initial_sequence_network,
    letters_of,
    load_sequence_model,
    metrics_by_length,
    sequence_metrics,
    sequence_model_from_arrays,
)
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import train

SCORES = ["scaled_dot", "cosine", "neg_dist", "gaussian", "inv_dist", "idw", "additive"]
SIZES = {"embedding": 3, "width": 4}
DATA = {"name": "transliteration", "shortest": 2, "longest": 5, "longest_holdout": 7}
SMALL = {"train_size": 30, "test_size": 12, "holdout_size": 8}
SOURCE = torch.tensor([[3, 4, 2, 5, 3], [2, 2, 0, 0, 0], [5, 3, 4, 0, 0]])
TARGET = torch.tensor([[5, 3, 4, 1], [2, 1, 0, 0], [3, 2, 1, 0]])


def a_network(method="idw", **settings):
    config = run_config(DATA, kind="sequence_to_sequence", method=method, **SIZES, **settings).model
    return SequenceToSequence(config, 7, 6, torch.Generator().manual_seed(0)).double()


def assert_gradients_are_equal(parameters, *ways):
    """Compare the gradients of parameters by the same numbers, computed in two ways."""
    direction = torch.randn(ways[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found, expected = (
        torch.autograd.grad(way, parameters, direction, retain_graph=True, materialize_grads=True) for way in ways
    )
    torch.testing.assert_close(found, expected)


def test_the_states_are_those_of_a_bidirectional_lstm_that_reads_each_source_alone():
    network = a_network()
    reference = nn.LSTM(3, 2, batch_first=True, bidirectional=True).double()
    directions = ((network.forwards, ""), (network.backwards, "_reverse"))
    own = {f"{name}{end}": part for lstm, end in directions for name, part in lstm.state_dict().items()}
    reference.load_state_dict(own)
    encoded = network.encode(SOURCE)
    for row, source in enumerate(SOURCE):
        letters = network.source_letters(source[source != PADDING])
        states, (last, _) = reference(letters[None])
        torch.testing.assert_close(encoded.states[row, : len(letters)], states[0])
        torch.testing.assert_close(encoded.last[row], last[:, 0].flatten())
        of_both = (encoded.states[row, : len(letters)], encoded.last[row]), (states, last)
        assert_gradients_are_equal(
            [network.source_letters.weight], *(torch.cat([*map(torch.ravel, one)]) for one in of_both)
        )


@pytest.mark.parametrize("weighting", ["softmax", "straight_through", "sparsemax"])
@pytest.mark.parametrize("method", SCORES)
def test_a_look_up_is_the_formula(method, weighting):
    network = a_network(method, weighting=weighting)
    logits, weights = network(SOURCE, TARGET)
    for row, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        encoded = network.encode(source[None, source != PADDING])
        before = torch.cat([torch.ones(1, dtype=torch.int64), target[:-1]])[None]
        hidden = torch.tanh(network.start.weight @ encoded.last[0] + network.start.bias)[None, None]
        states = network.decoder(network.target_letters(before), (hidden, torch.zeros_like(hidden)))[0][0]
        table, layer = encoded.states[0], network.look_up
        same = layer.in_proj_weight is not None
        matrices = (
            layer.in_proj_weight.chunk(3) if same else (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        )
        wanted, keys, values = (part @ matrix.T for part, matrix in zip((states, table, table), matrices, strict=True))
        if method == "additive":
            matrix, vector = layer.pair_score.weight[0], layer.pair_score.vector[0]
            pairs = [[torch.cat([q, k]) for k in keys] for q in wanted]
            scores = torch.stack([torch.stack([vector @ (matrix @ pair).tanh() for pair in line]) for line in pairs])
        else:
            scores = METHODS[method].score(wanted, keys, **METHODS[method].resolve({}))
        expected = apply_weighting(WEIGHTINGS[weighting], {}, scores)
        context = (expected @ values) @ layer.out_proj.weight.T
        mixed = (torch.cat([states, context], 1) @ network.mixed.weight.T + network.mixed.bias).tanh()
        torch.testing.assert_close(weights[row, :, : len(table)], expected)
        assert not weights[row, :, len(table) :].any()
        expected = mixed @ network.head.weight.T + network.head.bias
        torch.testing.assert_close(logits[row], expected)
        assert_gradients_are_equal([*network.parameters()], logits[row], expected)


def test_one_context_vector_is_the_same_for_each_letter_and_has_no_weights():
    network = a_network("context_vector")
    logits, weights = network(SOURCE, TARGET)
    assert weights is None and network.look_up is None
    encoded = network.encode(SOURCE)
    before = torch.cat([torch.ones(3, 1, dtype=torch.int64), TARGET[:, :-1]], 1)
    states = network.decoder(network.target_letters(before), network.begin(encoded))[0]
    mixed = network.mixed(torch.cat([states, encoded.last[:, None].expand(-1, 4, -1)], -1)).tanh()
    torch.testing.assert_close(logits, network.head(mixed))
    assert_gradients_are_equal([*network.parameters()], logits, network.head(mixed))


@cache
def trained(weighting="softmax"):
    """A run that writes some words right and others not, with its data and its model."""
    config = run_config(
        {**DATA, "train_size": 400, "test_size": 40, "holdout_size": 40},
        **{"kind": "sequence_to_sequence", "weighting": weighting, "epochs": 6, "batch_size": 16, "width": 16},
    )
    data = load_dataset(config.dataset)
    result = train_run(config, data)
    return result, data, sequence_model_from_arrays(config.model, config.dataset, result.arrays)


@pytest.mark.parametrize("weighting", ["softmax", "straight_through"])
def test_an_exact_match_is_what_the_network_writes_by_itself_and_lengths_add_up(weighting):
    result, data, model = trained(weighting)
    task = sequence_task(data.config)
    right, lengths = [], []
    for name in ("test", "holdout"):
        sources, _ = letters_of(data.splits[name])
        texts = [task.source.decode(source) for source in sources.tolist()]
        exact = [model.write(text).text == task.answer(text) for text in texts]
        assert result.metrics[name, "exact_match"] == pytest.approx(np.mean(exact))
        right += exact
        lengths += map(len, texts)
    assert 0 < np.mean(right) < 1
    arrays = result.arrays
    assert arrays["lengths"].tolist() == sorted({*lengths}) == [2, 3, 4, 5, 6, 7]
    for length, value in zip(arrays["lengths"], arrays["exact_match_by_length"], strict=True):
        assert value == pytest.approx(np.mean([one for one, n in zip(right, lengths, strict=True) if n == length]))
    assert (arrays["token_accuracy_by_length"] >= arrays["exact_match_by_length"]).all()
    again = metrics_by_length(model.network, data)
    assert all(again[name].tobytes() == arrays[name].tobytes() for name in again)


def test_token_accuracy_and_alignment_are_means_over_letters():
    result, data, model = trained()
    task, split = sequence_task(data.config), data.splits["test"]
    right = total = letters = 0
    aligned = 0.0
    for source, target in zip(*letters_of(split), strict=True):
        source, target = source[source != PADDING][None], target[target != PADDING][None]
        with torch.no_grad():
            logits, weights = model.network(source, target)
        right += int((logits.argmax(-1) == target).sum())
        total += target.numel()
        for row, piece in enumerate(task.pieces(task.source.decode(source[0].tolist()))):
            aligned += float(weights[0, row, piece.start : piece.stop].sum())
            letters += 1
    assert result.metrics["test", "token_accuracy"] == pytest.approx(right / total)
    assert result.metrics["test", "alignment"] == pytest.approx(aligned / letters, rel=1e-4)


def test_a_hard_look_up_is_of_one_state_and_is_learned():
    result, data, model = trained("straight_through")
    written = model.write("psat")
    assert ((written.weights == 0) | (written.weights == 1)).all() and (written.weights.sum(1) == 1).all()
    first = initial_sequence_network(result.config.model, data, torch.Generator().manual_seed(0))
    assert result.metrics["test", "alignment"] > 2 * sequence_metrics(first, data, "test")["test", "alignment"]


def test_a_stored_network_is_loaded_and_what_it_cannot_read_is_refused(tmp_path):
    settings = {"kind": "sequence_to_sequence", "epochs": 1, **SIZES}
    run = train(run_config({**DATA, **SMALL}, method="cosine", temperature=0.1, **settings), tmp_path / "results.db")
    results = Results(tmp_path / "results.db")
    model, data = load_sequence_model(results, run.run_key[:12]), load_dataset(run.config.dataset)
    stored = {
        key: value for key, value in run.metrics.items() if key[1] in ("exact_match", "token_accuracy", "alignment")
    }
    for name in ("train", "test", "holdout"):
        measured = sequence_metrics(model.network, data, name)
        assert measured == {key: stored[key] for key in measured}
    written = model.write("ta")
    assert len(written.text) <= 6 and written.weights.shape[1] == 2
    assert len(written.weights) == min(6, len(written.text) + 1)
    for text, message in (("", "text: expected at least one letter"), ("two", "text: 'w' is none of the letters")):
        with pytest.raises(ConfigError, match=message):
            model.write(text)
    other = train(run_config("two_moons", epochs=1), tmp_path / "results.db")
    with pytest.raises(TrainingError, match="a run of kind prototypes has no network for sequences"):
        load_sequence_model(results, other.run_key)
