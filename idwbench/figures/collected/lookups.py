"""The figures of lookups: recall against load, and capacity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.errors import ConfigError
from idwbench.figures.curves import DASHES
from idwbench.figures.lookups import Axis, Series, SeriesPanel, draw_series
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import Drawing, class_colour, seeds_label
from idwbench.report.capacity import law_label, predicted_capacity
from idwbench.report.labels import count_label
from idwbench.report.lookups import Capacities, LookupRuns, lookup_capacities, lookup_runs
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "BAND",
    "MOST_LINES",
    "MOST_PANELS",
    "capacity_figure",
    "found_lookups",
    "recall_figure",
    "seeds_of",
    "series_of",
]

MOST_LINES, MOST_PANELS = 10, 9
BAND = "line: mean over {}; band: mean ± sample standard deviation, within the range of the seeds"


@figure_of_runs("recall")
def recall_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Recall of lookups against the load, items/dimensions, over seeds; one panel for each number of dimensions.

    Raises:
        ConfigError: no run on the data set lookup is complete.
    """
    models, left_out = _one_data(found_lookups(runs))
    models, more = _first(models)
    dimensions = sorted({d for each in models for d in each.dimensions})
    shown = dimensions[:: -(-len(dimensions) // MOST_PANELS)]
    if len(shown) < len(dimensions):
        more = (*more, f"not drawn: dimensions {', '.join(str(d) for d in dimensions if d not in shown)}")
    panels = [
        SeriesPanel(
            f"{d} dimensions",
            [
                series_of(each, place, [n / d for n in items], [each.values("recall", d, n) for n in items], factor=100)
                for place, each in enumerate(models)
                if (items := each.items(d))
            ],
        )
        for d in shown
    ]
    caption = BAND.format(seeds_of(models))
    x, y = Axis("load: items / dimensions", logarithmic=True), Axis("recall in %")
    figure = draw_series(panels, x, y, caption=caption, source=models[0].data)
    return Drawing(figure, (*left_out, *more))


@figure_of_runs("capacity")
def capacity_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Items at 99 % recall against dimensions, for every seed, with the fitted laws; a panel for each other setting.

    Raises:
        ConfigError: no run on the data set lookup is complete, or all seeds are below or above the items that were run.
    """
    models = found_lookups(runs)
    labels = list(dict.fromkeys(each.label for each in _first(models)[0]))
    found = [each for each in lookup_capacities(runs) if each.of.label in labels]
    data = list(dict.fromkeys(each.of.data for each in found))
    panels = [
        SeriesPanel(
            name if len(data) > 1 else "",
            [
                one
                for each in found
                if each.of.data == name
                for one in _capacity_series(each, labels.index(each.of.label), with_law=len(data) == 1)
            ],
        )
        for name in data[:MOST_PANELS]
    ]
    if not any(panel.series for panel in panels):
        raise ConfigError("no seed has a recall of 99 % at some items and less at others", location=("figure",))
    caption = (
        f"point: geometric mean over {seeds_of(models)}; bar: its standard deviation, within the range of the seeds; "
        "line: least squares through the logarithms of all seeds; "
        "not shown: dimensions at which a seed is below or above the items that were run"
    )
    x, y = Axis("dimensions d"), Axis("capacity: items at 99 % recall", logarithmic=True)
    source = data[0] if len(data) == 1 else ""
    left_out = [f"not drawn: {label}" for label in dict.fromkeys(each.label for each in models) if label not in labels]
    left_out += [f"not drawn: {name}" for name in data[MOST_PANELS:]]
    return Drawing(draw_series(panels, x, y, caption=caption, source=source), tuple(left_out))


def _capacity_series(each: Capacities, place: int, *, with_law: bool) -> list[Series]:
    whole = [d for d, found in each.by_dimensions.items() if not any(one.censored for one in found.values())]
    whole = [d for d in sorted(whole) if each.by_dimensions[d]]
    if not whole:
        return []
    seeds = sorted({seed for d in whole for seed in each.by_dimensions[d]})
    values = np.array(
        [[each.by_dimensions[d][s].items if s in each.by_dimensions[d] else np.nan for d in whole] for s in seeds]
    )
    colour = class_colour(place)
    label = f"{each.of.label}: {law_label(each.fit)}" if with_law and each.fit else each.of.label
    points = Series(label, colour, "-", np.array(whole, float), values, markers=True, geometric=True)
    if each.fit is None:
        return [points]
    d = np.linspace(min(whole), max(whole), 100)
    line = Series("", colour, "-", d, predicted_capacity(each.fit, d)[np.newaxis])
    return [points, line]


def series_of(
    each: LookupRuns,
    place: int,
    x: Sequence[float],
    values: Sequence[dict[int, float]],
    *,
    factor: float = 1,
    markers: bool = False,
) -> Series:
    """Return the line of a model for values by seed at each x; `place` is its colour and dash."""
    seeds = sorted({seed for found in values for seed in found})
    table = np.array([[factor * found.get(seed, np.nan) for found in values] for seed in seeds])
    dash = DASHES[place // 5 % len(DASHES)]
    return Series(each.label, class_colour(place), dash, np.array(x, float), table.reshape(len(seeds), len(x)), markers)


def found_lookups(runs: Sequence[StoredRun]) -> list[LookupRuns]:
    """Return `lookup_runs`; an error is about the figure."""
    try:
        return lookup_runs(runs)
    except ConfigError as error:
        raise error.at("figure") from None


def _one_data(found: Sequence[LookupRuns]) -> tuple[list[LookupRuns], tuple[str, ...]]:
    """Return the models on the data with the most sizes."""
    sizes: dict[str, int] = {}
    for each in found:
        sizes[each.data] = sizes.get(each.data, 0) + len(each.runs)
    data = max(sizes, key=lambda name: sizes[name])
    others = [name for name in sizes if name != data]
    return [each for each in found if each.data == data], tuple(f"not drawn: {name}" for name in others)


def _first(models: list[LookupRuns]) -> tuple[list[LookupRuns], tuple[str, ...]]:
    """Return the models that are drawn, at most `MOST_LINES`, those with softmax first."""
    models = sorted(models, key=lambda each: getattr(each.model, "weighting", "") != "softmax")
    labels = list(dict.fromkeys(each.label for each in models))
    n = len(labels) - MOST_LINES
    shown = [each for each in models if each.label in labels[:MOST_LINES]]
    return shown, (f"not drawn: {count_label(n, 'other model')}",) if n > 0 else ()


def seeds_of(models: Sequence[LookupRuns]) -> str:
    """Return ``10 seeds``."""
    return seeds_label({len(found) for each in models for found in each.runs.values()})
