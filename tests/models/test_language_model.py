from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from texts import SCORES, SMALL, random_model

from idwbench.models import text_model
from idwbench.models.text_model import LanguageModel, mean_loss
from idwbench.runs.kinds.models import parse_model


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


def test_the_place_of_a_character_matters():
    model = random_model()
    logits = model(torch.zeros(1, 4, dtype=torch.int64))[0]
    assert not torch.allclose(logits[0], logits[3])


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


def test_a_character_is_predicted_from_more_than_half_of_the_context():
    model = random_model(context=8)
    text = codes(41)
    windows = [text[start : start + 8] for start in (0, 4, 8, 12, 16, 20, 24, 28, 32)]
    with torch.no_grad():
        logits = [model(torch.from_numpy(window)[None])[0].double().log_softmax(-1) for window in windows]
    parts = [logits[0], *(part[4:] for part in logits[1:])]
    bits = -torch.cat(parts)[range(40), text[1:]].mean() / math.log(2)
    assert mean_loss(model, text[:-1], text[1:]) / math.log(2) == pytest.approx(float(bits), rel=1e-6)


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
