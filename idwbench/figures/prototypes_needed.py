"""A metric against the number of learned prototypes, with a band for kernel regression on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from idwbench.errors import ConfigError
from idwbench.figures.style import INK, PAPER, QUIET, RULE, draw_caption, wrapped_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from idwbench.report.statistics import Statistic

__all__ = ["PrototypesBand", "PrototypesLine", "draw_prototypes_needed"]

_WIDTH, _HEIGHT, _LINE = 6.6, 4.2, 0.165  # inches
_COLUMNS, _ROW = 3, 0.2  # of the legend, and inches
_BAND = QUIET


@dataclass(frozen=True)
class PrototypesLine:
    """One method: its metric by the number of prototypes, in increasing order."""

    label: str
    colour: str
    dash: Any
    statistics: dict[int, Statistic]


@dataclass(frozen=True)
class PrototypesBand:
    """Kernel regression, whose memory are all training data."""

    label: str
    statistic: Statistic


def draw_prototypes_needed(
    lines: Sequence[PrototypesLine], band: PrototypesBand, label: str, *, percent: bool, captions: Sequence[str] = ()
) -> Figure:
    """Return one panel: means with bars of ± sample standard deviation, and the band of kernel regression.

    Args:
        lines: One for each method.
        band: Drawn across the panel, its mean ± sample standard deviation.
        label: That of the axis of values.
        percent: Whether values are shown times 100.
        captions: Sentences below the panel.

    Raises:
        ConfigError: no lines.
    """
    if not any(line.statistics for line in lines):
        raise ConfigError("the figure needs at least one number of prototypes")
    words = wrapped_lines(captions, _WIDTH)
    legend = _ROW * -(-(len(lines) + 1) // _COLUMNS)
    height = _HEIGHT + _LINE * len(words) + legend
    figure = Figure(figsize=(_WIDTH, height), facecolor=PAPER)
    bottom = (0.62 + _LINE * len(words)) / height
    axes = figure.add_axes((0.72 / _WIDTH, bottom, (_WIDTH - 0.86) / _WIDTH, 1 - (0.12 + legend) / height - bottom))
    factor = 100.0 if percent else 1.0
    _draw_band(axes, band, factor)
    for place, line in enumerate(lines):
        _draw_line(axes, line, factor, shift=1.02 ** (2 * place - len(lines) + 1))
    counts = sorted({count for line in lines for count in line.statistics})
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(counts[0] / 1.25, counts[-1] * 1.25)
    axes.set_xlabel("number of learned prototypes", fontsize=10, color=INK)
    axes.set_ylabel(label, fontsize=10, color=INK)
    axes.tick_params(colors=QUIET, labelsize=8.5)
    axes.grid(True, axis="y", color=RULE, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set(color=RULE, visible=side in ("left", "bottom"))
    figure.legend(
        loc="upper center",
        ncols=_COLUMNS,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=2.6,
        borderaxespad=0.4,
    )
    draw_caption(figure, words)
    return figure


def _draw_band(axes: Axes, band: PrototypesBand, factor: float) -> None:
    mean, std = factor * band.statistic.mean, factor * (band.statistic.std or 0.0)
    axes.axhspan(mean - std, mean + std, color=_BAND, alpha=0.18, linewidth=0)
    axes.axhline(mean, color=_BAND, linewidth=1.6, linestyle="--", label=band.label)


def _draw_line(axes: Axes, line: PrototypesLine, factor: float, shift: float) -> None:
    counts = np.array(list(line.statistics), dtype=np.float64)
    mean = factor * np.array([one.mean for one in line.statistics.values()])
    std = factor * np.array([one.std or 0.0 for one in line.statistics.values()])
    axes.errorbar(
        counts * shift,  # so that bars of equal counts do not hide each other
        mean,
        std,
        color=line.colour,
        linestyle=line.dash,
        linewidth=1.8,
        marker="o",
        markersize=4.5,
        elinewidth=1.0,
        capsize=2.5,
        label=line.label,
    )
