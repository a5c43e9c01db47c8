"""The movement of keys as a sum over training samples, and gradients of each sample's loss by each key.

The last key is k_T = factor ⊙ k_0 + Σ_s coefficient_s ⊙ g_s, elementwise, see `idwbench.dual.coefficients`. The size of
a step of Adam or AMSGrad is size_s = rate_s/(1 − β₁^(s+1)) / (√(m_s/(1 − β₂^(s+1))) + 1e-8), where m is the mean square
of the gradients, or its maximum so far (arXiv 1904.09237). Gradients are taken along one direction for each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.attention.distances import squared_distances
from idwbench.attention.forward import attention_weights
from idwbench.attention.records import Method, ParameterValue
from idwbench.attention.scores import DistanceScore
from idwbench.dual.coefficients import BETA_1

__all__ = ["KeyHistory", "StepBatches", "adam_step_sizes", "clip_factors", "directional_gradients"]

BETA_2, GUARD = 0.999, 1e-8
# Numbers of the gradients of some samples, (samples, prototypes, features): 16 MB.
_GRADIENT_NUMBERS = 2**21

Parameters = Mapping[str, ParameterValue]

Array = NDArray[np.float64]


def adam_step_sizes(rates: Array, squares: NDArray[np.floating], first: int) -> Array:
    """Return the sizes of consecutive steps of Adam or AMSGrad, (steps, …).

    Args:
        rates: Learning rate of each step, (steps,).
        squares: Mean squares of the gradients after each step, or their maxima, (steps, …).
        first: Number of steps before the first.
    """
    taken = first + 1 + np.arange(len(rates))
    scales = (rates / (1 - BETA_1**taken)).reshape(-1, *[1] * (squares.ndim - 1))
    roots = np.sqrt(1 - BETA_2**taken).reshape(scales.shape)
    sizes = np.sqrt(squares, dtype=np.float64)
    sizes /= roots
    sizes += GUARD
    return np.asarray(scales / sizes)


@dataclass(frozen=True)
class KeyHistory:
    """The share of each training sample in the movement Δk = k_T − k_0 of each key.

    The share of sample i in key j is ⟨c_ij, Δk_j⟩/‖Δk_j‖², with its contribution c_ij = Σ_s coefficient_s ⊙ g_sij over
    the steps that had the sample in their batch. Shares are negative where a sample moved the key the other way. For
    each key, `shares`, `initial_share` and `remainder` sum to 1. A key that did not move has shares 0.

    Attributes:
        initial: Keys before the first step, (prototypes, features), scaled.
        keys: Keys after the last step.
        values: Values after the last step, (prototypes, outputs).
        shares: (training rows, prototypes).
        class_shares: Sums of the shares of the steps of each epoch over the samples of each class, (epochs, classes,
            prototypes); a regression counts as one class.
        initial_share: Share of the initial key, shrunk by weight decay; 0 without it, (prototypes,).
        remainder: What rounding leaves, (prototypes,).
        is_exact: Whether the training was repeated bit for bit.
    """

    initial: NDArray[np.float32]
    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    shares: Array
    class_shares: Array
    initial_share: Array
    remainder: Array
    is_exact: bool

    @property
    def distance(self) -> Array:
        """‖Δk‖ of each key, in scaled units, (prototypes,)."""
        return np.asarray(np.linalg.norm(self.keys.astype(np.float64) - self.initial, axis=1))

    @property
    def classes(self) -> NDArray[np.intp]:
        """The class of each key: the largest of its values, (prototypes,)."""
        return np.asarray(self.values.argmax(1))

    def top(self, prototype: int, n: int, *, against: bool = False) -> NDArray[np.intp]:
        """Return the rows with the largest shares in a key, or with the smallest, at most `n`; ties by row."""
        shares = self.shares[:, prototype]
        return np.argsort(shares if against else -shares, kind="stable")[:n]

    def n_for(self, fraction: float = 0.5) -> NDArray[np.int64]:
        """Return for each key the smallest number of samples whose shares sum to `fraction`; −1 if none do."""
        sums = -np.sort(-self.shares, axis=0)
        np.cumsum(sums, axis=0, out=sums)
        enough = sums >= fraction
        return np.where(enough.any(0), enough.argmax(0) + 1, -1)

    def own_class_shares(self) -> tuple[Array, Array]:
        """Return the shares of the samples of each key's own class, and of all others, (epochs, prototypes)."""
        own = self.class_shares[:, self.classes, np.arange(len(self.keys))]
        return own, self.class_shares.sum(1) - own

    def lines(self) -> Iterator[str]:
        """Yield one line for each key: movement, samples for half of it, and what is not a sample's share."""
        for key, (moved, half) in enumerate(zip(self.distance, self.n_for(), strict=True)):
            yield (
                f"key {key}: moved {moved:.3g}, half by {half} samples, initial {self.initial_share[key]:.1%}, "
                f"rounding {self.remainder[key]:.1e}"
            )


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
        labels = torch.from_numpy(targets)
        self.targets = labels if labels.ndim == 2 else labels.double()


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
    scores = method.scores(batches.inputs, keys, parameters)
    loss = _losses(attention_weights(method, scores, parameters) @ values, batches.targets).sum()
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
    scores = score.function(squares, **method.score_arguments(parameters))
    weights = attention_weights(method, scores, parameters)
    loss = _losses(weights @ batches.values, batches.targets).sum()
    [slopes] = torch.autograd.grad(loss, squares)
    key_products = (batches.keys * along).sum(-1).unsqueeze(-2)
    return 2 * slopes * (key_products - batches.inputs @ along.mT)


def _by_gradients(method: Method, parameters: Parameters, batches: StepBatches, along: Tensor) -> Tensor:
    """Give each sample keys of its own, so that one backward pass has the gradient of each."""
    n_steps, n_batch, n_features = batches.inputs.shape
    inputs, targets = batches.inputs.reshape(-1, 1, n_features), batches.targets.flatten(0, 1).unsqueeze(1)
    steps = torch.arange(n_steps).repeat_interleave(n_batch)
    at_once = max(1, _GRADIENT_NUMBERS // along[0].numel())
    products = []
    for rows in torch.split(torch.arange(len(steps)), at_once):
        keys = batches.keys[steps[rows]].requires_grad_()
        weights = attention_weights(method, method.scores(inputs[rows], keys, parameters), parameters)
        outputs = weights @ batches.values[steps[rows]]
        [gradients] = torch.autograd.grad(_losses(outputs, targets[rows]).sum(), keys)
        products.append((gradients * along[steps[rows]]).sum(-1) / n_batch)
    return torch.cat(products).view(n_steps, n_batch, -1)
