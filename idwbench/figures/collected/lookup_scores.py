"""The figures of the scores of lookups: entropy of weights, and variance of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.errors import ConfigError
from idwbench.figures.collected.lookups import BAND, MOST_LINES, MOST_PANELS, found_lookups, seeds_of, series_of
from idwbench.figures.lookups import Axis, Series, SeriesPanel, draw_series
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import INK, QUIET, Drawing
from idwbench.report.lookups import LookupRuns
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.hash_table import HashTableConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["score_variance_figure", "weight_entropy_figure"]


@figure_of_runs("weight_entropy")
def weight_entropy_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Entropy of softmax weights against dimensions, over seeds, beside that of equal weights.

    Raises:
        ConfigError: no run of a hash table with softmax and without projections is complete.
    """
    chosen = [each for each in found_lookups(runs) if _is_table(each, ("softmax",))]
    return _against_dimensions(chosen, "weight_entropy", Axis("entropy of the weights in nats"), _uniform)


@figure_of_runs("score_variance")
def score_variance_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Variance of q·k against dimensions, over seeds, with and without 1/√d, beside the theory.

    For independent q and k with equal means μ in each dimension and variances σ_q² = σ² + noise² and σ_k² = σ² the
    variance is d σ_q² σ_k² + (σ_q² + σ_k²) ‖μ‖², without noise d σ⁴ + 2 σ² ‖μ‖²; here σ = 1.

    Raises:
        ConfigError: no run of a hash table with the inner product, unscaled or scaled by 1/√d, is complete.
    """
    chosen = [each for each in found_lookups(runs) if _is_table(each, ()) and each.model.method == "inner_product"]
    chosen = [each for each in chosen if _scaling(each) != "qk_norm"]
    first = {_scaling(each): each for each in reversed(chosen)}
    chosen = [each for each in chosen if each.model == first[_scaling(each)].model]
    axis = Axis("variance of q·k", logarithmic=True)
    return _against_dimensions(chosen, "score_variance", axis, _theory, markers=True)


def _against_dimensions(
    chosen: Sequence[LookupRuns],
    metric: str,
    y: Axis,
    reference: Callable[[Sequence[LookupRuns], list[int], int], list[Series]],
    *,
    markers: bool = False,
) -> Drawing:
    """Draw a metric against dimensions at the most frequent number of items; a panel for each other setting of data."""
    if not chosen:
        raise ConfigError(f"no run of a hash table has the metric '{metric}'", location=("figure",))
    sizes = [size for each in chosen for size in each.runs]
    counts = {items: sum(n == items for _, n in sizes) for _, items in sizes}
    items = max(counts, key=lambda n: (counts[n], n))
    data = list(dict.fromkeys(each.data for each in chosen))
    labels = list(dict.fromkeys(each.label for each in chosen))
    panels = []
    for name in data[:MOST_PANELS]:
        models = [each for each in chosen if each.data == name and each.label in labels[:MOST_LINES]]
        dimensions = sorted({d for each in models for d, n in each.runs if n == items})
        series = [
            series_of(each, labels.index(each.label), ds, [each.values(metric, d, items) for d in ds], markers=markers)
            for each in models
            if (ds := [d for d in each.dimensions if (d, items) in each.runs and each.values(metric, d, items)])
        ]
        panels.append(SeriesPanel(name, [*reference(models, dimensions, items), *series]))
    left_out = [f"not drawn: {label}" for label in labels[MOST_LINES:]]
    left_out += [f"not drawn: {name}" for name in data[MOST_PANELS:]]
    if len(counts) > 1:
        left_out.append(f"not drawn: other numbers of items than {items}")
    caption = (
        BAND.format(seeds_of(chosen))
        .replace("line", "point" if markers else "line")
        .replace("band", "bar" if markers else "band")
    )
    figure = draw_series(panels, Axis("dimensions d", logarithmic=True), y, caption=caption, source=f"{items} items")
    return Drawing(figure, tuple(left_out))


def _uniform(models: Sequence[LookupRuns], dimensions: list[int], items: int) -> list[Series]:
    flat = np.full((1, len(dimensions)), np.log(items))
    return [Series("equal weights: log(items)", INK, ":", np.array(dimensions, float), flat)]


def _theory(models: Sequence[LookupRuns], dimensions: list[int], items: int) -> list[Series]:
    d = np.array(dimensions, float)
    of_queries, mean = 1 + models[0].config.noise ** 2, models[0].config.mean
    variance = d * of_queries + (of_queries + 1) * d * mean**2
    noise = "d σ⁴ + 2 σ² ‖μ‖²" if models[0].config.noise == 0 else "d σ_q² σ_k² + (σ_q² + σ_k²) ‖μ‖²"
    return [
        Series(f"theory: {noise}", QUIET, "-", d, variance[np.newaxis]),
        Series("theory, divided by d", QUIET, "--", d, (variance / d)[np.newaxis]),
    ]


def _is_table(each: LookupRuns, weightings: Sequence[str]) -> bool:
    model = each.model
    if not isinstance(model, HashTableConfig) or model.projections != "none":
        return False
    return not weightings or model.weighting in weightings


def _scaling(each: LookupRuns) -> str:
    return str(getattr(each.model, "scaling", "none"))
