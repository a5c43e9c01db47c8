"""Markdown tables, row by row as they are measured."""

from __future__ import annotations

__all__ = ["header", "row"]


def header(*titles: str, numbers: int = 0) -> None:
    """Print the titles of a table whose last columns but ``must`` hold numbers, if `numbers` says how many."""
    row(*titles)
    first = len(titles) - numbers - (titles[-1] == "must")
    row(*("--:" if first <= place < first + numbers else "---" for place in range(len(titles))))


def row(*cells: str) -> None:
    """Print one row."""
    print(f"| {' | '.join(cells)} |", flush=True)
