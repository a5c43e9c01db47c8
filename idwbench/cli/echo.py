"""Printing of lines: `echo` replaces `typer.echo`, which lets control characters of files and names pass."""

from __future__ import annotations

import typer

from idwbench.errors import printable

__all__ = ["echo"]


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text to stdout or stderr, with its control characters escaped."""
    typer.echo(printable(text), err=err, nl=nl)
