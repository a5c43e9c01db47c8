"""Attention layers with other scores: each head in float64, chunks, memory, and distances by matrix products."""

import math

import pytest
import torch
from array_models import SCORE_SETTINGS, random
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

import idwbench
from idwbench import SelfAttention
from idwbench.attention import sequences
from idwbench.attention.distances import distances_by_product
from idwbench.attention.forward import apply_weighting
from idwbench.attention.masks import Masks
from idwbench.attention.scores import METHODS
from idwbench.attention.sequences import MethodScore, SequenceAttention
from idwbench.attention.weightings import WEIGHTINGS

E, H, L, N = 8, 2, 5, 3
SETTINGS = [setting for setting in SCORE_SETTINGS if setting[0] != "fc_relu"]
# Those that PyTorch's fused function does not compute.
CHUNKED = [setting for setting in SETTINGS if setting[0] in ("gaussian", "inv_dist", "idw")]
CHUNKED += [("neg_dist", {"power": 1.0}), ("additive", {})]


def make_layer(score, parameters, **arguments):
    torch.manual_seed(0)
    if arguments.get("weighting") == "top_k":
        arguments["k"] = 2
    return SelfAttention(E, H, score, batch_first=True, dtype=torch.float64, **arguments, **parameters)


def oracle(layer, inputs, mask, parameters):
    """Output and weights of one sequence, with a boolean mask (L, L), head by head."""
    outputs, weights = [], []
    projected = torch.nn.functional.linear(inputs, layer.in_proj_weight, layer.in_proj_bias)
    for head, (q, k, v) in enumerate(zip(*(part.chunk(H, -1) for part in projected.chunk(3, -1)), strict=True)):
        if layer.weighting == "exact_match":  # which no two projections are
            scores = torch.full((len(q), len(k)), -torch.inf, dtype=q.dtype)
        elif layer.score == "additive":
            weight, vector = layer.pair_score.weight[head], layer.pair_score.vector[head]
            pairs = torch.cat(torch.broadcast_tensors(q[:, None], k[None]), -1) @ weight.mT
            scores = (pairs if parameters.get("form") == "linear" else pairs.tanh()) @ vector
        else:
            scores = idwbench.scores(q, k, layer.score, **parameters)
        scores = scores.masked_fill(mask, -torch.inf)
        weights.append(apply_weighting(WEIGHTINGS[layer.weighting], layer.weighting_parameters, scores))
        outputs.append(weights[-1] @ v)
    return layer.out_proj(torch.cat(outputs, 1)), torch.stack(weights)


WEIGHTED = [
    (score, parameters, weighting)
    for score, parameters in (("scaled_dot", {}), ("idw", {"epsilon": 0.0}), ("additive", {}))
    for weighting in sorted(WEIGHTINGS.keys() - {"softmax"})
]


@pytest.mark.parametrize(("score", "parameters", "weighting"), [*((*one, "softmax") for one in SETTINGS), *WEIGHTED])
def test_each_score_and_weighting_is_its_formula_with_every_mask_and_in_chunks(
    score, parameters, weighting, monkeypatch
):
    layer, inputs = make_layer(score, parameters, weighting=weighting), random(N, L, E, seed=1)
    mask = (random(N, L, L, seed=2) > 0.5) & ~torch.eye(L, dtype=torch.bool)
    padding = torch.arange(L) >= torch.tensor([5, 4, 2])[:, None]
    padding_mask = (mask | padding[:, None]) & ~torch.eye(L, dtype=torch.bool)
    for excluded, arguments in (
        (torch.zeros(N, L, L, dtype=torch.bool), {}),
        (mask, {"attn_mask": mask.repeat_interleave(H, 0)}),
        (mask[:1].expand(N, -1, -1), {"attn_mask": mask[0]}),
        (torch.ones(N, L, L, dtype=torch.bool).triu(1), {"is_causal": True}),
        (padding[:, None].expand(-1, L, -1), {"key_padding_mask": padding}),
        (padding_mask, {"attn_mask": padding_mask.repeat_interleave(H, 0)}),
    ):
        found = [layer(inputs, average_attn_weights=False, **arguments)]
        for budget in (2**20, 70, 1):
            monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", budget)
            found.append(layer(inputs, need_weights=False, **arguments))
        for number in range(N):
            expected, of_heads = oracle(layer, inputs[number], excluded[number], parameters)
            for outputs, weights in found:
                torch.testing.assert_close(outputs[number], expected, rtol=1e-9, atol=1e-10)
                if weights is not None:
                    torch.testing.assert_close(weights[number], of_heads, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("score", "parameters", "budget"), [*((*one, 2**20) for one in SETTINGS), *((*one, 7) for one in CHUNKED)]
)
def test_the_gradient_is_that_of_finite_differences_also_in_chunks(score, parameters, budget, monkeypatch):
    monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", budget)
    layer = make_layer(score, parameters)
    names, numbers = zip(*layer.named_parameters(), strict=True)
    given = random(1, 3, E, seed=3).requires_grad_(), random(3, 3, seed=4).requires_grad_()
    for need in (True, False):

        def output(inputs, mask, *numbers, need=need):
            own = dict(zip(names, numbers, strict=True))
            return functional_call(layer, own, (inputs,), {"attn_mask": mask, "need_weights": need})[0]

        assert torch.autograd.gradcheck(output, (*given, *numbers), fast_mode=True)


def test_dropout_of_a_chunk_is_the_same_in_the_backward_pass(monkeypatch):
    monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", 1)
    layer = make_layer("idw", {}, dropout=0.5)

    def output(inputs):
        torch.manual_seed(1)
        return layer(inputs, need_weights=False)[0]

    assert torch.autograd.gradcheck(output, random(1, 3, E).requires_grad_(), fast_mode=True)


class LargestTensor(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation returns."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


def memory_of_a_step(layer, length, **arguments):
    """Numbers of the largest tensor, and of all tensors that are kept for the backward pass."""
    kept: dict[int, int] = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.element_size()
        return tensor

    inputs = random(1, length, E).to(layer.out_proj.weight.dtype).requires_grad_()
    with LargestTensor() as largest:
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            output, _ = layer(inputs, need_weights=False, **arguments)
        output.sum().backward()
    return largest.numbers, sum(kept.values())


# In float32 distances are computed by products; the last four are of PyTorch's fused function.
@pytest.mark.parametrize(
    ("score", "dtype"),
    [
        *(("idw", torch.float32), ("idw", torch.float64), ("gaussian", torch.float32), ("additive", torch.float64)),
        *((score, torch.float64) for score in ("scaled_dot", "cosine", "neg_dist", "linear")),
    ],
)
@pytest.mark.parametrize("is_causal", [False, True])
def test_memory_grows_linearly_with_the_length(score, dtype, is_causal, monkeypatch):
    monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", 2**9)
    monkeypatch.setattr(sequences, "FEWEST_PAIRS", 0)
    layer = make_layer("additive", {"form": score}) if score == "linear" else make_layer(score, {})
    layer = layer.to(dtype)
    (largest, kept), (longer, kept_longer) = (memory_of_a_step(layer, n, is_causal=is_causal) for n in (24, 72))
    assert longer <= 3.1 * largest
    assert kept_longer <= 3.1 * kept
    assert longer < H * 72 * 72 / 3


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_negative_squared_distances_by_augmentation_are_as_exact_as_by_differences(offset, spread):
    """The offset is common to queries and keys; errors are those of float32 against float64."""
    queries, keys = (offset + spread * random(1, 1, 40, 16, seed=seed) for seed in (1, 2))
    keys[..., 0, :] = queries[..., 0, :]
    queries, keys = queries.float(), keys.float()  # rounded once: the same numbers for both
    values = random(1, 1, 40, 16, seed=3)
    sq_dist = ((queries.double().unsqueeze(-2) - keys.double().unsqueeze(-3)) ** 2).sum(-1)
    exact = (-sq_dist).softmax(-1) @ values
    attention = SequenceAttention(MethodScore("neg_dist"))
    by_augmentation = attention.without_weights(queries, keys, values.float(), Masks())
    by_differences, _ = attention.with_weights(queries, keys, values.float(), Masks())
    # A score of up to 16 · 2 · 3² · 2 = 600 is rounded to 600 · 2⁻²⁴ = 4e-5, a relative error of its weight.
    bound = 4e-6 + 4e-5 * (spread / 3) ** 2 * float(values.abs().max())
    assert (by_augmentation - exact).abs().max() < bound
    assert (by_differences - exact).abs().max() < bound


@pytest.mark.parametrize(
    ("score", "parameters", "weighting"),
    [*((name, {}, "softmax") for name in METHODS if name != "fc_relu"), *(one for one in WEIGHTED if one[0] == "idw")],
)
def test_a_query_without_keys_gets_nan_with_weights_and_zero_without(score, parameters, weighting, monkeypatch):
    monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", 1)
    layer, inputs = make_layer(score, parameters, weighting=weighting), random(1, L, E).requires_grad_()
    mask = torch.zeros(L, L, dtype=torch.bool)
    mask[2] = True
    output, weights = layer(inputs, attn_mask=mask)
    assert weighting != "softmax" or (output[0, 2].isnan().all() and weights[0, 2].isnan().all())
    assert not output[0, [0, 1, 3, 4]].isnan().any()
    output, _ = layer(inputs, attn_mask=mask, need_weights=False)
    torch.testing.assert_close(output[0, 2], layer.out_proj.bias)
    with torch.autograd.set_detect_anomaly(True):  # no NaN on the way either
        layer(inputs, attn_mask=mask, need_weights=False)[0].sum().backward()
    assert all(one.grad is None or one.grad.isfinite().all() for one in (inputs, *layer.parameters()))


# Distances from matrix products, against distances by differences in float64

S = 7  # keys, for 9 queries in 3 heads
DISTANCE_SCORES = [setting for setting in SETTINGS if setting[0] not in ("scaled_dot", "cosine", "additive")]


def sequences_of(kind):
    queries, keys, values = (random(2, 3, n, 4, seed=seed) for seed, n in enumerate((9, S, S)))
    if kind == "equal":
        queries[:, :, :S] = keys
    elif kind == "near":
        queries[:, :, :S] = keys + 1e-4 * random(2, 3, S, 4, seed=3)
    elif kind == "far from 0":
        queries, keys = queries + 100, keys + 100
        queries[:, :, 3] = keys[:, :, 5]
    elif kind == "copies":
        keys[:, :, 1:5] = keys[:, :, :1]
        queries[:, :, :4] = keys[:, :, :4]
    return [queries.float(), keys.float(), values.float()]


def masks_of_sequences():
    padding = torch.zeros(2, 1, 1, S)
    padding[1, ..., 4:] = -math.inf
    per_head = random(2, 3, 9, S, seed=5)
    per_head = per_head.masked_fill(per_head > 1, -math.inf)
    per_head[0, 1, 2] = -math.inf
    return [Masks(), Masks(padding=padding, causal=True), Masks(per_head), Masks(per_head[1:, 1:2])]


def step(attention, tensors, given, dtype):
    parts = [part.to(dtype).clone().requires_grad_() for part in tensors]
    attention_mask, padding = (None if mask is None else mask.to(dtype) for mask in given[:2])
    output = attention.without_weights(*parts, Masks(attention_mask, padding, given.causal))
    (output * random(*output.shape, seed=7).to(dtype)).sum().backward()
    return [output.detach(), *(part.grad for part in parts)]


KINDS = [("usual", "sparsemax"), *((kind, "softmax") for kind in ("equal", "near", "far from 0", "copies"))]
# Distances are the same for all scores: the others meet the hardest kind.
CASES = [(*score, *kind) for score in DISTANCE_SCORES for kind in KINDS if score == ("idw", {}) or kind[0] == "equal"]


@pytest.mark.parametrize(("score", "parameters", "kind", "weighting"), CASES)
def test_the_error_is_that_of_distances_by_differences(score, parameters, kind, weighting, monkeypatch):
    monkeypatch.setattr(sequences, "FEWEST_PAIRS", 0)
    monkeypatch.setattr(sequences, "NUMBERS_AT_A_TIME", 2 * 3 * S * 3)
    attention, tensors = SequenceAttention(MethodScore(score, parameters), weighting), sequences_of(kind)
    for given in masks_of_sequences():
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
    keys = random(1, S, 4).float() + 10
    steps = torch.logspace(-6, 1, 8)[:, None] * random(8, 4, seed=1).float()
    near, far = torch.cat([keys[:, :1], keys[:, :1] + steps], 1), keys[:, :1] + steps[-2:] + 1e3
    for queries in (near, far, torch.cat([near, far], 1)):
        exact = (queries.double()[:, :, None] - keys.double()[:, None]).square().sum(-1)
        sq_dist = distances_by_product(queries, keys)
        # Of each pair of near vectors: rounding of the difference, its square, and the root and square of cdist.
        assert ((sq_dist - exact).abs() <= (4 + 6) * 2**-24 * exact).all()
    assert distances_by_product(near, keys)[0, 0, 0] == 0
