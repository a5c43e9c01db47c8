"""The primitive of figures of lines over seeds: panels of one tidy table of points.

A row of the table is one point: its `label`, `x` and `value`, and where there are several its `seed`, the title of its
`panel`, its `measure`, which names the axis of values, and the heading of its `block` of panels. Points without a seed
are those of a formula. If the table has an `x_value` by seed, its mean with error bars stands for x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.axis import XAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from idwbench.figures import style
from idwbench.figures.style import CLASS_COLOURS, INK, PAPER, QUIET, class_colour

__all__ = ["DASHES", "Axis", "Look", "draw_lines", "line_spread", "place_looks"]

DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")
_WIDTH, _HEIGHT, _TITLE, _AXIS = 10.0, 2.0, 0.3, 0.45  # inches: of a figure, and the heights of a row of panels
_FEW = 3  # number of lines of a panel up to which their range is drawn too
_DECADES = 2.0  # range of a logarithmic axis up to which it has ticks between powers of its base
_COLUMNS: dict[str, Any] = {"block": "", "measure": "", "panel": "", "seed": np.nan}  # of tables that lack them


@dataclass(frozen=True)
class Look:
    """How the line of a label is drawn.

    Attributes:
        dash: A style of matplotlib; ``none`` for points alone.
        marker: That of points with error bars, which stand for a band; or none.
    """

    colour: str
    dash: Any = "-"
    marker: str = ""


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        percent: Whether numbers are shown times 100.
        base: Of its logarithms, or none.
        linear: The number up to which it is linear, logarithmic beyond, or none.
        limits: The least and the largest number; None is as the data have it.
        ticks: Numbers with ticks; by default a few.
        centre: What a line is over the seeds: their mean, or that of the logarithms, with the standard deviation around
            it; or the median with the quartiles, at each x that at least half of the seeds have.
    """

    label: str
    percent: bool = False
    base: int | None = None
    linear: float | None = None
    limits: tuple[float | None, float | None] = (None, None)
    ticks: Sequence[float] = ()
    centre: Literal["mean", "geometric mean", "median"] = "mean"


Looks = Mapping[str, Look]


def place_looks(labels: Sequence[str], *, points: bool = False) -> dict[str, Look]:
    """Return looks by the places of labels, of which 40 differ; further labels have none.

    Each ten have the ten colours, and each five a dash. Points have colours alone.
    """
    numbers = range(len(DASHES) * len(CLASS_COLOURS))
    looks = (Look(class_colour(n), DASHES[(n // 5 + n // 20) % len(DASHES)]) for n in numbers)
    if points:
        looks = (Look(look.colour, "none", "o") for look in looks)
    return dict(zip(labels, looks, strict=False))


def line_spread(line: pandas.DataFrame, y: Axis) -> pandas.DataFrame:
    """Return by x the `middle` of a line, the ends `low` and `high` of its band, its range `least` to `most`, and `n`.

    The band is the mean ∓ sample standard deviation within the range of the seeds, so that a recall is not above 1, and
    a logarithmic axis has no numbers below 0; or the quartiles. Means have the x at which a seed has a value.
    """
    values = line.value.replace([np.inf, -np.inf], np.nan)
    by_x = (np.log(values) if y.centre == "geometric mean" else values).groupby(line.x)
    spread = by_x.agg(middle="mean", std="std", least="min", most="max", n="count").fillna({"std": 0.0})
    if y.centre == "median":
        quartiles = {name: by_x.quantile(share) for name, share in (("middle", 0.5), ("low", 0.25), ("high", 0.75))}
        return spread.assign(**quartiles).where(spread.n >= line.seed.nunique() / 2).fillna({"n": 0})
    spread = spread[spread.n > 0]
    # The mean of equal numbers may be rounded out of their range.
    spread["low"] = (spread["middle"] - spread["std"]).clip(spread["least"]).clip(upper=spread["middle"])
    spread["high"] = (spread["middle"] + spread["std"]).clip(upper=spread["most"]).clip(spread["middle"])
    ends = ["middle", "low", "high", "least", "most"]
    return spread.assign(**np.exp(spread[ends])) if y.centre == "geometric mean" else spread


def _draw_line(axes: Axes, line: pandas.DataFrame, look: Look, y: Axis, *, has_range: bool) -> None:
    """Draw the middle over seeds with a band, or with error bars; `has_range` adds a light band of all seeds."""
    spread, factor = line_spread(line, y), 100.0 if y.percent else 1.0
    x, n = spread.index.to_numpy(), spread["n"].to_numpy()
    middle, low, high = (factor * spread[name].to_numpy() for name in ("middle", "low", "high"))
    is_formula, is_median = line.seed.isna().all(), y.centre == "median"
    dash = "-" if is_formula and look.dash == "none" else look.dash
    drawn: dict[str, Any] = {"color": look.colour, "linestyle": dash, "label": line.label.iloc[0]}
    if look.marker and not is_formula:
        errors, x_errors = np.stack([middle - low, high - middle]), None
        drawn |= {"linewidth": 1.8, "marker": look.marker, "markersize": 4, "capsize": 2, "elinewidth": 1}
        if "x_value" in line:
            drawn |= {"markeredgecolor": PAPER, "markersize": 6, "capsize": 0}  # points may lie on each other
            across = line_spread(line.assign(value=line.x_value), y)
            x, x_errors = across["middle"], [across["middle"] - across["low"], across["high"] - across["middle"]]
        axes.errorbar(x, middle, errors, x_errors, **drawn)
        return
    # A band has no width at an x without neighbours.
    is_drawn = np.pad(np.isfinite(middle), 1)
    alone = is_drawn[1:-1] & ~is_drawn[:-2] & ~is_drawn[2:]
    if (several := n > 1).any():
        band: dict[str, Any] = {"color": look.colour, "linewidth": 0}
        if has_range:
            axes.fill_between(x, factor * spread["least"], factor * spread["most"], several, alpha=0.10, **band)
        axes.fill_between(x, low, high, several, alpha=0.18, **band)
        if (lone := alone & several).any():
            axes.vlines(x[lone], low[lone], high[lone], color=look.colour, alpha=0.4, linewidth=2)
    marker = "o" if alone.any() or is_median else None
    axes.plot(x, middle, linewidth=1.6, marker=marker, markersize=2.5 if is_median else 4, **drawn)


def draw_lines(
    points: Any,
    looks: Looks,
    x: Axis | Mapping[str, Axis],
    y: Axis | Mapping[str, Axis],
    caption: Sequence[str] = (),
    *,
    columns: int | None = None,
    height: float = _HEIGHT,
) -> Figure:
    """Return a figure with a block of panels for each heading: a row for each measure, and a column for each title.

    Panels of a row share their axes, those of a block the axis below. In panels with up to three lines a lighter band
    is the range of the seeds, unless the lines have error bars.

    Args:
        points: The table, or what it can be made of; of several points at one x and seed the last counts.
        looks: By label.
        x: The axis below, or several by heading.
        y: The axis of values, or several by measure.
        caption: Sentences below the legend, after those on the spread over seeds.
        columns: The number of panels after which a new row begins; all rows then have the same axis of values.
        height: Of a panel, in inches.
    """
    table = pandas.DataFrame(points)
    table = table.assign(**{name: value for name, value in _COLUMNS.items() if name not in table})
    table = table.drop_duplicates(["block", "measure", "panel", "label", "x", "seed"], keep="last")
    axes_of = y if isinstance(y, Mapping) else {"": y}
    blocks = {heading: _rows(own, columns) for heading, own in table.groupby("block", sort=False)}
    widest = max(len(panels) for rows in blocks.values() for _, panels in rows)
    heights = [
        len(rows) * height + (len(rows) if columns else 1) * _TITLE + _AXIS + 0.25 * bool(heading)
        for heading, rows in blocks.items()
    ]
    width = min(_WIDTH, 0.8 + widest * max(4.6, 1.8 * height))
    handles = [_mark(label, looks[label]) for label in table.label.unique()]
    figure, body = style.new_page(width, sum(heights), [*_on_spread(table, looks, axes_of), *caption], handles)
    parts = style.titled_parts(body, blocks, heights, fontsize=9.5, color=QUIET, weight="normal")
    for part, (heading, rows) in zip(parts, blocks.items(), strict=True):
        grid = part.subplots(len(rows), widest, squeeze=False, sharex=True, sharey=True if columns else "row")
        for number, (places, (measure, panels)) in enumerate(zip(grid, rows, strict=True)):
            _draw_row(places, panels, looks, x[heading] if isinstance(x, Mapping) else x, axes_of[measure])
            for axes in places[: len(rows[number + 1][1]) if number + 1 < len(rows) else 0]:
                axes.set_xlabel("")
                axes.tick_params(labelbottom=False)
            if number and not columns:
                for axes in places:
                    axes.set_title("")
    return figure


def _mark(label: str, look: Look) -> Line2D:
    """Return a mark for the legend."""
    style: dict[str, Any] = {"color": look.colour, "linestyle": look.dash, "linewidth": 1.8, "label": label}
    return Line2D([], [], marker=look.marker, markersize=4, **style)


def _rows(block: pandas.DataFrame, columns: int | None) -> list[tuple[str, dict[str, pandas.DataFrame]]]:
    """Return the measure and the panels of each row."""
    return [
        (str(measure), {title: own[own.panel == title] for title in titles[start : start + (columns or len(titles))]})
        for measure, own in block.groupby("measure", sort=False)
        for titles in [own.panel.unique()]
        for start in range(0, len(titles), columns or len(titles))
    ]


def _draw_row(places: Sequence[Axes], panels: Mapping[str, pandas.DataFrame], looks: Looks, x: Axis, y: Axis) -> None:
    """Draw panels beside each other; places without a panel are empty."""
    for axes in places[len(panels) :]:
        axes.remove()
    for axes, (title, table) in zip(places, panels.items(), strict=False):
        for (label, _), own in table.groupby(["label", table.seed.isna()], sort=False):
            _draw_line(axes, own, looks[label], y, has_range=_has_range(table, looks, y.centre))
        style.style_axes(axes)
        axes.tick_params(labelleft=axes is places[0], labelbottom=True)
        axes.set_xlabel(x.label, fontsize=9.5, color=INK)
        axes.set_title(title, fontsize=10.5, weight="bold", color=INK, pad=5)
    places[0].set_ylabel(y.label, fontsize=9.5, color=INK)
    whole = pandas.concat(panels.values())
    _set_scale(places[0].xaxis, x, whole.x[np.isfinite(whole.value)])
    _set_scale(places[0].yaxis, y, whole.value)


def _has_range(panel: pandas.DataFrame, looks: Looks, centre: str) -> bool:
    """Return whether the range of the seeds is drawn."""
    labels = panel.label.unique()
    return len(labels) <= _FEW and centre != "median" and not any(looks[label].marker for label in labels)


def _on_spread(table: pandas.DataFrame, looks: Looks, axes_of: Mapping[str, Axis]) -> list[str]:
    """Return what shows the middle and the spread over seeds, for each kind of middle."""
    sentences: dict[str, str] = {}
    for centre, own in table.groupby(table.measure.map(lambda measure: axes_of[measure].centre), sort=False):
        labels = ", ".join(axes_of[measure].label for measure in own.measure.unique())
        sentences[labels] = _spread_sentence(own, looks, str(centre))
    is_one = len({*sentences.values()}) == 1
    return [*sentences.values()][:1] if is_one else [f"{labels}: {text}" for labels, text in sentences.items()]


def _spread_sentence(table: pandas.DataFrame, looks: Looks, centre: str) -> str:
    """Return the sentence; empty if all points are those of formulas."""
    measured = table[table.seed.notna() & np.isfinite(table.value)]
    counts = {*measured.groupby(["block", "measure", "panel", "label", "x"]).size()}
    if max(counts, default=1) == 1:
        return "" if table.seed.isna().all() else "one seed: no spread"
    marked = {bool(looks[label].marker) for label in measured.label}
    point, bar = (
        ("line or point", "band or bar") if len(marked) > 1 else ("point", "bar") if any(marked) else ("line", "band")
    )
    if centre == "median":
        return f"{point}: median over {style.seeds_label(counts)}; {bar}: quartiles"
    of_logarithms = " of the logarithms" if centre == "geometric mean" else ""
    ranged = [_has_range(panel, looks, centre) for _, panel in table.groupby(["block", "measure", "panel"])]
    light = "" if not any(ranged) else "; light band: range" + ("" if all(ranged) else f" (up to {_FEW} lines)")
    spread = f"{bar}: mean ± sample standard deviation{of_logarithms}, within the range of the seeds{light}"
    return f"{point}: mean{of_logarithms} over {style.seeds_label(counts)}; {spread}"


def _set_scale(axis: MatplotlibAxis, which: Axis, numbers: pandas.Series[Any]) -> None:
    """Set a logarithmic scale with plain numbers where all are positive, and ticks."""
    is_x = isinstance(axis, XAxis)
    axes = axis.axes
    set_scale, set_limits = (axes.set_xscale, axes.set_xlim) if is_x else (axes.set_yscale, axes.set_ylim)
    if which.linear is not None:
        set_scale("symlog", linthresh=which.linear)
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        return
    finite = numbers[np.isfinite(numbers)]
    low, high = (finite.min(), finite.max()) if len(finite) else (1.0, 1.0)
    if which.base is not None and (low > 0 or which.ticks):
        # With ticks at 0 it is linear up to 1.
        set_scale("log", base=which.base) if low > 0 else set_scale("symlog", linthresh=1, linscale=0.5)
        is_short = which.base == 10 and high < 10**_DECADES * low
        axis.set_major_locator(LogLocator(base=which.base, subs=(1.0, 2.0, 5.0) if is_short else (1.0,), numticks=8))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:.2g}" if value < 1 else f"{value:g}"))
    elif is_x and which.limits == (None, None):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if which.ticks:
        axis.set_major_locator(FixedLocator(sorted(set(which.ticks))))
    if which.limits != (None, None):
        set_limits(*which.limits)
