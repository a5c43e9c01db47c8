"""Side by side, in one process: on a noisy machine only ratios of neighbours mean something."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Pair", "side_by_side"]


@dataclass(frozen=True)
class Pair:
    """Median seconds of two pieces of work, and the median of their ratios round by round."""

    first: float
    second: float
    ratio: float


def side_by_side(first: Callable[[], object], second: Callable[[], object], rounds: int = 5) -> Pair:
    """Time two pieces of work in turn, A B A B …, after one call of each that is not counted."""
    first()
    second()
    times = [(_seconds(first), _seconds(second)) for _ in range(rounds)]
    return Pair(
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        statistics.median(b / a for a, b in times),
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
