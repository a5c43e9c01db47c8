"""Rendering of reports and leaderboards in all formats."""

from __future__ import annotations

from typing import Literal, get_args

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.exports import render_csv, render_json
from idwbench.report.latex import render_latex
from idwbench.report.layout import Printable, tables_of
from idwbench.report.markdown import render_markdown

__all__ = ["TABLE_FORMATS", "TableFormat", "render"]

TableFormat = Literal["rich", "markdown", "latex", "csv", "json"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)

_RENDERERS = {"markdown": render_markdown, "latex": render_latex}
_EXPORTS = {"csv": render_csv, "json": render_json}


def render(report: Printable, table_format: str) -> str:
    """Return a report or leaderboard as text that ends with a newline.

    ``rich`` is 100 columns wide and without colour.

    Raises:
        ConfigError: `table_format` is not in `TABLE_FORMATS`.
    """
    if table_format == "rich":
        from idwbench.report.terminal import render_plain  # importing Rich is slow

        return render_plain(report)
    if table_format in _EXPORTS:
        return _EXPORTS[table_format](report)
    if table_format in _RENDERERS:
        return _RENDERERS[table_format](tables_of(report))
    hint = did_you_mean(table_format, TABLE_FORMATS)
    raise ConfigError(f"unknown format '{table_format}'", location=("format",), hint=hint)
