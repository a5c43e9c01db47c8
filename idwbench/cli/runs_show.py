"""`idwbench runs show`: everything that is stored of one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from idwbench.cli.echo import echo, echo_json
from idwbench.cli.options import DEFAULT_DATABASE, Database, Json
from idwbench.cli.runs_options import RunKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = ["runs_show"]


def runs_show(run: RunKey, db: Database = DEFAULT_DATABASE, json: Json = False) -> None:
    """Show one run: settings, metrics, curve, arrays, environment, tags, note, and the reason of a failure.

    With --json the curve has all epochs; arrays are listed by type and shape.
    """
    from idwbench.results.store import Results

    results = Results(db, read_only=True)
    found = results.find_run(run)
    if json:
        echo_json(_facts(results, found), indent=1)
        return
    from idwbench.cli.runs_table import printable, terminal_width

    for line in _lines(results, found, terminal_width() or 100):
        echo(printable(line))


def _recording(results: Results, run: StoredRun) -> Path | None:
    """Return the folder of the recording of a run, if there is one."""
    folder = results.recording_folder
    path = None if folder is None else folder / run.run_key
    return path if path is not None and path.is_dir() else None


def _facts(results: Results, run: StoredRun) -> dict[str, Any]:
    from dataclasses import fields

    names = [field.name for field in fields(run) if field.name not in ("config", "metrics")]
    facts: dict[str, Any] = {name: getattr(run, name) for name in names}
    curve = results.load_curve(run.run_key)
    recording = _recording(results, run)
    content = {
        "run_key": run.run_key,
        "sweeps": results.sweeps_of(run.run_key),
        "config": run.config.model_dump(mode="json"),
        "metrics": {f"{split}_{name}": value for (split, name), value in run.metrics.items()},
        "curve": [{"epoch": p.epoch, **{f"{s}_{n}": v for (s, n), v in p.values.items()}} for p in curve],
        "arrays": {name: array._asdict() for name, array in results.array_facts(run.run_key).items()},
        "recording": None if recording is None else str(recording),
    }
    return {**facts, **content}


def _lines(results: Results, run: StoredRun, width: int) -> Iterator[str]:
    from idwbench.cli.runs_curve import curve_lines
    from idwbench.cli.runs_table import time_label
    from idwbench.report.labels import plain_value, value_label
    from idwbench.results.comparison import environment, metric_names, run_settings

    yield f"run {run.run_key}"
    yield f"{run.label} · seed {run.seed}"
    state = f"{run.state} in epoch {run.diverged_epoch}" if run.diverged_epoch else run.state
    state += ", being trained again" if run.retraining else ""
    facts: dict[str, Any] = {"state": state, "training time": time_label(run.seconds)}
    others = {name: seconds for name, seconds in (run.durations or {}).items() if name != "training"}
    facts |= {f"time of {name.replace('_', '-')}": time_label(seconds) for name, seconds in others.items()}
    facts |= {"learned parameters": run.n_parameters}
    sweeps = ", ".join(results.sweeps_of(run.run_key))
    times = {name: f"{moment:%Y-%m-%d %H:%M:%S}" for name, moment in _moments(run).items() if moment is not None}
    facts |= {"attempts": run.attempt or None, **times, "sweeps": sweeps, "tags": run.tags, "note": run.note}
    yield from _pairs(facts)
    yield from _section("settings", {name: plain_value(value) for name, value in run_settings(run.config).items()})
    if run.metrics:
        yield from ("", "metrics")
        yield from _metric_table(run, metric_names(run.metrics), value_label)
    if curve := results.load_curve(run.run_key):
        yield from ("", "curve")
        yield from (f"  {line}" for line in curve_lines(curve, width - 2))
    arrays = results.array_facts(run.run_key)
    shapes = {name: f"{array.dtype} ({', '.join(map(str, array.shape))})" for name, array in arrays.items()}
    yield from _section("arrays", shapes)
    if (recording := _recording(results, run)) is not None:
        yield from _section("recording", {"folder": str(recording)})
    about = {name: plain_value(value) for name, value in environment(run).items()}
    yield from _section("environment", about)
    if run.error:
        yield from ("", "error")
        yield from (f"  {line}" for line in run.error.rstrip().splitlines())


def _moments(run: StoredRun) -> dict[str, Any]:
    """Return when a run was last started, and when it ended."""
    return {"started": run.started_at, "ended": run.finished_at}


def _section(title: str, facts: dict[str, Any]) -> Iterator[str]:
    if facts:
        yield from ("", title)
        yield from _pairs(facts)


def _pairs(facts: dict[str, Any]) -> Iterator[str]:
    shown = {name: str(value) for name, value in facts.items() if value not in (None, "")}
    width = max(map(len, shown), default=0)
    yield from (f"  {name:<{width}}  {value}" for name, value in shown.items())


def _metric_table(run: StoredRun, names: list[tuple[str, str]], label: Any) -> Iterator[str]:
    """Yield a line for each metric, with a column for each split."""
    from idwbench.runs.metrics import METRICS

    splits = list(dict.fromkeys(split for split, _ in names))
    rows = list(dict.fromkeys(name for _, name in names))
    width = max(len(f"{name} in %") for name in rows)
    yield f"  {'':<{width}}" + "".join(f"  {split:>10}" for split in splits)
    for name in rows:
        unit = " in %" if name in METRICS and METRICS[name].percent else ""
        cells = [run.metric(name, split) for split in splits]
        texts = ["" if value is None else label(name, value) for value in cells]
        yield f"  {name.replace('_', ' ') + unit:<{width}}" + "".join(f"  {text:>10}" for text in texts)
