"""The figures of lookups: recall against load, capacity, entropy of weights and variance of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Look, draw_lines, place_looks
from idwbench.figures.runs import Selection
from idwbench.figures.style import INK, QUIET
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
_EQUAL, _DIVIDED = "equal weights: log(items)", "theory, divided by d"
_EXACT, _NOISY = "theory: d σ⁴ + 2 σ² ‖μ‖²", "theory: d σ_q² σ_k² + (σ_q² + σ_k²) ‖μ‖²"
_LOOKS = {_EQUAL: Look(INK, ":"), _EXACT: Look(QUIET), _NOISY: Look(QUIET), _DIVIDED: Look(QUIET, "--")}

Floats = NDArray[np.float64]
# Numbers by label, for a model, dimensions and items.
Theory = Callable[[LookupRuns, Floats, int], Mapping[str, Floats]]


def recall_figure(selection: Selection) -> Figure:
    """Recall of lookups against the load, items/dimensions, over seeds; one panel for each number of dimensions.

    The data are those with the most sizes; models with softmax come first.

    Raises:
        ConfigError: no run on the data set lookup is complete.
    """
    models = _softmax_first(lookup_runs(selection.runs))
    sizes = pandas.Series([each.data for each in models for _ in each.runs]).value_counts(sort=False)
    data = sizes.idxmax()
    selection.leave_out(*(name for name in sizes.index if name != data))
    table = _measured([each for each in models if each.data == data], "recall")
    looks = place_looks(selection.first([*table.label.unique()], _MOST_LINES, "other model"))
    dimensions = sorted(table.dimensions.unique())
    shown = dimensions[:: -(-len(dimensions) // _MOST_PANELS)]
    omitted = ", ".join(str(d) for d in dimensions if d not in shown)
    selection.leave_out(f"dimensions {omitted}" if omitted else "")
    table = table[table.label.isin(looks) & table.dimensions.isin(shown)].sort_values("dimensions", kind="stable")
    table = table.assign(panel=table.dimensions.map("{} dimensions".format), x=table["items"] / table.dimensions)
    x, y = Axis("load: items / dimensions", base=2), Axis("recall in %", percent=True)
    return draw_lines(table, looks, x, y, [data], columns=_COLUMNS)


def capacity_figure(selection: Selection) -> Figure:
    """Items at 99 % recall against dimensions, for every seed, with the fitted laws; a panel for each other setting.

    Raises:
        ConfigError: no run on the data set lookup is complete, or all seeds are below or above the items that were run.
    """
    labels = list(dict.fromkeys(each.label for each in _softmax_first(lookup_runs(selection.runs))))
    by_model = place_looks(labels[:_MOST_LINES], points=True)
    capacities = [each for each in lookup_capacities(selection.runs) if each.of.label in by_model]
    data = sorted({each.of.data for each in capacities})
    tables, looks = [], {}
    for name in data[:_MOST_PANELS]:
        for each in (each for each in capacities if each.of.data == name):
            law = f": {law_label(each.fit)}" if len(data) == 1 and each.fit else ""
            looks[f"{each.of.label}{law}"] = by_model[each.of.label]
            tables += _capacities(each, f"{each.of.label}{law}", name if len(data) > 1 else "")
    if not tables:
        raise ConfigError("no seed has a recall of 99 % at some items and less at others")
    caption = (
        "line: least squares through the logarithms of all seeds; "
        "not shown: dimensions at which a seed is below or above the items that were run"
    )
    selection.leave_out(*labels[_MOST_LINES:], *data[_MOST_PANELS:])
    x, y = Axis("dimensions d"), Axis("capacity: items at 99 % recall", base=10, centre="geometric mean")
    captions = [caption, data[0] if len(data) == 1 else ""]
    return draw_lines(pandas.concat(tables), looks, x, y, captions, columns=_COLUMNS)


def _capacities(each: Capacities, label: str, panel: str) -> list[pandas.DataFrame]:
    """Return the points without dimensions at which a seed is censored, and those of the law."""
    points = [
        (panel, label, float(d), seed, one.items)
        for d, by_seed in each.by_dimensions.items()
        if not any(one.censored for one in by_seed.values())
        for seed, one in by_seed.items()
    ]
    table = pandas.DataFrame(points, columns=["panel", "label", "x", "seed", "value"])
    if table.empty or each.fit is None:
        return [table] if points else []
    d = np.linspace(table.x.min(), table.x.max(), 100)
    law = pandas.DataFrame({"x": d, "value": predicted_capacity(each.fit, d)})
    return [table, law.assign(panel=panel, label=label)]


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
    return _against_dimensions(selection, chosen, "score_variance", y, _variance, points=True)


def _against_dimensions(
    selection: Selection, chosen: Sequence[LookupRuns], metric: str, y: Axis, theory: Theory, *, points: bool = False
) -> Figure:
    """Return a panel for each other setting of data, at the most frequent number of items, with lines of a theory.

    Args:
        selection: What is left out is added to it.
        chosen: The models.
        metric: What is drawn at that number of items.
        y: The axis of it.
        theory: Its numbers for the first model of a panel.
        points: Whether the metric is drawn as points.

    Raises:
        ConfigError: no models.
    """
    if not chosen:
        raise ConfigError(f"no run of a hash table has the metric '{metric}'")
    sizes = pandas.Series([items for each in chosen for _, items in each.runs])
    items = int(sizes.mode().max())
    labels, data = (list(dict.fromkeys(getattr(each, name) for each in chosen)) for name in ("label", "data"))
    looks = place_looks(labels[:_MOST_LINES], points=points)
    tables = []
    for name in data[:_MOST_PANELS]:
        models = [each for each in chosen if each.data == name]
        own = _measured(models, metric).rename(columns={"dimensions": "x"})
        d = np.array(sorted({d for each in models for d, n in each.runs if n == items}), np.float64)
        lines = (
            pandas.DataFrame(theory(models[0], d, items), d).rename_axis("x").melt(var_name="label", ignore_index=False)
        )
        tables += [lines.reset_index().assign(panel=name)]
        tables += [own[(own["items"] == items) & own.label.isin(looks)].assign(panel=name)]
    selection.leave_out(*labels[_MOST_LINES:], *data[_MOST_PANELS:])
    selection.leave_out(f"other numbers of items than {items}" if sizes.nunique() > 1 else "")
    x = Axis("dimensions d", base=2)
    return draw_lines(pandas.concat(tables), {**_LOOKS, **looks}, x, y, [f"{items} items"], columns=_COLUMNS)


def _uniform(model: LookupRuns, dimensions: Floats, items: int) -> dict[str, Floats]:
    return {_EQUAL: np.full_like(dimensions, np.log(items))}


def _variance(model: LookupRuns, dimensions: Floats, items: int) -> dict[str, Floats]:
    of_keys, mean = model.config.std**2, model.config.mean
    of_queries = of_keys + model.config.noise**2
    variance = dimensions * (of_queries * of_keys + (of_queries + of_keys) * mean**2)
    return {_EXACT if model.config.noise == 0 else _NOISY: variance, _DIVIDED: variance / dimensions}


def _measured(models: Sequence[LookupRuns], metric: str) -> pandas.DataFrame:
    """Return a metric of the models by dimensions, items and seed."""
    rows = [
        (each.label, d, items, seed, value)
        for each in models
        for d, items in each.runs
        for seed, value in each.values(metric, d, items).items()
    ]
    return pandas.DataFrame(rows, columns=["label", "dimensions", "items", "seed", "value"])


def _tables(selection: Selection) -> list[LookupRuns]:
    """Return the hash tables without projections."""
    models = lookup_runs(selection.runs)
    return [each for each in models if isinstance(each.model, HashTableConfig) and each.model.projections == "none"]


def _softmax_first(models: Sequence[LookupRuns]) -> list[LookupRuns]:
    return sorted(models, key=lambda each: getattr(each.model, "weighting", "") != "softmax")
