"""Distances, scores and weights: pure functions of tensors, differentiable, stable in float32.

Shapes: inputs (…, batch, features), keys (…, prototypes, features), scores and weights (…, batch, prototypes).
Leading axes stack runs. A numeric parameter is a number, or a tensor that broadcasts against the scores.

Powers of distances are taken as exp(p·log d), and the logarithm comes first, so that no power overflows on its
way to a logarithm. An input nearer than 1e-12 to a key *hits* it: d² is then taken as 0, its gradient as 0.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from idwbench.methods import Method, ParameterValue

__all__ = [
    "attention_weights",
    "cosine",
    "dot",
    "gaussian",
    "idw",
    "inv_dist",
    "neg_dist",
    "prototype_logits",
    "scaled_dot",
    "scores_of",
    "squared_distances",
]

Number = float | Tensor

HIT_SQ_DIST = 1e-24
# Beyond exp(20.7) = 1e9 a softmax over float32 scores has long been one-hot; see `_bounded_exp`.
EXP_BOUND = math.log(1e9)


def squared_distances(
    inputs: Float[Tensor, "*#stack batch features"], keys: Float[Tensor, "*#stack prototypes features"]
) -> Float[Tensor, "*#stack batch prototypes"]:
    """Return d² = Σ (x − k)² by differences, never below 0 and exactly 0 for an input that equals a key.

    The expanded form ‖x‖² − 2x·k + ‖k‖² is faster for large shapes, but in float32 it is wrong by more than a usual
    ε for inputs near a key, which is where inverse distances and patches live.
    """
    return (inputs.unsqueeze(-2) - keys.unsqueeze(-3)).square().sum(-1)


def dot(inputs: Tensor, keys: Tensor) -> Tensor:
    """Return x·k."""
    return inputs @ keys.mT


def scaled_dot(inputs: Tensor, keys: Tensor, *, scale: str) -> Tensor:
    """Return x·k/√features (Vaswani et al. 2017, Eq. 1), or x·k/√prototypes as the IDW authors' code ran."""
    prototypes, features = keys.shape[-2:]
    return dot(inputs, keys) / math.sqrt(features if scale == "features" else prototypes)


def cosine(inputs: Tensor, keys: Tensor, *, temperature: Number) -> Tensor:
    """Return x·k/(‖x‖ ‖k‖ temperature), 0 where a norm is 0."""
    return dot(_unit(inputs), _unit(keys)) / temperature


def neg_dist(inputs: Tensor, keys: Tensor, *, power: Number) -> Tensor:
    """Return −d^p (arXiv 2310.18805, section 3)."""
    sq_dist = squared_distances(inputs, keys)
    through_logs = _bounded_exp(_log_distance_power(sq_dist, power))
    # p = 2 needs no logarithm and would lose half its digits by it.
    is_plain = (torch.as_tensor(power, device=sq_dist.device) == 2) & (sq_dist < math.exp(EXP_BOUND))
    return -torch.where(is_plain, sq_dist, through_logs)


def gaussian(inputs: Tensor, keys: Tensor, *, sigma_squared: Number) -> Tensor:
    """Return exp(−d²/σ²); σ² = 2 as the authors ran."""
    return torch.exp(-squared_distances(inputs, keys) / sigma_squared)


def inv_dist(inputs: Tensor, keys: Tensor, *, power: Number, epsilon: Number) -> Tensor:
    """Return 1/(ε + d^p); +∞ for a hit with ε = 0."""
    score = idw(inputs, keys, power=power, epsilon=epsilon)
    return torch.where(torch.isposinf(score), score, _bounded_exp(score.clamp(max=torch.finfo(score.dtype).max)))


def idw(inputs: Tensor, keys: Tensor, *, power: Number, epsilon: Number) -> Tensor:
    """Return −log(ε + d^p), so that softmax weights are the normalised 1/(ε + d^p) (arXiv 2310.18805, Eq. 3–4).

    Computed as −logaddexp(log ε, p·log d): exact to 4e-8 for p from 0.5 to 1000 and d from 0 to 1e3, where the plain
    form gives 0/0 once d^p overflows for all keys. +∞ for a hit with ε = 0.
    """
    log_power = _log_distance_power(squared_distances(inputs, keys), power)
    log_epsilon = torch.as_tensor(epsilon, dtype=log_power.dtype, device=log_power.device).log()
    return -torch.logaddexp(log_epsilon, log_power)


def scores_of(
    method: Method, parameters: Mapping[str, ParameterValue | Tensor], inputs: Tensor, keys: Tensor
) -> Tensor:
    """Return the scores of any registered method, built in or from a plugin."""
    function = method.score
    if isinstance(function, str):
        module, _, name = function.partition(":")
        function = getattr(importlib.import_module(module), name)
    return cast(Tensor, function(inputs, keys, **parameters))


def attention_weights(
    method: Method, scores: Float[Tensor, "*stack batch prototypes"]
) -> Float[Tensor, "*stack batch prototypes"]:
    """Return relu(scores) or the softmax over prototypes, as the method says.

    Scores of +∞ (hits with ε = 0) share the weight equally: the limit of ε → 0. No gradient flows to the scores of
    such an input.
    """
    if method.weighting == "relu":
        return scores.relu()
    hits = torch.isposinf(scores)
    shared = torch.zeros_like(scores).masked_fill(~hits, -math.inf)
    return torch.where(hits.any(-1, keepdim=True), shared, scores).softmax(-1)


def prototype_logits(
    method: Method,
    parameters: Mapping[str, ParameterValue | Tensor],
    inputs: Float[Tensor, "*#runs batch features"],
    keys: Float[Tensor, "*#runs prototypes features"],
    values: Float[Tensor, "*#runs prototypes classes"],
) -> Float[Tensor, "*#runs batch classes"]:
    """Return logits = weights · V, the whole forward pass of a prototype network."""
    return attention_weights(method, scores_of(method, parameters, inputs, keys)) @ values


def _log_distance_power(sq_dist: Tensor, power: Number) -> Tensor:
    """Return p·log d, −∞ for a hit; the masked argument keeps 0·∞ out of the gradient."""
    hits = sq_dist <= HIT_SQ_DIST
    log_distance = 0.5 * torch.where(hits, 1.0, sq_dist).log()
    return torch.where(hits, -math.inf, power * log_distance)


def _bounded_exp(exponent: Tensor) -> Tensor:
    """Return exp(x) up to x = log 1e9 and its tangent beyond: finite, ordered as exp is, with finite gradients."""
    tangent = math.exp(EXP_BOUND) * (1 + (exponent - EXP_BOUND))
    return torch.where(exponent <= EXP_BOUND, exponent.clamp(max=EXP_BOUND).exp(), tangent)


def _unit(vectors: Tensor) -> Tensor:
    """Return vectors / norm, and 0 for the zero vector, with zero gradient there."""
    sq_norm = vectors.square().sum(-1, keepdim=True)
    is_zero = sq_norm == 0
    return torch.where(is_zero, 0.0, vectors) / torch.where(is_zero, 1.0, sq_norm).sqrt()
