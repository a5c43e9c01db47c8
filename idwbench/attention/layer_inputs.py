"""Checks of the inputs of attention layers, with the kinds of errors of `torch.nn.MultiheadAttention`."""

from typing import TYPE_CHECKING

from torch import Tensor

from idwbench.attention.masks import Masks, additive_mask

if TYPE_CHECKING:
    from torch.nn import MultiheadAttention

__all__ = ["check_inputs", "layer_masks"]


def check_inputs(layer: "MultiheadAttention", query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether the inputs have a batch axis.

    Raises:
        AssertionError: the inputs are nested tensors, or their shapes do not fit the layer or each other.
    """
    if query.is_nested or key.is_nested or value.is_nested:
        raise AssertionError("nested tensors are not supported; use key_padding_mask")
    if query.dim() not in (2, 3):
        raise AssertionError(f"query should be 2-D (unbatched) or 3-D (batched), got {query.dim()}-D")
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"key and value should be {query.dim()}-D like query, got {key.dim()}-D and {value.dim()}-D"
        )
    for name, tensor, features in (
        ("query", query, layer.embed_dim),
        ("key", key, layer.kdim),
        ("value", value, layer.vdim),
    ):
        if tensor.shape[-1] != features:
            raise AssertionError(f"{name} should have {features} features, got {tensor.shape[-1]}")
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(
            f"key and value should have the same length and batch, got {_sizes(key)} and {_sizes(value)}"
        )
    axis = 0 if layer.batch_first else 1
    if query.dim() == 3 and query.shape[axis] != key.shape[axis]:
        raise AssertionError(f"query has a batch of {query.shape[axis]}, and key of {key.shape[axis]}")
    return query.dim() == 3


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


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape[:-1])
