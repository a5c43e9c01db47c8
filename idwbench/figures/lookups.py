"""The figures of lookups: recall against load, capacity, entropy of weights and variance of scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Line, Panel, Style, draw_rows, lines_of, panel_rows, place_styles
from idwbench.figures.runs import Selection
from idwbench.figures.style import INK, QUIET, class_colour, seeds_label
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
_SPREAD = "mean ± sample standard deviation, within the range of the seeds"

Reference = Callable[[LookupRuns, list[int], int], list[Line]]


def recall_figure(selection: Selection) -> Figure:
    """Recall of lookups against the load, items/dimensions, over seeds; one panel for each number of dimensions.

    The data are those with the most sizes; models with softmax come first.

    Raises:
        ConfigError: no run on the data set lookup is complete.
    """
    models = lookup_runs(selection.runs)
    sizes = Counter(each.data for each in models for _ in each.runs)
    data = max(sizes, key=lambda name: sizes[name])
    selection.leave_out(*(name for name in sizes if name != data))
    models = [each for each in models if each.data == data]
    labels, others = _first_labels(models)
    selection.leave_out_more(others, "other model")
    models, styles = [each for label in labels for each in models if each.label == label], place_styles(labels)
    dimensions = sorted({d for each in models for d in each.dimensions})
    shown = dimensions[:: -(-len(dimensions) // _MOST_PANELS)]
    omitted = ", ".join(str(d) for d in dimensions if d not in shown)
    selection.leave_out(f"dimensions {omitted}" if omitted else "")
    panels = []
    for d in shown:
        loads = [{n / d: each.values("recall", d, n) for n in each.items(d)} for each in models]
        panels.append(Panel(f"{d} dimensions", _lines(models, loads, styles)))
    x, y = Axis("load: items / dimensions", base=2), Axis("recall in %", percent=True)
    return _draw(panels, x, y, [f"line: mean over {_seeds(models)}; band: {_SPREAD}", data])


def capacity_figure(selection: Selection) -> Figure:
    """Items at 99 % recall against dimensions, for every seed, with the fitted laws; a panel for each other setting.

    Raises:
        ConfigError: no run on the data set lookup is complete, or all seeds are below or above the items that were run.
    """
    models = lookup_runs(selection.runs)
    labels, _ = _first_labels(models)
    capacities = [each for each in lookup_capacities(selection.runs) if each.of.label in labels]
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
        f"point: geometric mean over {_seeds(models)}; bar: its standard deviation, within the range of the seeds; "
        "line: least squares through the logarithms of all seeds; "
        "not shown: dimensions at which a seed is below or above the items that were run"
    )
    selection.leave_out(*(label for label in _labels(models) if label not in labels), *data[_MOST_PANELS:])
    x, y = Axis("dimensions d"), Axis("capacity: items at 99 % recall", base=10)
    return _draw(panels, x, y, [caption, data[0] if alone else ""])


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
        lines.append(Line("", class_colour(place), "-", d, predicted_capacity(each.fit, d)[np.newaxis]))
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
    sizes = Counter(items for each in chosen for _, items in each.runs)
    items = max(sizes, key=lambda n: (sizes[n], n))
    data, labels = list(dict.fromkeys(each.data for each in chosen)), _labels(chosen)
    styles = place_styles(labels[:_MOST_LINES], markers=markers)
    panels = []
    for name in data[:_MOST_PANELS]:
        models = [each for each in chosen if each.data == name and each.label in styles]
        dimensions = sorted({d for each in models for d, n in each.runs if n == items})
        measured = [{float(d): each.values(metric, d, items) for d in dimensions} for each in models]
        lines = _lines(models, measured, styles, markers=markers)
        panels.append(Panel(name, reference(models[0], dimensions, items) + lines))
    selection.leave_out(*labels[_MOST_LINES:], *data[_MOST_PANELS:])
    selection.leave_out(f"other numbers of items than {items}" if len(sizes) > 1 else "")
    what, spread = ("point", "bar") if markers else ("line", "band")
    caption = [f"{what}: mean over {_seeds(chosen)}; {spread}: {_SPREAD}", f"{items} items"]
    return _draw(panels, Axis("dimensions d", base=2), y, caption)


def _uniform(model: LookupRuns, dimensions: list[int], items: int) -> list[Line]:
    flat = np.full((1, len(dimensions)), np.log(items))
    return [Line("equal weights: log(items)", INK, ":", np.array(dimensions, float), flat)]


def _theory(model: LookupRuns, dimensions: list[int], items: int) -> list[Line]:
    d = np.array(dimensions, float)
    of_keys, mean = model.config.std**2, model.config.mean
    of_queries = of_keys + model.config.noise**2
    variance = d * of_queries * of_keys + (of_queries + of_keys) * d * mean**2
    formula = "d σ⁴ + 2 σ² ‖μ‖²" if model.config.noise == 0 else "d σ_q² σ_k² + (σ_q² + σ_k²) ‖μ‖²"
    return [
        Line(f"theory: {formula}", QUIET, "-", d, variance[np.newaxis]),
        Line("theory, divided by d", QUIET, "--", d, (variance / d)[np.newaxis]),
    ]


def _draw(panels: Sequence[Panel], x: Axis, y: Axis, caption: Sequence[str]) -> Figure:
    """Return the panels in rows of three, with the same axes."""
    return draw_rows(panel_rows(y, panels, _COLUMNS), x, caption, shared=True)


def _lines(
    models: Sequence[LookupRuns],
    measured: Sequence[Mapping[float, Mapping[int, float]]],
    styles: Mapping[str, Style],
    **options: bool,
) -> list[Line]:
    """Return the line of each model for its values by x and seed, if it has any."""
    lines = []
    for each, values in zip(models, measured, strict=True):
        points = ((each.label, x, seed, value) for x, own in values.items() for seed, value in own.items())
        lines += lines_of(points, styles, **options)
    return lines


def _tables(selection: Selection) -> list[LookupRuns]:
    """Return the hash tables without projections."""
    models = lookup_runs(selection.runs)
    return [each for each in models if isinstance(each.model, HashTableConfig) and each.model.projections == "none"]


def _labels(models: Sequence[LookupRuns]) -> list[str]:
    return list(dict.fromkeys(each.label for each in models))


def _first_labels(models: Sequence[LookupRuns]) -> tuple[list[str], list[str]]:
    """Return the labels of `_MOST_LINES` models, those with softmax first, and the others."""
    labels = _labels(sorted(models, key=lambda each: getattr(each.model, "weighting", "") != "softmax"))
    return labels[:_MOST_LINES], labels[_MOST_LINES:]


def _seeds(models: Sequence[LookupRuns]) -> str:
    """Return ``10 seeds``."""
    return seeds_label({len(by_seed) for each in models for by_seed in each.runs.values()})
