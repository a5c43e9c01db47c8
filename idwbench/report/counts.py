"""Notes on the numbers of runs in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from idwbench.report.labels import count_label
from idwbench.results.records import ReportedRun

__all__ = ["Counted", "count_notes", "seed_notes"]


class Counted(Protocol):
    """A row with its numbers of runs."""

    @property
    def n(self) -> int:
        """Number of complete runs."""

    @property
    def n_diverged(self) -> int:
        """Number of diverged runs."""


def count_notes(rows: Sequence[Counted], runs: Sequence[ReportedRun]) -> list[str]:
    """Return notes on rows of one run, and on diverged, failed and unfinished runs."""
    states = Counter(run.state for run in runs)
    counts = (
        (sum(row.n_diverged for row in rows), "diverged; not in the means."),
        (states["failed"], "failed; not shown."),
        (states["planned"] + states["running"], "not finished; not shown."),
    )
    notes = ["n = 1: no spread."] if any(row.n == 1 for row in rows) else []
    return notes + [f"{count_label(n, 'run')} {text}" for n, text in counts if n]


def seed_notes(rows: Sequence[Counted]) -> list[str]:
    """Return a note if some rows have fewer complete runs than others."""
    most = max((row.n for row in rows), default=0)
    fewer = sum(0 < row.n < most for row in rows)
    return [f"{count_label(fewer, 'row')} of {len(rows):,} with fewer than {most:,} seeds; see n."] if fewer else []
