"""From scores to weights to outputs: the forward pass."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from idwbench.attention.definitions import Method, ParameterValue, WeightingDefinition
from idwbench.attention.distances import stacked_product
from idwbench.attention.masks import broadcast_mask, exclude
from idwbench.attention.methods import get_method, resolve_parameters
from idwbench.attention.weighting_functions import WEIGHTINGS, get_weighting
from idwbench.errors import ConfigError

__all__ = [
    "WEIGHTINGS",
    "attend",
    "attention_weights",
    "get_weighting",
    "prototype_logits",
    "scores",
    "scores_of",
    "weights_of",
]


def scores(inputs: Tensor, keys: Tensor, method: str = "idw", **parameters: Any) -> Tensor:
    """Return the scores (…, batch, prototypes) of `inputs` (…, batch, features) and `keys` (…, prototypes, features).

    `method` is the name of a registered method; its `parameters` have defaults.

    Raises:
        ConfigError: unknown method or parameter, or a value out of range.
    """
    found = get_method(method)
    return scores_of(found, resolve_parameters(found, parameters), inputs, keys)


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
        weighting: The name of a weighting in `WEIGHTINGS`, see `idwbench.attention.weighting_functions`.
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
    found = get_method(method or score or "idw")
    if not 0 <= dropout < 1:
        raise ConfigError(f"must be >= 0 and < 1, got {dropout!r}", location=("dropout",))
    if weighting is None and mask is None and dropout == 0:
        return prototype_logits(found, resolve_parameters(found, parameters), inputs, keys, values)
    chosen = get_weighting(weighting or found.weighting)
    of_weighting = _weighting_parameters(chosen, found, parameters)
    given = resolve_parameters(found, {name: parameters[name] for name in parameters if name not in of_weighting})
    result = chosen.own_score(inputs, keys) if chosen.own_score else scores_of(found, given, inputs, keys)
    weights = weights_of(chosen, of_weighting, exclude(result, broadcast_mask(mask, result)))
    if dropout > 0:
        weights = weights * torch.empty_like(weights).bernoulli_(1 - dropout, generator=generator) / (1 - dropout)
    return stacked_product(weights, values)


def _weighting_parameters(
    weighting: WeightingDefinition, method: Method, given: Mapping[str, Any]
) -> dict[str, ParameterValue]:
    """Return all parameters of a weighting; a name that the score has too is the score's."""
    of_score = {parameter.name for parameter in method.parameters}
    return {
        p.name: p.parse(p.default if p.name in of_score else given.get(p.name, p.default)) for p in weighting.parameters
    }


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
    return weights_of(WEIGHTINGS["softmax"], {}, scores)


def weights_of(
    weighting: WeightingDefinition,
    parameters: Mapping[str, ParameterValue],
    scores: Float[Tensor, "*stack keys"],
) -> Float[Tensor, "*stack keys"]:
    """Return the weights of a weighting, over the last axis, with all its parameters given.

    Scores of +∞ (hits with ε = 0) share a weight of 1 equally, whatever the weighting, and the gradient of their row
    is 0. A score of −∞ (a masked key) has weight 0.
    """
    hits = torch.isposinf(scores)
    if not hits.any():
        return _applied(weighting, parameters, scores)
    in_row = hits.any(-1, keepdim=True)
    shared = hits.to(scores.dtype) / hits.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(in_row, shared, _applied(weighting, parameters, torch.where(in_row, 0.0, scores)))


def _applied(weighting: WeightingDefinition, parameters: Mapping[str, ParameterValue], scores: Tensor) -> Tensor:
    weights: Tensor = weighting.function(scores, **parameters)
    return weights


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
