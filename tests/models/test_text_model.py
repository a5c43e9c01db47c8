"""Language models: their formulas, the bits of a text, what they write, and n-grams."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from texts import SCORES, SMALL, TEXT, random_model, text_dataset, text_file, text_run

from idwbench.data.dataset import Split
from idwbench.data.text import WORDS, build_vocabulary
from idwbench.errors import ConfigError, TrainingError
from idwbench.models import text_model
from idwbench.models.text_model import (
    LanguageModel,
    LstmLanguageModel,
    TextModel,
    bits_per_character,
    load_language_model,
    mean_loss,
    ngram_bits_per_character,
    text_metrics,
)
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.kinds.models import parse_model
from idwbench.sweep.execution import train

FOX = "the fox ran. the crow sat, and the fox did not.\n" * 3
NAMES = build_vocabulary(TEXT)


def codes(n: int, vocabulary_size: int = 7) -> np.ndarray:
    return np.random.default_rng(0).integers(0, vocabulary_size, n)


@pytest.mark.parametrize("score", SCORES)
def test_a_later_character_changes_no_earlier_logits(score):
    model = random_model(score=score)
    text = torch.from_numpy(codes(8))[None]
    changed = text.clone()
    changed[0, 5:] = (changed[0, 5:] + 1) % 7
    before, after = model(text), model(changed)
    assert torch.equal(before[0, :5], after[0, :5])
    assert (before[0, 5:] != after[0, 5:]).any(-1).all()


@pytest.mark.parametrize("score", SCORES)
def test_an_untrained_model_needs_the_bits_of_the_size_of_its_vocabulary(score):
    draws = torch.Generator().manual_seed(0)
    model = LanguageModel(parse_model({"kind": "transformer_lm", **SMALL, "width": 64, "method": score}), 64, draws)
    text = codes(300, 64)
    assert mean_loss(model, text[:-1], text[1:]) / math.log(2) == pytest.approx(6, rel=0.03)


@torch.no_grad()
def bits_one_by_one(model: LanguageModel, inputs: np.ndarray, labels: np.ndarray) -> float:
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


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 12, 13, 40])
@pytest.mark.parametrize("context", [1, 7, 8])
def test_every_character_is_predicted_once(n, context):
    model = random_model(context=context)
    text = codes(n + 1)
    expected = bits_one_by_one(model, text[:-1], text[1:])
    assert mean_loss(model, text[:-1], text[1:]) / math.log(2) == pytest.approx(expected, rel=1e-6)


def test_evaluation_in_parts_gives_the_same_bits(monkeypatch):
    model, text = random_model(), codes(100)
    whole = mean_loss(model, text[:-1], text[1:]) / math.log(2)
    monkeypatch.setattr(text_model, "LOGITS_AT_A_TIME", 3 * 8 * 7)
    assert mean_loss(model, text[:-1], text[1:]) / math.log(2) == pytest.approx(whole, rel=1e-6)


def test_a_model_in_float64_computes_the_formula_of_its_parts():
    model = random_model(score="scaled_dot", depth=1, heads=1).double()
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    text = codes(6)
    x = weights["tokens.weight"][text] + weights["positions.weight"][:6]
    block = {name.removeprefix("transformer.blocks.0."): w for name, w in weights.items()}
    q, k, v = np.split(norm(x, block["norm1.weight"]) @ block["self_attn.in_proj_weight"].T, 3, -1)
    scores = np.where(np.tri(6, dtype=bool), q @ k.T / np.sqrt(8), -np.inf)
    a = np.exp(scores - scores.max(-1, keepdims=True))
    x = x + (a / a.sum(-1, keepdims=True)) @ v @ block["self_attn.out_proj.weight"].T
    hidden = norm(x, block["norm2.weight"]) @ block["linear1.weight"].T
    gelu = hidden * (1 + np.vectorize(math.erf)(hidden / np.sqrt(2))) / 2
    x = x + gelu @ block["linear2.weight"].T
    expected = norm(x, weights["transformer.norm.weight"]) @ weights["head.weight"].T
    found = model(torch.from_numpy(text)[None])[0].detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale


# LSTMs


def random_lstm(vocabulary_size: int = 7, context: int = 8) -> LstmLanguageModel:
    generator = torch.Generator().manual_seed(1)
    return LstmLanguageModel(LstmConfig(embedding=3, width=5, context=context), vocabulary_size, generator).eval()


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_a_model_in_float64_computes_the_formula_of_its_gates():
    model = random_lstm().double()
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    codes = np.array([3, 1, 6, 0])
    h = c = np.zeros(5)
    for code in codes:
        a = weights["lstm.weight_ih_l0"] @ weights["tokens.weight"][code] + weights["lstm.bias_ih_l0"]
        a += weights["lstm.weight_hh_l0"] @ h + weights["lstm.bias_hh_l0"]
        i, f, g, o = np.split(a, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    expected = weights["head.weight"] @ h + weights["head.bias"]
    found = model(torch.from_numpy(codes)[None])[0, -1].detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_initial_weights_are_as_large_as_those_of_torch():
    assert random_lstm().lstm.weight_hh_l0.abs().max() <= 5**-0.5
    wide = LstmLanguageModel(LstmConfig(embedding=20, width=5, context=8), 500, torch.Generator().manual_seed(1))
    assert wide.tokens.weight.detach().std() == pytest.approx(1, abs=0.05)


def split_of(codes: np.ndarray, characters: np.ndarray | None = None) -> Split:
    return Split(codes[:-1, None].astype(np.float32), codes[1:], characters=characters)


def test_perplexity_is_the_inverse_geometric_mean_of_the_probabilities():
    model, codes = random_lstm(context=40), np.random.default_rng(0).integers(0, 7, 21)
    with torch.no_grad():
        probabilities = model(torch.from_numpy(codes[:-1])[None])[0].double().softmax(-1)
    of_labels = probabilities[range(20), codes[1:]].numpy()
    found = text_metrics(model, split_of(codes))
    assert found["perplexity"] == pytest.approx(np.prod(of_labels) ** (-1 / 20), rel=1e-6)
    assert found["bits_per_character"] == pytest.approx(-np.log2(of_labels).mean(), rel=1e-6)


def test_bits_of_words_are_shared_by_their_characters():
    model, codes = random_lstm(), np.random.default_rng(0).integers(0, 7, 21)
    plain = text_metrics(model, split_of(codes))
    found = text_metrics(model, split_of(codes, np.full(20, 5)))
    assert found["perplexity"] == plain["perplexity"]
    assert found["bits_per_character"] == pytest.approx(plain["bits_per_character"] / 5, rel=1e-12)
    # Only the rows from the first on count.
    characters = np.where(np.arange(20) < 10, 1000, 3)
    part = text_metrics(model, split_of(codes, characters), first=10)
    assert part["bits_per_character"] == pytest.approx(
        mean_loss(model, codes[10:-1], codes[11:]) / math.log(2) / 3, rel=1e-12
    )


def test_a_perplexity_beyond_all_numbers_is_left_out():
    model, codes = random_lstm(), np.tile([1, 2], 10)
    with torch.no_grad():
        model.head.bias[3] += 1e4
    assert set(text_metrics(model, split_of(codes))) == {"bits_per_character"}


# Texts


@pytest.fixture(scope="module")
def model() -> TextModel:
    return TextModel(random_model(len(NAMES)), NAMES)


@pytest.fixture
def of_words() -> TextModel:
    names = build_vocabulary(WORDS.split(FOX), WORDS.unknown)
    return TextModel(random_lstm(len(names)), names, WORDS)


def test_a_model_of_words_reads_and_writes_texts(of_words):
    assert of_words.logits("the fox ran.").shape == (4, len(of_words.vocabulary))
    written = of_words.generate("the fox", 30, seed=3)
    assert len(WORDS.split(written)) == 30 and set(WORDS.split(written)) <= set(of_words.vocabulary[1:])
    assert of_words.generate("the cat", 5) == of_words.generate("the dog", 5)  # both are unknown


def test_bits_of_a_text_of_words_are_those_of_its_words_after_the_first(of_words):
    text = "the fox  sat.\n"
    codes = of_words.encode(text)
    expected = bits_per_character(
        mean_loss(of_words.network, codes[:-1], codes[1:]), len(codes) - 1, len("fox  sat.\n")
    )
    assert of_words.bits_per_character(text) == expected


def test_a_seed_decides_the_generated_text(model):
    first = model.generate("the ", 30, seed=3)
    assert len(first) == 30 and set(first) <= set(TEXT)
    assert first == model.generate("the ", 30, seed=3) != model.generate("the ", 30, seed=4)


def test_temperature_zero_takes_the_most_probable_character(model):
    text = "the "
    for _ in range(12):
        logits = model.logits(text[-8:])[-1]
        text += NAMES[1 + int(logits[1:].argmax())]
    assert model.generate("the ", 12, temperature=0) == text[4:]
    assert model.generate("the ", 12, seed=9, temperature=1e-300) == text[4:]


def test_characters_are_drawn_with_the_probabilities_of_the_model(model):
    weights = np.exp(model.logits("the cat")[-1, 1:].astype(np.float64) / 2)
    drawn = [model.generate("the cat", 1, seed=seed, temperature=2) for seed in range(100)]
    found = np.array([drawn.count(name) for name in NAMES[1:]]) / 100
    # Five standard errors of a share.
    np.testing.assert_allclose(found, weights / weights.sum(), atol=5 * math.sqrt(0.25 / 100))


def test_a_prompt_may_have_characters_that_are_not_in_the_vocabulary(model):
    assert len(model.generate("œ€", 5)) == 5
    assert model.generate("€", 20) == model.generate("œ", 20)


def test_bits_of_a_text_are_those_of_its_characters_after_the_first(model):
    logits = torch.from_numpy(model.logits("the ca")).double().log_softmax(-1)
    codes = [NAMES.index(c) for c in "he cat"]
    expected = -logits[range(6), codes].mean() / math.log(2)
    assert model.bits_per_character("the cat") == pytest.approx(float(expected), rel=1e-6)


TEMPERATURE = "temperature: expected a finite number from 0, got"


@pytest.mark.parametrize(
    ("of", "call", "message"),
    [
        ("of_words", lambda m: m.generate("  "), "prompt: expected at least one word"),
        ("of_words", lambda m: m.logits("the " * 9), "text: expected 1 to 8 words, got 9"),
        ("of_words", lambda m: m.bits_per_character("crow"), "text: expected at least 2 words, got 1"),
        ("model", lambda m: m.generate(""), "prompt: expected at least one character"),
        ("model", lambda m: m.generate("a", -1), "length: expected a number from 0, got -1"),
        (
            "model",
            lambda m: m.generate("a", temperature=-0.5),
            f"{TEMPERATURE} -0.5",
        ),
        (
            "model",
            lambda m: m.generate("a", temperature=math.nan),
            f"{TEMPERATURE} nan",
        ),
        ("model", lambda m: m.logits("a" * 9), "text: expected 1 to 8 characters, got 9"),
        ("model", lambda m: m.bits_per_character("a"), "text: expected at least 2 characters, got 1"),
    ],
)
def test_impossible_requests_get_one_line(of, call, message, request):
    with pytest.raises(ConfigError) as error:
        call(request.getfixturevalue(of))
    assert str(error.value) == message


def test_a_stored_model_is_the_one_that_was_measured(tmp_path):
    path, db = text_file(tmp_path), tmp_path / "results.db"
    run = train(text_run(path), db)
    path.unlink()  # the arrays hold everything
    loaded = load_language_model(Results(db, read_only=True), run.run_key)
    text = TEXT * 10
    n_test = round(0.1 * len(text))
    assert loaded.bits_per_character(text[-n_test - 1 :]) == run.metric("bits_per_character", "test")
    assert set(loaded.vocabulary[1:]) == set(TEXT)


def test_only_complete_language_models_can_be_loaded(tmp_path):
    results = Results(tmp_path / "results.db")
    network = run_config("two_moons", prototypes=2)
    planned = text_run(text_file(tmp_path))
    results.plan([network, planned])
    with pytest.raises(TrainingError, match="a run of kind prototypes has no language model"):
        load_language_model(results, network.run_key)
    with pytest.raises(TrainingError, match="the run is planned: it has no language model"):
        load_language_model(results, planned.run_key)


# n-grams


def occurrences(text: str, part: str) -> int:
    return sum(text.startswith(part, start) for start in range(len(text)))


@pytest.mark.parametrize("order", [0, 1, 2, 4])
def test_an_ngram_model_adds_one_to_every_count(order, tmp_path):
    text = TEXT * 4
    n_test, n_validation = round(0.1 * len(text)), round(0.1 * (len(text) - round(0.1 * len(text))))
    train, test = text[: len(text) - n_test - n_validation], text[-n_test - 1 :]
    bits = 0.0
    for place in range(1, len(test)):
        before = test[max(0, place - order) : place]
        n_before = sum(occurrences(train, before + c) for c in set(train))
        bits -= math.log2((occurrences(train, before + test[place]) + 1) / (n_before + len(set(train)) + 1))
    found = ngram_bits_per_character(text_dataset(text_file(tmp_path, text)), order)
    assert found == pytest.approx(bits / n_test, rel=1e-12)


def test_a_longer_memory_helps_with_a_text_that_repeats_itself(tmp_path):
    dataset = text_dataset(text_file(tmp_path))
    assert ngram_bits_per_character(dataset, 3) < ngram_bits_per_character(dataset, 1)
    assert ngram_bits_per_character(dataset, 1, "validation") < ngram_bits_per_character(dataset, 0, "validation")
