"""From scores to weights to outputs: the forward pass."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from idwbench.attention.distances import stacked_product
from idwbench.attention.masks import broadcast_mask, exclude
from idwbench.attention.records import Method, ParameterValue, Weighting
from idwbench.attention.scores import get_method
from idwbench.attention.weightings import WEIGHTINGS, get_weighting
from idwbench.errors import ConfigError

__all__ = ["apply_weighting", "attend", "attention_weights", "prototype_logits", "scores"]


def scores(inputs: Tensor, keys: Tensor, method: str = "idw", **parameters: Any) -> Tensor:
    """Return the scores (…, batch, prototypes) of `inputs` (…, batch, features) and `keys` (…, prototypes, features).

    `method` is the name of a registered method; its `parameters` have defaults.

    Raises:
        ConfigError: unknown method or parameter, or a value out of range.
    """
    chosen = get_method(method)
    result: Tensor = chosen.score(inputs, keys, **chosen.resolve(parameters))
    return result


def attend(
    inputs: Tensor,
    keys: Tensor,
    values: Tensor,
    method: str | None = None,
    *,
    score: str | None = None,
    weighting: str | None = None,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
    **parameters: Any,
) -> Tensor:
    """Return Σ_j a(q, k_j) · v_j (…, batch, outputs), where the weights a are a weighting of scores.

    Shapes: `inputs` q (…, batch, features), `keys` k (…, prototypes, features), `values` v (…, prototypes, outputs).

    Args:
        inputs: The queries.
        keys: The keys.
        values: The values.
        method: The name of a registered method, by default ``idw``: its score, and its weighting if no other is given.
        score: Another name of the argument `method`.
        weighting: The name of a weighting in `WEIGHTINGS`, see `idwbench.attention.weightings`.
        mask: Broadcasts to (…, batch, prototypes). A boolean mask is True at keys that are excluded; a floating-point
            mask is added to the scores. A softmax over no key is NaN.
        dropout: Probability with which a weight is set to 0; the others are divided by 1 − dropout.
        generator: Source of the randomness of `dropout`, by default PyTorch's own.
        parameters: Parameters of the score and of the weighting, such as ``k`` of ``top_k``; they have defaults.

    Raises:
        ConfigError: unknown method, weighting or parameter, a value out of range, a mask of a wrong shape or type, or
            both `method` and `score`.
    """
    if method is not None and score is not None:
        raise ConfigError("is given as 'method' already", location=("score",))
    by_name = get_method(method or score or "idw")
    if not 0 <= dropout < 1:
        raise ConfigError(f"must be >= 0 and < 1, got {dropout!r}", location=("dropout",))
    if weighting is None and mask is None and dropout == 0:
        return prototype_logits(by_name, by_name.resolve(parameters), inputs, keys, values)
    chosen = get_weighting(weighting or by_name.weighting)
    # A name that the score has too is the score's.
    is_weightings = {name: chosen.takes(name) and not by_name.takes(name) for name in parameters}
    of_score = by_name.resolve({name: value for name, value in parameters.items() if not is_weightings[name]})
    of_weighting = chosen.resolve({name: value for name, value in parameters.items() if is_weightings[name]})
    result = chosen.own_score(inputs, keys) if chosen.own_score else by_name.score(inputs, keys, **of_score)
    weights = apply_weighting(chosen, of_weighting, exclude(result, broadcast_mask(mask, result)))
    if dropout > 0:
        weights = weights * torch.empty_like(weights).bernoulli_(1 - dropout, generator=generator) / (1 - dropout)
    return stacked_product(weights, values)


def attention_weights(
    method: Method, scores: Float[Tensor, "*stack batch prototypes"]
) -> Float[Tensor, "*stack batch prototypes"]:
    """Return relu(scores) or the softmax over prototypes, by the method's weighting.

    Scores of +∞ (hits with ε = 0) share the weight equally, the limit of ε → 0, and their gradient is 0.
    """
    if method.weighting == "relu":
        return scores.relu()
    return apply_weighting(WEIGHTINGS["softmax"], {}, scores)


def apply_weighting(
    weighting: Weighting,
    parameters: Mapping[str, ParameterValue],
    scores: Float[Tensor, "*stack keys"],
) -> Float[Tensor, "*stack keys"]:
    """Return the weights of a weighting, over the last axis, with all its parameters given.

    Scores of +∞ (hits with ε = 0) share a weight of 1 equally, whatever the weighting, and the gradient of their row
    is 0. A score of −∞ (a masked key) has weight 0.
    """
    hits = torch.isposinf(scores)
    if not hits.any():
        weights: Tensor = weighting.function(scores, **parameters)
        return weights
    in_row = hits.any(-1, keepdim=True)
    shared = hits.to(scores.dtype) / hits.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(in_row, shared, weighting.function(torch.where(in_row, 0.0, scores), **parameters))


def prototype_logits(
    method: Method,
    parameters: Mapping[str, ParameterValue | Tensor],
    inputs: Float[Tensor, "*#runs batch features"],
    keys: Float[Tensor, "*#runs prototypes features"],
    values: Float[Tensor, "*#runs prototypes outputs"],
) -> Float[Tensor, "*#runs batch outputs"]:
    """Return weights · V, the forward pass of a prototype network."""
    weights = attention_weights(method, method.score(inputs, keys, **parameters))
    return stacked_product(weights, values)
