"""Differences of runs: what is printed of them, and facts for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from idwbench.cli.output import print_table
from idwbench.report.labels import plain_value
from idwbench.results.comparison import ArrayDifference
from idwbench.runs.metrics import METRICS

__all__ = ["array_facts", "array_line", "curve_line", "print_differences", "print_metric_differences"]


def print_metric_differences(
    metrics: Mapping[tuple[str, str], tuple[float | None, float | None]], heads: tuple[str, str]
) -> None:
    """Print a table of metrics, in percent where reports show them so, with a column for the difference."""
    rows: dict[str, tuple[Any, ...]] = {}
    for (split, name), pair in metrics.items():
        percent = name in METRICS and METRICS[name].percent
        one, other = (value if value is None or not percent else 100 * value for value in pair)
        label = f"{split} {name.replace('_', ' ')}{' in %' if percent else ''}"
        rows[label] = (one, other, None if one is None or other is None else other - one)
    print_differences("metrics", rows, (*heads, "difference"))


def print_differences(title: str, pairs: Mapping[str, tuple[Any, ...]], heads: tuple[str, ...]) -> None:
    """Print a table with a row for each name and the values below `heads`; nothing without names."""
    if pairs:
        values = zip(*(map(_text, row) for row in pairs.values()), strict=True)
        columns = {title: [*pairs], **dict(zip(heads, map(list, values), strict=True))}
        print_table(columns, texts=columns)


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


def array_facts(differences: Mapping[str, ArrayDifference]) -> dict[str, dict[str, Any]]:
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
