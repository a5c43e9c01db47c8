"""The figures of the scores of lookups: entropy of weights, and variance of scores, against dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Line, Panel
from idwbench.figures.lookups import MOST_LINES, MOST_PANELS, draw_panels, find_lookups, model_line, n_seeds
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import INK, QUIET, Drawing
from idwbench.report.lookups import LookupRuns
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.hash_table import HashTableConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["collect_against_dimensions", "score_variance_figure", "weight_entropy_figure"]

Reference = Callable[[LookupRuns, list[int], int], list[Line]]


@figure_of_runs("weight_entropy")
def weight_entropy_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Entropy of softmax weights against dimensions, over seeds, beside that of equal weights.

    Raises:
        ConfigError: no run of a hash table with softmax and without projections is complete.
    """
    chosen = [each for each in _tables(runs) if getattr(each.model, "weighting", "") == "softmax"]
    panels, items, left_out = collect_against_dimensions(chosen, "weight_entropy", _uniform)
    spread = "line: mean over {}; band: mean ± sample standard deviation, within the range of the seeds"
    caption = [spread.format(n_seeds(chosen)), f"{items} items"]
    return Drawing(draw_panels(panels, _DIMENSIONS, Axis("entropy of the weights in nats"), caption), left_out)


@figure_of_runs("score_variance")
def score_variance_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Variance of q·k against dimensions, over seeds, with and without 1/√d, beside the theory.

    For independent q and k with equal means μ in each dimension and variances σ_q² = σ² + noise² and σ_k² = σ² the
    variance is d σ_q² σ_k² + (σ_q² + σ_k²) ‖μ‖², without noise d σ⁴ + 2 σ² ‖μ‖²; here σ = 1.

    Raises:
        ConfigError: no run of a hash table with the inner product, unscaled or scaled by 1/√d, is complete.
    """
    products = [each for each in _tables(runs) if each.model.method == "inner_product"]
    first: dict[str, LookupRuns] = {}
    for each in products:
        first.setdefault(_scaling(each), each)
    chosen = [each for each in products if _scaling(each) != "qk_norm" and each.model == first[_scaling(each)].model]
    panels, items, left_out = collect_against_dimensions(chosen, "score_variance", _theory, markers=True)
    spread = "point: mean over {}; bar: mean ± sample standard deviation, within the range of the seeds"
    caption = [spread.format(n_seeds(chosen)), f"{items} items"]
    return Drawing(draw_panels(panels, _DIMENSIONS, Axis("variance of q·k", base=10), caption), left_out)


_DIMENSIONS = Axis("dimensions d", base=2)


def collect_against_dimensions(
    chosen: Sequence[LookupRuns], metric: str, reference: Reference, *, markers: bool = False
) -> tuple[list[Panel], int, tuple[str, ...]]:
    """Return a panel for each other setting of data, the most frequent number of items, and what is left out.

    Args:
        chosen: The models.
        metric: What is drawn at that number of items.
        reference: A function from a model, dimensions and items to the lines of the theory.
        markers: Whether the metric is drawn as points.

    Raises:
        ConfigError: no models.
    """
    if not chosen:
        raise ConfigError(f"no run of a hash table has the metric '{metric}'", location=("figure",))
    sizes = [items for each in chosen for _, items in each.runs]
    items = max(sizes, key=lambda n: (sizes.count(n), n))
    data = list(dict.fromkeys(each.data for each in chosen))
    labels = list(dict.fromkeys(each.label for each in chosen))
    panels = []
    for name in data[:MOST_PANELS]:
        models = [each for each in chosen if each.data == name and each.label in labels[:MOST_LINES]]
        dimensions = sorted({d for each in models for d, n in each.runs if n == items})
        lines = reference(models[0], dimensions, items)
        for each in models:
            by_seed = {d: each.values(metric, d, items) for d in dimensions if (d, items) in each.runs}
            by_seed = {d: values for d, values in by_seed.items() if values}
            if by_seed:
                place = labels.index(each.label)
                lines.append(model_line(each, place, [*by_seed], [*by_seed.values()], markers=markers))
        panels.append(Panel(name, lines))
    left_out = [f"not drawn: {label}" for label in labels[MOST_LINES:]]
    left_out += [f"not drawn: {name}" for name in data[MOST_PANELS:]]
    if len({*sizes}) > 1:
        left_out.append(f"not drawn: other numbers of items than {items}")
    return panels, items, tuple(left_out)


def _uniform(model: LookupRuns, dimensions: list[int], items: int) -> list[Line]:
    flat = np.full((1, len(dimensions)), np.log(items))
    return [Line("equal weights: log(items)", INK, ":", np.array(dimensions, float), flat)]


def _theory(model: LookupRuns, dimensions: list[int], items: int) -> list[Line]:
    d = np.array(dimensions, float)
    of_queries, mean = 1 + model.config.noise**2, model.config.mean
    variance = d * of_queries + (of_queries + 1) * d * mean**2
    formula = "d σ⁴ + 2 σ² ‖μ‖²" if model.config.noise == 0 else "d σ_q² σ_k² + (σ_q² + σ_k²) ‖μ‖²"
    return [
        Line(f"theory: {formula}", QUIET, "-", d, variance[np.newaxis]),
        Line("theory, divided by d", QUIET, "--", d, (variance / d)[np.newaxis]),
    ]


def _tables(runs: Sequence[StoredRun]) -> list[LookupRuns]:
    """Return the hash tables without projections."""
    models = find_lookups(runs)
    return [each for each in models if isinstance(each.model, HashTableConfig) and each.model.projections == "none"]


def _scaling(each: LookupRuns) -> str:
    return str(getattr(each.model, "scaling", "none"))
