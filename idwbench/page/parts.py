"""What a page consists of: tables, charts, prototypes and pictures, as values that a template can print.

Pictures are files within the page: PNG by Pillow, or the SVG of a figure.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap
from numpy.typing import NDArray
from PIL import Image

from idwbench.figures.tiles import KEY_COLOURS, scale_limit
from idwbench.report.tables import Table

__all__ = [
    "Block",
    "Chart",
    "Legend",
    "Part",
    "Picture",
    "image_picture",
    "key_picture",
    "sentences",
    "size_of",
    "table_data",
]

_LEVELS = 31  # colours of a key: few, so that the files are small
_GREYS = 16


class Chart(NamedTuple):
    """A Vega-Lite chart with the title above it, and what it shows, for screen readers."""

    title: str
    description: str
    spec: Mapping[str, Any]


class Legend(NamedTuple):
    """An entry of a legend: a text, a colour, and the dashes of the line."""

    text: str
    colour: str
    dash: str


class Picture(NamedTuple):
    """A picture as an address with its data, and the texts below it."""

    source: str
    label: str
    text: str


class Block(NamedTuple):
    """What belongs together under one title, such as charts with their legend, or the prototypes of one network.

    Attributes:
        note: What was measured, or what is not shown.
        keys: Class names, and for each key its picture, its values and the nearest training images.
        is_small: Whether its pictures are those of single inputs.
    """

    title: str
    note: str = ""
    charts: tuple[Chart, ...] = ()
    legend: tuple[Legend, ...] = ()
    table: Table | None = None
    keys: Mapping[str, Any] | None = None
    pictures: tuple[Picture, ...] = ()
    is_small: bool = False


@dataclass(frozen=True)
class Part:
    """One section of a group.

    Attributes:
        name: ``leaderboard``, ``search``, ``curves``, ``heat-maps``, ``prototypes``, ``patches``, ``attention`` or
            ``more``; the template has its heading and text.
        form: ``plane``, ``images`` or ``rows`` of prototypes, ``plane`` or ``images`` of patches.
        notes: Lines below it.
    """

    name: str
    form: str = ""
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    blocks: tuple[Block, ...] = ()


def table_data(table: Table) -> dict[str, Any]:
    """Return a table as columns of texts, with the places of its best cells."""
    columns = [{"name": column.header, "numeric": column.numeric, "cells": [*column.texts]} for column in table.columns]
    best = [[place for place, is_best in enumerate(column.best) if is_best] for column in table.columns]
    return {"columns": columns, "best": best}


def size_of(part: Part) -> int:
    """Return about how many characters the section takes in the page."""
    return len(repr((part.tables, part.blocks)))


def sentences(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines with a capital letter and a full stop, each once."""
    found = dict.fromkeys(line.strip() for line in lines if line.strip())
    return tuple(f"{line[0].upper()}{line[1:]}{'' if line.endswith('.') else '.'}" for line in found)


def key_picture(key: NDArray[np.floating]) -> str:
    """Return a key (height, width) in its own scale: white is 0, black positive, blue negative."""
    exact = np.asarray(key, np.float64)
    return _picture((exact / scale_limit(exact) + 1) / 2, KEY_COLOURS.resampled(_LEVELS))


def image_picture(image: NDArray[np.floating]) -> str:
    """Return an image (height, width) in shades of grey: white is its lowest value, black its highest."""
    exact = np.asarray(image, np.float64)
    return _picture((exact - exact.min()) / (np.ptp(exact) or 1.0), colormaps["binary"].resampled(_GREYS))


def _picture(shares: NDArray[np.float64], colours: Colormap) -> str:
    """Return numbers from 0 to 1 in the colours of a map, a few of which are the palette of the picture."""
    levels = np.rint(np.clip(shares, 0, 1) * (colours.N - 1)).astype(np.uint8)
    picture = Image.frombytes("P", levels.shape[::-1], levels.tobytes())
    picture.putpalette(colours(np.arange(colours.N), bytes=True)[:, :3].tobytes())
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
