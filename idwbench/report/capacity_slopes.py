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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from idwbench.report.labels import range_label
from idwbench.report.lookups import (
    Capacities,
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
# By header: the numbers of a slope, and how each is shown.
_COLUMNS: tuple[tuple[str, tuple[str, ...], Callable[[Any], str]], ...] = (
    ("dimensions", ("from_dimensions", "to_dimensions"), str),
    ("items", ("from_items", "to_items"), items_label),
    ("slope b", ("slope",), "{:.2f}".format),
    ("95 % interval", ("slope_low", "slope_high"), "{:.2f}".format),
    ("items by theory", ("expected_from_items", "expected_to_items"), items_label),
    ("b by theory", ("expected_slope",), "{:.2f}".format),
)
# Points of the distribution of the norm of a value.
_QUANTILES = 400
_MOST_ITEMS = 1e9


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
    data = [slope["data"] for slope in slopes]
    is_one = len(set(data)) == 1
    columns = [Column("model", "model", [slope["model"] for slope in slopes])]
    columns += [] if is_one else [Column("data", "data", data)]
    for header, names, label in _COLUMNS:
        known = [[slope[name] for name in names] for slope in slopes]
        texts = [MISSING if None in values else " to ".join(map(label, values)) for values in known]
        columns.append(Column(header, header, texts, numeric=header != "dimensions"))
    counts = {slope["n"] for slope in slopes} - {None}
    return Table(
        "Slopes of the capacity" + (f" · {data[0]}" if is_one else ""),
        nonempty(columns),
        tuple((slope["model"], slope["data"]) for slope in slopes),
        f"Power laws a · d^b{f' over {range_label(counts)} seeds' if counts else ''}, and the items at both ends.",
        notes=_NOTES,
        records=lambda: slopes,
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


def _slopes(each: Capacities) -> Iterator[dict[str, Any]]:
    """Yield the laws of one model below and above the middle of its dimensions, which belongs to both.

    The dimensions are the outer ones of those that are fitted, or of the part. What too few dimensions can be fitted
    for, and what the theory does not say, is None.
    """
    dimensions = sorted(each.by_dimensions)
    if len(dimensions) < 2:
        return
    middle = min(dimensions, key=lambda d: abs(math.log(d * d / (dimensions[0] * dimensions[-1]))))
    for part in ([d for d in dimensions if d <= middle], [d for d in dimensions if d >= middle]):
        fit = fit_capacity({d: each.by_dimensions[d] for d in part}, ("power",))
        low, *_, high = part if fit is None else fit.dimensions
        items = (None, None) if fit is None else predicted_capacity(fit, (low, high)).tolist()
        bounds = (None, None) if fit is None else fit.interval
        first, last = (expected_capacity(each.of.model, each.of.config, d, each.threshold) for d in (low, high))
        is_expected = first is not None and last is not None
        yield {
            **{"model": each.of.label, "data": each.of.data, "n": fit and fit.n_seeds},
            **{"from_dimensions": low, "to_dimensions": high, "from_items": items[0], "to_items": items[1]},
            **{"slope": fit and fit.exponent, "slope_low": bounds[0], "slope_high": bounds[1]},
            "expected_from_items": first if is_expected else None,
            "expected_to_items": last if is_expected else None,
            "expected_slope": math.log(last / first) / math.log(high / low) if first and last else None,
        }
