"""Printing of lines and JSON: `echo` replaces `typer.echo`, which lets control characters of files and names pass."""

from __future__ import annotations

import math
from typing import Any

import typer

from idwbench.errors import printable

__all__ = ["echo", "echo_json"]


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text to stdout or stderr, with its control characters escaped."""
    typer.echo(printable(text), err=err, nl=nl)


def echo_json(content: Any, *, indent: int | None = None) -> None:
    """Print JSON, which has null for numbers that are not finite, and text for times."""
    import json

    echo(json.dumps(_finite(content), indent=indent, default=str, allow_nan=False))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
