"""Masks of attention over sequences, with the shapes and conventions of `torch.nn.MultiheadAttention`.

A boolean mask is True where a query may not attend to a key; a floating-point mask is added to the scores. Inside, all
masks are added to the scores, and −∞ excludes a key.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from idwbench.errors import ConfigError

if TYPE_CHECKING:
    from torch.nn import MultiheadAttention

__all__ = ["Masks", "additive_mask", "broadcast_mask", "layer_masks"]


class Masks(NamedTuple):
    """The masks of one call for queries (batch, heads, L, …) and keys (batch, heads, S, …).

    Attributes:
        attention: Added to the scores, (1 or batch, 1 or heads, L, S), or None.
        padding: Added to the scores, (batch, 1, 1, S), or None.
        causal: Whether query i may attend to keys 0 … i only.
    """

    attention: Tensor | None = None
    padding: Tensor | None = None
    causal: bool = False

    def rows(self, start: int, stop: int, n_keys: int, like: Tensor) -> Tensor | None:
        """Return the sum of the masks for queries `start` to `stop` and the first `n_keys` keys, or None."""
        parts = []
        if self.attention is not None:
            parts.append(self.attention[..., start:stop, :n_keys])
        if self.padding is not None:
            parts.append(self.padding[..., :n_keys])
        if self.causal:
            parts.append(_causal_rows(start, stop, n_keys, like))
        return sum(parts[1:], parts[0]) if parts else None

    def extended(self, n_queries: int, n_keys: int, extra: int, like: Tensor) -> "Masks":
        """Return masks for `extra` more keys at the end, which every query may attend to."""
        attention = self.attention
        if self.causal:
            causal = _causal_rows(0, n_queries, n_keys, like)
            attention = causal[None, None] if attention is None else attention + causal
        pad = (0, extra)
        return Masks(
            None if attention is None else functional.pad(attention, pad),
            None if self.padding is None else functional.pad(self.padding, pad),
        )


def _causal_rows(start: int, stop: int, n_keys: int, like: Tensor) -> Tensor:
    queries = torch.arange(start, stop, device=like.device)
    future = torch.arange(n_keys, device=like.device) > queries[:, None]
    return torch.zeros(future.shape, dtype=like.dtype, device=like.device).masked_fill(future, -math.inf)


def additive_mask(mask: Tensor | None, name: str, like: Tensor) -> Tensor | None:
    """Return a boolean or floating-point mask as numbers to be added to scores, of the type of `like`.

    Raises:
        AssertionError: the mask is neither boolean nor floating-point.
    """
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=like.dtype, device=mask.device).masked_fill(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")
    return mask.to(like.dtype)


def broadcast_mask(mask: object, scores: Tensor) -> Tensor | None:
    """Return a boolean or floating-point mask as numbers that are added to `scores`.

    Raises:
        ConfigError: the mask does not broadcast to the scores, or is neither boolean nor floating-point.
    """
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise ConfigError(f"expected a tensor, got {type(mask).__name__}", location=("mask",))
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ConfigError(f"expected a boolean or floating-point tensor, got {mask.dtype}", location=("mask",))
    extended = (1,) * (scores.dim() - mask.dim()) + tuple(mask.shape)
    if len(extended) != scores.dim() or any(n not in (1, size) for n, size in zip(extended, scores.shape, strict=True)):
        expected, shape = tuple(scores.shape), tuple(mask.shape)
        raise ConfigError(f"expected a shape that broadcasts to {expected}, got {shape}", location=("mask",))
    return additive_mask(mask, "mask", scores)


def layer_masks(
    layer: "MultiheadAttention",
    query: Tensor,
    key: Tensor,
    padding: Tensor | None,
    attention: Tensor | None,
    is_causal: bool,
    need_weights: bool,
) -> Masks:
    """Return the masks of checked inputs.

    Raises:
        AssertionError: `padding` is of a wrong shape, or a mask is neither boolean nor floating-point.
        RuntimeError: `attention` is of a wrong shape.
    """
    axis = 0 if layer.batch_first or query.dim() == 2 else 1
    batch = query.shape[axis] if query.dim() == 3 else 1
    n_queries, n_keys = (tensor.shape[query.dim() - 2 - axis] for tensor in (query, key))
    padding = additive_mask(padding, "key_padding_mask", query)
    attention = additive_mask(attention, "attn_mask", query)
    if padding is not None:
        expected = (batch, n_keys) if query.dim() == 3 else (n_keys,)
        if padding.shape != expected:
            raise AssertionError(f"key_padding_mask should have the shape {expected}, got {tuple(padding.shape)}")
        padding = padding.reshape(batch, 1, 1, n_keys)
    if attention is not None:
        per_head = (batch * layer.num_heads, n_queries, n_keys)
        if attention.shape not in (per_head[1:], per_head):
            shape = tuple(attention.shape)
            raise RuntimeError(f"attn_mask should have the shape {per_head[1:]} or {per_head}, got {shape}")
        n_batches, n_heads = (batch, layer.num_heads) if attention.dim() == 3 else (1, 1)
        attention = attention.reshape(n_batches, n_heads, n_queries, n_keys)
    # PyTorch too trusts the hint only where it saves work, so that a mask which is not causal has the same effect.
    trusted = is_causal and padding is None and not need_weights and layer.bias_k is None and not layer.add_zero_attn
    if is_causal and (attention is None or trusted):
        return Masks(None, padding, causal=True)
    return Masks(attention, padding)
