"""Differences of runs as lines of text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from idwbench.report.labels import plain_value
from idwbench.results.comparison import ArrayDifference
from idwbench.runs.metrics import METRICS

__all__ = ["array_line", "curve_line", "difference_table", "facts_of_arrays", "metric_table"]


def metric_table(
    metrics: Mapping[tuple[str, str], tuple[float | None, float | None]], heads: tuple[str, str]
) -> Iterator[str]:
    """Yield a table of metrics, in percent where reports show them so, with a column for the difference."""
    rows: dict[str, tuple[Any, ...]] = {}
    for (split, name), pair in metrics.items():
        percent = name in METRICS and METRICS[name].percent
        one, other = (value if value is None or not percent else 100 * value for value in pair)
        label = f"{split} {name.replace('_', ' ')}{' in %' if percent else ''}"
        rows[label] = (one, other, None if one is None or other is None else other - one)
    yield from difference_table("metrics", rows, (*heads, "difference"))


def difference_table(title: str, pairs: Mapping[str, tuple[Any, ...]], heads: tuple[str, ...]) -> Iterator[str]:
    """Yield a table with a line for each name, and a heading; nothing without lines."""
    if not pairs:
        return
    rows = [(name, *map(_text, values)) for name, values in pairs.items()]
    widths = [max(map(len, column)) for column in zip((title, *heads), *rows, strict=True)]
    for row in ((title, *heads), *rows):
        cells = [f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def array_line(name: str, difference: ArrayDifference) -> str:
    """Return ``keys (4, 2): largest difference 0.0012``, ``keys (4, 2): identical``, or the shapes that differ."""
    one, other = difference.shapes
    if one != other:
        shapes = ["missing" if shape is None else f"shape {shape}" for shape in difference.shapes]
        return f"{name}: {shapes[0]} and {shapes[1]}"
    found = "identical" if difference.identical else "not comparable"
    if not difference.identical and difference.largest is not None:
        found = f"largest difference {difference.largest:.4g}"
    return f"{name} {one}: {found}"


def facts_of_arrays(differences: Mapping[str, ArrayDifference]) -> dict[str, dict[str, Any]]:
    """Return differences of arrays for JSON."""
    return {
        name: {"identical": found.identical, "largest_difference": found.largest, "shapes": found.shapes}
        for name, found in differences.items()
    }


def curve_line(difference: float | None) -> str:
    """Return ``curve: equal``, ``curve: largest difference 0.0012``, or that the epochs differ."""
    if difference == 0:
        return "curve: equal"
    return f"curve: {'other epochs' if difference is None else f'largest difference {difference:.4g}'}"


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else plain_value(value)
