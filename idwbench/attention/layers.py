"""Multi-head attention with any score: layers with the interface of `torch.nn.MultiheadAttention`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from idwbench.attention.forward import apply_weighting
from idwbench.attention.learned_scores import LearnedScore
from idwbench.attention.masks import Masks, layer_masks
from idwbench.attention.records import LEARNED_NUMBERS
from idwbench.attention.sequences import AdditiveScore, MethodScore, PairScore, SequenceAttention, WeightingScore
from idwbench.attention.weightings import get_weighting
from idwbench.errors import ConfigError

__all__ = ["MultiheadAttention", "SelfAttention"]


class MultiheadAttention(nn.MultiheadAttention):
    """Multi-head attention with any score: out_proj(concat_h Σ_j a(q_hi, k_hj) · v_hj).

    q, k and v are linear projections of the inputs (Vaswani et al. 2017, section 3.2.2), and the weights a are those
    of a score and a weighting. Arguments, shapes, masks and the names and shapes of parameters are those of
    `torch.nn.MultiheadAttention`, and state dicts can be exchanged with it. With ``score="scaled_dot"`` the results
    are the same too.

    Args:
        embed_dim: Features of the queries and of the output.
        num_heads: Number of heads; each has embed_dim / num_heads features.
        score: Name of a method, whose score is used, or ``additive``, which has learned weights and the parameters
            ``form`` (``tanh`` or ``linear``) and ``hidden`` (by default the features of a head).
        weighting: Name of a weighting: how scores become weights.
        dropout: Probability with which a weight is set to 0 in training.
        bias: Whether the projections have a bias.
        add_bias_kv: Whether a learned key and value are added to the sequence.
        add_zero_attn: Whether a key and value of zeros are added to each head.
        kdim: Features of the keys; by default `embed_dim`.
        vdim: Features of the values; by default `embed_dim`.
        batch_first: Whether inputs are (batch, length, features) instead of (length, batch, features).
        device: Device of the parameters.
        dtype: Type of the parameters.
        qk_norm: Whether queries and keys are normalised, with a learned scale: ``none``, ``rms`` or ``l2``, see
            `idwbench.attention.learned_scores.LearnedScore`.
        learned_power: Whether the power of the score is learned, for each head.
        learned_temperature: Whether scores are divided by a learned number, for each head.
        **parameters: Parameters of the score, such as ``power`` and ``epsilon``, and of the weighting, such as ``k``.

    Raises:
        ValueError: unknown score, weighting or parameter, a parameter out of range, or a size that is not positive.
        AssertionError: `num_heads` does not divide `embed_dim`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        score: str = "idw",
        weighting: str = "softmax",
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        qk_norm: str = "none",
        learned_power: bool = False,
        learned_temperature: bool = False,
        **parameters: Any,
    ) -> None:
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )
        self.score, self.weighting = score, weighting
        with _value_errors():
            chosen = get_weighting(weighting)
            own = {name for name in parameters if chosen.takes(name)}
            self.weighting_parameters = chosen.resolve({name: parameters[name] for name in own})
            others = {name: value for name, value in parameters.items() if name not in own}
            pair_score = _pair_score(score, others, (num_heads, self.head_dim), device=device, dtype=dtype)
            self.pair_score = pair_score if chosen.own_score is None else WeightingScore(chosen.own_score)
            learned = {"qk_norm": qk_norm, "learned_power": learned_power, "learned_temperature": learned_temperature}
            if learned != LEARNED_NUMBERS:
                self.pair_score = self._learned(learned, device=device, dtype=dtype)
        if self.pair_score != MethodScore("scaled_dot") or weighting != "softmax":
            # Otherwise `torch.nn.TransformerEncoderLayer` computes the scaled dot product itself in evaluation.
            self._qkv_same_embed_dim = False

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (…, L, embed_dim), and the weights after dropout if `need_weights`, otherwise None.

        Shapes: `query` (L, batch, embed_dim), `key` (S, batch, kdim) and `value` (S, batch, vdim), with the first two
        axes exchanged if `batch_first`, and without batch for unbatched inputs; `key_padding_mask` (batch, S);
        `attn_mask` (L, S) or (batch · num_heads, L, S); weights (batch, L, S), the mean over heads, or
        (batch, num_heads, L, S) if not `average_attn_weights`. A boolean mask is True at keys that are excluded; a
        floating-point mask is added to the scores. With `is_causal` and no `attn_mask`, query i attends to keys 0 … i;
        with both, `is_causal` says that `attn_mask` is this mask.

        A query that may attend to no key gets NaN with weights and 0 without, as in PyTorch.

        Raises:
            AssertionError: inputs or `key_padding_mask` of a wrong shape, or a mask of a wrong type.
            RuntimeError: `attn_mask` of a wrong shape.
        """
        batched = _check_inputs(self, query, key, value)
        masks = layer_masks(self, query, key, key_padding_mask, attn_mask, is_causal, need_weights)
        q, k, v = (self._heads(part) for part in self._project(query, key, value))
        q, k, v, masks = self._with_extra_keys(q, k, v, masks)
        output, weights = self._attend(q, k, v, masks, need_weights)
        output = self.out_proj(output.transpose(1, 2).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output if self.batch_first else output.transpose(0, 1), weights

    def extra_repr(self) -> str:
        """Return the settings for `repr`."""
        return f"{self.embed_dim}, {self.num_heads}, score={self.score!r}, weighting={self.weighting!r}"

    def _learned(self, learned: dict[str, Any], **factory: Any) -> LearnedScore:
        """Return the score of the layer with learned numbers; raises `ConfigError` if it can have none."""
        if not isinstance(self.pair_score, MethodScore):
            problem = f"not with the score '{self.score}' and the weighting '{self.weighting}'"
            raise ConfigError(
                problem, location=(next(name for name in learned if learned[name] != LEARNED_NUMBERS[name]),)
            )
        return LearnedScore(self.pair_score, self.head_dim, self.num_heads, **learned, **factory)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Return q, k and v; the inputs of self-attention are multiplied once."""
        if not self.kdim == self.vdim == self.embed_dim:
            weights: tuple[Tensor, ...] = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        elif query is key and key is value:
            return functional.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            weights = self.in_proj_weight.chunk(3)
        bias = cast(Tensor | None, self.in_proj_bias)
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        return tuple(map(functional.linear, (query, key, value), weights, biases))

    def _heads(self, projected: Tensor) -> Tensor:
        """Return (batch, heads, length, head_dim)."""
        if projected.dim() == 2:
            projected = projected.unsqueeze(0)
        elif not self.batch_first:
            projected = projected.transpose(0, 1)
        return projected.view(*projected.shape[:-1], self.num_heads, self.head_dim).transpose(1, 2)

    def _with_extra_keys(self, q: Tensor, k: Tensor, v: Tensor, masks: Masks) -> tuple[Tensor, Tensor, Tensor, Masks]:
        """Return q, k and v with the learned key and value, then the zeros; no mask excludes them."""
        n_keys = k.shape[2]
        if self.bias_k is not None and self.bias_v is not None:
            shape = (1, self.num_heads, 1, self.head_dim)
            extra = (bias.reshape(shape).expand(len(k), -1, -1, -1) for bias in (self.bias_k, self.bias_v))
            k, v = (torch.cat(pair, 2) for pair in zip((k, v), extra, strict=True))
        if self.add_zero_attn:
            k, v = (functional.pad(part, (0, 0, 0, 1)) for part in (k, v))
        if k.shape[2] > n_keys:
            masks = masks.extended(q.shape[2], n_keys, k.shape[2] - n_keys, q)
        return q, k, v, masks

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, masks: Masks, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        attention = SequenceAttention(
            self.pair_score, self.weighting, self.dropout if self.training else 0.0, self.weighting_parameters
        )
        enabled = torch.is_autocast_enabled(q.device.type) and self.pair_score.autocasts
        with torch.autocast(q.device.type, enabled=enabled):
            if need_weights:
                return attention.with_weights(q, k, v, masks)
            return attention.without_weights(q, k, v, masks), None


class SelfAttention(MultiheadAttention):
    """Multi-head attention of a sequence to itself: out_proj(concat_h Σ_j a(q_hi, k_hj) · v_hj).

    q, k and v are linear projections of one sequence (L, batch, embed_dim), or (batch, L, embed_dim) with
    ``batch_first=True``; the output has the shape of the sequence. Names and shapes of parameters are the same as in
    `MultiheadAttention`, so that state dicts can be exchanged with it and with `torch.nn.MultiheadAttention`.

    Args:
        embed_dim: Features of the sequence and of the output.
        num_heads: Number of heads; each has embed_dim / num_heads features.
        score: Name of a method, whose score is used, or ``additive``.
        weighting: Name of a weighting: how scores become weights.
        dropout: Probability with which a weight is set to 0 in training.
        **parameters: Parameters of the score and of the weighting. All other arguments are as for `MultiheadAttention`.

    Raises:
        ValueError: unknown score, weighting or parameter, a parameter out of range, or a size that is not positive.
        AssertionError: `num_heads` does not divide `embed_dim`.

    Example:
        >>> import torch
        >>> from idwbench import SelfAttention
        >>> layer = SelfAttention(16, 4, "idw", power=2, batch_first=True)
        >>> output, weights = layer(torch.randn(2, 5, 16))
        >>> output.shape, weights.shape
        (torch.Size([2, 5, 16]), torch.Size([2, 5, 5]))
    """

    def forward(  # type: ignore[override]
        self,
        inputs: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (…, L, embed_dim), and the weights after dropout if `need_weights`, otherwise None.

        `inputs` (L, batch, embed_dim), or (batch, L, embed_dim) if `batch_first`, are query, key and value. The masks,
        the other arguments, the shapes and the errors are those of `MultiheadAttention.forward`.
        """
        return super().forward(
            inputs, inputs, inputs, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )

    def scores_and_weights(self, inputs: Tensor, *, is_causal: bool = False) -> tuple[Tensor, Tensor]:
        """Return the scores and the weights (batch, num_heads, L, L) of a batch, without dropout and extra keys.

        With `is_causal` the scores of later keys are −∞.
        """
        q, k, _ = (self._heads(part) for part in self._project(inputs, inputs, inputs))
        scores = self.pair_score.scores(*self.pair_score.prepare(q, k))
        if is_causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        return scores, apply_weighting(get_weighting(self.weighting), self.weighting_parameters, scores)


@contextmanager
def _value_errors() -> Iterator[None]:
    """Raise errors of settings as `ValueError`, as PyTorch's layers do; what is a method elsewhere is a score here."""
    try:
        yield
    except ConfigError as error:
        location = () if error.location in (("method",), ("weighting",)) else error.location
        problem = error.problem.replace("method", "score", 1)
        raise ValueError(str(ConfigError(problem, location=location, hint=error.hint))) from None


def _pair_score(score: str, parameters: dict[str, Any], shape: tuple[int, int], **factory: Any) -> PairScore:
    if score == "additive":
        unknown = sorted(parameters.keys() - {"form", "hidden"})
        if unknown:
            raise ValueError(f"score 'additive' does not take '{unknown[0]}' (it takes form, hidden)")
        return AdditiveScore(*shape, **{**parameters, **factory})
    if not isinstance(score, str):
        raise ValueError(f"score must be a name, got {score!r}")
    if score == "fc_relu":
        raise ValueError("'fc_relu' is the score 'scaled_dot' with the weighting 'relu', without the scale")
    return MethodScore(score, parameters)


def _check_inputs(layer: MultiheadAttention, query: Tensor, key: Tensor, value: Tensor) -> bool:
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
            f"key and value should have the same length and batch, got {tuple(key.shape[:-1])} "
            f"and {tuple(value.shape[:-1])}"
        )
    axis = 0 if layer.batch_first else 1
    if query.dim() == 3 and query.shape[axis] != key.shape[axis]:
        raise AssertionError(f"query has a batch of {query.shape[axis]}, and key of {key.shape[axis]}")
    return query.dim() == 3
