"""The coefficients of steps against the optimizers of torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from idwbench.dual.coefficients import adam_coefficients, step_coefficients

STEPS, OUTPUTS, FEATURES = 30, 3, 4


def weights_of(optimizer_class, rates, clips, gradients, initial, **options) -> list[np.ndarray]:
    """Return the weights before and after every step of an optimizer of torch, in float64."""
    weight = torch.nn.Parameter(torch.from_numpy(initial.copy()))
    optimizer = optimizer_class([weight], lr=1.0, **options)
    found = [initial.copy()]
    for rate, clip, gradient in zip(rates, clips, gradients, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        weight.grad = torch.from_numpy(clip * gradient)
        optimizer.step()
        found.append(weight.detach().numpy().copy())
    return found


@pytest.fixture
def course():
    generator = np.random.default_rng(0)
    rates, clips = generator.uniform(0.01, 0.3, STEPS), generator.uniform(0.1, 1, STEPS)
    return rates, clips, generator.normal(size=(STEPS, OUTPUTS, FEATURES)), generator.normal(size=(OUTPUTS, FEATURES))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_sgd_is_the_sum_of_its_gradients_with_these_coefficients(course, momentum, weight_decay) -> None:
    rates, clips, gradients, initial = course
    final = weights_of(torch.optim.SGD, *course, momentum=momentum, weight_decay=weight_decay)[-1]
    coefficients, factor = step_coefficients(rates, clips, momentum, weight_decay)
    found = factor * initial + np.tensordot(coefficients, gradients, 1)
    assert np.abs(found - final).max() < 1e-13
    assert (factor == 1) == (weight_decay == 0)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_adam_is_the_sum_with_row_factors_and_what_they_leave(course, amsgrad, weight_decay) -> None:
    _, clips, gradients, initial = course
    weights = weights_of(torch.optim.Adam, *course, amsgrad=amsgrad, weight_decay=weight_decay)
    moment, scales, left = np.zeros_like(initial), np.empty((STEPS, OUTPUTS)), []
    for step in range(STEPS):
        moment = 0.9 * moment + 0.1 * (clips[step] * gradients[step] + weight_decay * weights[step])
        corrected = moment / (1 - 0.9 ** (step + 1))
        update = weights[step + 1] - weights[step]
        scales[step] = [
            np.linalg.lstsq(m[:, None], u, rcond=None)[0].item() for m, u in zip(corrected, update, strict=True)
        ]
        left.append(update - scales[step][:, None] * corrected)
    coefficients, factor = adam_coefficients(scales, clips, weight_decay)
    residual = weights[-1] - factor[:, None] * initial - np.einsum("so,sof->of", coefficients, gradients)
    if weight_decay == 0:  # then no remainder acts on a later step
        assert np.abs(residual - sum(left)).max() < 1e-13
        assert np.array_equal(factor, np.ones(OUTPUTS))
    # An Adam without its remainders has no residual.
    weight, moment = initial.copy(), np.zeros_like(initial)
    for step in range(STEPS):
        moment = 0.9 * moment + 0.1 * (clips[step] * gradients[step] + weight_decay * weight)
        weight = weight + scales[step][:, None] * moment / (1 - 0.9 ** (step + 1))
    exact = factor[:, None] * initial + np.einsum("so,sof->of", coefficients, gradients)
    assert np.abs(exact - weight).max() < 1e-13
    assert 0.01 < np.linalg.norm(residual) / np.linalg.norm(weights[-1] - initial) < 1
