"""Figures in a terminal: two pixels for each character, as Unicode half blocks in 24-bit colour."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import groupby

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from idwbench.figures.drawing import CAPTION, PAPER

__all__ = ["TerminalFigure", "half_blocks"]

_FINER = 3  # pixels drawn for each one shown, in each direction


class TerminalFigure:
    """A Rich renderable as wide as the terminal: ``Console().print(TerminalFigure(figure))``."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment | Text]:
        yield from half_blocks(_pixels(self.figure, options.max_width))
        yield _legend(self.figure)
        for text in reversed([text for text in self.figure.texts if text.get_gid() == CAPTION]):
            yield Text(text.get_text())


def half_blocks(pixels: NDArray[np.uint8]) -> Iterator[Segment]:
    """Return the segments of an image (rows, columns, 3) with an even number of rows: a line for each two rows.

    The upper pixel is the colour of the character ▀, the lower one its background.
    """
    for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        for (top, bottom), same in groupby(zip(map(tuple, upper), map(tuple, lower), strict=True)):
            style = Style(color=Color.from_rgb(*top), bgcolor=Color.from_rgb(*bottom))
            yield Segment("▀" * len(list(same)), style)
        yield Segment.line()


def _legend(figure: Figure) -> Text:
    """Return the names of a figure's lines in their colours, since the letters of the image are too small."""
    words = Text()
    axes_legends = (axes.get_legend() for axes in figure.axes)
    for legend in filter(None, (*figure.legends, *axes_legends)):
        for line in legend.get_lines():
            if line.get_linestyle() != "None":
                words.append("━━ ", to_hex(line.get_color()))
                words.append(f"{line.get_label()}   ")
    return words


def _pixels(figure: Figure, columns: int) -> NDArray[np.uint8]:
    width, height = figure.get_size_inches()
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=_FINER * columns / width, format="png", facecolor=PAPER)
    rows = 2 * max(1, round(columns * height / width / 2))
    with Image.open(drawn) as image:
        return np.asarray(image.convert("RGB").resize((columns, rows), Image.Resampling.LANCZOS))
