"""The figures of lookups: recall against load, and capacity; their lines by model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures.lines import DASHES, Axis, Line, Panel, PanelRow, draw_rows
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import Drawing, class_colour, seeds_label
from idwbench.report.labels import count_label
from idwbench.report.lookups import (
    Capacities,
    LookupRuns,
    law_label,
    lookup_capacities,
    lookup_runs,
    predicted_capacity,
)
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "MOST_LINES",
    "MOST_PANELS",
    "capacity_figure",
    "collect_capacity",
    "collect_recall",
    "draw_panels",
    "find_lookups",
    "model_line",
    "n_seeds",
    "recall_figure",
]

MOST_LINES, MOST_PANELS = 10, 9
_COLUMNS = 3


@figure_of_runs("recall")
def recall_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Recall of lookups against the load, items/dimensions, over seeds; one panel for each number of dimensions.

    Raises:
        ConfigError: no run on the data set lookup is complete.
    """
    panels, models, left_out = collect_recall(runs)
    caption = (
        f"line: mean over {n_seeds(models)}; band: mean ± sample standard deviation, within the range of the seeds"
    )
    x, y = Axis("load: items / dimensions", base=2), Axis("recall in %", percent=True)
    return Drawing(draw_panels(panels, x, y, [caption, models[0].data]), left_out)


def collect_recall(runs: Sequence[StoredRun]) -> tuple[list[Panel], list[LookupRuns], tuple[str, ...]]:
    """Return a panel for each number of dimensions, at most nine, the models, at most ten, and what is left out.

    Raises:
        ConfigError: no run on the data set lookup is complete.
    """
    models, others = _one_data(find_lookups(runs))
    models, more = _first(models)
    dimensions = sorted({d for each in models for d in each.dimensions})
    shown = dimensions[:: -(-len(dimensions) // MOST_PANELS)]
    left_out = [*others, *more]
    if len(shown) < len(dimensions):
        left_out.append(f"not drawn: dimensions {', '.join(str(d) for d in dimensions if d not in shown)}")
    panels = [
        Panel(
            f"{d} dimensions",
            [
                model_line(each, place, [n / d for n in items], [each.values("recall", d, n) for n in items])
                for place, each in enumerate(models)
                if (items := each.items(d))
            ],
        )
        for d in shown
    ]
    return panels, models, tuple(left_out)


@figure_of_runs("capacity")
def capacity_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Items at 99 % recall against dimensions, for every seed, with the fitted laws; a panel for each other setting.

    Raises:
        ConfigError: no run on the data set lookup is complete, or all seeds are below or above the items that were run.
    """
    panels, source, left_out = collect_capacity(runs)
    caption = (
        f"point: geometric mean over {n_seeds(find_lookups(runs))}; bar: its standard deviation, within the range of "
        "the seeds; line: least squares through the logarithms of all seeds; "
        "not shown: dimensions at which a seed is below or above the items that were run"
    )
    x, y = Axis("dimensions d"), Axis("capacity: items at 99 % recall", base=10)
    return Drawing(draw_panels(panels, x, y, [caption, source]), left_out)


def collect_capacity(runs: Sequence[StoredRun]) -> tuple[list[Panel], str, tuple[str, ...]]:
    """Return a panel for each setting of the data, at most nine, the setting if there is one, and what is left out.

    Raises:
        ConfigError: no run on the data set lookup is complete, or all seeds are below or above the items that were run.
    """
    models = find_lookups(runs)
    labels = list(dict.fromkeys(each.label for each in _first(models)[0]))
    capacities = [each for each in lookup_capacities(runs) if each.of.label in labels]
    data = list(dict.fromkeys(each.of.data for each in capacities))
    alone = len(data) == 1
    panels = [
        Panel(
            "" if alone else name,
            [
                line
                for each in capacities
                if each.of.data == name
                for line in _capacity_lines(each, class_colour(labels.index(each.of.label)), with_law=alone)
            ],
        )
        for name in data[:MOST_PANELS]
    ]
    if not any(panel.lines for panel in panels):
        raise ConfigError("no seed has a recall of 99 % at some items and less at others", location=("figure",))
    left_out = [f"not drawn: {label}" for label in dict.fromkeys(each.label for each in models) if label not in labels]
    return panels, data[0] if alone else "", (*left_out, *(f"not drawn: {name}" for name in data[MOST_PANELS:]))


def _capacity_lines(each: Capacities, colour: str, *, with_law: bool) -> list[Line]:
    whole = [d for d, found in each.by_dimensions.items() if not any(one.censored for one in found.values())]
    whole = [d for d in sorted(whole) if each.by_dimensions[d]]
    if not whole:
        return []
    seeds = sorted({seed for d in whole for seed in each.by_dimensions[d]})
    values = np.array(
        [[each.by_dimensions[d][s].items if s in each.by_dimensions[d] else np.nan for d in whole] for s in seeds]
    )
    label = f"{each.of.label}: {law_label(each.fit)}" if with_law and each.fit else each.of.label
    points = Line(label, colour, "none", np.array(whole, float), values, markers=True, geometric=True)
    if each.fit is None:
        return [points]
    d = np.linspace(min(whole), max(whole), 100)
    return [points, Line("", colour, "-", d, predicted_capacity(each.fit, d)[np.newaxis])]


def draw_panels(panels: Sequence[Panel], x: Axis, y: Axis, caption: Sequence[str]) -> Figure:
    """Return the panels in rows of three, with the same axes."""
    starts = range(0, len(panels), _COLUMNS)
    return draw_rows([PanelRow("", y, panels[start : start + _COLUMNS]) for start in starts], x, caption, shared=True)


def model_line(
    each: LookupRuns, place: int, x: Sequence[float], values: Sequence[dict[int, float]], *, markers: bool = False
) -> Line:
    """Return the line of a model for values by seed at each x; `place` is its colour and dash."""
    seeds = sorted({seed for by_seed in values for seed in by_seed})
    table = np.array([[by_seed.get(seed, np.nan) for by_seed in values] for seed in seeds])
    dash = "none" if markers else DASHES[place // 5 % len(DASHES)]
    return Line(each.label, class_colour(place), dash, np.array(x, float), table.reshape(len(seeds), len(x)), markers)


def find_lookups(runs: Sequence[StoredRun]) -> list[LookupRuns]:
    """Return `lookup_runs`; an error is about the figure."""
    try:
        return lookup_runs(runs)
    except ConfigError as error:
        raise error.at("figure") from None


def _one_data(models: Sequence[LookupRuns]) -> tuple[list[LookupRuns], list[str]]:
    """Return the models on the data with the most sizes."""
    sizes: dict[str, int] = {}
    for each in models:
        sizes[each.data] = sizes.get(each.data, 0) + len(each.runs)
    data = max(sizes, key=lambda name: sizes[name])
    return [each for each in models if each.data == data], [f"not drawn: {name}" for name in sizes if name != data]


def _first(models: list[LookupRuns]) -> tuple[list[LookupRuns], list[str]]:
    """Return the models that are drawn, at most `MOST_LINES`, those with softmax first."""
    models = sorted(models, key=lambda each: getattr(each.model, "weighting", "") != "softmax")
    labels = list(dict.fromkeys(each.label for each in models))
    n = len(labels) - MOST_LINES
    shown = [each for each in models if each.label in labels[:MOST_LINES]]
    return shown, [f"not drawn: {count_label(n, 'other model')}"] if n > 0 else []


def n_seeds(models: Sequence[LookupRuns]) -> str:
    """Return ``10 seeds``."""
    return seeds_label({len(by_seed) for each in models for by_seed in each.runs.values()})
