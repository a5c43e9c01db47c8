"""The figures of lookups: recall against load, capacity, entropy of weights and variance of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Line, Panel, draw_rows, lines_of, panel_rows, place_styles
from idwbench.figures.runs import Selection
from idwbench.figures.style import INK, QUIET, class_colour
from idwbench.report.lookups import (
    Capacities,
    LookupRuns,
    law_label,
    lookup_capacities,
    lookup_runs,
    predicted_capacity,
)
from idwbench.runs.kinds.hash_table import HashTableConfig

__all__ = ["capacity_figure", "recall_figure", "score_variance_figure", "weight_entropy_figure"]

_MOST_LINES, _MOST_PANELS, _COLUMNS = 10, 9, 3

Reference = Callable[[LookupRuns, NDArray[np.float64], int], list[Line]]


def recall_figure(selection: Selection) -> Figure:
    """Recall of lookups against the load, items/dimensions, over seeds; one panel for each number of dimensions.

    The data are those with the most sizes; models with softmax come first.

    Raises:
        ConfigError: no run on the data set lookup is complete.
    """
    models = lookup_runs(selection.runs)
    sizes = pandas.Series([each.data for each in models for _ in each.runs]).value_counts(sort=False)
    data = sizes.idxmax()
    selection.leave_out(*(name for name in sizes.index if name != data))
    models = [each for each in models if each.data == data]
    labels = selection.first(_labels(models), _MOST_LINES, "other model")
    table, styles = _measured(models, labels, "recall"), place_styles(labels)
    dimensions = sorted(table.dimensions.unique())
    shown = dimensions[:: -(-len(dimensions) // _MOST_PANELS)]
    omitted = ", ".join(str(d) for d in dimensions if d not in shown)
    selection.leave_out(f"dimensions {omitted}" if omitted else "")
    panels = []
    for d in shown:
        own = table[table.dimensions == d]
        panels.append(Panel(f"{d} dimensions", lines_of(own.assign(x=own["items"] / d), styles)))
    x, y = Axis("load: items / dimensions", base=2), Axis("recall in %", percent=True)
    return draw_rows(panel_rows(y, panels, _COLUMNS), x, [data], shared=True)


def capacity_figure(selection: Selection) -> Figure:
    """Items at 99 % recall against dimensions, for every seed, with the fitted laws; a panel for each other setting.

    Raises:
        ConfigError: no run on the data set lookup is complete, or all seeds are below or above the items that were run.
    """
    labels = _labels(lookup_runs(selection.runs))
    capacities = [each for each in lookup_capacities(selection.runs) if each.of.label in labels[:_MOST_LINES]]
    data = sorted({each.of.data for each in capacities})
    alone = len(data) == 1
    panels = []
    for name in data[:_MOST_PANELS]:
        chosen = [each for each in capacities if each.of.data == name]
        lines = (_capacity_lines(each, labels.index(each.of.label), with_law=alone) for each in chosen)
        panels.append(Panel("" if alone else name, [line for group in lines for line in group]))
    if not any(panel.lines for panel in panels):
        raise ConfigError("no seed has a recall of 99 % at some items and less at others")
    caption = (
        "line: least squares through the logarithms of all seeds; "
        "not shown: dimensions at which a seed is below or above the items that were run"
    )
    selection.leave_out(*labels[_MOST_LINES:], *data[_MOST_PANELS:])
    x, y = Axis("dimensions d"), Axis("capacity: items at 99 % recall", base=10)
    return draw_rows(panel_rows(y, panels, _COLUMNS), x, [caption, data[0] if alone else ""], shared=True)


def _capacity_lines(each: Capacities, place: int, *, with_law: bool) -> list[Line]:
    """Return points and the law, without dimensions at which a seed is censored."""
    whole = {
        float(d): {seed: one.items for seed, one in by_seed.items()}
        for d, by_seed in each.by_dimensions.items()
        if by_seed and not any(one.censored for one in by_seed.values())
    }
    if not whole:
        return []
    label = f"{each.of.label}: {law_label(each.fit)}" if with_law and each.fit else each.of.label
    points = ((label, d, seed, items) for d, by_seed in whole.items() for seed, items in by_seed.items())
    lines = lines_of(points, {label: (class_colour(place), "none")}, markers=True, geometric=True)
    if each.fit is not None:
        d = np.linspace(min(whole), max(whole), 100)
        lines.append(Line("", class_colour(place), "-", d, predicted_capacity(each.fit, d)))
    return lines


def weight_entropy_figure(selection: Selection) -> Figure:
    """Entropy of softmax weights against dimensions, over seeds, beside that of equal weights.

    Raises:
        ConfigError: no run of a hash table with softmax and without projections is complete.
    """
    chosen = [each for each in _tables(selection) if getattr(each.model, "weighting", "") == "softmax"]
    return _against_dimensions(selection, chosen, "weight_entropy", Axis("entropy of the weights in nats"), _uniform)


def score_variance_figure(selection: Selection) -> Figure:
    """Variance of q·k against dimensions, over seeds, with and without 1/√d, beside the theory.

    For independent q and k with equal means μ in each dimension and variances σ_q² = σ² + noise² and σ_k² = σ² the
    variance is d σ_q² σ_k² + (σ_q² + σ_k²) ‖μ‖², without noise d σ⁴ + 2 σ² ‖μ‖², where σ is the `std` of the keys.

    Raises:
        ConfigError: no run of a hash table with the inner product, unscaled or scaled by 1/√d, is complete.
    """
    scaled = [(getattr(each.model, "scaling", "none"), each) for each in _tables(selection)]
    products = [(scaling, each) for scaling, each in scaled if each.model.method == "inner_product"]
    first = {scaling: each.model for scaling, each in reversed(products) if scaling != "qk_norm"}
    chosen = [each for scaling, each in products if each.model == first.get(scaling)]
    y = Axis("variance of q·k", base=10)
    return _against_dimensions(selection, chosen, "score_variance", y, _theory, markers=True)


def _against_dimensions(
    selection: Selection,
    chosen: Sequence[LookupRuns],
    metric: str,
    y: Axis,
    reference: Reference,
    *,
    markers: bool = False,
) -> Figure:
    """Return a panel for each other setting of data, at the most frequent number of items.

    Args:
        selection: What is left out is added to it.
        chosen: The models.
        metric: What is drawn at that number of items.
        y: The axis of it.
        reference: A function from a model, dimensions and items to the lines of the theory.
        markers: Whether the metric is drawn as points.

    Raises:
        ConfigError: no models.
    """
    if not chosen:
        raise ConfigError(f"no run of a hash table has the metric '{metric}'")
    sizes = pandas.Series([items for each in chosen for _, items in each.runs]).value_counts()
    items = int(sizes[sizes == sizes.max()].index.max())
    labels = list(dict.fromkeys(each.label for each in chosen))
    styles = place_styles(labels[:_MOST_LINES], markers=markers)
    by_data = {name: [each for each in chosen if each.data == name] for name in dict.fromkeys(e.data for e in chosen)}
    panels = []
    for name, models in [*by_data.items()][:_MOST_PANELS]:
        dimensions = np.array(sorted({d for each in models for d, n in each.runs if n == items}), np.float64)
        own = _measured(models, [*styles], metric)
        own = own[own["items"] == items].rename(columns={"dimensions": "x"})
        lines = lines_of(own, styles, markers=markers)
        panels.append(Panel(name, reference(models[0], dimensions, items) + lines))
    selection.leave_out(*labels[_MOST_LINES:], *[*by_data][_MOST_PANELS:])
    selection.leave_out(f"other numbers of items than {items}" if len(sizes) > 1 else "")
    x = Axis("dimensions d", base=2)
    return draw_rows(panel_rows(y, panels, _COLUMNS), x, [f"{items} items"], shared=True)


def _uniform(model: LookupRuns, dimensions: NDArray[np.float64], items: int) -> list[Line]:
    return [Line("equal weights: log(items)", INK, ":", dimensions, np.full_like(dimensions, np.log(items)))]


def _theory(model: LookupRuns, dimensions: NDArray[np.float64], items: int) -> list[Line]:
    of_keys, mean = model.config.std**2, model.config.mean
    of_queries = of_keys + model.config.noise**2
    variance = dimensions * (of_queries * of_keys + (of_queries + of_keys) * mean**2)
    formula = "d σ⁴ + 2 σ² ‖μ‖²" if model.config.noise == 0 else "d σ_q² σ_k² + (σ_q² + σ_k²) ‖μ‖²"
    return [
        Line(f"theory: {formula}", QUIET, "-", dimensions, variance),
        Line("theory, divided by d", QUIET, "--", dimensions, variance / dimensions),
    ]


def _measured(models: Sequence[LookupRuns], labels: Sequence[str], metric: str) -> pandas.DataFrame:
    """Return a metric of the models with some labels, in their order, by dimensions, items and seed."""
    rows = [
        (each.label, d, items, seed, value)
        for each in sorted((each for each in models if each.label in labels), key=lambda each: labels.index(each.label))
        for d, items in each.runs
        for seed, value in each.values(metric, d, items).items()
    ]
    return pandas.DataFrame(rows, columns=["label", "dimensions", "items", "seed", "value"])


def _tables(selection: Selection) -> list[LookupRuns]:
    """Return the hash tables without projections."""
    models = lookup_runs(selection.runs)
    return [each for each in models if isinstance(each.model, HashTableConfig) and each.model.projections == "none"]


def _labels(models: Sequence[LookupRuns]) -> list[str]:
    """Return the labels of the models, those with softmax first."""
    ordered = sorted(models, key=lambda each: getattr(each.model, "weighting", "") != "softmax")
    return list(dict.fromkeys(each.label for each in ordered))
