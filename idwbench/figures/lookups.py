"""The figures of lookups: recall against load, capacity, entropy of weights and variance of scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Look, draw_lines, place_looks
from idwbench.figures.runs import Selection
from idwbench.figures.style import INK, QUIET
from idwbench.report.lookups import Capacities, law_label, lookup_capacities, lookup_runs, predicted_capacity

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
    table = _softmax_first(_measured(lookup_runs(selection.runs), "recall"))
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
    labels = [*_softmax_first(lookup_runs(selection.runs)).label.unique()]
    by_model = place_looks(labels[:_MOST_LINES], points=True)
    capacities = [each for each in lookup_capacities(selection.runs) if each.label in by_model]
    data = sorted({each.data for each in capacities})
    tables, looks = [], {}
    for name in data[:_MOST_PANELS]:
        for each in (each for each in capacities if each.data == name):
            law = f": {law_label(each.fit)}" if len(data) == 1 and each.fit else ""
            looks[f"{each.label}{law}"] = by_model[each.label]
            tables += _capacities(each, f"{each.label}{law}", name if len(data) > 1 else "")
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
    table = lookup_runs(selection.runs)
    chosen = table[(table.projections == "none") & (table.weighting == "softmax")]
    return _against_dimensions(selection, chosen, "weight_entropy", Axis("entropy of the weights in nats"), _uniform)


def score_variance_figure(selection: Selection) -> Figure:
    """Variance of q·k against dimensions, over seeds, with and without 1/√d, beside the theory.

    For independent q and k with equal means μ in each dimension and variances σ_q² = σ² + noise² and σ_k² = σ² the
    variance is d σ_q² σ_k² + (σ_q² + σ_k²) ‖μ‖², without noise d σ⁴ + 2 σ² ‖μ‖², where σ is the `std` of the keys.

    Raises:
        ConfigError: no run of a hash table with the inner product, unscaled or scaled by 1/√d, is complete.
    """
    table = lookup_runs(selection.runs)
    plain = (table.projections == "none") & (table.scaling != "qk_norm")
    table = table[plain & (table.similarity == "inner_product")]
    chosen = table[table.identity == table.groupby("scaling").identity.transform("first")]
    y = Axis("variance of q·k", base=10)
    return _against_dimensions(selection, chosen, "score_variance", y, _variance, points=True)


def _against_dimensions(
    selection: Selection, chosen: pandas.DataFrame, metric: str, y: Axis, theory: Theory, *, points: bool = False
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


def _measured(table: pandas.DataFrame, metric: str) -> pandas.DataFrame:
    """Return the runs that have a metric, the ``value``, with their data as ``panel`` and their dimensions as ``x``."""
    measured = table.assign(panel=table.data, x=table.dimensions, value=table.get(metric, np.nan))
    return measured.dropna(subset="value")


def _softmax_first(table: pandas.DataFrame) -> pandas.DataFrame:
    return table.sort_values("weighting", key=lambda names: names != "softmax", kind="stable")
