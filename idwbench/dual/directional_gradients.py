"""Gradients of each sample's loss by each key, along one direction for each key, without the gradients themselves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.attention.distances import squared_distances
from idwbench.attention.forward import attention_weights
from idwbench.attention.records import Method, ParameterValue
from idwbench.attention.scores import DistanceScore

__all__ = ["StepBatches", "clip_factors", "directional_gradients"]

# Numbers of the gradients of some samples, (samples, prototypes, features): 16 MB.
_GRADIENT_NUMBERS = 2**21

Parameters = Mapping[str, ParameterValue]


class StepBatches:
    """Consecutive steps with batches of one size, in float64.

    Attributes:
        inputs: (steps, batch, features).
        targets: Labels (steps, batch), or numbers (steps, batch, outputs).
        keys: Keys before each step, (steps, prototypes, features).
        values: Values before each step, (steps, prototypes, outputs).
    """

    def __init__(
        self,
        inputs: NDArray[np.floating],
        targets: NDArray[np.generic],
        keys: NDArray[np.floating],
        values: NDArray[np.floating],
    ) -> None:
        self.inputs, self.keys, self.values = (torch.from_numpy(a).double() for a in (inputs, keys, values))
        found = torch.from_numpy(targets)
        self.targets = found if found.ndim == 2 else found.double()


def directional_gradients(
    method: Method, parameters: Parameters, batches: StepBatches, directions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ⟨∂L_i/∂k_j, u_j⟩ for the mean loss of each batch, (steps, batch, prototypes).

    A score that is a function f of d² has the gradient 2 f'(d²)·(k − x), so that two products with the directions
    u (steps, prototypes, features) replace the gradients. For other scores the gradients of some samples at a time are
    computed by automatic differentiation.
    """
    along = torch.from_numpy(directions)
    if isinstance(method.score, DistanceScore):
        return _by_distances(method, method.score, parameters, batches, along).numpy()
    return _by_gradients(method, parameters, batches, along).numpy()


def clip_factors(method: Method, parameters: Parameters, batches: StepBatches, largest: float) -> NDArray[np.float64]:
    """Return min(1, largest/(‖g‖ + 1e-6)) of each step, with the norm of the gradient of keys and values, (steps,)."""
    keys, values = batches.keys.clone().requires_grad_(), batches.values.clone().requires_grad_()
    scores = method.score(batches.inputs, keys, **parameters)
    loss = _losses(attention_weights(method, scores) @ values, batches.targets).sum()
    gradients = torch.autograd.grad(loss, (keys, values))
    norms = sum(gradient.square().sum((1, 2)) for gradient in gradients)
    assert isinstance(norms, Tensor)
    return (largest / (norms.sqrt() + 1e-6)).clamp(max=1).numpy()


def _losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return each sample's part of the mean loss of its batch: outputs (…, batch, outputs) to (…, batch)."""
    if targets.is_floating_point():
        losses = functional.mse_loss(outputs, targets, reduction="none").mean(-1)
    else:
        losses = functional.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")
    return losses.view(outputs.shape[:-1]) / outputs.shape[-2]


def _by_distances(
    method: Method, score: DistanceScore, parameters: Parameters, batches: StepBatches, along: Tensor
) -> Tensor:
    squares = squared_distances(batches.inputs, batches.keys).requires_grad_()
    weights = attention_weights(method, score.function(squares, **parameters))
    loss = _losses(weights @ batches.values, batches.targets).sum()
    [slopes] = torch.autograd.grad(loss, squares)
    of_keys = (batches.keys * along).sum(-1).unsqueeze(-2)
    return 2 * slopes * (of_keys - batches.inputs @ along.mT)


def _by_gradients(method: Method, parameters: Parameters, batches: StepBatches, along: Tensor) -> Tensor:
    """Give each sample keys of its own, so that one backward pass has the gradient of each."""
    n_steps, n_batch, n_features = batches.inputs.shape
    inputs, targets = batches.inputs.reshape(-1, 1, n_features), batches.targets.flatten(0, 1).unsqueeze(1)
    steps = torch.arange(n_steps).repeat_interleave(n_batch)
    at_once = max(1, _GRADIENT_NUMBERS // along[0].numel())
    found = []
    for rows in torch.split(torch.arange(len(steps)), at_once):
        keys = batches.keys[steps[rows]].requires_grad_()
        weights = attention_weights(method, method.score(inputs[rows], keys, **parameters))
        outputs = weights @ batches.values[steps[rows]]
        [gradients] = torch.autograd.grad(_losses(outputs, targets[rows]).sum(), keys)
        found.append((gradients * along[steps[rows]]).sum(-1) / n_batch)
    return torch.cat(found).view(n_steps, n_batch, -1)
