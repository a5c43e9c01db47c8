"""A learning curve as text: some epochs in a table, and all in a line of blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from idwbench.report.labels import value_label
from idwbench.runs.results import CurvePoint

__all__ = ["blocks", "curve_lines", "shown_epochs"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_ROWS = 8


def curve_lines(curve: Sequence[CurvePoint], width: int) -> Iterator[str]:
    """Yield a table of at most eight epochs, and for each quantity a line of blocks over all epochs."""
    names = list(dict.fromkeys(key for point in curve for key in point.values))
    labels = [f"{split} {name.replace('_', ' ')}" for split, name in names]
    rows = [
        [str(point.epoch), *(_number(name, point.values.get((split, name))) for split, name in names)]
        for point in (curve[place] for place in shown_epochs(len(curve)))
    ]
    widths = [max(map(len, column)) for column in zip(("epoch", *labels), *rows, strict=True)]
    for row in (["epoch", *labels], *rows):
        yield "  ".join(f"{cell:>{size}}" for cell, size in zip(row, widths, strict=True))
    left = max(map(len, labels))
    for name, label in zip(names, labels, strict=True):
        values = [point.values.get(name, math.nan) for point in curve]
        yield f"{label:<{left}}  {blocks(values, min(60, width - left - 2))}"


def shown_epochs(n: int) -> list[int]:
    """Return the places of at most eight of `n` epochs: the first, the last, and some at equal distances."""
    if n <= _ROWS:
        return list(range(n))
    return sorted({round(place * (n - 1) / (_ROWS - 1)) for place in range(_ROWS)})


def blocks(values: Sequence[float], width: int) -> str:
    """Return a line of at most `width` blocks from the lowest to the highest value; `·` is not finite.

    With more values than blocks, each block is the mean of its values.
    """
    width = max(1, min(width, len(values)))
    edges = [round(place * len(values) / width) for place in range(width + 1)]
    means = [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]
    finite = [mean for mean in means if math.isfinite(mean)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_block(mean, low, high) for mean in means)


def _block(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return "·"
    share = (value - low) / (high - low) if high > low else 0.0
    return _BLOCKS[min(len(_BLOCKS) - 1, int(share * len(_BLOCKS)))]


def _number(name: str, value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "" if value is None else "not finite"
    return value_label(name, value)
