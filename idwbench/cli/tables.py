"""Tables in the terminal, on stdout or in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["write_table"]


_Table = TypeVar("_Table")


def write_table(
    table: _Table,
    render: Callable[[_Table, str], str],
    renderable: Callable[[_Table], RenderableType],
    table_format: str,
    output: Path | None,
    *,
    force: bool,
) -> None:
    """Write a table to a file and print its name, or print it; `renderable` returns it for Rich."""
    if output is not None:
        from idwbench.files import write_file

        write_file(output, render(table, table_format).encode(), overwrite=force)
        typer.echo(str(output))
    elif table_format == "rich":
        from rich.console import Console

        # A pipe has no width.
        Console(highlight=False, width=None if sys.stdout.isatty() else 100).print(renderable(table))
    else:
        typer.echo(render(table, table_format), nl=False)
