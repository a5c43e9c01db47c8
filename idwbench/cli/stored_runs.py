"""`idwbench runs list` and `show`: one line for each run, and everything that is stored of one run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import idwbench
from idwbench.cli.options import option
from idwbench.cli.output import echo, echo_json, print_facts, print_line, print_table, time_label
from idwbench.errors import last_line, printable
from idwbench.report.labels import metric_label, plain_value, value_label
from idwbench.results import DEFAULT_DATABASE
from idwbench.runs.metrics import HEADLINES, METRICS, metric_order

if TYPE_CHECKING:
    import pandas

    from idwbench.results.records import StoredRun
    from idwbench.runs.config import RunConfig
    from idwbench.runs.results import CurvePoint

__all__ = ["OPTIONS", "row_facts", "runs_list", "runs_show"]

OPTIONS = {
    "sort": option(help="Order by a column; -COLUMN begins with the largest.", metavar="COLUMN"),
    "limit": option(help="Only the first runs: without --sort, the newest.", min=1),
}
# What a list needs to know, and to sort by the newest.
_FACTS = ("seconds", "attempt", "tags", "note", "error", "created_at", "started_at", "finished_at")
_METRICS = tuple({metric.name for metric in HEADLINES.values()})
_OF_SETTING = ("model", "label", "method", "prototypes", "metric")
_LISTED = (
    *("run_key", "dataset", "model", "label", "method", "prototypes", "seed", "state", "retraining", "stale"),
    *("seconds", "tags", "note", "error", "metric", "value", "attempts"),
)
_ROWS = 8


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
    listed = row_facts(table.loc[order[:limit]])
    if json:
        echo_json(listed.to_dict("records"))
    elif len(listed):
        below = ("note", "error", "note and error")
        texts = ("run", "data set", "model", "state", "tags", *below)
        print_table(_columns(listed), texts=texts, below=below, pipe=None)
    else:
        hint = value_hint(results.to_frame(sweep=sweep), where) if where else ""
        echo(f"no runs: {hint}" if hint else "no runs", err=True)


def row_facts(table: pandas.DataFrame) -> pandas.DataFrame:
    """Return what is listed of each run of a table: the main metric on the test split, and short texts; or None.

    ``error`` is the last line of an error. ``state`` is that of the result, which a run that is trained again keeps.
    """
    import pandas

    configs = table.drop_duplicates("setting").set_index("setting")["config"]
    shared = pandas.DataFrame([*map(_setting_facts, configs)], configs.index).reindex(columns=_OF_SETTING)
    listed = table.rename(columns={"attempt": "attempts"}).join(shared, on="setting").assign(value=math.nan)
    listed["retraining"] &= ~listed["stale"]
    listed["error"] = listed["error"].map(last_line, na_action="ignore")
    for name in listed["metric"].unique():
        if ("test", name) in table:
            listed.loc[listed["metric"] == name, "value"] = table["test", name]
    listed["metric"] = listed["metric"].where(listed["value"].notna())
    listed = listed.reindex(columns=_LISTED).astype({"prototypes": "Int64"})  # some kinds of runs have none
    return listed.astype(object).where(listed.notna(), None)


def _setting_facts(config: RunConfig) -> dict[str, Any]:
    """Return what the runs of a setting share, with the main metric of their task."""
    model, metric = config.model, HEADLINES[config.dataset.task].name
    named = {"model": model.kind, "label": model.label, "method": model.method, "metric": metric}
    return {**named, "prototypes": dict(model).get("prototypes")}


def _columns(listed: pandas.DataFrame) -> dict[str, Sequence[str]]:
    """Return the texts of a list of runs by heading; columns in which no run has a value are left out."""
    metrics = [*listed["metric"].dropna().unique()]
    test = f"test {metrics[0].replace('_', ' ')}" if len(metrics) == 1 else "test metric"
    noted = [name for name in ("note", "error") if listed[name].any()]
    texts = {
        "run": listed["run_key"].str[:12],
        "data set": listed["dataset"],
        "model": listed["label"],
        "seed": listed["seed"].astype(str),
        "state": map(_state_label, listed["state"], listed["retraining"], listed["stale"]),
        test: (_measured(*pair, len(metrics) > 1) for pair in zip(listed["metric"], listed["value"], strict=True)),
        "time": map(time_label, listed["seconds"]),
        "attempts": listed["attempts"].astype(str),
        "tags": listed["tags"].fillna(""),
        " and ".join(noted): ("; ".join(filter(None, words)) for words in listed[noted].to_numpy()),
    }
    columns = {name: [*column] for name, column in texts.items()}
    return {name: column for name, column in columns.items() if any(column)}


def _state_label(state: str, retraining: bool, stale: bool) -> str:
    """Return ``complete``, ``stale``, or ``complete, retraining`` for a state, and whether it is each of these."""
    if state == "running":
        return "stale" if stale else state
    return f"{state}, stale" if stale else f"{state}, retraining" if retraining else state


def _measured(metric: str | None, value: float | None, named: bool) -> str:
    if metric is None or value is None:
        return ""
    text = f"{100 * value:.2f} %" if METRICS[metric].percent else value_label(metric, value)
    return f"{metric.replace('_', ' ')} {text}" if named else text


def runs_show(run: str, db: str = DEFAULT_DATABASE, json: bool = False) -> None:
    """Show one run: settings, metrics, curve, arrays, environment, tags, note, and the reason of a failure.

    With --json the curve has all epochs; arrays are listed by type and shape.
    """
    results = idwbench.Results(db, read_only=True)
    stored = results.find_run(run)
    recording = results.recording_folder and results.recording_folder / stored.run_key
    recording = recording if recording is not None and recording.is_dir() else None
    if json:
        echo_json(_facts(results, stored, recording), indent=1)
    else:
        _print_run(results, stored, recording)


def _facts(results: idwbench.Results, run: StoredRun, recording: Path | None) -> dict[str, Any]:
    curve = results.load_curve(run.run_key)
    return {
        **{field.name: getattr(run, field.name) for field in fields(run) if field.name not in ("config", "metrics")},
        "sweeps": results.sweeps_of(run.run_key),
        "config": run.config.model_dump(mode="json"),
        "metrics": {f"{split}_{name}": value for (split, name), value in run.metrics.items()},
        "curve": [{"epoch": p.epoch, **{f"{s}_{n}": v for (s, n), v in p.values.items()}} for p in curve],
        "arrays": results.array_facts(run.run_key),
        "recording": None if recording is None else str(recording),
    }


def _print_run(results: idwbench.Results, run: StoredRun, recording: Path | None) -> None:
    from idwbench.results.comparison import environment

    print_line(f"run {run.run_key}")
    print_line(f"{run.label} · seed {run.seed}")
    print_facts(_state_facts(run) | {"sweeps": ", ".join(results.sweeps_of(run.run_key))}, indent=2)
    settings = {name: plain_value(value) for name, value in run.config.named_settings().items()}
    print_facts(settings, title="settings", indent=2)
    _print_metrics(run)
    _print_curve(results.load_curve(run.run_key))
    arrays = results.array_facts(run.run_key)
    shapes = {name: f"{array['dtype']} ({', '.join(map(str, array['shape']))})" for name, array in arrays.items()}
    print_facts(shapes, title="arrays", indent=2)
    print_facts({"folder": recording}, title="recording", indent=2)
    about = {name: plain_value(value) for name, value in environment(run).items()}
    print_facts(about, title="environment", indent=2)
    if run.error:
        echo("\nerror")
        for line in run.error.rstrip().splitlines():
            echo(f"  {printable(line, kept='')}")


def _state_facts(run: StoredRun) -> dict[str, Any]:
    """Return the state, times and notes of a run."""
    state = f"{run.state} in epoch {run.diverged_epoch}" if run.diverged_epoch else run.state
    state += ", being trained again" if run.retraining else ""
    others = {name: seconds for name, seconds in (run.durations or {}).items() if name != "training"}
    moments = {"started": run.started_at, "ended": run.finished_at}
    return {
        "state": state,
        "training time": time_label(run.seconds),
        **{f"time of {name.replace('_', '-')}": time_label(seconds) for name, seconds in others.items()},
        "learned parameters": run.n_parameters,
        "attempts": run.attempt or None,
        **{name: None if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}" for name, moment in moments.items()},
        "tags": run.tags,
        "note": run.note,
    }


def _print_metrics(run: StoredRun) -> None:
    """Print a row for each metric, with a column for each split."""
    pairs = sorted(run.metrics, key=metric_order)
    names = list(dict.fromkeys(name for _, name in pairs))
    columns = {"metrics": [*map(metric_label, names)]}
    for split in dict.fromkeys(split for split, _ in pairs):
        values = [run.metric(name, split) for name in names]
        cells = zip(names, values, strict=True)
        columns[split] = ["" if value is None else value_label(name, value) for name, value in cells]
    if names:
        print_table(columns, texts=["metrics"])


def _print_curve(curve: Sequence[CurvePoint]) -> None:
    """Print a table of at most `_ROWS` epochs: the first, the last, and some at equal distances."""
    if not curve:
        return
    shown = [curve[place] for place in sorted({round(row * (len(curve) - 1) / (_ROWS - 1)) for row in range(_ROWS)})]
    columns = {"epoch": [str(point.epoch) for point in shown]}
    for split, name in dict.fromkeys(key for point in curve for key in point.values):
        values = [point.values.get((split, name)) for point in shown]
        columns[f"{split} {name.replace('_', ' ')}"] = [
            "" if v is None else value_label(name, v) if math.isfinite(v) else "not finite" for v in values
        ]
    echo("\ncurve")
    print_table(columns)
