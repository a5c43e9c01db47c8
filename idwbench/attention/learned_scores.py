"""Scores with numbers of their own that are learned: normalised queries and keys, a power, and a temperature."""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from idwbench.attention.records import ParameterValue, check_learned_numbers
from idwbench.attention.scores import get_method, unit_vectors
from idwbench.attention.sequences import MethodScore, PairScore, Product

__all__ = ["LearnedScore"]


class LearnedScore(nn.Module, PairScore):
    """score(q̂, k̂; p·exp(π)) / exp(τ), the score of a method with learned numbers; each head has its own.

    - ``qk_norm="rms"``: q̂ = γ ⊙ q / rms(q) with rms(q) = ‖q‖/√features, and k̂ likewise with γ of its own: one scale
      for each feature, the same for all heads (Dehghani et al. 2023, *Scaling Vision Transformers to 22 Billion
      Parameters*, with the mean square in place of the variance).
    - ``qk_norm="l2"``: q̂ = γ √features · q / ‖q‖, and k̂ likewise with the same γ: one scale for each head. The inner
      product is then a learned number times the cosine (Henry et al. 2020, *Query-Key Normalization for Transformers*).
    - ``learned_power``: π is a learned number, so that the power stays above 0.
    - ``learned_temperature``: τ is a learned number.

    Scales begin as 1, π and τ as 0: without normalisation the first scores are those of the method.

    Shapes: queries (…, heads, L, features), keys (…, heads, S, features), scores (…, heads, L, S); without `heads` no
    axis of them, and one number of each kind.

    Args:
        method: The score of the method, with all its parameters; its power is the initial one.
        features: Of queries and keys.
        heads: Number of heads, or None.

    Raises:
        ConfigError: as `check_learned_numbers`.
    """

    def __init__(
        self,
        method: MethodScore,
        features: int,
        heads: int | None = None,
        *,
        qk_norm: str = "none",
        learned_power: bool = False,
        learned_temperature: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        asked = {"qk_norm": qk_norm, "learned_power": learned_power, "learned_temperature": learned_temperature}
        # How scores become weights is a matter of the layer or head.
        check_learned_numbers(replace(get_method(method.name), weighting="softmax"), asked)
        self.method, self.qk_norm, self.heads = method, qk_norm, heads
        shape = () if heads is None else (heads,)

        def number(is_learned: bool, *shape: int, initial: float = 0.0) -> nn.Parameter | None:
            return nn.Parameter(torch.full(shape, initial, device=device, dtype=dtype)) if is_learned else None

        self.query_scale = number(qk_norm == "rms", features, initial=1.0)
        self.key_scale = number(qk_norm == "rms", features, initial=1.0)
        self.scale = number(qk_norm == "l2", *shape, initial=1.0)
        self.log_power = number(learned_power, *shape)
        self.log_temperature = number(learned_temperature, *shape)

    @property
    def pairwise(self) -> bool:
        """Whether the score of a pair depends on no other key."""
        return self.method.pairwise

    @property
    def autocasts(self) -> bool:
        """Whether autocast may lower the precision."""
        return self.method.autocasts

    @property
    def parameters_of_method(self) -> dict[str, ParameterValue | Tensor]:
        """The parameters of the method, with the learned power."""
        if self.log_power is None:
            return {**self.method.parameters}
        power = float(self.method.parameters["power"])
        return {**self.method.parameters, "power": power * self._by_head(self.log_power).exp()}

    def normalised(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return q̂ and k̂."""
        if self.qk_norm == "none":
            return queries, keys
        root = math.sqrt(queries.shape[-1])
        if self.scale is not None:
            scales = (root * self._by_head(self.scale),) * 2
        else:
            assert self.query_scale is not None and self.key_scale is not None
            scales = (root * self.query_scale, root * self.key_scale)
        return unit_vectors(queries) * scales[0], unit_vectors(keys) * scales[1]

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return q̂ and k̂, prepared for the score of the method."""
        return self.method.prepare(*self.normalised(queries, keys))

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of prepared queries and keys."""
        scores = self.method.scores(queries, keys, self.parameters_of_method)
        if self.log_temperature is None:
            return scores
        hits = torch.isposinf(scores)  # whose derivative by the temperature would be NaN
        cooled = scores.masked_fill(hits, 0.0) * self._by_head(-self.log_temperature).exp()
        return cooled.masked_fill(hits, math.inf)

    def product(self, queries: Tensor, keys: Tensor) -> Product | None:
        """Return an equivalent scaled inner product for a softmax, if there is one."""
        product = None if self.log_power is not None else self.method.product(*self.normalised(queries, keys))
        if product is None or self.log_temperature is None:
            return product
        queries, keys, factor = product
        return queries * self._by_head(-self.log_temperature).exp(), keys, factor

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of queries and keys."""
        return self.scores(*self.prepare(queries, keys))

    def extra_repr(self) -> str:
        """Return the settings for `repr`."""
        return f"{self.method.name!r}, qk_norm={self.qk_norm!r}"

    def _by_head(self, numbers: Tensor) -> Tensor:
        """Return numbers (heads,) as (heads, 1, 1), or one number as it is."""
        return numbers if self.heads is None else numbers[:, None, None]
