"""Panels of one plane in rows and columns, with labels, a legend and a caption."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from idwbench.figures.plane import Extent
from idwbench.figures.style import INK, PAPER, draw_footer, wrapped_lines

__all__ = ["PanelGrid"]

_WIDTH, _RIGHT, _TOP = 10.0, 0.1, 0.36  # inches


class PanelGrid:
    """A figure, at most 10 inches wide, with panels of one size; a narrow one has its legend in several lines.

    In inches: `margin` is the width of the labels of rows, `widest` the largest width of a panel, `title` the height
    above each, `legend` the height of the legend of a wide and of a narrow figure, `gap` the width between columns, and
    `narrow` the largest width of a narrow figure.
    """

    def __init__(
        self,
        n_rows: int,
        n_columns: int,
        extent: Extent,
        caption: Sequence[str],
        *,
        margin: float,
        widest: float,
        title: float,
        legend: tuple[float, float],
        gap: float = 0.12,
        narrow: float = 9.0,
    ) -> None:
        left, right, bottom, top = extent
        self._width = min((_WIDTH - margin - _RIGHT - gap * (n_columns - 1)) / n_columns, widest)
        self._height = self._width * (top - bottom) / (right - left)
        self._margin, self._title, self._gap = margin, title, gap
        self._across = margin + _RIGHT + ((n_columns - 1) * (self._width + gap) + self._width)
        self._is_wide = self._across > narrow
        self._caption = wrapped_lines(caption, self._across)
        footer = legend[0 if self._is_wide else 1] + 0.165 * len(self._caption)
        self._up = _TOP + n_rows * (self._height + title) + footer
        self.figure = Figure(figsize=(self._across, self._up), facecolor=PAPER)

    def add_axes(self, row: int, column: int) -> Axes:
        """Add the axes of a panel."""
        left, bottom = self._margin + column * (self._width + self._gap), self._bottom(row)
        across, up = self._across, self._up
        return self.figure.add_axes((left / across, bottom / up, self._width / across, self._height / up))

    def row_middle(self, row: int) -> float:
        """Return the height of the middle of a row, as a fraction of the figure."""
        return (self._bottom(row) + self._height / 2) / self._up

    def label_column(self, column: int, text: str, *, size: float = 12, below: float = 0.18) -> None:
        """Write `text` above a column, its middle `below` inches under the upper edge of the figure."""
        x = (self._margin + column * (self._width + self._gap) + self._width / 2) / self._across
        y = 1 - below / self._up
        self.figure.text(x, y, text, ha="center", va="center", fontsize=size, weight="bold", color=INK)

    def draw_legend(self, handles: Sequence[Line2D], n_columns: int, *, above: float = 0.12, spacing: float) -> None:
        """Draw the legend, in `n_columns` if the figure is narrow, and the caption."""
        columns = len(handles) if self._is_wide else n_columns
        draw_footer(self.figure, handles, self._caption, columns, above=above, handletextpad=0.4, columnspacing=spacing)

    def _bottom(self, row: int) -> float:
        return self._up - _TOP - (row + 1) * (self._height + self._title)
