"""Attention by distances from matrix products in float64, against distances by differences in float64."""

from __future__ import annotations

import math

import pytest
import torch

from idwbench.attention import sequences
from idwbench.attention.distances import distances_by_product
from idwbench.attention.masks import Masks
from idwbench.attention.sequences import MethodScore, SequenceAttention

N, H, L, S, D = 2, 3, 9, 7, 4
SCORES = [
    ("idw", {}),
    ("idw", {"epsilon": 0.0}),
    ("idw", {"power": 1.0}),
    ("gaussian", {"sigma_squared": 1.5}),
    ("inv_dist", {"epsilon": 0.1}),
    ("inv_dist", {"epsilon": 0.1, "power": 3.0}),
    ("neg_dist", {"power": 1.0}),
]


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(autouse=True)
def _few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(sequences, "FEWEST_PAIRS", 0)
    monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", N * H * S * 3)


def sequences_of(kind: str) -> list[torch.Tensor]:
    queries, keys, values = random(N, H, L, D), random(N, H, S, D, seed=1), random(N, H, S, D, seed=2)
    if kind == "equal":
        queries[:, :, :S] = keys
    elif kind == "near":
        queries[:, :, :S] = keys + 1e-4 * random(N, H, S, D, seed=3)
    elif kind == "far from 0":
        queries, keys = queries + 100, keys + 100
        queries[:, :, 3] = keys[:, :, 5]
    elif kind == "copies":
        keys[:, :, 1:5] = keys[:, :, :1]
        queries[:, :, :4] = keys[:, :, :4]
    return [queries, keys, values]


def masks() -> dict[str, Masks]:
    padding = torch.zeros(N, 1, 1, S)
    padding[1, ..., 4:] = -math.inf
    per_head = random(N, H, L, S, seed=5)
    per_head = per_head.masked_fill(per_head > 1, -math.inf)
    per_head[0, 1, 2] = -math.inf
    return {
        "none": Masks(),
        "causal": Masks(causal=True),
        "padding": Masks(padding=padding),
        "both": Masks(padding=padding, causal=True),
        "per head": Masks(per_head),
        "shared": Masks(per_head[1:, 1:2]),
    }


def step(attention: SequenceAttention, tensors: list[torch.Tensor], given: Masks, dtype: torch.dtype):
    parts = [part.to(dtype).clone().requires_grad_() for part in tensors]
    attention_mask, padding = (None if mask is None else mask.to(dtype) for mask in given[:2])
    output = attention.without_weights(*parts, Masks(attention_mask, padding, given.causal))
    (output * random(*output.shape, seed=7)).sum().backward()
    return [output.detach(), *(part.grad for part in parts)]


KINDS = [("usual", "sparsemax"), *((kind, "softmax") for kind in ("equal", "near", "far from 0", "copies"))]
# Distances are the same for all scores: the others meet the hardest kind.
CASES = [(*score, *kind) for score in SCORES for kind in KINDS if score == ("idw", {}) or kind[0] == "equal"]


@pytest.mark.parametrize(("score", "parameters", "kind", "weighting"), CASES)
def test_the_error_is_that_of_distances_by_differences(score, parameters, kind, weighting, monkeypatch):
    attention, tensors = SequenceAttention(MethodScore(score, parameters), weighting), sequences_of(kind)
    for given in masks().values():
        exact, found = (step(attention, tensors, given, dtype) for dtype in (torch.float64, torch.float32))
        with monkeypatch.context() as few:
            few.setattr(sequences, "FEWEST_PAIRS", 10**9)
            by_differences = step(attention, tensors, given, torch.float32)
        for one, other, expected in zip(found, by_differences, exact, strict=True):
            assert one.dtype == torch.float32
            # Where a weight is nearly 1, the gradient of a softmax cancels, whatever the distances.
            error = (other - expected).abs().max()
            bound = 2 * error + 1e-5 * max(1.0, float(expected.abs().max()))
            assert (one - expected).abs().max() <= bound


def test_squared_distances_have_the_error_of_differences():
    keys = random(1, S, D) + 10
    steps = torch.logspace(-6, 1, 8)[:, None] * random(8, D, seed=1)
    near, far = torch.cat([keys[:, :1], keys[:, :1] + steps], 1), keys[:, :1] + steps[-2:] + 1e3
    for queries in (near, far, torch.cat([near, far], 1)):
        exact = (queries.double()[:, :, None] - keys.double()[:, None]).square().sum(-1)
        sq_dist = distances_by_product(queries, keys)
        # Of each pair of near vectors: rounding of the difference, its square, and the root and square of cdist.
        assert ((sq_dist - exact).abs() <= (D + 6) * 2**-24 * exact).all()
    assert distances_by_product(near, keys)[0, 0, 0] == 0


def test_a_query_that_equals_a_key_has_no_gradient_from_it():
    tensors = sequences_of("equal")
    hits = torch.full((L, S), -math.inf)
    hits.fill_diagonal_(0.0)
    only_hits = Masks(hits[None, None])
    for parameters in ({}, {"epsilon": 0.0}, {"epsilon": 1e-30}):
        found = step(SequenceAttention(MethodScore("idw", parameters)), tensors, only_hits, torch.float32)
        assert (found[1][:, :, :S] == 0).all() and (found[2] == 0).all()


@pytest.mark.parametrize(("score", "parameters"), [("idw", {}), ("neg_dist", {"power": 1.0})])
def test_dropout_excludes_the_same_weights_in_the_backward_pass(score, parameters):
    attention, tensors = SequenceAttention(MethodScore(score, parameters), dropout=0.4), sequences_of("usual")
    torch.manual_seed(1)
    output, _, _, of_values = step(attention, tensors, Masks(), torch.float32)
    # The output is linear in the values.
    torch.testing.assert_close((output * random(*output.shape, seed=7)).sum(), (of_values * tensors[2]).sum())
    torch.manual_seed(1)
    assert torch.equal(step(attention, tensors, Masks(), torch.float32)[0], output)
    without = SequenceAttention(MethodScore(score, parameters))
    assert not torch.allclose(step(without, tensors, Masks(), torch.float32)[0], output)


def test_a_learned_mask_gets_its_gradient():
    attention, tensors = SequenceAttention(MethodScore("idw")), sequences_of("usual")
    found = []
    for dtype in (torch.float32, torch.float64):
        mask = random(1, 1, L, S, seed=5).to(dtype).requires_grad_()
        queries, keys, values = (part.to(dtype) for part in tensors)
        attention.without_weights(queries, keys, values, Masks(mask)).square().sum().backward()
        found.append(mask.grad.double())
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-5)
