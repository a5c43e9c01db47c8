"""Language models and networks that write sequences: their formulas, what they learn and write, and n-grams."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from case_tables import case_table
from engine_runs import train_run
from texts import TEXT, lstm_run, random_model, text_dataset, text_file, text_run
from torch import nn

from idwbench import Results, run_config, train
from idwbench.attention.forward import apply_weighting
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.data.dataset import Split
from idwbench.data.loading import load_dataset
from idwbench.data.sequences import PADDING, sequence_task
from idwbench.data.text import WORDS, build_vocabulary
from idwbench.errors import ConfigError, TrainingError
from idwbench.models import text_model
from idwbench.models.sequence_to_sequence import (
    SequenceToSequence,
    letters_of,
    load_sequence_model,
    metrics_by_length,
    sequence_metrics,
    sequence_model_from_arrays,
)
from idwbench.models.text_model import (
    LstmLanguageModel,
    TextModel,
    load_language_model,
    mean_loss,
    ngram_bits_per_character,
    text_metrics,
)
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.training.language_model_engine import random_windows

FOX = "the fox ran. the crow sat, and the fox did not.\n" * 3
NAMES = build_vocabulary(TEXT)


def codes(n):
    return np.random.default_rng(0).integers(0, 7, n)


@torch.no_grad()
def bits_one_by_one(model, inputs, labels):
    """The definition: each label from the first window in which it has not been predicted yet."""
    length = min(model.context, len(inputs))
    stride = math.ceil(length / 2)
    starts = [*range(0, len(inputs) - length, stride), len(inputs) - length]
    predicted: dict[int, float] = {}
    for start in starts:
        logits = model(torch.from_numpy(inputs[start : start + length])[None])[0].double()
        for place in range(length):
            label = int(labels[start + place])
            predicted.setdefault(start + place, -float(logits[place].log_softmax(-1)[label]) / math.log(2))
    assert sorted(predicted) == list(range(len(labels)))
    return sum(predicted.values()) / len(predicted)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 40])
@pytest.mark.parametrize("context", [1, 7])
def test_every_character_is_predicted_once_also_in_parts(n, context, monkeypatch):
    model = random_model(context=context)
    text = codes(n + 1)
    expected = bits_one_by_one(model, text[:-1], text[1:])
    for at_a_time in (text_model.LOGITS_AT_A_TIME, 3 * context * 7):
        monkeypatch.setattr(text_model, "LOGITS_AT_A_TIME", at_a_time)
        assert mean_loss(model, text[:-1], text[1:]) / math.log(2) == pytest.approx(expected, rel=1e-6)


def random_lstm(vocabulary_size=7, context=8):
    generator = torch.Generator().manual_seed(1)
    return LstmLanguageModel(LstmConfig(embedding=3, width=5, context=context), vocabulary_size, generator).eval()


def test_logits_are_those_of_the_parts_of_a_model_and_a_later_character_changes_no_earlier_ones():
    transformer, lstm, text = random_model(), random_lstm(), torch.from_numpy(codes(6))[None]
    hidden = transformer.transformer(transformer.tokens.weight[text] + transformer.positions.weight[:6])
    torch.testing.assert_close(transformer(text), hidden @ transformer.head.weight.T)
    changed = torch.cat([text[:, :4], (text[:, 4:] + 1) % 7], 1)
    same = (transformer(changed) == transformer(text)).all(-1)
    assert same[0].tolist() == [True] * 4 + [False] * 2
    states, _ = lstm.lstm(lstm.tokens.weight[text])
    torch.testing.assert_close(lstm(text), states @ lstm.head.weight.T + lstm.head.bias)
    assert lstm.lstm.weight_hh_l0.abs().max() <= 5**-0.5  # as PyTorch begins
    assert random_lstm(500).tokens.weight.detach().std() == pytest.approx(1, abs=0.05)


def split_of(codes, characters=None):
    return Split(codes[:-1, None].astype(np.float32), codes[1:], characters=characters)


def test_perplexity_is_the_inverse_geometric_mean_of_the_probabilities_and_bits_are_shared_by_characters():
    model, text = random_lstm(context=40), codes(21)
    with torch.no_grad():
        probabilities = model(torch.from_numpy(text[:-1])[None])[0].double().softmax(-1)[range(20), text[1:]].numpy()
    metrics = text_metrics(model, split_of(text))
    assert metrics["perplexity"] == pytest.approx(np.prod(probabilities) ** (-1 / 20), rel=1e-6)
    assert metrics["bits_per_character"] == pytest.approx(-np.log2(probabilities).mean(), rel=1e-6)
    words = text_metrics(model, split_of(text, np.full(20, 5)))
    assert words["perplexity"] == metrics["perplexity"]
    assert words["bits_per_character"] == pytest.approx(metrics["bits_per_character"] / 5, rel=1e-12)
    # Only the rows from the first on count.
    part = text_metrics(model, split_of(text, np.where(np.arange(20) < 10, 1000, 3)), first=10)
    expected = mean_loss(model, text[10:-1], text[11:]) / math.log(2) / 3
    assert part["bits_per_character"] == pytest.approx(expected, rel=1e-12)
    with torch.no_grad():
        model.head.bias[3] += 1e4  # the perplexity is beyond all numbers
    assert text_metrics(model, split_of(np.tile([1, 2], 10))).keys() == {"bits_per_character"}


# Texts


@pytest.fixture(scope="module")
def model():
    return TextModel(random_model(len(NAMES)), NAMES)


@pytest.fixture
def of_words():
    names = build_vocabulary(WORDS.split(FOX), WORDS.unknown)
    return TextModel(random_lstm(len(names)), names, WORDS)


def test_a_model_of_words_reads_and_writes_texts(of_words):
    text = "the fox  sat.\n"
    codes = of_words.encode(text)
    assert of_words.logits(text).shape == (5, len(of_words.vocabulary))
    bits = mean_loss(of_words.network, codes[:-1], codes[1:]) / math.log(2)
    assert of_words.bits_per_character(text) == pytest.approx(bits * (len(codes) - 1) / len("fox  sat.\n"), rel=1e-12)
    written = of_words.generate("the fox", 30, seed=3)
    assert len(WORDS.split(written)) == 30 and set(WORDS.split(written)) <= set(of_words.vocabulary[1:])
    assert of_words.generate("the cat", 5) == of_words.generate("the dog", 5)  # both are unknown


def test_characters_follow_the_seed_the_temperature_and_the_probabilities_of_the_model(model):
    first = model.generate("the €", 20, seed=3)
    assert len(first) == 20 and set(first) <= set(TEXT)
    assert first == model.generate("the œ", 20, seed=3) != model.generate("the €", 20, seed=4)
    text = "the "
    for _ in range(8):
        text += NAMES[1 + int(model.logits(text[-8:])[-1][1:].argmax())]
    assert model.generate("the ", 8, temperature=0) == model.generate("the ", 8, temperature=1e-300) == text[4:]
    weights = np.exp(model.logits("the cat")[-1, 1:].astype(np.float64) / 2)
    drawn = [model.generate("the cat", 1, seed=seed, temperature=2) for seed in range(100)]
    shares = np.array([drawn.count(name) for name in NAMES[1:]]) / 100
    # Five standard errors of a share.
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=5 * math.sqrt(0.25 / 100))
    logits = torch.from_numpy(model.logits("the ca")).double().log_softmax(-1)
    expected = -logits[range(6), [NAMES.index(c) for c in "he cat"]].mean() / math.log(2)  # after the first
    assert model.bits_per_character("the cat") == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(("of", "name", "arguments", "message"), case_table("wrong_inputs")["texts"])
def test_impossible_requests_get_one_line(of, name, arguments, message, request):
    with pytest.raises(ConfigError) as error:
        getattr(request.getfixturevalue(of), name)(**arguments)
    assert str(error.value) == message


# What they learn


@pytest.mark.parametrize("learned", [{}, {"qk_norm": "rms", "learned_power": True, "learned_temperature": True}])
def test_a_stored_model_is_the_one_that_was_measured_and_nothing_else_is_loaded(tmp_path, learned):
    path, db = text_file(tmp_path), tmp_path / "results.db"
    run, words = train(text_run(path, **learned), db), train(lstm_run(path, tokens="words"), db)
    others = [run_config("two_moons", prototypes=2), text_run(path, seed=1)]
    path.unlink()  # the arrays hold everything
    results = Results(db)
    loaded, text = load_language_model(results, run.run_key), TEXT * 10
    assert loaded.bits_per_character(text[-round(0.1 * len(text)) - 1 :]) == run.metric("bits_per_character", "test")
    assert set(loaded.vocabulary[1:]) == set(TEXT)
    loaded = load_language_model(results, words.run_key)
    assert set(loaded.tokenizer.split(loaded.generate("the cat", 20))) <= set(loaded.vocabulary)
    assert loaded.vocabulary[:4] == ("<unk>", "!", ".", "a")
    results.plan(others)
    with pytest.raises(TrainingError, match="a run of kind prototypes has no language model"):
        load_language_model(results, others[0].run_key)
    with pytest.raises(TrainingError, match="the run is planned: it has no language model"):
        load_language_model(results, others[1].run_key)


def test_windows_are_consecutive_rows_and_every_row_is_in_some_and_as_many_as_in_the_text_in_an_epoch():
    seen = set()
    for seed in range(20):
        (drawn,) = random_windows(10, 4, 3)(np.random.default_rng(seed), 0)
        assert drawn.shape == (3, 4)  # 10 rows are less than one batch of 3 windows
        assert (np.diff(drawn, axis=1) == 1).all() and drawn.min() >= 0
        seen |= {*drawn.ravel().tolist()}
    assert seen == {*range(10)}
    assert sum(part.size for part in random_windows(1000, 8, 5)(np.random.default_rng(0), 0)) == 1000


def test_a_transformer_and_an_lstm_of_words_learn_a_text_that_repeats_itself(tmp_path):
    path = text_file(tmp_path)
    dataset, words = text_dataset(path), text_dataset(path, tokens="words")
    result = train_run(text_run(path, epochs=6, learning_rate=0.04), dataset)
    assert result.metric("bits_per_character") < 1.5 < ngram_bits_per_character(dataset, 0)
    settings = {"epochs": 8, "batch_size": 2, "optimizer": "adam", "learning_rate": 0.05, "momentum": 0.0}
    result = train_run(lstm_run(path, tokens="words", **settings), words)
    assert result.metric("perplexity") < 4 < result.curve[0].values["test", "perplexity"]
    assert result.metric("bits_per_character") < ngram_bits_per_character(words, 0)


# n-grams


@pytest.mark.parametrize("order", [0, 1, 2, 4])
def test_an_ngram_model_adds_one_to_every_count(order, tmp_path):
    text = TEXT * 4
    n_test, n_validation = round(0.1 * len(text)), round(0.1 * (len(text) - round(0.1 * len(text))))
    train, test = text[: len(text) - n_test - n_validation], text[-n_test - 1 :]
    known, bits = sorted(set(train)), 0.0
    for place in range(1, len(test)):
        before = test[max(0, place - order) : place]
        counts = {c: sum(train.startswith(before + c, start) for start in range(len(train))) + 1 for c in known}
        bits -= math.log2(counts[test[place]] / (sum(counts.values()) + 1))  # one for what is unknown
    found = ngram_bits_per_character(text_dataset(text_file(tmp_path, text)), order)
    assert found == pytest.approx(bits / n_test, rel=1e-12)


# Networks that write one sequence for another, against formulas in float64 and PyTorch's own layers


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


def looked_up(layer, states, table, method, weighting):
    """Return weights (letters, table) and their sum of values."""
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
    weights = apply_weighting(WEIGHTINGS[weighting], {}, scores)
    return weights, (weights @ values) @ layer.out_proj.weight.T


LOOK_UPS = [*product(SCORES, ["softmax", "straight_through", "sparsemax"]), ("context_vector", None)]


@pytest.mark.parametrize(("method", "weighting"), LOOK_UPS)
def test_a_look_up_is_the_formula_and_one_context_vector_the_same_for_each_letter(method, weighting):
    network = a_network(method, **({"weighting": weighting} if weighting else {}))
    logits, weights = network(SOURCE, TARGET)
    for row, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        encoded = network.encode(source[None, source != PADDING])
        before = torch.cat([torch.ones(1, dtype=torch.int64), target[:-1]])[None]
        hidden = torch.tanh(network.start.weight @ encoded.last[0] + network.start.bias)[None, None]
        states = network.decoder(network.target_letters(before), (hidden, torch.zeros_like(hidden)))[0][0]
        context, table = encoded.last.expand(len(states), -1), encoded.states[0]
        if weighting is None:
            assert weights is None and network.look_up is None
        else:
            expected, context = looked_up(network.look_up, states, table, method, weighting)
            torch.testing.assert_close(weights[row, :, : len(table)], expected)
            assert not weights[row, :, len(table) :].any()
        mixed = (torch.cat([states, context], 1) @ network.mixed.weight.T + network.mixed.bias).tanh()
        expected = mixed @ network.head.weight.T + network.head.bias
        torch.testing.assert_close(logits[row], expected)
        assert_gradients_are_equal([*network.parameters()], logits[row], expected)


def test_a_network_is_measured_on_what_it_writes_by_itself_and_letter_by_letter_and_lengths_add_up():
    config = run_config(  # which writes some words right and others not
        {**DATA, "train_size": 400, "test_size": 40, "holdout_size": 40},
        **{"kind": "sequence_to_sequence", "epochs": 6, "batch_size": 16, "width": 16},
    )
    data, task = load_dataset(config.dataset), sequence_task(config.dataset)
    result = train_run(config, data)
    model = sequence_model_from_arrays(config.model, config.dataset, result.arrays)
    right, lengths = [], []
    for name in ("test", "holdout"):
        exact, tokens, aligned = [], [], []
        for source, target in zip(*letters_of(data.splits[name]), strict=True):
            source, target = source[source != PADDING][None], target[target != PADDING][None]
            text = task.source.decode(source[0].tolist())
            exact.append(model.write(text).text == task.answer(text))
            lengths.append(len(text))
            with torch.no_grad():
                logits, weights = model.network(source, target)
            tokens += (logits.argmax(-1) == target)[0].tolist()
            pieces = enumerate(task.pieces(text))
            aligned += [float(weights[0, row, piece.start : piece.stop].sum()) for row, piece in pieces]
        assert result.metrics[name, "exact_match"] == pytest.approx(np.mean(exact))
        assert result.metrics[name, "token_accuracy"] == pytest.approx(np.mean(tokens))
        assert result.metrics[name, "alignment"] == pytest.approx(np.mean(aligned), rel=1e-4)
        right += exact
    assert 0 < np.mean(right) < 1
    arrays = result.arrays
    assert arrays["lengths"].tolist() == sorted({*lengths}) == [2, 3, 4, 5, 6, 7]
    for length, value in zip(arrays["lengths"], arrays["exact_match_by_length"], strict=True):
        assert value == pytest.approx(np.mean([one for one, n in zip(right, lengths, strict=True) if n == length]))
    assert (arrays["token_accuracy_by_length"] >= arrays["exact_match_by_length"]).all()
    again = metrics_by_length(model.network, data)
    assert all(again[name].tobytes() == arrays[name].tobytes() for name in again)


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
