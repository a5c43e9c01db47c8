"""Facts and tables in the terminal; `idwbench.cli.echo` prints lines and JSON."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence

from idwbench.cli.echo import echo
from idwbench.errors import printable

__all__ = ["print_facts", "print_line", "print_table", "terminal_width"]

_PIPE = 120  # columns of a table that goes to a pipe or a file


def terminal_width(*, err: bool = False) -> int | None:
    """Return the number of columns of the terminal, or None: a pipe or a file has no width."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdigit() and int(given) else os.get_terminal_size(stream.fileno()).columns or 80


def print_line(text: str, *, err: bool = False, hanging: int = 2) -> None:
    """Print a text; one that is longer than a line of the terminal is broken between words.

    `hanging` is the indentation of what follows the first line.
    """
    width = terminal_width(err=err)
    if width is None or len(text) <= width:
        echo(text, err=err)
        return
    indent = " " * min(hanging, width // 2)
    options = {"break_long_words": False, "break_on_hyphens": False, "replace_whitespace": False}
    lines = textwrap.wrap(printable(text), width, subsequent_indent=indent, **options)  # type: ignore[arg-type]
    echo("\n".join(lines), err=err)


def print_facts(facts: Mapping[str, object], *, indent: int = 0) -> None:
    """Print names and values in two columns, without what is None or empty."""
    shown = {printable(name, kept=""): str(value) for name, value in facts.items() if value not in (None, "")}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        print_line(f"{'':{indent}}{name:<{width}}  {printable(value, kept='')}", hanging=indent + width + 2)


def print_table(columns: Mapping[str, Sequence[str]], *, texts: Collection[str] = ()) -> None:
    """Print a table of columns by header; those in `texts` stand on the left, and may be wrapped between words."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for name in columns:
        is_text = name in texts
        table.add_column(Text(printable(name)), justify="left" if is_text else "right", no_wrap=not is_text)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*(Text(printable(cell)) for cell in cells))
    Console(highlight=False, width=terminal_width() or _PIPE).print(table)
