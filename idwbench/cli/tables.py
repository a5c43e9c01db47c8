"""Tables in the terminal, on stdout or in a file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from idwbench.cli.echo import echo

if TYPE_CHECKING:
    from idwbench.report.tables import Table

__all__ = ["write_tables"]


def write_tables(tables: Sequence[Table], table_format: str, output: Path | None, *, force: bool) -> None:
    """Write tables to a file and print its name, or print them."""
    from idwbench.report.render import render
    from idwbench.report.text import render_text

    if output is not None:
        from idwbench.files import write_file

        write_file(output, render(tables, table_format).encode(), overwrite=force)
        echo(str(output))
    elif table_format == "rich" and sys.stdout.isatty():
        # Without bold, on a dumb terminal, a star marks the best.
        style = None if os.environ.get("TERM") in ("dumb", "unknown") else _styled
        # Its texts are without control characters already, those of the style must stay.
        typer.echo(render_text(tables, shutil.get_terminal_size().columns, style), nl=False)
    else:
        echo(render(tables, table_format), nl=False)


def _styled(text: str, how: str) -> str:
    if how in ("bold", "dim"):
        return typer.style(text, **{how: True})
    return text if os.environ.get("NO_COLOR") else typer.style(text, fg=how)
