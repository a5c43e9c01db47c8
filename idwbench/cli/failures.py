"""The failed runs of a sweep as a table, grouped by setting and reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from idwbench.errors import last_line, printable
from idwbench.report.labels import count_label

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun
    from idwbench.runs.config import RunConfig

__all__ = ["failure_lines"]

_MOST_ROWS = 20
_REASON_WIDTH = 120


@dataclass(frozen=True)
class _Failure:
    """Runs that failed alike."""

    runs: tuple[StoredRun, ...]
    what: str
    reason: str


def failure_lines(runs: Sequence[StoredRun], label: Callable[[RunConfig], str]) -> Iterator[str]:
    """Yield the lines of a table: number of runs, key of the first, settings by `label`, and the reason.

    Runs of one setting with the same reason share a row. If there are too many rows, runs with the same reason do.
    """
    failures = _grouped(runs, lambda run: (label(run.config), _reason(run)))
    if len(failures) > _MOST_ROWS:
        failures = _grouped(runs, lambda run: ("", _reason(run)))
        failures = [_with_settings(failure, label) for failure in failures]
    yield f"{count_label(len(runs), 'run')} failed:"
    width = max((len(_count(failure)) for failure in failures), default=0)
    for failure in failures[:_MOST_ROWS]:
        yield f"  {_count(failure):>{width}}  {failure.runs[0].run_key[:12]}  {failure.what}: {failure.reason}"
    if rest := failures[_MOST_ROWS:]:
        n = sum(len(failure.runs) for failure in rest)
        yield f"  … and {n:,} more; idwbench runs list --state failed"


def _grouped(runs: Sequence[StoredRun], kind: Callable[[StoredRun], tuple[str, str]]) -> list[_Failure]:
    groups: dict[tuple[str, str], list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(kind(run), []).append(run)
    found = [_Failure(tuple(group), what, reason) for (what, reason), group in groups.items()]
    return sorted(found, key=lambda failure: -len(failure.runs))


def _with_settings(failure: _Failure, label: Callable[[RunConfig], str]) -> _Failure:
    labels = list(dict.fromkeys(label(run.config) for run in failure.runs))
    more = f" and {count_label(len(labels) - 1, 'other setting')}" if len(labels) > 1 else ""
    return _Failure(failure.runs, labels[0] + more, failure.reason)


def _count(failure: _Failure) -> str:
    n = len(failure.runs)
    return f"seed {failure.runs[0].config.seed}" if n == 1 else count_label(n, "run")


def _reason(run: StoredRun) -> str:
    """Return the last line of the stored error, without characters that control a terminal."""
    text = printable(last_line(run.error), kept="") or "no reason"
    return text if len(text) <= _REASON_WIDTH else f"{text[: _REASON_WIDTH - 1]}…"
