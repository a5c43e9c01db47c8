"""Attention as a function with masks and dropout."""

from __future__ import annotations

from inspect import unwrap  # the tests check annotations themselves

import numpy as np
import pytest
import torch

import idwbench
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.errors import ConfigError


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


INPUTS, KEYS, VALUES = random(2, 5, 3), random(2, 4, 3, seed=1), random(2, 4, 2, seed=2)


@pytest.mark.parametrize("method", METHODS)
def test_an_excluded_key_counts_as_absent(method):
    mask = torch.tensor([False, True, False, True])
    numbers = torch.zeros(5, 4, dtype=torch.float64).masked_fill(mask, -torch.inf)
    for given, kept in ((mask, ~mask), (numbers, ~mask), (torch.zeros(2, 5, 4, dtype=torch.bool), slice(None))):
        expected = idwbench.attend(INPUTS, KEYS[:, kept], VALUES[:, kept], method)
        torch.testing.assert_close(idwbench.attend(INPUTS, KEYS, VALUES, method, mask=given), expected)


def test_numbers_of_a_mask_are_added_to_the_scores():
    bias = random(5, 4, seed=3)
    sq_dist = ((INPUTS[:, :, None] - KEYS[:, None]) ** 2).sum(-1)
    weights = np.exp(bias.numpy()) / (1e-3 + sq_dist.numpy())
    weights /= weights.sum(-1, keepdims=True)
    found = idwbench.attend(INPUTS, KEYS, VALUES, mask=bias)
    np.testing.assert_allclose(found.numpy(), weights @ VALUES.numpy(), rtol=1e-12)


def test_dropout_keeps_the_mean_and_follows_its_generator():
    inputs, keys, values = INPUTS[:1].expand(4000, -1, -1), KEYS[0], VALUES[0]

    def output(seed: int) -> torch.Tensor:
        return idwbench.attend(inputs, keys, values, dropout=0.3, generator=torch.Generator().manual_seed(seed))

    assert torch.equal(output(0), output(0))
    assert not torch.equal(output(0), output(1))
    exact = idwbench.attend(INPUTS[0], keys, values)
    # The deviation of the mean: |v| · √(0.3 / 0.7 / 4000) is about 0.02.
    torch.testing.assert_close(output(0).mean(0), exact, atol=0.08, rtol=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mask": torch.zeros(3, 4, dtype=torch.bool)}, r"mask: expected a shape that broadcasts to \(2, 5, 4\), got"),
        ({"mask": torch.zeros(1, 2, 5, 4, dtype=torch.bool)}, "mask: expected a shape"),
        ({"mask": torch.zeros(5, 4, dtype=torch.int64)}, "mask: expected a boolean or floating-point tensor"),
        ({"mask": [[True] * 4] * 5}, "mask: expected a tensor, got list"),
        ({"dropout": "much"}, "dropout: must be >= 0 and < 1, got 'much'"),
        ({"dropout": 1.0}, "dropout: must be >= 0 and < 1, got 1.0"),
        ({"mask": torch.zeros(5, 4), "powr": 1}, "does not take 'powr'"),
        ({"weighting": "sofmax"}, r"^weighting: unknown weighting 'sofmax' \(did you mean 'softmax'\?\)$"),
        ({"method": "idw", "score": "idw"}, "^score: is given as 'method' already$"),
        ({"score": "idv"}, r"^method: unknown method 'idv' \(did you mean 'idw'\?\)$"),
        ({"weighting": "top_k", "k": 0}, "^k: must be >= 1, got 0$"),
        ({"weighting": "top_k", "k": 1.5}, r"^k: expected a whole number, got 1\.5$"),
        ({"weighting": "softmax", "k": 2}, r"^k: method 'idw' does not take 'k' \(it takes epsilon, power\)$"),
    ],
)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(ConfigError, match=message):
        unwrap(idwbench.attend)(INPUTS, KEYS, VALUES, **arguments)


@pytest.mark.parametrize(
    ("place", "wrong", "message"),
    [
        ("inputs", INPUTS.numpy(), r"inputs: expected a tensor \(…, batch, features\), got ndarray"),
        ("inputs", INPUTS.long(), "inputs: expected floating-point numbers, got torch.int64"),
        ("keys", KEYS.float(), "keys: expected torch.float64 on cpu, as inputs, got torch.float32 on cpu"),
        ("inputs", INPUTS[0, 0], r"inputs: expected the shape \(…, batch, features\), got \(3,\)"),
        ("keys", KEYS[..., :2], r"keys: expected 3 features, as inputs, got the shape \(2, 4, 2\)"),
        ("keys", KEYS[:1].repeat(3, 1, 1), "keys: expected leading axes"),
        ("values", VALUES.numpy(), "values: expected a tensor"),
        ("values", VALUES.half(), "values: expected torch.float64 on cpu, as inputs, got torch.float16 on cpu"),
        ("values", VALUES[:, :3], r"values: expected 4 rows, one for each key, got the shape \(2, 3, 2\)"),
        ("values", VALUES[:1].repeat(3, 1, 1), r"expected leading axes .* of inputs \(2, 5, 3\), got \(3, 4, 2\)"),
    ],
)
@pytest.mark.parametrize("method", ["idw", "scaled_dot", "fc_relu"])
def test_tensors_that_do_not_fit_are_named(place, wrong, message, method):
    given = {"inputs": INPUTS, "keys": KEYS, "values": VALUES} | {place: wrong}
    with pytest.raises(ConfigError, match=message):
        unwrap(idwbench.attend)(**given, method=method)
    if place != "values":
        with pytest.raises(ConfigError, match=message):
            unwrap(idwbench.scores)(given["inputs"], given["keys"], method)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("method", "weighting"), [*((m, None) for m in METHODS), *(("idw", w) for w in WEIGHTINGS)])
def test_half_precision_has_the_error_of_its_rounding(method, weighting, dtype):
    inputs, keys, values = (part.to(dtype) for part in (INPUTS, KEYS, VALUES))
    scores, found = (
        idwbench.scores(inputs, keys, method),
        idwbench.attend(inputs, keys, values, method, weighting=weighting),
    )
    assert scores.dtype == found.dtype == dtype
    exact = idwbench.scores(inputs.double(), keys.double(), method)
    # Half the distance of two neighbours, and the rounding of float32, which is far smaller.
    torch.testing.assert_close(scores.double(), exact, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-5)
    if weighting in ("argmax", "max", "top_k"):
        return  # two scores that are nearly equal could change places
    exact = idwbench.attend(inputs.double(), keys.double(), values.double(), method, weighting=weighting)
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
