"""Lists of runs in columns, for a terminal of any width or a pipe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from idwbench.errors import last_line, printable
from idwbench.report.labels import value_label
from idwbench.runs.metrics import METRICS, headline_metric

if TYPE_CHECKING:
    import pandas

__all__ = ["row_facts", "run_lines", "state_label", "time_label"]

# The columns of a table of runs that are listed.
_FACTS = (
    *("run_key", "dataset", "model", "label", "method", "prototypes", "seed", "state", "retraining", "stale"),
    *("seconds", "attempt", "tags", "note", "error"),
)

_GAP = "  "
_SHORTEST_LABEL = 14
_SHORTEST_TEXT = 24


def time_label(seconds: float | None) -> str:
    """Return ``1.3 ms``, ``0.21 s``, ``95 s``, ``12.5 min`` or ``3.2 h``."""
    if seconds is None:
        return ""
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def row_facts(frame: pandas.DataFrame) -> list[dict[str, Any]]:
    """Return what is listed of each run of a table: the main metric on the test split, and short texts.

    ``error`` is the last line of an error. ``state`` is that of the result, which a run that is trained again keeps.
    """
    metric, value = _main_metrics(frame)
    columns = {name: _plain(frame[name]) for name in _FACTS if name in frame.columns}
    columns |= {"metric": metric, "value": value, "attempts": columns.pop("attempt")}
    columns["retraining"] = [*(frame["retraining"] & ~frame["stale"])]
    columns["error"] = [None if text is None else last_line(text) for text in columns["error"]]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(column: pandas.Series[Any]) -> list[Any]:
    """Return the values of a column, with None for missing ones, and whole numbers whole."""
    values = [None if value != value else value for value in column.tolist()]
    if column.dtype == float and column.name not in ("seconds",):
        return [None if value is None else int(value) for value in values]
    return values


def _main_metrics(frame: pandas.DataFrame) -> tuple[list[str | None], list[float | None]]:
    """Return the name and the value of the main metric of each run, which follows from the task of its data set."""
    names = frame["dataset_task"].map(lambda task: headline_metric(task).name).astype(object)
    values = frame["run_key"].map(lambda _: math.nan)
    for name in names.unique():
        if f"test_{name}" in frame.columns:
            values = values.where(names != name, frame[f"test_{name}"])
    known = values.notna()
    return [*names.where(known, None)], [
        value if is_known else None for value, is_known in zip(values, known, strict=True)
    ]


def state_label(state: str, retraining: bool, stale: bool) -> str:
    """Return ``complete``, ``stale``, or ``complete, retraining``."""
    if state == "running":
        return "stale" if stale else state
    return f"{state}, stale" if stale else f"{state}, retraining" if retraining else state


def run_lines(frame: pandas.DataFrame, width: int | None) -> Iterator[str]:
    """Yield a heading and a line for each run; in a terminal of `width` labels, notes and errors are cut.

    A note or an error that does not fit beside the columns is on the next line. Columns in which no run has a value are
    left out, and in a narrow terminal that of attempts if there was one at each run.
    """
    facts = row_facts(frame)
    metrics = {row["metric"] for row in facts} - {None}
    test = f"test {metrics.copy().pop().replace('_', ' ')}" if len(metrics) == 1 else "test metric"
    rows = [
        {
            "run": row["run_key"][:12],
            "data set": printable(row["dataset"], kept=""),
            "model": printable(row["label"], kept=""),
            "seed": str(row["seed"]),
            "state": state_label(row["state"], row["retraining"], row["stale"]),
            test: _measured(row["metric"], row["value"], len(metrics) > 1),
            "time": time_label(row["seconds"]),
            "attempts": str(row["attempts"]),
            "tags": printable(row["tags"] or "", kept=""),
        }
        for row in facts
    ]
    texts = [printable("; ".join(filter(None, (row["note"], row["error"]))), kept="") for row in facts]
    widths = {name: max(len(row[name]) for row in rows) for name in rows[0]}
    widths = {name: max(len(name), size) for name, size in widths.items() if size}
    narrowest = sum(widths.values()) - max(0, widths["model"] - _SHORTEST_LABEL) + len(_GAP) * (len(widths) - 1)
    if width is not None and narrowest > width and all(row["attempts"] <= 1 for row in facts):
        del widths["attempts"]
    rest = _fit(widths, width, any(texts))
    heading = " and ".join(name for name in ("note", "error") if any(row[name] for row in facts))
    head = _joined({name: name for name in widths}, widths)
    yield f"{head}{_GAP}{heading}" if heading and rest != 0 else head.rstrip()
    for row, text in zip(rows, texts, strict=True):
        line = _joined(row, widths)
        yield _with_text(line, text, rest, width) if text else line.rstrip()


def _joined(row: Mapping[str, str], widths: Mapping[str, int]) -> str:
    """Return the cells of a row; numbers and times are on the right."""
    left = ("run", "data set", "model", "state", "tags")
    cells = ((_cut(row[name], size), size, name in left) for name, size in widths.items())
    return _GAP.join(f"{cell:<{size}}" if is_left else f"{cell:>{size}}" for cell, size, is_left in cells)


def _measured(metric: str | None, value: float | None, named: bool) -> str:
    if metric is None or value is None:
        return ""
    text = f"{100 * value:.2f} %" if METRICS[metric].percent else value_label(metric, value)
    return f"{metric.replace('_', ' ')} {text}" if named else text


def _fit(widths: dict[str, int], width: int | None, has_texts: bool) -> int | None:
    """Cut the column of models to the terminal, and return the columns left for a note or an error; 0 if too few."""
    if width is None:
        return None
    left = width - sum(widths.values()) - len(_GAP) * (len(widths) - 1)
    wanted = _SHORTEST_TEXT + len(_GAP) if has_texts else 0
    spare = max(0, widths["model"] - _SHORTEST_LABEL)
    if left + spare < wanted:
        wanted = 0  # they are on lines of their own
    cut = min(max(0, wanted - left), spare)
    widths["model"] -= cut
    return left + cut - len(_GAP) if wanted else 0


def _with_text(line: str, text: str, rest: int | None, width: int | None) -> str:
    if rest is None:
        return f"{line}{_GAP}{text}"
    return f"{line}{_GAP}{_cut(text, rest)}" if rest else f"{line.rstrip()}\n{_cut(f'    {text}', width or 80)}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
