"""LSTM language models: their formula, perplexity, and texts of words."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from idwbench.data.dataset import Split
from idwbench.data.text import WORDS, build_vocabulary
from idwbench.errors import ConfigError
from idwbench.models.text_model import LstmLanguageModel, TextModel, bits_per_character, mean_loss, text_metrics
from idwbench.runs.kinds.lstm_lm import LstmConfig

TEXT = "the fox ran. the crow sat, and the fox did not.\n" * 3


def random_model(vocabulary_size: int = 7, context: int = 8) -> LstmLanguageModel:
    generator = torch.Generator().manual_seed(1)
    return LstmLanguageModel(LstmConfig(embedding=3, width=5, context=context), vocabulary_size, generator).eval()


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_a_model_in_float64_computes_the_formula_of_its_gates():
    model = random_model().double()
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


def test_initial_weights_come_from_the_generator_alone():
    torch.manual_seed(1)
    first = random_model()
    torch.manual_seed(2)
    second = random_model()
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
    assert first.lstm.weight_hh_l0.abs().max() <= 5**-0.5
    wide = LstmLanguageModel(LstmConfig(embedding=20, width=5, context=8), 500, torch.Generator().manual_seed(1))
    assert wide.tokens.weight.detach().std() == pytest.approx(1, abs=0.05)


def split_of(codes: np.ndarray, characters: np.ndarray | None = None) -> Split:
    return Split(codes[:-1, None].astype(np.float32), codes[1:], characters=characters)


def test_perplexity_is_the_inverse_geometric_mean_of_the_probabilities():
    model, codes = random_model(context=40), np.random.default_rng(0).integers(0, 7, 21)
    with torch.no_grad():
        probabilities = model(torch.from_numpy(codes[:-1])[None])[0].double().softmax(-1)
    of_labels = probabilities[range(20), codes[1:]].numpy()
    found = text_metrics(model, split_of(codes))
    assert found["perplexity"] == pytest.approx(np.prod(of_labels) ** (-1 / 20), rel=1e-6)
    assert found["bits_per_character"] == pytest.approx(-np.log2(of_labels).mean(), rel=1e-6)


def test_bits_of_words_are_shared_by_their_characters():
    model, codes = random_model(), np.random.default_rng(0).integers(0, 7, 21)
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
    model, codes = random_model(), np.tile([1, 2], 10)
    with torch.no_grad():
        model.head.bias[3] += 1e4
    assert set(text_metrics(model, split_of(codes))) == {"bits_per_character"}


@pytest.fixture
def of_words() -> TextModel:
    names = build_vocabulary(WORDS.split(TEXT), WORDS.unknown)
    return TextModel(random_model(len(names)), names, WORDS)


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.generate("  "), "prompt: expected at least one word"),
        (lambda m: m.logits("the " * 9), "text: expected 1 to 8 words, got 9"),
        (lambda m: m.bits_per_character("crow"), "text: expected at least 2 words, got 1"),
    ],
)
def test_impossible_requests_get_one_line(call, message, of_words):
    with pytest.raises(ConfigError) as error:
        call(of_words)
    assert str(error.value) == message
