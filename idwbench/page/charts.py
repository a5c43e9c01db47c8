"""The charts of a page: one Vega-Lite specification for each type, and the sections of curves, heat maps and a search.

Altair makes the specifications; the page adds the colours of text and axes. Curves are those of the best settings of a
group.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.curves import collect_curves
from idwbench.figures.lines import Axis, Look, line_spread
from idwbench.figures.moons import HeatMap, collect_heat_maps
from idwbench.figures.runs import Selection
from idwbench.figures.style import class_colour
from idwbench.page.parts import Block, Chart, Legend, Part, sentences
from idwbench.report.labels import count_label
from idwbench.report.search import RANDOM, Search, importance, search_trials, setting_axis

__all__ = [
    "bar_chart",
    "curves_part",
    "heat_map_chart",
    "heat_maps_part",
    "plane_chart",
    "round_number",
    "search_part",
]

_HEIGHT, _CELL = 190, 30  # pixels
_TICKS = 6
_POINTS = 40  # the most epochs of a curve
_BRIGHT = 0.55  # brightness of a cell from which its text is dark
_TRIALS = 200  # the most lines of parallel coordinates
_LOG_RATIO = 10  # of the worst value of a history to the best, from which its axis is logarithmic
_WORST, _BEST = "#D9DEE4", "#0072B2"  # colours of trials
# The dashes of Matplotlib's lines in Vega and in SVG.
_DASHES: dict[str, list[float]] = {"-": [1, 0], "--": [6, 3], "-.": [6, 2, 1.5, 2], ":": [1.5, 2.5]}


def curves_part(selection: Selection) -> Part:
    """Return the section of learning curves; raises `ConfigError` if no run has one."""
    (table, looks, axes), _ = collect_curves(selection)
    blocks: list[Block] = []
    known = set[tuple[str, str]]()
    for (heading, measure), own in table.groupby(["block", "measure"], sort=False):
        labels = {label: looks[label] for label in own.label.unique() if (heading, label) not in known}
        known.update((heading, label) for label in labels)
        blocks.append(_panels(own, looks, axes[measure], heading, labels))
    return Part("curves", notes=sentences(selection.left_out), blocks=tuple(blocks))


def heat_maps_part(selection: Selection) -> Part:
    """Return the section of heat maps; raises `ConfigError` with fewer than two powers or two values of ε."""
    maps, source = collect_heat_maps(selection)
    if any(maps[0].cells.index.unique(level).size < 2 for level in ("power", "epsilon")):
        raise ConfigError("a heat map needs two powers and two values of ε")
    charts = tuple(
        Chart(one.title, f"{one.title} for {len(one.cells)} pairs of power and epsilon", heat_map_chart(one))
        for one in maps
    )
    return Part("heat-maps", notes=sentences(selection.left_out), blocks=(Block(source, charts=charts),))


def search_part(runs: pandas.DataFrame, metric: str | None) -> Part:
    """Return the section of a search; raises `ConfigError` if fewer than two trials have a value."""
    search, notes = search_trials(runs, metric), []
    tooltip = _tooltip({"trial:Q": "trial", "text:N": search.label, "label:N": "settings"})
    count = count_label(len(search.trials), "trial")
    charts = [
        Chart(f"History: {search.label}", f"{search.label} of {count} in their order", _history_chart(search, tooltip))
    ]
    try:
        table, score = importance(search)
    except ConfigError as error:
        notes.append(error.problem)
    else:
        words = f"the forest predicts the order of the trials that were left out with a mean R² of {score:.2f}"
        notes.append(words if score > 0 else f"{words}, no better than a guess: the importance says nothing here")
        chart = bar_chart(table.T.to_dict("list"), RANDOM, "fall of R²", "setting")
        charts.append(Chart("Importance of settings", f"Importance of {len(table) - 1} settings", chart))
    if len(search.trials) > _TRIALS:
        notes.append(f"not drawn below: all but the best {_TRIALS} of {count}")
    parallel = Chart("", f"Settings and {search.label} of {count}", _parallel_chart(search, tooltip))
    blocks = (Block("", charts=tuple(charts)), Block("Settings of the trials", charts=(parallel,)))
    return Part("search", notes=sentences(notes), blocks=blocks)


def _panels(
    table: pandas.DataFrame, looks: Mapping[str, Look], y: Axis, heading: str, labels: Mapping[str, Look]
) -> Block:
    """Return a chart for each panel, and a legend of some labels; the panels share the range of the means."""
    factor = 100.0 if y.percent else 1.0
    found = table.groupby(["panel", "label"], sort=False)
    spreads = {names: line_spread(line, y) for names, line in found}
    means = factor * pandas.concat(spread["middle"] for spread in spreads.values())
    domain = _with_margin(float(means.min()), float(means.max()))
    charts = []
    for title in table.panel.unique():
        lines = {label: spread for (panel, label), spread in spreads.items() if panel == title}
        spec = _curve_chart(lines, looks, y, domain)
        words = (f"{y.label} against the epoch", title, f"{len(lines)} settings")
        charts.append(Chart(title, ", ".join(filter(None, words)), spec))
    legend = (Legend(name, look.colour, " ".join(map(str, _DASHES[look.dash]))) for name, look in labels.items())
    title = f"{y.label[:1].upper()}{y.label[1:]}{' in %' if y.percent and '%' not in y.label else ''}"
    return Block(f"{title} · {heading}" if heading else title, charts=tuple(charts), legend=tuple(legend))


def _with_margin(low: float, high: float) -> tuple[float, float]:
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return (low - margin if low - margin > 0 or low <= 0 else 0.8 * low, high + margin)


def round_number(value: float, digits: int = 4) -> float | None:
    """Return `value` with that many significant digits; None if it is not finite, which JSON cannot write."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _curve_chart(
    lines: Mapping[str, pandas.DataFrame], looks: Mapping[str, Look], y: Axis, domain: tuple[float, float]
) -> dict[str, Any]:
    """Return lines of means over seeds, with bands of mean ± sample standard deviation within the range of the seeds.

    `domain` is the range of values of all panels that share the axis.
    """
    rows = [_points(label, spread, 100.0 if y.percent else 1.0) for label, spread in lines.items()]
    names = [*lines]
    dashes = alt.Scale(domain=names, range=[_DASHES[looks[name].dash] for name in names])
    kind = {"type": "log"} if y.base is not None and domain[0] > 0 else {"zero": False}
    scale = alt.Scale(**kind, domain=list(domain), nice=False)
    axis = alt.Axis(title=None, tickCount=5, format="~r")
    epochs = _axis_of_counts("epoch", {epoch for row in rows for epoch in row["e"]})
    base = (
        _base(rows)
        .transform_flatten([*"emlhsn"])
        .encode(
            x=alt.X("e:Q", axis=epochs, scale=alt.Scale(nice=False, zero=False)),
            color=_colour("c", names, [looks[name].colour for name in names]),
        )
    )
    means = alt.Y("m:Q", scale=scale, axis=axis)
    tooltip = _tooltip({"c:N": "setting", "e:Q": "epoch", "m:Q": y.label, "s:Q": "std", "n:Q": "seeds"})
    layers = alt.layer(
        base.mark_area(opacity=0.18, clip=True).encode(y=alt.Y("l:Q", scale=scale, axis=axis), y2="h:Q"),
        base.mark_line(strokeWidth=1.8, clip=True).encode(
            y=means, strokeDash=alt.StrokeDash("c:N", scale=dashes, legend=None)
        ),
        base.mark_point(size=70, filled=True, opacity=0).encode(y=means, tooltip=tooltip),
    )
    return _spec(layers, _HEIGHT)


def heat_map_chart(heat_map: HeatMap) -> dict[str, Any]:
    """Return a cell for each power and epsilon, dark (worst) to light (best), with mean and spread as text."""
    cells = heat_map.shown().sort_index()
    rows = []
    for (power, epsilon), cell in cells.iterrows():
        shown = {"b": round_number(cell.brightness), "t": cell.text or cell.note, "s": cell.spread, "n": cell.n}
        ink = "dark" if cell.brightness > _BRIGHT else "light"
        rows.append({"p": f"{power:g}", "e": f"{epsilon:g}", **shown, "ink": ink})
    powers, epsilons = ([f"{number:g}" for number in sorted({*axis})] for axis in zip(*cells.index, strict=True))
    base = _base(rows).encode(
        x=alt.X("e:O", sort=epsilons, axis=alt.Axis(title="ε", labelAngle=0, domain=False, ticks=False)),
        y=alt.Y("p:O", sort=powers[::-1], axis=alt.Axis(title="p", titleAngle=0, domain=False, ticks=False)),
        tooltip=_tooltip({"p:O": "p", "e:O": "ε", "t:N": "mean", "s:N": "spread", "n:Q": "seeds"}),
    )
    brightness = alt.Color("b:Q", scale=alt.Scale(scheme="viridis", domain=[0, 1]), legend=None)
    chart = alt.layer(
        base.mark_rect().encode(color=brightness),
        base.mark_text(fontSize=12).encode(text="t:N", color=_colour("ink", ["dark", "light"], ["#10161D", "#FFFFFF"])),
    )
    return _spec(chart.resolve_scale(color="independent"), _CELL * len(powers))


def plane_chart(
    train: NDArray[np.floating],
    labels: NDArray[np.integer],
    keys: NDArray[np.floating],
    values: NDArray[np.floating],
    numbers: NDArray[np.integer],
    class_names: Sequence[str],
) -> dict[str, Any]:
    """Return training points and, larger, keys with their `numbers` in the colour of the class of their value."""

    def places(points: NDArray[np.floating], classes: NDArray[np.integer]) -> list[dict[str, Any]]:
        pairs = zip(points.tolist(), classes, strict=True)
        return [{"x": round_number(x), "y": round_number(y), "c": class_names[label]} for (x, y), label in pairs]

    points, found = places(train, labels), places(keys, values.argmax(axis=1))
    for row, number, value in zip(found, numbers, values, strict=True):
        row |= {"k": f"{number}", "v": ", ".join(f"{one:.3g}" for one in value)}
    axis, scale = alt.Axis(title=None, tickCount=4), alt.Scale(zero=False)
    encoding = {
        "x": alt.X("x:Q", axis=axis, scale=scale),
        "y": alt.Y("y:Q", axis=axis, scale=scale),
        "color": _colour("c", class_names, [class_colour(label) for label in range(len(class_names))]),
    }
    tooltip = _tooltip({"k:N": "key", "c:N": "class of its value", "v:N": "values"})
    dots = _base(points).mark_point(filled=True, size=12, opacity=0.35)
    diamonds = _base(found).mark_point(
        filled=True, shape="diamond", size=110, opacity=1, stroke="#FFFFFF", strokeWidth=1
    )
    return _spec(alt.layer(dots.encode(**encoding), diamonds.encode(**encoding, tooltip=tooltip)), 220)


def bar_chart(bars: Mapping[str, Sequence[float]], marked: str | None, label: str, names: str) -> dict[str, Any]:
    """Return a bar for each of `names`, such as classes, that of `marked` in the colour of the answer.

    A bar has a value and may have two others, the ends of a line upon it.
    """
    rows = []
    for name, numbers in bars.items():
        rows.append({"n": name, "m": name == marked, **dict(zip("vlh", map(round_number, numbers), strict=False))})
    angle = 0 if max(map(len, bars), default=0) <= 3 else -40
    has_lines = any("l" in row for row in rows)
    base = _base(rows).encode(x=alt.X("n:N", sort=list(bars), axis=alt.Axis(title=None, labelAngle=angle)))
    chart = base.mark_bar().encode(
        y=alt.Y("v:Q", axis=alt.Axis(title=label, tickCount=4, format="~g" if has_lines else "~s")),
        color=_colour("m", [True, False], ["#D55E00", "#0072B2"]),
        tooltip=_tooltip({"n:N": names, "v:Q": label}),
    )
    lines = base.mark_rule(strokeWidth=1.8, color="#1F2933").encode(y="l:Q", y2="h:Q")
    return _spec(alt.layer(chart, lines) if has_lines else chart, 150)


def _history_chart(search: Search, tooltip: Sequence[Any]) -> dict[str, Any]:
    """Return a point for the value of each trial against its number, and the best value so far as a line."""
    low, high = search.trials.value.min(), search.trials.value.max()
    scale = alt.Scale(type="log") if 0 < _LOG_RATIO * low < high else alt.Scale(zero=False)
    y = alt.Y("value:Q", scale=scale, axis=alt.Axis(title=None, tickCount=5, format="~r"))
    axis = _axis_of_counts("trial", search.trials.index)
    base = _base(search.trials.reset_index().to_dict("records"))
    base = base.encode(x=alt.X("trial:Q", axis=axis, scale=alt.Scale(zero=False, nice=False)), y=y)
    best = base.mark_line(interpolate="step-after", color=_BEST, strokeWidth=1.8).encode(y="best:Q")
    points = base.mark_point(filled=True, size=45, opacity=0.6, color="#D55E00")
    return _spec(alt.layer(best, points.encode(tooltip=tooltip)), _HEIGHT)


def _parallel_chart(search: Search, tooltip: Sequence[Any]) -> dict[str, Any]:
    """Return a line for each trial through its settings and its value, those of the best on top and darkest."""
    columns = search.settings.assign(**{search.label: search.trials.value})
    axes = {str(name): setting_axis(column) for name, column in columns.items()}
    places = pandas.DataFrame({name: axis.places for name, axis in axes.items()})
    rows = search.trials.reset_index().sort_values("rank")[-_TRIALS:].to_dict("records")
    for row in rows:
        row |= {"axis": [*axes], "place": [round_number(place) for place in places.loc[row["trial"]]]}
    pairs = ((name, place, text) for name, axis in axes.items() for place, text in axis.ticks.items())
    ticks = [dict(zip(("axis", "place", "tick"), pair, strict=True)) for pair in pairs]
    head = alt.Axis(title=None, orient="top", labelAngle=0, labelPadding=12, labelLimit=160, domain=False, ticks=False)
    encoding = {
        "x": alt.X("axis:N", sort=[*axes], axis=head, scale=alt.Scale(type="point", padding=0.3)),
        "y": alt.Y("place:Q", axis=None, scale=alt.Scale(domain=[0, 1])),
    }
    colour = alt.Color("rank:Q", scale=alt.Scale(domain=[0, 1], range=[_WORST, _BEST]), legend=None)
    lines = _base(rows).transform_flatten(["axis", "place"]).mark_line(strokeWidth=1.5)
    marks = _base(ticks).encode(**encoding)
    layers = alt.layer(
        lines.encode(**encoding, color=colour, detail="trial:N", tooltip=tooltip),
        marks.mark_line(color="#1F2933", strokeWidth=1).encode(detail="axis:N"),
        marks.mark_text(align="left", dx=5, fontSize=11.5).encode(text="tick:N"),
    )
    return _spec(layers, int(1.4 * _HEIGHT))


def _base(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.Chart(alt.InlineData(values=list(rows)))


def _axis_of_counts(title: str, counts: Collection[int]) -> Any:
    """Return an axis of whole numbers, with a tick for each of a few; Vega would add halves between these."""
    ticks = {"values": sorted(counts)} if len(counts) <= _TICKS else {"tickCount": _TICKS}
    return alt.Axis(title=title, format="d", **ticks)


def _colour(field: str, domain: Sequence[Any], colours: Sequence[str]) -> Any:
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(domain), range=list(colours)), legend=None)


def _tooltip(titles: Mapping[str, str]) -> list[Any]:
    return [alt.Tooltip(field, title=title) for field, title in titles.items()]


def _points(label: str, spread: pandas.DataFrame, factor: float) -> dict[str, Any]:
    """Return epoch, mean, its band, standard deviation and number of seeds, at no more than `_POINTS` epochs."""
    chosen = np.unique(np.linspace(0, len(spread) - 1, min(len(spread), _POINTS)).round().astype(int))
    shown = spread.iloc[chosen]
    row: dict[str, Any] = {"c": label, "e": [int(epoch) for epoch in shown.index]}
    for name, column, digits in (("m", "middle", 4), ("l", "low", 4), ("h", "high", 4), ("s", "std", 2)):
        row[name] = [round_number(factor * float(number), digits) for number in shown[column]]
    return {**row, "n": [int(count) for count in shown["n"]]}


def _spec(chart: Any, height: int) -> dict[str, Any]:
    """Return a chart as JSON; the page embeds charts of one version, and sets colours and sizes of text."""
    spec: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    return {name: part for name, part in spec.items() if name not in ("$schema", "config")}
