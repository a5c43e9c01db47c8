"""Learning curves of the best settings of a group, and its heat maps over power and epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from idwbench.errors import ConfigError
from idwbench.figures.curves import collect_curves
from idwbench.figures.lines import Panel, PanelRow, line_spread
from idwbench.figures.moons import collect_heat_maps
from idwbench.figures.runs import Selection
from idwbench.page.charts import DASHES, curve_chart, heat_map_chart
from idwbench.page.parts import Chart, Legend, Panels, Part, sentences
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["curves_part", "heat_maps_part"]

_CURVES = (
    "Mean over seeds against the epoch. The band is the mean ± sample standard deviation, within the range of the "
    "seeds."
)
_HEAT = "Mean over seeds for each power p and each ε. Light is better; a cell has its spread and seeds in the tooltip."


def curves_part(results: Results, runs: Sequence[StoredRun], left_out: Sequence[str] = ()) -> Part | None:
    """Return the section of learning curves; None if no run has one."""
    selection = Selection(results, runs)
    try:
        rows, _ = collect_curves(selection)
    except ConfigError:
        return None
    panels: list[Panels] = []
    heading = ""
    for row in rows:
        is_new = bool(row.heading) or not panels
        heading = row.heading or heading
        found = _panels(row, heading)
        if is_new:
            panels.append(found)
        elif len(found.charts) == len(panels[-1].charts) == 1:
            panels[-1] = _side_by_side(panels[-1], found, heading)
        else:
            same = found.legend == panels[-1].legend
            panels.append(found._replace(legend=()) if same else found)
    return Part("curves", "Learning curves", _CURVES, sentences([*left_out, *selection.left_out]), panels=tuple(panels))


def heat_maps_part(results: Results, runs: Sequence[StoredRun], left_out: Sequence[str] = ()) -> Part | None:
    """Return the section of heat maps; None with fewer than two powers and two values of ε."""
    selection = Selection(results, runs)
    try:
        maps, source = collect_heat_maps(selection)
    except ConfigError:
        return None
    if any(maps[0].cells.index.unique(level).size < 2 for level in ("power", "epsilon")):
        return None
    charts = tuple(
        Chart(one.title, f"{one.title} for {len(one.cells)} pairs of power and epsilon", heat_map_chart(one))
        for one in maps
    )
    notes = sentences([*left_out, *selection.left_out])
    return Part("heat-maps", "Power and ε", _HEAT, notes, panels=(Panels(source, charts),))


def _side_by_side(first: Panels, second: Panels, heading: str) -> Panels:
    """Return two panels as one row, each under the name of its metric."""
    charts = tuple(
        chart._replace(title=" · ".join(filter(None, (panels.title.removesuffix(f" · {heading}"), chart.title))))
        for panels in (first, second)
        for chart in panels.charts
    )
    return Panels(heading, charts, tuple(dict.fromkeys((*first.legend, *second.legend))))


def _panels(row: PanelRow, heading: str) -> Panels:
    label, percent = row.y.label, row.y.percent
    shown = [panel for panel in row.panels if panel.lines]
    domain = _domain(shown, 100.0 if percent else 1.0)
    charts = []
    for panel in shown:
        spec = curve_chart(panel.lines, label, percent=percent, logarithmic=row.y.base is not None, domain=domain)
        words = (f"{label} against the epoch", panel.title, f"{len(panel.lines)} settings")
        charts.append(Chart(panel.title, ", ".join(filter(None, words)), spec))
    lines = {line.label: line for panel in shown for line in panel.lines}
    legend = (Legend(name, line.colour, " ".join(map(str, DASHES[line.dash]))) for name, line in lines.items())
    title = f"{label[:1].upper()}{label[1:]}{' in %' if percent and '%' not in label else ''}"
    return Panels(f"{title} · {heading}" if heading else title, tuple(charts), tuple(legend))


def _domain(panels: Sequence[Panel], factor: float) -> tuple[float, float]:
    """Return the range of the means with a margin, which the panels of a row share."""
    means = np.concatenate([line_spread(line)[1] for panel in panels for line in panel.lines])
    low, high = factor * float(means.min()), factor * float(means.max())
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return (low - margin if low - margin > 0 or low <= 0 else 0.8 * low, high + margin)
