"""How fast the capacity of lookups grows with the dimensions d: its power law d^b below and above the middle dimension.

What theory says for a softmax of `idw` without scaling: a query is at the squared distance σ_q²·d from its own key and
at about (2σ² + σ_q²)·d from each other, where σ is the standard deviation of keys and σ_q that of noise. So its own
key is about R = ((2σ² + σ_q²)/σ_q²)^(p/2) times that of each other, whatever d is. With values v_j ~ N(0, I) the answer
is nearest to its own value if ‖v_i‖²·(1 − 2(R − 1)/(R + n − 1)) < ‖v_j‖² for all other j, up to the products of
different values, which are smaller. The squared norms are χ² with d degrees of freedom; the capacity is the largest n
for which this has the probability of the threshold. They spread by √(2d), and the own value is ahead by about 2Rd/n, so
that the capacity grows as √d but for a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from idwbench.report.labels import range_label
from idwbench.report.lookups import (
    Capacities,
    CapacityFit,
    capacity_table,
    fit_capacity,
    items_label,
    lookup_capacities,
    predicted_capacity,
)
from idwbench.report.tables import MISSING, Column, Table, nonempty
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import LookupConfig
from idwbench.runs.kinds.hash_table import HashTableConfig
from idwbench.runs.kinds.models import ModelConfig

__all__ = ["capacity_tables", "expected_capacity", "slopes_table"]

_NOTES = (
    "A law is fitted at the dimensions at which no seed is below the smallest or above the largest number of items "
    "that was run, at least 3. 95 % interval: bootstrap over seeds.",
    "by theory: for a softmax of idw, if all weights had the ratio of mean distances. b is that between both ends; it "
    "tends to ½ as d grows.",
)
# Points of the distribution of the norm of a value.
_QUANTILES = 400
_MOST_ITEMS = 1e9


class _Slope(NamedTuple):
    """The power law of one model in a part of the dimensions; None if too few of them can be fitted.

    Attributes:
        dimensions: The outer ones: those that are fitted, or those of the part.
        expected: The items that theory says at these, or None.
    """

    of: Capacities
    dimensions: tuple[int, int]
    fit: CapacityFit | None
    expected: tuple[float, float] | None

    @property
    def items(self) -> tuple[float, float] | None:
        """The items of the law at the outer dimensions."""
        if self.fit is None:
            return None
        first, last = predicted_capacity(self.fit, self.dimensions).tolist()
        return first, last

    @property
    def expected_exponent(self) -> float | None:
        """The exponent that theory says between the outer dimensions."""
        if self.expected is None:
            return None
        (first, last), (low, high) = self.expected, self.dimensions
        return math.log(last / first) / math.log(high / low)

    def record(self) -> dict[str, Any]:
        """Return its numbers with full precision."""
        fit = self.fit
        low, high = (None, None) if fit is None else fit.interval
        return {
            **{"model": self.of.of.label, "data": self.of.of.data, "n": fit and fit.n_seeds},
            **dict(zip(("from_dimensions", "to_dimensions"), self.dimensions, strict=True)),
            **dict(zip(("from_items", "to_items"), self.items or (None, None), strict=True)),
            **{"slope": fit and fit.exponent, "slope_low": low, "slope_high": high},
            **dict(zip(("expected_from_items", "expected_to_items"), self.expected or (None, None), strict=True)),
            "expected_slope": self.expected_exponent,
        }


def capacity_tables(runs: Iterable[StoredRun], threshold: float = 0.99) -> tuple[Table, Table]:
    """Return the tables of the capacities of lookups and of their slopes.

    Raises:
        ConfigError: there is no complete run on ``lookup``.
    """
    capacities = lookup_capacities(runs, threshold)
    return capacity_table(capacities), slopes_table(capacities)


def slopes_table(capacities: Sequence[Capacities]) -> Table:
    """Return the table of power laws below and above the middle dimension, the geometric mean of the outer ones."""
    slopes = [slope for each in capacities for slope in _slopes(each)]
    data = [slope.of.of.data for slope in slopes]
    intervals = [None if slope.fit is None else slope.fit.interval for slope in slopes]
    columns = [
        Column("model", "model", [slope.of.of.label for slope in slopes]),
        *([Column("data", "data", data)] if len(set(data)) > 1 else []),
        Column(
            "dimensions", "dimensions", [f"{low} to {high}" for low, high in (slope.dimensions for slope in slopes)]
        ),
        _numbers("items", [_range(slope.items) for slope in slopes]),
        _numbers("slope b", [MISSING if slope.fit is None else f"{slope.fit.exponent:.2f}" for slope in slopes]),
        _numbers(
            "95 % interval", [MISSING if pair is None else f"{pair[0]:.2f} to {pair[1]:.2f}" for pair in intervals]
        ),
        _numbers("items by theory", [_range(slope.expected) for slope in slopes]),
        _numbers("b by theory", [_exponent(slope.expected_exponent) for slope in slopes]),
    ]
    counts = {slope.fit.n_seeds for slope in slopes if slope.fit is not None}
    return Table(
        "Slopes of the capacity" + (f" · {data[0]}" if len(set(data)) == 1 else ""),
        nonempty(columns),
        tuple((slope.of.of.label, slope.of.of.data) for slope in slopes),
        f"Power laws a · d^b{f' over {range_label(counts)} seeds' if counts else ''}, and the items at both ends.",
        notes=_NOTES,
        records=lambda: [slope.record() for slope in slopes],
    )


def expected_capacity(model: ModelConfig, data: LookupConfig, dimensions: int, threshold: float = 0.99) -> float | None:
    """Return the capacity that theory says, see above; None for other models than a softmax of ``idw``."""
    from scipy.optimize import brentq  # slow to import
    from scipy.stats import chi2

    if not isinstance(model, HashTableConfig) or not data.noise:
        return None
    if (model.similarity, model.scaling, model.weighting, model.projections) != ("idw", "none", "softmax", "none"):
        return None
    ratio = ((2 * data.std**2 + data.noise**2) / data.noise**2) ** (float(model.parameters["power"]) / 2)
    norms = chi2(dimensions).ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES)

    def missing(log_items: float) -> float:
        items = math.exp(log_items)
        ahead = 2 * (ratio - 1) / (ratio + items - 1)
        return float((chi2(dimensions).sf(norms * (1 - ahead)) ** (items - 1)).mean()) - threshold

    ends = math.log(2), math.log(_MOST_ITEMS)
    return math.exp(brentq(missing, *ends)) if missing(ends[0]) > 0 > missing(ends[1]) else None


def _slopes(each: Capacities) -> Iterator[_Slope]:
    """Yield the laws of one model below and above the middle of its dimensions, which belongs to both."""
    dimensions = sorted(each.by_dimensions)
    if len(dimensions) < 2:
        return
    middle = min(dimensions, key=lambda d: abs(math.log(d * d / (dimensions[0] * dimensions[-1]))))
    for part in ([d for d in dimensions if d <= middle], [d for d in dimensions if d >= middle]):
        fit = fit_capacity({d: each.by_dimensions[d] for d in part}, ("power",))
        ends = (part[0], part[-1]) if fit is None else (fit.dimensions[0], fit.dimensions[-1])
        first, last = (expected_capacity(each.of.model, each.of.config, d, each.threshold) for d in ends)
        yield _Slope(each, ends, fit, None if first is None or last is None else (first, last))


def _numbers(header: str, texts: Sequence[str]) -> Column:
    return Column(header, header, texts, numeric=True)


def _range(ends: tuple[float, float] | None) -> str:
    return MISSING if ends is None else " to ".join(map(items_label, ends))


def _exponent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"
