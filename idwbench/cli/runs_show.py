"""`idwbench runs show`: everything that is stored of one run."""

from __future__ import annotations

import math
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import idwbench
from idwbench.cli.output import echo, echo_json, print_facts, print_line, print_table
from idwbench.cli.runs_list import time_label
from idwbench.errors import printable
from idwbench.report.labels import plain_value, value_label
from idwbench.results import DEFAULT_DATABASE
from idwbench.runs.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idwbench.results.records import StoredRun
    from idwbench.runs.results import CurvePoint

__all__ = ["blocks", "runs_show", "shown_epochs"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_MOST_BLOCKS = 44
_ROWS = 8


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
    from idwbench.results.comparison import environment, run_settings

    print_line(f"run {run.run_key}")
    print_line(f"{run.label} · seed {run.seed}")
    print_facts(_state_facts(run) | {"sweeps": ", ".join(results.sweeps_of(run.run_key))}, indent=2)
    settings = {name: plain_value(value) for name, value in run_settings(run.config).items()}
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
    from idwbench.results.reading import metric_order

    pairs = sorted(run.metrics, key=metric_order)
    names = list(dict.fromkeys(name for _, name in pairs))
    percent = {name for name in names if name in METRICS and METRICS[name].percent}
    columns = {"metrics": [f"{name.replace('_', ' ')}{' in %' if name in percent else ''}" for name in names]}
    for split in dict.fromkeys(split for split, _ in pairs):
        values = [run.metric(name, split) for name in names]
        cells = zip(names, values, strict=True)
        columns[split] = ["" if value is None else value_label(name, value) for name, value in cells]
    if names:
        print_table(columns, texts=["metrics"])


def _print_curve(curve: Sequence[CurvePoint]) -> None:
    """Print a table of at most eight epochs, and for each quantity a line of blocks over all epochs."""
    if not curve:
        return
    names = list(dict.fromkeys(key for point in curve for key in point.values))
    shown = [curve[place] for place in shown_epochs(len(curve))]
    columns, lines = {"epoch": [str(point.epoch) for point in shown]}, {}
    for split, name in names:
        label = f"{split} {name.replace('_', ' ')}"
        values = [point.values.get((split, name)) for point in shown]
        columns[label] = [
            "" if v is None else value_label(name, v) if math.isfinite(v) else "not finite" for v in values
        ]
        lines[label] = blocks([point.values.get((split, name), math.nan) for point in curve])
    echo("\ncurve")
    print_table(columns)
    print_facts(lines, indent=1)


def shown_epochs(n: int) -> list[int]:
    """Return the places of at most eight of `n` epochs: the first, the last, and some at equal distances."""
    return sorted({round(place * (n - 1) / (_ROWS - 1)) for place in range(_ROWS)})


def blocks(values: Sequence[float]) -> str:
    """Return a line of at most `_MOST_BLOCKS` blocks from the lowest to the highest value; `·` is not finite.

    With more values than blocks, each block is the mean of its values.
    """
    width = min(_MOST_BLOCKS, len(values))
    edges = [round(place * len(values) / width) for place in range(width + 1)]
    means = [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]
    finite = list(filter(math.isfinite, means))
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    shares = ((mean - low) / ((high - low) or 1.0) for mean in means)
    return "".join(_BLOCKS[min(7, int(8 * share))] if math.isfinite(share) else "·" for share in shares)
