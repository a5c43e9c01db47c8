"""The figures of lookups: recall against load, capacity, entropy of weights and variance of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas
from matplotlib.figure import Figure

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

# Lines of a theory at places, which are rows of a table with a panel, x and the settings of the data.
Theory = Callable[[pandas.DataFrame], list[pandas.DataFrame]]


def recall_figure(selection: Selection) -> Figure:
    """Recall of lookups against the load, items/dimensions, over seeds; one panel for each number of dimensions.

    The data are those with the most sizes; models with softmax come first.

    Raises:
        ConfigError: no run on the data set lookup is complete.
    """
    table = _measured(_softmax_first(lookup_runs(selection.runs)), "recall")
    sizes = table.drop_duplicates(["panel", "label", "x", "items"]).panel.value_counts(sort=False)
    data = sizes.idxmax()
    selection.leave_out(*(name for name in sizes.index if name != data))
    table = table[table.panel == data]
    looks = place_looks(selection.first([*table.label.unique()], _MOST_LINES, "other model"))
    dimensions = sorted(table.x.unique())
    shown = dimensions[:: -(-len(dimensions) // _MOST_PANELS)]
    omitted = ", ".join(str(d) for d in dimensions if d not in shown)
    selection.leave_out(f"dimensions {omitted}" if omitted else "")
    table = table[table.label.isin(looks) & table.x.isin(shown)].sort_values("x", kind="stable")
    table = table.assign(panel=table.x.map("{} dimensions".format), x=table["items"] / table.x)
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

    Raises:
        ConfigError: no model, or none with the metric.
    """
    table = _measured(chosen, metric)
    if table.empty:
        raise ConfigError(f"no run of a hash table has the metric '{metric}'")
    items = int(table["items"].mode().max())
    labels, data = table.label.unique(), table.panel.unique()
    looks = place_looks(labels[:_MOST_LINES], points=points)
    selection.leave_out(*labels[_MOST_LINES:], *data[_MOST_PANELS:])
    selection.leave_out(f"other numbers of items than {items}" if table["items"].nunique() > 1 else "")
    table = table[(table["items"] == items) & table.label.isin(looks) & table.panel.isin(data[:_MOST_PANELS])]
    places = table.drop_duplicates(["panel", "x"]).assign(seed=np.nan)
    lines = pandas.concat([*theory(places), table])
    return draw_lines(lines, {**_LOOKS, **looks}, Axis("dimensions d", base=2), y, [f"{items} items"], columns=_COLUMNS)


def _uniform(places: pandas.DataFrame) -> list[pandas.DataFrame]:
    return [places.assign(label=_EQUAL, value=np.log(places["items"]))]


def _variance(places: pandas.DataFrame) -> list[pandas.DataFrame]:
    of_keys, of_queries = places["std"] ** 2, places["std"] ** 2 + places["noise"] ** 2
    variance = places.x * (of_queries * of_keys + (of_queries + of_keys) * places["mean"] ** 2)
    labels = places.noise.eq(0).map({True: _EXACT, False: _NOISY})
    return [places.assign(label=labels, value=variance), places.assign(label=_DIVIDED, value=variance / places.x)]


def _measured(models: Sequence[LookupRuns], metric: str) -> pandas.DataFrame:
    """Return a metric of the models by data (panel), dimensions (x), items and seed, with settings of the data."""
    rows = [
        (each.data, each.label, d, items, seed, value, each.config.noise, each.config.mean, each.config.std)
        for each in models
        for d, items in each.runs
        for seed, value in each.values(metric, d, items).items()
    ]
    columns = ["panel", "label", "x", "items", "seed", "value", "noise", "mean", "std"]
    return pandas.DataFrame(rows, columns=columns)


def _tables(selection: Selection) -> list[LookupRuns]:
    """Return the hash tables without projections."""
    models = lookup_runs(selection.runs)
    return [each for each in models if isinstance(each.model, HashTableConfig) and each.model.projections == "none"]


def _softmax_first(models: Sequence[LookupRuns]) -> list[LookupRuns]:
    return sorted(models, key=lambda each: getattr(each.model, "weighting", "") != "softmax")
