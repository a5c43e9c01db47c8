"""Tables in the terminal, on stdout or in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from idwbench.cli.echo import echo

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

__all__ = ["write_table"]


_Table = TypeVar("_Table")


class _RichRenderable(Protocol):
    """An object that Rich can print."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        """Yield its parts."""


def write_table(
    table: _Table,
    render: Callable[[_Table, str], str],
    renderable: Callable[[_Table], _RichRenderable],
    table_format: str,
    output: Path | None,
    *,
    force: bool,
) -> None:
    """Write a table to a file and print its name, or print it; `renderable` returns it for Rich."""
    if output is not None:
        from idwbench.files import write_file

        write_file(output, render(table, table_format).encode(), overwrite=force)
        echo(str(output))
    elif table_format == "rich":
        from rich.console import Console

        # A pipe has no width.
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
        for part in renderable(table).__rich_console__(console, console.options):
            console.print(part, crop=not getattr(part, "fits", False))
    else:
        echo(render(table, table_format), nl=False)
