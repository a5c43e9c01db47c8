"""Mean and spread of one metric over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Statistic", "statistic"]


@dataclass(frozen=True)
class Statistic:
    """Mean and sample standard deviation (n − 1, None for n = 1) of a metric over n seeds.

    Attributes:
        values: The metric by seed.
        best: Whether the mean is the best, or cannot be distinguished from it.
        p_value: That of the paired test against the best mean; None if not tested.
    """

    mean: float
    std: float | None
    values: Mapping[int, float] = field(repr=False)
    best: bool = False
    p_value: float | None = None

    @property
    def n(self) -> int:
        """Number of seeds."""
        return len(self.values)


def statistic(by_seed: Mapping[int, float | None]) -> Statistic | None:
    """Return the statistic of the finite values; None if there are none."""
    values = {seed: value for seed, value in by_seed.items() if value is not None and math.isfinite(value)}
    n = len(values)
    if not n:
        return None
    # Relative to the lowest value, so that equal values have no spread; with `fsum` the order does not matter.
    low = min(values.values())
    mean = low + math.fsum(value - low for value in values.values()) / n
    variance = math.fsum((value - mean) ** 2 for value in values.values()) / (n - 1) if n > 1 else None
    return Statistic(mean, None if variance is None else math.sqrt(variance), values)
