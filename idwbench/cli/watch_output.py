"""The progress of sweeps as lines, as JSON, and as a view that is drawn again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from idwbench.errors import printable

if TYPE_CHECKING:
    from idwbench.results.progress import SweepProgress

__all__ = ["LiveView", "plain_lines", "progress_facts", "time_left_label", "view_of"]

_WORDS = {"running": "green", "stale": "yellow", "planned": "dim", "diverged": "magenta", "failed": "red"}
_BAR = 24  # columns


class LiveView:
    """A view on stdout that replaces itself; the last one stays."""

    def __init__(self, console: Console | None = None) -> None:
        self.live = Live(console=console or Console(highlight=False), auto_refresh=False, vertical_overflow="ellipsis")

    def __enter__(self) -> Self:
        """Start the view."""
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the last view, and show the cursor."""
        self.live.stop()

    def show(self, found: Sequence[SweepProgress]) -> None:
        """Replace the view."""
        self.live.update(view_of(found), refresh=True)


def view_of(found: Sequence[SweepProgress]) -> RenderableType:
    """Return a bar and a line for each sweep, with its processes and failures below."""
    if not found:
        return Text("no sweep is stored", style="dim")
    parts: list[RenderableType] = []
    for one in found:
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(printable(one.name), style="bold"),
            ProgressBar(one.status.total or 1, one.ended, _BAR, complete_style="blue", finished_style="green"),
            Text(f"{one.ended:,} of {one.status.total:,}"),
            Text(_pace(one), style="dim"),
        )
        parts += [head, _states(one)]
        parts += [Text(printable(f"  {line}"), overflow="ellipsis", no_wrap=True) for line in _process_lines(one)]
        failures = (
            Text(printable(f"  {line}"), "red", no_wrap=True, overflow="ellipsis") for line in _failure_lines(one)
        )
        parts += [*failures, Text()]
    return Group(*parts[:-1])


def plain_lines(found: Sequence[SweepProgress]) -> Iterator[str]:
    """Yield the progress as lines of text."""
    if not found:
        yield "no sweep is stored"
    for one in found:
        words = [f"{one.ended:,} of {one.status.total:,} runs ended"]
        words += [f"{n:,} {state}" for state, n in _counts(one)]
        yield f"{one.name}: {', '.join(words)}" + (f" · {_pace(one)}" if _pace(one) else "")
        yield from (f"  {line}" for line in (*_process_lines(one), *_failure_lines(one)))


def time_left_label(seconds: float | None) -> str:
    """Return ``about 40 s left``, ``about 12 min left`` or ``about 3.2 h left``; an empty text for None or 0."""
    if not seconds:
        return ""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


def progress_facts(one: SweepProgress) -> dict[str, Any]:
    """Return all of it for JSON."""
    facts = asdict(one)
    rate = facts.pop("rate")
    for process in facts["processes"]:
        process["since"] = process["since"].isoformat()
    return {
        "name": facts.pop("name"),
        **facts.pop("status"),
        "ended": one.ended,
        "runs_per_minute": None if rate is None else 60 * rate,
        **facts,
    }


def _counts(one: SweepProgress) -> Iterator[tuple[str, int]]:
    for state in _WORDS:
        if n := getattr(one.status, state):
            yield state, n


def _states(one: SweepProgress) -> Text:
    text = Text("  ")
    text.append(f"{one.status.complete:,} complete")
    for state, n in _counts(one):
        text.append("  ")
        text.append(f"{n:,} {state}", style=_WORDS[state])
    return text


def _pace(one: SweepProgress) -> str:
    if not one.to_do or one.rate is None:
        return ""
    per_minute = 60 * one.rate
    pace = f"{per_minute:,.0f} runs per minute" if per_minute >= 10 else f"{per_minute:.2g} runs per minute"
    return ", ".join(filter(None, (pace, time_left_label(one.seconds_left))))


def _process_lines(one: SweepProgress) -> Iterator[str]:
    now = datetime.now(UTC)
    for process in one.processes:
        runs = f"{process.runs:,} run{'s' if process.runs > 1 else ''}"
        seconds = max(0, round((now - process.since).total_seconds()))
        yield f"{process.host} process {process.pid}: {runs}, {process.label}, since {seconds:,} s"


def _failure_lines(one: SweepProgress) -> Iterator[str]:
    for failure in one.failures:
        yield f"failed: {failure.label} · seed {failure.seed}: {failure.error or 'no message'}"
