"""Attention as a function with masks and dropout."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import idwbench
from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


INPUTS, KEYS, VALUES = random(2, 5, 3), random(2, 4, 3, seed=1), random(2, 4, 2, seed=2)


@pytest.mark.parametrize("method", METHODS)
def test_an_excluded_key_counts_as_absent(method):
    mask = torch.tensor([False, True, False, True])
    found = idwbench.attend(INPUTS, KEYS, VALUES, method, mask=mask)
    expected = idwbench.attend(INPUTS, KEYS[:, ~mask], VALUES[:, ~mask], method)
    torch.testing.assert_close(found, expected)
    numbers = torch.zeros(5, 4, dtype=torch.float64).masked_fill(mask, -torch.inf)
    torch.testing.assert_close(idwbench.attend(INPUTS, KEYS, VALUES, method, mask=numbers), expected)
    none = torch.zeros(2, 5, 4, dtype=torch.bool)
    torch.testing.assert_close(
        idwbench.attend(INPUTS, KEYS, VALUES, method, mask=none), idwbench.attend(INPUTS, KEYS, VALUES, method)
    )


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
        ({"dropout": 1.0}, "dropout: must be >= 0 and < 1, got 1.0"),
        ({"mask": torch.zeros(5, 4), "powr": 1}, "does not take 'powr'"),
    ],
)
def test_a_wrong_mask_or_rate_is_named(arguments, message):
    with pytest.raises(ConfigError, match=message):
        idwbench.attend(INPUTS, KEYS, VALUES, **arguments)
