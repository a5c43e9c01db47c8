"""Side by side, in turn: on a noisy machine only ratios of neighbours mean something."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

__all__ = ["Times", "processor_seconds", "side_by_side", "wall_seconds"]

Work = Callable[[], object]


class Times:
    """Seconds of pieces of work, one row a round."""

    def __init__(self, rounds: list[list[float]]) -> None:
        self.rounds = rounds

    def seconds(self, place: int) -> float:
        """Return the median time of one piece of work."""
        return statistics.median(row[place] for row in self.rounds)

    def ratio(self, over: int, under: int) -> float:
        """Return the median, over rounds, of the time of one piece of work divided by that of another."""
        return statistics.median(row[over] / row[under] for row in self.rounds)


def side_by_side(*work: Work, rounds: int = 5, clock: Callable[[Work], float] | None = None) -> Times:
    """Time pieces of work in turn, A B A B …, after one uncounted call of each; by default by processor time."""
    measure = clock or _seconds
    for piece in work:
        piece()
    return Times([[measure(piece) for piece in work] for _ in range(rounds)])


def _seconds(work: Work) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def wall_seconds(work: Work) -> float:
    """Return the seconds that passed during a piece of work."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def processor_seconds(*words: str) -> float:
    """Return the processor time of a Python process with these arguments, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
