"""Heat maps over power and epsilon of a group."""

from __future__ import annotations

from collections.abc import Sequence

from idwbench.errors import ConfigError
from idwbench.page.charts import heat_map_chart
from idwbench.page.parts import Chart, Panels, Part, sentences
from idwbench.results.records import StoredRun

__all__ = ["heat_maps_part"]

_TEXT = "Mean over seeds for each power p and each ε. Light is better; a cell has its spread and seeds in the tooltip."


def heat_maps_part(runs: Sequence[StoredRun], left_out: Sequence[str] = ()) -> Part | None:
    """Return the section of heat maps; None with fewer than two powers and two values of ε."""
    from idwbench.figures.power_epsilon_heatmap import collect_heat_maps

    try:
        maps, source, others = collect_heat_maps(runs)
    except ConfigError:
        return None
    places = maps[0].cells
    if len({power for power, _ in places}) < 2 or len({epsilon for _, epsilon in places}) < 2:
        return None
    charts = tuple(
        Chart(one.title, f"{one.title} for {len(one.cells)} pairs of power and epsilon", heat_map_chart(one))
        for one in maps
    )
    return Part("heat-maps", "Power and ε", _TEXT, sentences([*left_out, *others]), panels=(Panels(source, charts),))
