"""`idwbench runs`: what changes stored runs, their export, what differs between two, and their repetition."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

import idwbench
from idwbench.cli.interruption import interruptible
from idwbench.cli.options import argument, option
from idwbench.cli.output import echo, echo_json, print_facts, print_table
from idwbench.errors import ConfigError, OldResultsError
from idwbench.report.labels import count_label, metric_label, plain_value
from idwbench.results import DEFAULT_DATABASE
from idwbench.runs.metrics import METRICS

if TYPE_CHECKING:
    from idwbench.results.comparison import ArrayDifference, Comparison

__all__ = ["OPTIONS", "runs_diff", "runs_export", "runs_measure", "runs_note", "runs_replay", "runs_rm", "runs_tag"]

OPTIONS = {
    "tag": argument(help="A word without commas."),
    "remove": option("--remove", help="Take the tag from the run."),
    "text": argument(help="One line; an empty one removes the note."),
    "yes": option("--yes", "-y", help="Do not ask."),
    "output": option("-o", "--output", help="File to write, .csv or .parquet; or a folder with --format."),
    "format": option(
        help="Folder for tensorboard or mlflow, or study of optuna; a table has the format of its suffix."
    ),
    **{name: argument(help="Key of a run, or its beginning.") for name in ("one", "other")},
}
_MEASURED_AT_ONCE = 50  # runs that are measured between two lines
_REPLAYED = ("stored", "new")


def _results_to_change(db: str) -> idwbench.Results:
    """Return a database that exists, with tables of this version; raises `ResultsError` in place of creating one."""
    with suppress(OldResultsError):
        idwbench.Results(db, read_only=True)
    return idwbench.Results(db)


def runs_tag(run: str, tag: str, remove: bool = False, db: str = DEFAULT_DATABASE) -> None:
    """Give a run a tag, by which --where finds it: '"best" in tags'."""
    results = _results_to_change(db)
    key = results.find_run(run).run_key
    results.tag([key], tag, remove=remove)
    echo(f"{key[:12]}: {results.find_run(key).tags or 'no tags'}")


def runs_note(run: str, text: str, db: str = DEFAULT_DATABASE) -> None:
    """Write a note on a run; it replaces an earlier note."""
    results = _results_to_change(db)
    key = results.find_run(run).run_key
    results.note([key], text)
    echo(f"{key[:12]}: {results.find_run(key).note or 'no note'}")


def runs_measure(
    runs: list[str] | None = None,
    db: str = DEFAULT_DATABASE,
    where: str | None = None,
    sweep: str | None = None,
    state: list[str] | None = None,
    data_dir: Path | None = None,
) -> None:
    """Add the quality of prototypes to runs of older versions that lack it, from their keys, without training.

    Runs are selected by keys or by conditions; without a selection all runs that lack it are measured.
    """
    from idwbench.sweep.execution import unmeasured_runs

    results = _results_to_change(db)
    lacking = unmeasured_runs(results.load_runs(_selected_keys(results, runs, where, sweep, state)))
    if not lacking:
        return echo("all runs are measured already", err=True)

    def measured(done: int) -> None:
        if done % _MEASURED_AT_ONCE == 0 or done == len(lacking):
            echo(f"measured {done} of {count_label(len(lacking), 'run')}", err=True)

    with interruptible(lambda: "what was measured is stored; the same command continues"):
        idwbench.measure_runs(results, lacking, data_dir, measured)


def runs_rm(
    runs: list[str] | None = None,
    db: str = DEFAULT_DATABASE,
    where: str | None = None,
    sweep: str | None = None,
    state: list[str] | None = None,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Remove runs with their metrics, curves, arrays, tags, recordings and checkpoints.

    Runs are selected by keys or by conditions. Runs in the plan of a sweep stay in the plan and are planned again. If
    a process trains one of the runs, nothing is removed.
    """
    if not runs and where is None and sweep is None and not state:
        raise ConfigError("give keys of runs, or conditions", hint="--where, --sweep or --state")
    keys = _selected_keys(idwbench.Results(db, read_only=True), runs, where, sweep, state)
    if keys and not yes:
        if not _is_interactive():
            raise ConfigError(f"removing {count_label(len(keys), 'run')} needs a confirmation", hint="--yes")
        if not typer.confirm(f"remove {count_label(len(keys), 'run')} from {db}?", err=True):
            echo("nothing was removed", err=True)
            raise typer.Exit(1)
    done = idwbench.Results(db).remove_runs(keys) if keys else None
    removed, planned = (done.removed, done.planned) if done is not None else ((), ())
    if json:
        echo_json({"removed": removed, "planned": planned})
        return
    again = f", {len(planned):,} of them planned again by their sweeps" if planned else ""
    echo(f"removed {count_label(len(keys), 'run')}{again}", err=True)


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def runs_export(
    output: Path,
    runs: list[str] | None = None,
    format: Literal["csv", "parquet", "tensorboard", "mlflow", "optuna"] | None = None,
    db: str = DEFAULT_DATABASE,
    where: str | None = None,
    sweep: str | None = None,
    state: list[str] | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write runs as a table, as a folder for TensorBoard or MLflow, or as a study for Optuna's dashboard.

    Runs are selected by keys or by conditions; without a selection all runs are written. Tables have the columns of
    `Results.to_frame`. Folders have curves, metrics and settings of runs that have ended. A study has a trial for each
    setting. `idwbench export` writes the model of a run.
    """
    from idwbench.exports import stored_runs
    from idwbench.exports.optuna_study import export_optuna

    suffix, files = output.suffix.lower(), (".csv", ".parquet")
    kind = format or suffix.removeprefix(".")
    if format is None and suffix not in files:
        hint = "expected .csv, .parquet, or a folder with --format; idwbench export writes models"
        raise ConfigError(f"the suffix of '{output}' does not name a format", location=("output",), hint=hint)
    if f".{kind}" in files and suffix != f".{kind}":
        raise ConfigError(f"expected a name ending in .{kind}, got '{output}'", location=("output",))
    results = idwbench.Results(db, read_only=True)
    keys = _selected_keys(results, runs, where, sweep, state)
    folders = {"tensorboard": stored_runs.export_tensorboard, "mlflow": stored_runs.export_mlflow}
    others = {**folders, "optuna": export_optuna}
    written = others.get(kind, stored_runs.export_table)(results, keys, output, overwrite=force)
    if json:
        echo_json({"output": str(output), "format": kind, "runs": written})
        return
    left = f" ({count_label(len(keys) - written, 'run')} without a result left out)" if written < len(keys) else ""
    echo(f"{count_label(written, 'run')} written{left}", err=True)
    echo(str(output))


def _selected_keys(
    results: idwbench.Results, keys: list[str] | None, where: str | None, sweep: str | None, states: list[str] | None
) -> list[str]:
    """Return the keys of the runs with these beginnings of keys, or of all that meet the conditions.

    Raises:
        IdwbenchError: unknown key, column, sweep or state, or both keys and conditions.
    """
    if not keys:
        return list(results.to_frame(where=where, sweep=sweep, states=states or None)["run_key"])
    if where is not None or sweep is not None or states:
        raise ConfigError("give either keys or conditions", location=("where",))
    return list(dict.fromkeys(results.find_run(key).run_key for key in keys))


def runs_diff(one: str, other: str, db: str = DEFAULT_DATABASE, json: bool = False) -> None:
    """Compare two runs: settings and environment that differ, metrics side by side, the curve and the arrays."""
    from idwbench.results.comparison import compare_runs

    found = compare_runs(idwbench.Results(db, read_only=True), one, other)
    if json:
        return echo_json(_facts(found), indent=1)
    one, other = (run.run_key[:12] for run in found.runs)
    heads = (one, other) if one != other else ("one", "other")
    _print_pairs("settings", found.settings, heads)
    _print_outcomes(found, heads)


def runs_replay(run: str, db: str = DEFAULT_DATABASE, data_dir: Path | None = None, json: bool = False) -> None:
    """Train a stored run again, with its engine and on its device, and compare the results.

    Prints `identical` if the state, all metrics, the curve and the bytes of all arrays are equal, else how far they are
    apart and what differs in the environment; the exit code is then 1. The stored result does not change.
    """
    from idwbench.cli.progress import SweepProgress
    from idwbench.sweep.execution import replay_run

    with interruptible(lambda: "the stored result was not changed"), SweepProgress() as progress:
        replay = replay_run(run, db, data_dir=data_dir, observer=progress)
    if json:
        echo_json(_facts(replay), indent=1)
    elif replay.identical:
        echo("identical")
        if replay.environment:
            _print_pairs("environment", replay.environment, _REPLAYED)
    else:
        differing = {key: pair for key, pair in replay.metrics.items() if pair[0] != pair[1]}
        _print_outcomes(replace(replay, metrics=differing), _REPLAYED)
    if not replay.identical:
        raise typer.Exit(1)


def _facts(found: Comparison) -> dict[str, Any]:
    """Return all of a comparison for JSON; of what two runs have, the values are pairs."""
    return {
        "identical": found.identical,
        "runs": [run.run_key for run in found.runs],
        "states": [run.state for run in found.runs],
        "settings": found.settings,
        "metrics": {"_".join(key): pair for key, pair in found.metrics.items()},
        "curve_difference": found.curve,
        "arrays": {name: asdict(array) for name, array in found.arrays.items()},
        "environment": found.environment,
    }


def _print_outcomes(found: Comparison, heads: tuple[str, str]) -> None:
    """Print what two runs gave, metrics in percent where reports show them so, and how their environments differ."""
    states = tuple(run.state for run in found.runs)
    if {*states} != {"complete"}:
        _print_pairs("state", {"state": states}, heads)
    metrics: dict[str, tuple[Any, ...]] = {}
    for (split, name), pair in found.metrics.items():
        factor = 100 if name in METRICS and METRICS[name].percent else 1
        one, other = (value if value is None else factor * value for value in pair)
        difference = None if one is None or other is None else other - one
        metrics[f"{split} {metric_label(name)}"] = (one, other, difference)
    _print_pairs("metrics", metrics, (*heads, "difference"))
    curve = "other epochs" if found.curve is None else f"largest difference {found.curve:.4g}"
    print_facts({**{f"array {name}": _array_words(one) for name, one in found.arrays.items()}, "curve": curve})
    _print_pairs("environment", found.environment, heads)


def _print_pairs(title: str, pairs: Mapping[str, tuple[Any, ...]], heads: tuple[str, ...]) -> None:
    """Print a table with a row for each name and the values below `heads`; that all is equal without names."""
    if not pairs:
        return echo(f"{title}: equal")
    columns = {title: [*pairs]}
    for head, values in zip(heads, zip(*pairs.values(), strict=True), strict=True):
        columns[head] = [f"{value:.6g}" if isinstance(value, float) else plain_value(value) for value in values]
    print_table(columns, texts=columns)


def _array_words(difference: ArrayDifference) -> str:
    """Return ``(4, 2), identical`` or ``(4, 2), largest difference 0.0012``, or both shapes if they differ."""
    one, other = ("missing" if shape is None else str(shape) for shape in difference.shapes)
    if one != other:
        return f"{one} and {other}"
    if difference.identical or difference.largest is None:
        return f"{one}, {'identical' if difference.identical else 'not comparable'}"
    return f"{one}, largest difference {difference.largest:.4g}"
