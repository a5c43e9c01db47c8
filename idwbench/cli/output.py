"""What commands print: lines, facts, tables and JSON, with control characters of files and names escaped.

Nothing else in the command line calls `typer.echo`, which lets them pass.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from idwbench.errors import ConfigError, printable
from idwbench.files import write_file
from idwbench.runs.metrics import METRICS, SPLITS

if TYPE_CHECKING:
    from idwbench.report.tables import Table
    from idwbench.runs.metrics import Metrics

__all__ = [
    "check_format",
    "echo",
    "echo_json",
    "print_facts",
    "print_line",
    "print_model",
    "print_table",
    "print_warnings",
    "terminal_width",
    "time_label",
    "write_tables",
]

_PIPE = 120  # columns of a table that goes to a pipe


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text to stdout or stderr."""
    typer.echo(printable(text), err=err, nl=nl)


def echo_json(content: Any, *, indent: int | None = None) -> None:
    """Print JSON, which has null for numbers that are not finite, and text for times (ISO 8601) and files."""
    import json

    from pydantic_core import to_jsonable_python

    echo(json.dumps(to_jsonable_python(content, inf_nan_mode="null", fallback=str), indent=indent))


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


def print_warnings(warnings: Iterable[str]) -> None:
    """Print a line on stderr for each warning."""
    for warning in warnings:
        print_line(f"warning: {warning}", err=True)


def time_label(seconds: float | None) -> str:
    """Return ``1.3 ms``, ``0.21 s``, ``95 s``, ``12.5 min`` or ``3.2 h``."""
    if seconds is None:
        return ""
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def print_facts(facts: Mapping[str, object], *, title: str = "", indent: int = 0) -> None:
    """Print names and values in two columns, below a title, without what is None or empty; nothing without facts."""
    shown = {printable(name, kept=""): str(value) for name, value in facts.items() if value not in (None, "")}
    if shown and title:
        echo(f"\n{title}")
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        print_line(f"{'':{indent}}{name:<{width}}  {printable(value, kept='')}", hanging=indent + width + 2)


def print_model(metrics: Metrics, model: Path | None, facts: Mapping[str, Any] | None) -> None:
    """Print ``test accuracy 97.00 %`` for each metric of a task, by split, and the model file that was written.

    With `facts`, all metrics are printed as JSON after these.
    """
    if facts is not None:
        named = {f"{split}_{name}": value for (split, name), value in metrics.items()}
        echo_json({**facts, **named, "model": str(model) if model else None})
        return
    of_task = sorted(name for name, metric in METRICS.items() if metric.task is not None)
    for split, name in ((split, name) for split in SPLITS for name in of_task):
        if (value := metrics.get((split, name))) is not None:
            echo(f"{split} {name} {100 * value:.2f} %" if METRICS[name].percent else f"{split} {name} {value:.4g}")
    if model:
        echo(f"model {model}")


def print_table(
    columns: Mapping[str, Sequence[str]],
    *,
    texts: Collection[str] = (),
    below: Collection[str] = (),
    pipe: int | None = _PIPE,
) -> None:
    """Print a table of columns by header.

    Columns in `texts` stand on the left, and may be wrapped between words; in a terminal those in `below` stand below
    the table. `pipe` is the width of a pipe; None for the heading and a line for each row.
    """
    from idwbench.report.tables import Column, Table

    shown = (Column(name, name, own, name not in texts, is_below=name in below) for name, own in columns.items())
    n_rows = max(map(len, columns.values()), default=0)
    write_tables([Table("", tuple(shown), (None,) * n_rows)], "rich", pipe=pipe)


def check_format(given: str | None, output: Path | None, as_json: bool) -> str:
    """Return the format of a table: the one given, else that of the file, else that of the terminal.

    Raises:
        ConfigError: JSON on stdout is asked for beside another format or a file, or the suffix of the file contradicts
            the format or stands for none.
    """
    if as_json and given not in (None, "json"):
        raise ConfigError(f"--format is '{given}'", location=("json",))
    if output is None:
        return "json" if as_json else given or "rich"
    if as_json:
        raise ConfigError("prints to stdout", location=("json",), hint="--format json writes it to the file")

    from idwbench.report.render import format_of

    return format_of(output, given)


def write_tables(
    tables: Sequence[Table],
    table_format: str,
    output: Path | None = None,
    *,
    force: bool = False,
    pipe: int | None = 100,
) -> None:
    """Write tables to a file and print its name, or print them; `pipe` is the width of a text in a pipe."""
    if output is None and table_format == "rich":
        from idwbench.report.text import render_text

        terminal = terminal_width()
        # Without bold, on a dumb terminal, a star marks the best.
        is_plain = terminal is None or os.environ.get("TERM") in ("dumb", "unknown")
        # The function escapes the control characters of texts, but for those of styles.
        return typer.echo(render_text(tables, terminal or pipe, None if is_plain else _styled), nl=False)
    from idwbench.report.render import render

    if output is None:
        return echo(render(tables, table_format), nl=False)
    write_file(output, render(tables, table_format).encode(), overwrite=force)
    echo(str(output))


def _styled(text: str, how: str) -> str:
    if how in ("bold", "dim"):
        return typer.style(text, **{how: True})
    return text if os.environ.get("NO_COLOR") else typer.style(text, fg=how)
