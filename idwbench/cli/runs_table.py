"""Lists of runs in columns, for a terminal of any width or a pipe."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

from idwbench.report.labels import value_label
from idwbench.results.listing import RunRow
from idwbench.runs.metrics import METRICS

__all__ = ["printable", "run_lines", "state_label", "terminal_width", "time_label"]

_GAP = "  "
_SHORTEST_LABEL = 14
_SHORTEST_ERROR = 24


def terminal_width() -> int | None:
    """Return the number of columns of the terminal, or None: a pipe or a file has no width."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def printable(text: str) -> str:
    """Return a text in which control characters are escaped."""
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def time_label(seconds: float | None) -> str:
    """Return ``1.3 ms``, ``0.21 s``, ``95 s``, ``12.5 min`` or ``3.2 h``."""
    if seconds is None:
        return ""
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def state_label(state: str, retraining: bool, stale: bool) -> str:
    """Return ``complete``, ``stale``, or ``complete, retraining``."""
    if state == "running":
        return "stale" if stale else state
    return f"{state}, stale" if stale else f"{state}, retraining" if retraining else state


def run_lines(rows: Sequence[RunRow], width: int | None) -> Iterator[str]:
    """Yield a heading and a line for each run; in a terminal of `width` labels and errors are cut.

    An error that does not fit beside the columns is on the next line. Columns in which no run has a value are left out,
    and in a narrow terminal that of attempts if there was one at each run.
    """
    # Of 100,000 rows each distinct text is made once.
    pairs = {(row.metric, row.value) for row in rows}
    names = {name for name, _ in pairs if name is not None}
    test = f"test {next(iter(names)).replace('_', ' ')}" if len(names) == 1 else "test metric"
    values = {pair: _measured(*pair, len(names) > 1) for pair in pairs}
    times = [time_label(row.seconds) for row in rows]
    models = {pair: (printable(pair[0]), printable(pair[1])) for pair in {(row.dataset, row.label) for row in rows}}
    states = {key: state_label(*key) for key in {(row.state, row.retraining, row.stale) for row in rows}}
    sizes = {
        "run": 12,
        "data set": max(len(dataset) for dataset, _ in models.values()),
        "model": max(len(label) for _, label in models.values()),
        "seed": len(str(max(row.seed for row in rows))),
        "state": max(map(len, states.values())),
        test: max(map(len, values.values())),
        "time": max(map(len, times)),
        "attempts": len(str(max(row.attempts for row in rows))),
    }
    widths = {name: max(len(name), size) for name, size in sizes.items() if size}
    narrowest = sum(widths.values()) - max(0, widths["model"] - _SHORTEST_LABEL) + len(_GAP) * (len(widths) - 1)
    if width is not None and narrowest > width and all(row.attempts <= 1 for row in rows):
        del widths["attempts"]
    has_errors = any(row.error for row in rows)
    rest = _fit(widths, width, has_errors)

    def about(dataset: str, label: str) -> str:
        return f"{dataset:<{widths['data set']}}  {_cut(label, widths['model']):<{widths['model']}}"

    left = {pair: about(*words) for pair, words in models.items()}
    middle = {key: f"{word:<{widths['state']}}" for key, word in states.items()}
    seed_width = widths["seed"]
    others = (test, "time", "attempts")
    test_width, time_width, attempts_width = (len(_GAP) + widths[name] if name in widths else 0 for name in others)
    head = (
        f"{'run':<12}  {about('data set', 'model')}  {'seed':>{seed_width}}  {'state':<{widths['state']}}"
        f"{test if test_width else '':>{test_width}}{'time' if time_width else '':>{time_width}}"
        f"{'attempts' if attempts_width else '':>{attempts_width}}"
    )
    yield f"{head}{_GAP}error" if has_errors and rest != 0 else head
    form = f"%s  %s  %{seed_width}d  %s%s%{time_width or ''}s%{attempts_width or ''}s"
    measured = {pair: f"{text:>{test_width}}" for pair, text in values.items()}
    for row, time in zip(rows, times, strict=True):
        key, dataset, _, label, _, _, seed, state, retraining, stale, metric, value, _, attempts, error = row
        state_cell, test_cell = middle[state, retraining, stale], measured[metric, value]
        number = attempts if attempts_width else ""
        text = form % (key[:12], left[dataset, label], seed, state_cell, test_cell, time, number)
        yield text if error is None else _with_error(text, printable(error), rest, width)


_PERCENT = {metric.name for metric in METRICS.values() if metric.percent}


def _measured(metric: str | None, value: float | None, named: bool) -> str:
    if metric is None or value is None:
        return ""
    text = f"{100 * value:.2f} %" if metric in _PERCENT else value_label(metric, value)
    return f"{metric.replace('_', ' ')} {text}" if named else text


def _fit(widths: dict[str, int], width: int | None, has_errors: bool) -> int | None:
    """Cut the column of models to the terminal, and return the columns left for an error beside it; 0 if too few."""
    if width is None:
        return None
    left = width - sum(widths.values()) - len(_GAP) * (len(widths) - 1)
    wanted = _SHORTEST_ERROR + len(_GAP) if has_errors else 0
    spare = max(0, widths["model"] - _SHORTEST_LABEL)
    if left + spare < wanted:
        wanted = 0  # errors are on lines of their own
    cut = min(max(0, wanted - left), spare)
    widths["model"] -= cut
    return left + cut - len(_GAP) if wanted else 0


def _with_error(line: str, error: str, rest: int | None, width: int | None) -> str:
    if rest is None:
        return f"{line}{_GAP}{error}"
    return f"{line}{_GAP}{_cut(error, rest)}" if rest else f"{line}\n{_cut(f'    {error}', width or 80)}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
