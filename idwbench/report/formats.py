"""Rendering of reports and leaderboards in all formats."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.exports import render_csv, render_json
from idwbench.report.latex import render_latex
from idwbench.report.layout import Printable, tables_of
from idwbench.report.markdown import render_markdown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from idwbench.report.terminal import TerminalReport

__all__ = [
    "TABLE_FORMATS",
    "TABLE_SUFFIXES",
    "TableFormat",
    "find_renderer",
    "format_of",
    "plain_text",
    "render",
    "terminal_report",
]

TableFormat = Literal["rich", "markdown", "latex", "csv", "json"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)

TABLE_SUFFIXES: dict[str, TableFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".tex": "latex",
    ".txt": "rich",
}

_Table = TypeVar("_Table")

_RENDERERS: dict[str, Callable[[Printable], str]] = {
    "rich": lambda report: plain_text(terminal_report(report)),
    "markdown": lambda report: render_markdown(tables_of(report)),
    "latex": lambda report: render_latex(tables_of(report)),
    "csv": render_csv,
    "json": render_json,
}


def render(report: Printable, table_format: str) -> str:
    """Return a report or leaderboard as text that ends with a newline.

    ``rich`` is 100 columns wide and without colour.

    Raises:
        ConfigError: `table_format` is not in `TABLE_FORMATS`.
    """
    return find_renderer(_RENDERERS, table_format)(report)


def terminal_report(report: Printable) -> TerminalReport:
    """Return a report or leaderboard for Rich."""
    from idwbench.report.terminal import TerminalReport  # importing Rich is slow

    return TerminalReport(report)


def format_of(path: Path) -> TableFormat:
    """Return the format of a table that the ending of a file's name stands for.

    Raises:
        ConfigError: it stands for none; `location` is ``("output",)``.
    """
    if path.suffix.lower() in TABLE_SUFFIXES:
        return TABLE_SUFFIXES[path.suffix.lower()]
    problem = f"{f'the ending {path.suffix}' if path.suffix else 'a name without an ending'} stands for no format"
    raise ConfigError(problem, location=("output",), hint=f"of tables: {', '.join(TABLE_SUFFIXES)}")


def find_renderer(renderers: Mapping[str, Callable[[_Table], str]], table_format: str) -> Callable[[_Table], str]:
    """Return the renderer of a format.

    Raises:
        ConfigError: there is none.
    """
    if table_format in renderers:
        return renderers[table_format]
    hint = did_you_mean(table_format, TABLE_FORMATS)
    raise ConfigError(f"unknown format '{table_format}'", location=("format",), hint=hint)


def plain_text(renderable: RenderableType, width: int = 100) -> str:
    """Return what Rich shows on a terminal of `width` columns, without colour."""
    from rich.console import Console  # importing Rich is slow

    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=False, color_system=None, highlight=False)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
