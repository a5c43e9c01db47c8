"""What a page consists of: tables, charts, prototypes and pictures, as values that a template can print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from idwbench.report.tables import Table

__all__ = [
    "Case",
    "Chart",
    "Legend",
    "Panels",
    "Part",
    "Picture",
    "PrototypeGrid",
    "sentences",
    "size_of",
    "table_data",
]


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


class Panels(NamedTuple):
    """Charts that belong together."""

    title: str
    charts: tuple[Chart, ...]
    legend: tuple[Legend, ...] = ()


class PrototypeGrid(NamedTuple):
    """The keys of one trained network.

    Attributes:
        title: Method, parameters, number of prototypes and seed.
        note: What was measured, or what is not shown.
        data: Class names, and for each key its picture, its values and the nearest training images.
        chart: The keys among the training data, if that has two features.
        table: The same keys with their values.
    """

    title: str
    note: str
    data: Mapping[str, Any] | None = None
    chart: Chart | None = None
    table: Table | None = None


class Picture(NamedTuple):
    """A picture as an address with its data, and the texts below it."""

    source: str
    label: str
    text: str


class Case(NamedTuple):
    """One patched input, before and after; or with `small` pictures, an input and what belongs to it."""

    title: str
    pictures: tuple[Picture, ...]
    small: bool = False


@dataclass(frozen=True)
class Part:
    """One section of a group.

    Attributes:
        name: ``leaderboard``, ``curves``, ``heat-maps``, ``prototypes``, ``patches``, ``attention`` or ``more``.
        title: The heading.
        text: One or two sentences about it.
        notes: Lines below it.
    """

    name: str
    title: str
    text: str = ""
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    panels: tuple[Panels, ...] = ()
    grids: tuple[PrototypeGrid, ...] = ()
    cases: tuple[Case, ...] = ()


def table_data(table: Table) -> dict[str, Any]:
    """Return a table as columns of texts, with the places of its best cells."""
    columns = [
        {"name": column.header, "numeric": column.numeric, "cells": [cell.text for cell in column.cells]}
        for column in table.columns
    ]
    best = [[place for place, cell in enumerate(column.cells) if cell.best] for column in table.columns]
    return {"columns": columns, "best": best}


def size_of(part: Part) -> int:
    """Return about how many characters the section takes in the page."""
    content = [chart.spec for panels in part.panels for chart in panels.charts]
    content += [grid.chart.spec if grid.chart is not None else grid.data or {} for grid in part.grids]
    content += [table_data(table) for table in part.tables]
    pictures = sum(len(picture.source) for case in part.cases for picture in case.pictures)
    return pictures + sum(len(json.dumps(item, separators=(",", ":"), ensure_ascii=False)) for item in content)


def sentences(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines with a capital letter and a full stop, each once."""
    found = dict.fromkeys(line.strip() for line in lines if line.strip())
    return tuple(f"{line[0].upper()}{line[1:]}{'' if line.endswith('.') else '.'}" for line in found)
