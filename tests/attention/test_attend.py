"""Attention as a function with masks, dropout and every weighting, against float64 oracles and finite differences."""

import math
from inspect import unwrap  # the tests check annotations themselves

import numpy as np
import pytest
import torch
from array_models import learned_tensors, random, tensors_in
from case_tables import case_table
from scipy.optimize import brentq
from scipy.special import softmax

import idwbench
from idwbench.attention.forward import apply_weighting
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.errors import ConfigError

INPUTS, KEYS, VALUES = random(2, 5, 3), random(2, 4, 3, seed=1), random(2, 4, 2, seed=2)
ADDITIVE = {"method": "additive", **learned_tensors("additive", 3)}
CONSTANT = {"argmax", "exact_match"}  # no gradient to scores
# A weighting has the same formula for any score.
PAIRS = [*((name, "softmax") for name in METHODS), *(("idw", name) for name in WEIGHTINGS if name != "softmax")]


@pytest.mark.parametrize(("method", "weighting"), PAIRS)
def test_numbers_of_a_mask_are_added_to_scores_and_an_excluded_key_is_absent_and_gets_no_gradient(method, weighting):
    mask, options = torch.tensor([False, True, False, True]), {"k": 1} if weighting == "top_k" else {}
    options |= learned_tensors(method, 3)
    numbers = torch.zeros(5, 4, dtype=torch.float64).masked_fill(mask, -torch.inf)
    for given, kept in ((torch.zeros(2, 5, 4, dtype=torch.bool), slice(None)), (mask, ~mask), (numbers, ~mask)):
        expected = idwbench.attend(INPUTS, KEYS[:, kept], VALUES[:, kept], method, weighting=weighting, **options)
        keys = KEYS.clone().requires_grad_()
        found = idwbench.attend(INPUTS, keys, VALUES, method, weighting=weighting, mask=given, **options)
        torch.testing.assert_close(found, expected)
    if weighting not in CONSTANT:
        found.sum().backward()
        assert keys.grad.isfinite().all() and not keys.grad[:, mask].any()
    if weighting != "exact_match":  # which compares a query and a key itself
        own, bias = options.keys() - {"k"}, random(5, 4, seed=3)
        scores = idwbench.scores(INPUTS, KEYS, method, **{name: options[name] for name in own}) + bias
        found = idwbench.attend(INPUTS, KEYS, VALUES, method, weighting=weighting, mask=bias, **options)
        torch.testing.assert_close(found, weighted(weighting, scores, k=1.0) @ VALUES)


def test_dropout_keeps_the_mean_and_follows_its_generator():
    inputs, keys, values = INPUTS[:1].expand(4000, -1, -1), KEYS[0], VALUES[0]

    def output(seed):
        return idwbench.attend(inputs, keys, values, dropout=0.3, generator=torch.Generator().manual_seed(seed))

    assert torch.equal(output(0), output(0))
    assert not torch.equal(output(0), output(1))
    exact = idwbench.attend(INPUTS[0], keys, values)
    # The deviation of the mean: |v| · √(0.3 / 0.7 / 4000) is about 0.02.
    torch.testing.assert_close(output(0).mean(0), exact, atol=0.08, rtol=0)


NO_TENSORS = [
    ({"inputs": INPUTS.numpy()}, r"inputs: expected a tensor \(…, batch, features\), got ndarray"),
    ({"values": VALUES.numpy()}, "values: expected a tensor"),
]


@pytest.mark.parametrize(("arguments", "message"), [*case_table("wrong_arrays")["attend"], *NO_TENSORS])
def test_a_wrong_argument_and_a_tensor_that_does_not_fit_are_named(arguments, message):
    learned = ADDITIVE if arguments.get("method") == "additive" and len(arguments) > 1 else {}
    given = {"inputs": INPUTS, "keys": KEYS, "values": VALUES, **learned, **tensors_in(arguments)}
    with pytest.raises(ConfigError, match=message):
        unwrap(idwbench.attend)(**given)
    if arguments.keys() & {"inputs", "keys"}:
        with pytest.raises(ConfigError, match=message):
            unwrap(idwbench.scores)(given["inputs"], given["keys"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("method", "weighting"), [*((m, None) for m in METHODS), *(("idw", w) for w in WEIGHTINGS)])
def test_half_precision_has_the_error_of_its_rounding(method, weighting, dtype):
    inputs, keys, values = (part.to(dtype) for part in (INPUTS, KEYS, VALUES))
    learned = learned_tensors(method, 3, dtype)
    scores = idwbench.scores(inputs, keys, method, **learned)
    found = idwbench.attend(inputs, keys, values, method, weighting=weighting, **learned)
    assert scores.dtype == found.dtype == dtype
    learned = {name: array.double() for name, array in learned.items()}
    exact = idwbench.scores(inputs.double(), keys.double(), method, **learned)
    # Half the distance of two neighbours, and the rounding of float32, which is far smaller.
    torch.testing.assert_close(scores.double(), exact, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-5)
    if weighting in ("argmax", "straight_through", "max", "top_k"):
        return  # two scores that are nearly equal could change places
    exact = idwbench.attend(inputs.double(), keys.double(), values.double(), method, weighting=weighting, **learned)
    torch.testing.assert_close(found.double(), exact, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-5)


LARGE = [("neg_dist", {}), ("neg_dist", {"power": 0.5}), ("gaussian", {}), ("gaussian", {"sigma_squared": 1e12})]
LARGE += [(name, given) for name in ("inv_dist", "idw") for given in ({}, {"power": 3.0}, {"epsilon": 0.0})]


@pytest.mark.parametrize(("method", "given"), LARGE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e20, 1e30])
def test_distances_whose_squares_exceed_float32_give_the_attention_of_float64(method, given, dtype, scale):
    tensors = [(part * size).to(dtype).requires_grad_() for part, size in ((INPUTS, scale), (KEYS, scale), (VALUES, 1))]
    with torch.no_grad():
        tensors[0][0, 0] = tensors[1][0, 2]  # a hit
    exact = [part.detach().double().requires_grad_() for part in tensors]
    found, expected = (idwbench.attend(*parts, method, **given) for parts in (tensors, exact))
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), expected, rtol=rounding, atol=1e-30)
    found.sum().backward()
    expected.sum().backward()
    for one, other in zip(tensors, exact, strict=True):
        assert one.grad.isfinite().all()
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=4 * rounding, atol=1e-30)


# Weightings


def rows(*shape, scale=1.0, seed=0):
    return np.random.default_rng(seed).normal(scale=scale, size=shape)


def weighted(name, scores, k=3.0):
    return apply_weighting(WEIGHTINGS[name], {"k": k} if name == "top_k" else {}, scores)


def weights(name, scores, k=3.0):
    return weighted(name, torch.as_tensor(np.asarray(scores)), k).numpy()


def entmax_by_root(scores, alpha):
    """[(α − 1) s − τ]₊^(1/(α − 1)) with a bracketed root for τ (Peters et al. 2019, Eq. 8)."""
    scaled = (alpha - 1) * scores

    def powers(threshold):
        return np.maximum(scaled - threshold, 0) ** (1 / (alpha - 1))

    threshold = brentq(lambda t: powers(t).sum() - 1, scaled.max() - 1, scaled.max(), xtol=1e-15)
    return powers(threshold)


def naive(name, row):
    best = row == row.max()
    kept = row >= np.sort(row)[-3]
    return {
        "softmax": lambda: softmax(row),
        "relu": lambda: np.maximum(row, 0),
        "none": lambda: row,
        "argmax": lambda: best / 1.0,
        "straight_through": lambda: best / 1.0,
        "max": lambda: best * row,
        "top_k": lambda: np.where(kept, np.exp(row), 0) / np.exp(row[kept]).sum(),
        "sparsemax": lambda: entmax_by_root(row, 2.0),
        "entmax15": lambda: entmax_by_root(row, 1.5),
        "exact_match": lambda: np.full(len(row), 1 / len(row)),
    }[name]()


@pytest.mark.parametrize("name", WEIGHTINGS)
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_each_weighting_equals_its_definition_in_float64(name, scale):
    scores = rows(4, 5, 7, scale=scale)
    found = weights(name, scores)
    expected = np.stack([[naive(name, row) for row in block] for block in scores])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_exact_matches_and_ties_have_the_values_and_gradients_of_the_page():
    keys = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0000002]])
    values = torch.tensor([[10.0], [20.0], [30.0], [40.0]])
    queries = torch.tensor([[3.0, 4.0], [1.0, 2.0], [0.0, 0.0]])
    found = idwbench.attend(queries, keys, values, "scaled_dot", weighting="exact_match")
    assert found.tolist() == [[20.0], [20.0], [0.0]]
    for name, row, expected in (("relu", [0.0, 1.0, -1.0], [0.0, 1.0, 0.0]), ("max", [3.0, 1.0, 3.0], [0.5, 0.0, 0.5])):
        scores = torch.tensor(row, requires_grad=True)
        weighted(name, scores).sum().backward()
        assert scores.grad.tolist() == expected
    assert weights("max", [3.0, 1.0, 3.0]).tolist() == [1.5, 0.0, 1.5]
    assert weights("top_k", [2.0, 1.0, 1.0, 1.0], k=2.0).all()
    for name in ("softmax", "argmax", "straight_through", "top_k", "sparsemax", "entmax15"):
        np.testing.assert_allclose(weights(name, [2.0] * 4), [0.25] * 4)  # more than k = 3
        assert np.isnan(weights(name, [-math.inf] * 3)).all()


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_hits_share_a_weight_of_1_and_other_rows_are_untouched(name):
    scores = torch.tensor([[1.0, math.inf, 0.0, math.inf], [1.0, 2.0, 0.5, -1.0]], dtype=torch.float64)
    scores.requires_grad_()
    found = weighted(name, scores, k=1.0)
    assert found[0].tolist() == [0.0, 0.5, 0.0, 0.5]
    assert torch.equal(found[1], weighted(name, scores[1], k=1.0))
    if name not in CONSTANT:
        (found * torch.arange(4)).sum().backward()
        assert scores.grad[0].tolist() == [0.0] * 4
        assert scores.grad[1].isfinite().all()


@pytest.mark.parametrize(("name", "weighting"), PAIRS)
def test_the_gradient_of_every_score_and_weighting_agrees_with_finite_differences(name, weighting):
    arrays = [torch.tensor(rows(*shape, seed=11)).requires_grad_() for shape in [(2, 3), (5, 3), (5, 2)]]
    given = {"k": 3} if weighting == "top_k" else {}

    learned = learned_tensors(name, 3)  # it has gradients too

    def attend(inputs, keys, values, *others):
        own = dict(zip(learned, others, strict=True))
        return idwbench.attend(inputs, keys, values, score=name, weighting=weighting, **given, **own)

    if weighting == "straight_through":  # the gradients of queries and keys are those of a softmax
        found, expected = (
            torch.autograd.grad(idwbench.attend(*arrays, score=name, weighting=one).sum(), arrays[:2])
            for one in (weighting, "softmax")
        )
        torch.testing.assert_close(found, expected)
    elif weighting not in CONSTANT:
        assert torch.autograd.gradcheck(attend, [*arrays, *(a.requires_grad_() for a in learned.values())])
        return
    # Steps, of which finite differences see the flat parts: only the values have a gradient.
    inputs, keys, values = arrays
    assert torch.autograd.gradcheck(lambda v: attend(inputs.detach(), keys.detach(), v), values, fast_mode=True)
    attend(*arrays).sum().backward()
    assert values.grad is not None
    assert weighting == "straight_through" or (inputs.grad is None and keys.grad is None)
