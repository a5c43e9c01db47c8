"""What a page consists of: tables, charts, prototypes and pictures, as values that a template can print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from idwbench.report.tables import Table

__all__ = [
    "Chart",
    "Legend",
    "Panels",
    "Part",
    "PatchCase",
    "PatchState",
    "PrototypeGrid",
    "sentences",
    "size_of",
    "table_data",
]


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite chart.

    Attributes:
        title: Above the chart.
        description: What it shows, for screen readers.
        spec: The Vega-Lite specification.
    """

    title: str
    description: str
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Legend:
    """An entry of a legend: a colour, whether the line is dashed, and a text."""

    text: str
    colour: str
    dash: str = ""


@dataclass(frozen=True)
class Panels:
    """Charts that belong together."""

    title: str
    charts: tuple[Chart, ...]
    legend: tuple[Legend, ...] = ()


@dataclass(frozen=True)
class PrototypeGrid:
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


@dataclass(frozen=True)
class PatchState:
    """A picture with a text below it; no picture if the network is not stored."""

    picture: str
    label: str
    text: str


@dataclass(frozen=True)
class PatchCase:
    """One patched input, before and after; or with `small` pictures, an input and what belongs to it."""

    title: str
    states: tuple[PatchState, ...]
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
    patches: tuple[PatchCase, ...] = ()


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
    tables = sum(len(cell.text) + 3 for table in part.tables for column in table.columns for cell in column.cells)
    charts = [chart.spec for panels in part.panels for chart in panels.charts]
    charts += [grid.chart.spec for grid in part.grids if grid.chart is not None]
    content = [*charts, *(grid.data for grid in part.grids if grid.data is not None)]
    pictures = sum(len(state.picture) for case in part.patches for state in case.states)
    return tables + pictures + sum(len(json.dumps(item, separators=(",", ":"))) for item in content)


def sentences(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines with a capital letter and a full stop, each once."""
    found = dict.fromkeys(line.strip() for line in lines if line.strip())
    return tuple(f"{line[0].upper()}{line[1:]}{'' if line.endswith('.') else '.'}" for line in found)
