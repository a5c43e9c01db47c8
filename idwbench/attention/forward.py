"""From scores to weights to outputs: the forward pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from idwbench.attention.distances import stacked_product
from idwbench.attention.masks import broadcast_mask
from idwbench.attention.records import Method, ParameterValue, Weighting
from idwbench.attention.scores import DistanceScore, get_method
from idwbench.attention.slopes import FlatSlopes, slope_terms
from idwbench.attention.weightings import WEIGHTINGS, get_weighting
from idwbench.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["apply_weighting", "attend", "attention_weights", "prototype_logits", "scores"]

# The expected shapes, for messages.
_SHAPES = {"inputs": "(…, batch, features)", "keys": "(…, prototypes, features)", "values": "(…, prototypes, outputs)"}


def scores(inputs: Tensor, keys: Tensor, method: str = "idw", **parameters: Any) -> Tensor:
    """Return the scores s(x_i, k_j) of all pairs of an input and a key, such as −log(ε + ‖x_i − k_j‖^p) of ``idw``.

    Shapes: `inputs` x (…, batch, features) and `keys` k (…, prototypes, features) give scores (…, batch, prototypes);
    the leading axes broadcast. The scores have the type of the inputs. They are computed in float32 at least, and in
    float64 where d² may exceed float32. Gradients with respect to inputs and keys are those of autograd.

    Args:
        inputs: The inputs, or queries.
        keys: The keys.
        method: The name of a registered method: ``idw``, ``inv_dist``, ``neg_dist``, ``gaussian``, ``cosine``,
            ``scaled_dot``, ``additive``, ``fc_relu``, or one of your own.
        parameters: Parameters of the method, such as ``power`` and ``epsilon``; they have defaults. The arrays that
            ``additive`` learns are tensors: ``query_weight`` and ``key_weight`` (hidden, features), ``vector``
            (hidden,), with leading axes as the inputs if any.

    Raises:
        ConfigError: unknown method or parameter, a value out of range, or tensors that are missing, or whose shapes,
            types or devices do not fit.

    Example:
        >>> import torch
        >>> from idwbench import scores
        >>> scores(torch.tensor([[0.0, 3.0]]), torch.tensor([[0.0, 0.0], [4.0, 0.0]]), "neg_dist")
        tensor([[ -9., -25.]])
    """
    chosen = get_method(method)
    _check_tensors({"inputs": inputs, "keys": keys})
    learned, given = _learned(chosen, parameters, inputs)
    resolved = chosen.resolve(given)
    dtype = _computing_type(chosen, inputs, keys)
    learned = {name: tensor.to(dtype) for name, tensor in learned.items()}
    result: Tensor = chosen.scores(inputs.to(dtype), keys.to(dtype), {**resolved, **learned})
    return result.to(inputs.dtype)


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
    The result has their type; it is computed in float32 at least, and in float64 where d² may exceed float32.

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
        parameters: Parameters of the score, as for `scores`, and of the weighting, such as ``k`` of ``top_k``; they
            have defaults.

    Raises:
        ConfigError: unknown method, weighting or parameter, a value out of range, tensors or a mask that are missing or
            whose shapes, types or devices do not fit, or both `method` and `score`.
    """
    if method is not None and score is not None:
        raise ConfigError("is given as 'method' already", location=("score",))
    by_name = get_method(method or score or "idw")
    chosen = get_weighting(weighting or by_name.weighting)
    _check_dropout(dropout)
    _check_tensors({"inputs": inputs, "keys": keys, "values": values})
    learned, given = ({}, parameters) if chosen.own_score else _learned(by_name, parameters, inputs)
    score_parameters, weighting_parameters = _split(by_name, chosen, given)
    dtype = _computing_type(by_name, inputs, keys)
    score_parameters |= {name: tensor.to(dtype) for name, tensor in learned.items()}
    compare = chosen.own_score or partial(by_name.scores, parameters=score_parameters)
    result: Tensor = compare(inputs.to(dtype), keys.to(dtype))
    weights = apply_weighting(chosen, weighting_parameters, result, broadcast_mask(mask, result))
    if dropout > 0:
        weights = weights * torch.empty_like(weights).bernoulli_(1 - dropout, generator=generator) / (1 - dropout)
    return stacked_product(weights, values.to(dtype)).to(inputs.dtype)


def _learned(method: Method, given: Mapping[str, Any], inputs: Tensor) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the arrays that a score learns, and all else that was given with the sizes that they have.

    Raises:
        ConfigError: an array is missing, or is no tensor of the type and with the axes that it needs.
    """
    names = [one.name for one in method.learned]
    arrays: dict[str, Tensor] = {}
    sizes = {name: value for name, value in given.items() if name not in names} | {"features": inputs.shape[-1]}
    for one in method.learned:
        array = given.get(one.name)
        axes = f"expected a tensor (…, {', '.join(one.axes)})"
        if not isinstance(array, Tensor) or array.dim() < len(one.axes):
            got = tuple(array.shape) if isinstance(array, Tensor) else type(array).__name__
            raise ConfigError(f"{axes}, which '{method.name}' learns, got {got}", location=(one.name,))
        if (array.dtype, array.device) != (inputs.dtype, inputs.device):
            raise ConfigError(f"{axes} of {inputs.dtype} on {inputs.device}, as inputs", location=(one.name,))
        for axis, size in zip(one.axes, array.shape[-len(one.axes) :], strict=True):
            if sizes.setdefault(axis, size) != size:
                raise ConfigError(f"{axes} with {sizes[axis]} {axis}, got {tuple(array.shape)}", location=(one.name,))
        arrays[one.name] = array
    del sizes["features"]
    return arrays, sizes


def _split(
    method: Method, weighting: Weighting, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, ParameterValue]]:
    """Return all parameters of the score and of the weighting; a name that both have is the score's."""
    names = {name for name in given if weighting.takes(name) and not method.takes(name)}
    score_parameters = method.resolve({name: value for name, value in given.items() if name not in names})
    return score_parameters, weighting.resolve({name: given[name] for name in given if name in names})


def _check_dropout(dropout: object) -> None:
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ConfigError(f"must be >= 0 and < 1, got {dropout!r}", location=("dropout",))


def _check_tensors(tensors: Mapping[str, object]) -> None:
    """Raise `ConfigError` unless ``inputs``, ``keys`` and ``values`` are tensors that fit each other."""
    fitting: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            problem = f"expected a tensor {_SHAPES[name]}, got {type(tensor).__name__}"
        elif not tensor.is_floating_point():
            problem = f"expected floating-point numbers, got {tensor.dtype}"
        elif tensor.dim() < 2:
            problem = f"expected the shape {_SHAPES[name]}, got {tuple(tensor.shape)}"
        else:
            problem = _misfit(name, tensor, fitting)
            fitting[name] = tensor
        if problem:
            raise ConfigError(problem, location=(name,))


def _misfit(name: str, tensor: Tensor, others: Mapping[str, Tensor]) -> str:
    """Return why a tensor does not fit the others, or no text."""
    shape = tuple(tensor.shape)
    for other, before in others.items():
        if (tensor.dtype, tensor.device) != (before.dtype, before.device):
            expected, given = (f"{part.dtype} on {part.device}" for part in (before, tensor))
            return f"expected {expected}, as {other}, got {given}"
        if not all(n == m or 1 in (n, m) for n, m in zip(shape[-3::-1], before.shape[:-2][::-1], strict=False)):
            return f"expected leading axes that broadcast with those of {other} {tuple(before.shape)}, got {shape}"
    if name == "keys" and shape[-1] != others["inputs"].shape[-1]:
        return f"expected {others['inputs'].shape[-1]} features, as inputs, got the shape {shape}"
    if name == "values" and shape[-2] != others["keys"].shape[-2]:
        return f"expected {others['keys'].shape[-2]} rows, one for each key, got the shape {shape}"
    return ""


def _computing_type(method: Method, inputs: Tensor, keys: Tensor) -> torch.dtype:
    """Return float32 in place of smaller types, and float64 where d² may exceed float32."""
    dtype = torch.promote_types(inputs.dtype, torch.float32)
    if dtype != torch.float32 or not isinstance(method.score, DistanceScore) or not inputs.numel() * keys.numel():
        return dtype
    if torch._C._are_functorch_transforms_active():  # they cannot decide by numbers
        return dtype
    largest = sum(float(part.detach().abs().amax()) for part in (inputs, keys))
    return torch.float64 if inputs.shape[-1] * largest**2 > torch.finfo(dtype).max else dtype


def attention_weights(
    method: Method,
    scores: Float[Tensor, "*stack batch prototypes"],
    parameters: Mapping[str, Any] | None = None,
) -> Float[Tensor, "*stack batch prototypes"]:
    """Return the weights for scores, by the method's weighting with its `parameters` among those of the method.

    Scores of +∞ (hits with ε = 0) share the weight equally, the limit of ε → 0, and their gradient is 0; with ``relu``
    they stay as they are.
    """
    if method.weighting == "relu":
        return scores.relu()
    weighting = WEIGHTINGS[method.weighting]
    own = {one.name: (parameters or {})[one.name] for one in weighting.parameters}
    return apply_weighting(weighting, own, scores)


def apply_weighting(
    weighting: Weighting,
    parameters: Mapping[str, ParameterValue],
    scores: Float[Tensor, "*stack keys"],
    mask: Tensor | None = None,
) -> Float[Tensor, "*stack keys"]:
    """Return the weights of a weighting, over the last axis, with all its parameters given.

    A mask is added to the scores, and −∞ in it excludes a key, even one whose score is +∞.
    Scores of +∞ (hits with ε = 0) share a weight of 1 equally, whatever the weighting, and the gradient of their row
    is 0. A score of −∞ (a masked key) has weight 0.
    """
    if mask is not None:
        scores = (scores + mask).masked_fill(torch.isneginf(mask), -math.inf)
    hits = torch.isposinf(scores)
    if not (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or hits.any()):
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
    slopes: Mapping[str, Tensor] | None = None,
) -> Float[Tensor, "*#runs batch outputs"]:
    """Return Σ_j a_j (v_j + A_j (x − k_j)), the forward pass of a prototype network.

    Args:
        method: Its method.
        parameters: All parameters of the method, and the arrays that its score learns.
        inputs: x.
        keys: k.
        values: v.
        slopes: The `SLOPE_ARRAYS` of A by name, with the axes of runs in front; without any, A is 0.
    """
    weights = attention_weights(method, method.scores(inputs, keys, parameters), parameters)
    outputs = stacked_product(weights, values)
    flat = FlatSlopes.of(slopes or {}, keys)
    return outputs if flat is None else outputs + slope_terms(weights, inputs, *flat)
