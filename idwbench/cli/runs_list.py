"""`idwbench runs list`: one line for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import idwbench
from idwbench.cli.options import option
from idwbench.cli.output import echo, echo_json, print_table
from idwbench.errors import last_line
from idwbench.report.labels import value_label
from idwbench.results import DEFAULT_DATABASE
from idwbench.runs.dataset_base import Task
from idwbench.runs.metrics import HEADLINES, METRICS

if TYPE_CHECKING:
    import pandas

    from idwbench.runs.config import RunConfig

__all__ = ["OPTIONS", "row_facts", "runs_list", "time_label"]

OPTIONS = {
    "sort": option(help="Order by a column; -COLUMN begins with the largest.", metavar="COLUMN"),
    "limit": option(help="Only the first runs: without --sort, the newest.", min=1),
}
# What a list needs to know, and to sort by the newest.
_FACTS = ("seconds", "attempt", "tags", "note", "error", "created_at", "started_at", "finished_at")
_LISTED = (
    *("run_key", "dataset", "model", "label", "method", "prototypes", "seed", "state", "retraining", "stale"),
    *("seconds", "tags", "note", "error", "metric", "value", "attempts"),
)
_METRICS = tuple(HEADLINES[task].name for task in get_args(Task))


def runs_list(
    db: str = DEFAULT_DATABASE,
    where: str | None = None,
    sweep: str | None = None,
    state: list[str] | None = None,
    sort: str | None = None,
    limit: int | None = None,
    json: bool = False,
) -> None:
    """List runs, the newest first.

    A line has key, data set, model, seed, state, the main metric on the test split, training time, number of attempts,
    tags, and the note or the reason of a failure.

    --where takes an expression on the columns of `Results.to_frame`, such as method, prototypes, seed, dataset_noise,
    learning_rate, test_accuracy, host, tags or finished_at. It has ==, !=, <, <=, >, >=, and, or, not, arithmetic and
    in: method in ["idw", "neg_dist"], "best" in tags. None is a missing value.
    """
    from idwbench.results.filters import sorted_runs, value_hint
    from idwbench.results.frame import with_settings

    # An expression and an order may be of any column.
    read: dict[str, Any] = {} if where or sort else {"metrics": _METRICS, "facts": _FACTS, "split": "test"}
    results = idwbench.Results(db, read_only=True)
    table = results.run_table(where=where, sweep=sweep, states=state or None, **read)
    order = sorted_runs(with_settings(table) if sort else table, sort).index
    listed = row_facts(table.loc[order].head(len(table) if limit is None else limit))
    if json:
        echo_json([dict(zip(listed, row, strict=True)) for row in zip(*listed.values(), strict=True)])
    elif listed["run_key"]:
        below = ("note", "error", "note and error")
        texts = ("run", "data set", "model", "state", "tags", *below)
        print_table(_columns(listed), texts=texts, below=below, pipe=None)
    else:
        hint = value_hint(with_settings(results.run_table(sweep=sweep)), where) if where else ""
        echo(f"no runs: {hint}" if hint else "no runs", err=True)


def time_label(seconds: float | None) -> str:
    """Return ``1.3 ms``, ``0.21 s``, ``95 s``, ``12.5 min`` or ``3.2 h``."""
    if seconds is None:
        return ""
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _state_label(states: tuple[str, bool, bool]) -> str:
    """Return ``complete``, ``stale``, or ``complete, retraining`` for a state, and whether it is each of these."""
    state, retraining, stale = states
    if state == "running":
        return "stale" if stale else state
    return f"{state}, stale" if stale else f"{state}, retraining" if retraining else state


def row_facts(table: pandas.DataFrame) -> dict[str, list[Any]]:
    """Return by name what is listed of each run of a table: the main metric on the test split, and short texts.

    ``error`` is the last line of an error. ``state`` is that of the result, which a run that is trained again keeps.
    """
    renamed = table.rename(columns={"attempt": "attempts"})
    facts = {name: _values(renamed[name]) for name in _LISTED if name in renamed}
    facts["retraining"] = _values(table["retraining"] & ~table["stale"])
    facts["error"] = _each(lambda error: error and last_line(error), facts["error"])
    configs = dict(zip(table["setting"], table["config"], strict=True))
    of_setting = {setting: _setting_facts(config) for setting, config in configs.items()}
    shared = [of_setting[setting] for setting in table["setting"]]
    facts |= {name: [own[name] for own in shared] for name in ("model", "label", "method", "prototypes")}
    metrics = [own["metric"] for own in shared]
    values = {name: _values(table["test", name]) for name in {*metrics} if ("test", name) in table}
    facts["value"] = [values[name][place] if name in values else None for place, name in enumerate(metrics)]
    known = zip(metrics, facts["value"], strict=True)
    facts["metric"] = [name if value is not None else None for name, value in known]
    return {name: facts[name] for name in _LISTED}


def _setting_facts(config: RunConfig) -> dict[str, Any]:
    """Return what the runs of a setting share, with the main metric of their task."""
    model = config.model
    named = {"model": model.kind, "label": model.label, "method": model.method}
    return named | {"prototypes": dict(model).get("prototypes"), "metric": HEADLINES[config.dataset.task].name}


def _values(column: pandas.Series[Any]) -> list[Any]:
    """Return the values of a column, with None for those that are missing."""
    column = column if column.notna().all() else column.astype(object).where(column.notna(), None)
    return [*column.tolist()]


def _each(text: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """Return the text of each value; long columns repeat most of theirs."""
    values = [*values]
    known = {value: text(value) for value in {*values}}
    return [known[value] for value in values]


def _columns(facts: dict[str, list[Any]]) -> dict[str, Sequence[str]]:
    """Return the texts of a list of runs by heading; columns in which no run has a value are left out."""
    metrics = {*facts["metric"]} - {None}
    test = f"test {next(iter(metrics)).replace('_', ' ')}" if len(metrics) == 1 else "test metric"
    texts = {name: [text or "" for text in facts[name]] for name in ("tags", "note", "error")}
    heading = " and ".join(name for name in ("note", "error") if any(texts[name]))
    measured = [*zip(facts["metric"], facts["value"], strict=True)]
    columns = {
        "run": [key[:12] for key in facts["run_key"]],
        "data set": facts["dataset"],
        "model": facts["label"],
        "seed": _each(str, facts["seed"]),
        "state": _each(_state_label, zip(facts["state"], facts["retraining"], facts["stale"], strict=True)),
        test: _each(lambda pair: _measured(pair[0], pair[1], len(metrics) > 1), measured),
        "time": _each(time_label, facts["seconds"]),
        "attempts": _each(str, facts["attempts"]),
        "tags": texts["tags"],
        heading: _each(lambda pair: "; ".join(filter(None, pair)), zip(texts["note"], texts["error"], strict=True)),
    }
    return {name: column for name, column in columns.items() if any(column)}


def _measured(metric: str | None, value: float | None, named: bool) -> str:
    if metric is None or value is None:
        return ""
    text = f"{100 * value:.2f} %" if METRICS[metric].percent else value_label(metric, value)
    return f"{metric.replace('_', ' ')} {text}" if named else text
