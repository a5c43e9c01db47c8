"""From scores to weights to outputs: the forward pass."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from idwbench.attention.definitions import Method, ParameterValue
from idwbench.attention.distances import stacked_product
from idwbench.attention.methods import get_method, resolve_parameters

__all__ = ["attend", "attention_weights", "prototype_logits", "scores", "scores_of"]


def scores(inputs: Tensor, keys: Tensor, method: str = "idw", **parameters: Any) -> Tensor:
    """Return the scores (…, batch, prototypes) of `inputs` (…, batch, features) and `keys` (…, prototypes, features).

    `method` is the name of a registered method; its `parameters` have defaults.

    Raises:
        ConfigError: unknown method or parameter, or a value out of range.
    """
    found = get_method(method)
    return scores_of(found, resolve_parameters(found, parameters), inputs, keys)


def attend(inputs: Tensor, keys: Tensor, values: Tensor, method: str = "idw", **parameters: Any) -> Tensor:
    """Return Σ_j a(q, k_j) · v_j (…, batch, outputs) with the weights a of `method`.

    Shapes: `inputs` q (…, batch, features), `keys` k (…, prototypes, features), `values` v (…, prototypes, outputs).

    Raises:
        ConfigError: unknown method or parameter, or a value out of range.
    """
    found = get_method(method)
    return prototype_logits(found, resolve_parameters(found, parameters), inputs, keys, values)


def scores_of(
    method: Method, parameters: Mapping[str, ParameterValue | Tensor], inputs: Tensor, keys: Tensor
) -> Tensor:
    """Return the scores of a method with all its parameters given."""
    result: Tensor = method.score(inputs, keys, **parameters)
    return result


def attention_weights(
    method: Method, scores: Float[Tensor, "*stack batch prototypes"]
) -> Float[Tensor, "*stack batch prototypes"]:
    """Return relu(scores) or the softmax over prototypes, by the method's weighting.

    Scores of +∞ (hits with ε = 0) share the weight equally, the limit of ε → 0, and their gradient is 0.
    """
    if method.weighting == "relu":
        return scores.relu()
    hits = torch.isposinf(scores)
    if not hits.any():
        return scores.softmax(-1)
    shared = torch.zeros_like(scores).masked_fill(~hits, -math.inf)
    return torch.where(hits.any(-1, keepdim=True), shared, scores).softmax(-1)


def prototype_logits(
    method: Method,
    parameters: Mapping[str, ParameterValue | Tensor],
    inputs: Float[Tensor, "*#runs batch features"],
    keys: Float[Tensor, "*#runs prototypes features"],
    values: Float[Tensor, "*#runs prototypes outputs"],
) -> Float[Tensor, "*#runs batch outputs"]:
    """Return weights · V, the forward pass of a prototype network."""
    weights = attention_weights(method, scores_of(method, parameters, inputs, keys))
    return stacked_product(weights, values)
