"""`idwbench runs diff` and `replay`: what differs between two runs, or between a run and its training again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import idwbench
from idwbench.cli.interruption import interruptible
from idwbench.cli.options import argument
from idwbench.cli.output import echo, echo_json, print_line, print_table
from idwbench.report.labels import plain_value
from idwbench.results import DEFAULT_DATABASE
from idwbench.runs.metrics import METRICS

if TYPE_CHECKING:
    from idwbench.results.comparison import ArrayDifference, Comparison

__all__ = ["OPTIONS", "runs_diff", "runs_replay"]

OPTIONS = {name: argument(help="Key of a run, or its beginning.") for name in ("one", "other")}
_REPLAYED = ("stored", "new")


def runs_diff(one: str, other: str, db: str = DEFAULT_DATABASE, json: bool = False) -> None:
    """Compare two runs: settings and environment that differ, metrics side by side, the curve and the arrays."""
    from idwbench.results.comparison import compare_runs

    differences = compare_runs(idwbench.Results(db, read_only=True), one, other)
    if json:
        metrics = {"_".join(key): values for key, values in differences.metrics.items()}
        facts = {"runs": [run.run_key for run in differences.runs], "settings": differences.settings}
        echo_json({**facts, "metrics": metrics, **_facts(differences)}, indent=1)
    else:
        one, other = (run.run_key[:12] for run in differences.runs)
        heads = (one, other) if one != other else ("one", "other")
        _print_pairs("settings", differences.settings, heads)
        _print_outcomes(differences, heads)


def runs_replay(
    run: str,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    json: bool = False,
) -> None:
    """Train a stored run again, with its engine and on its device, and compare the results.

    Prints `identical` if the state, all metrics, the curve and the bytes of all arrays are equal, else how far they are
    apart and what differs in the environment; the exit code is then 1. The stored result does not change.
    """
    from idwbench.cli.progress import SweepProgress
    from idwbench.sweep.execution import replay_run

    with interruptible(lambda: "the stored result was not changed"), SweepProgress() as progress:
        replay = replay_run(run, db, data_dir=data_dir, observer=progress)
    if json:
        metrics = {"_".join(key): {"stored": pair[0], "new": pair[1]} for key, pair in replay.metrics.items()}
        states = [run.state for run in replay.runs]
        facts = {"run_key": replay.runs[0].run_key, "identical": replay.identical, "states": states}
        echo_json({**facts, "metrics": metrics, **_facts(replay)}, indent=1)
    elif replay.identical:
        echo("identical")
        if replay.environment:
            _print_pairs("environment", replay.environment, _REPLAYED)
    else:
        metrics = {key: pair for key, pair in replay.metrics.items() if pair[0] != pair[1]}
        _print_outcomes(replace(replay, metrics=metrics), _REPLAYED)
    if not replay.identical:
        raise typer.Exit(1)


def _facts(differences: Comparison) -> dict[str, Any]:
    arrays = {
        name: {"identical": array.identical, "largest_difference": array.largest, "shapes": array.shapes}
        for name, array in differences.arrays.items()
    }
    return {"curve_difference": differences.curve, "arrays": arrays, "environment": differences.environment}


def _print_outcomes(differences: Comparison, heads: tuple[str, str]) -> None:
    """Print what two runs gave, and how their environments differ."""
    states = tuple(run.state for run in differences.runs)
    if {*states} != {"complete"}:
        _print_pairs("state", {"state": states}, heads)
    _print_metrics(differences.metrics, heads)
    _print_arrays(differences.arrays)
    _print_curve(differences.curve)
    _print_pairs("environment", differences.environment, heads)


def _print_metrics(
    metrics: Mapping[tuple[str, str], tuple[float | None, float | None]], heads: tuple[str, str]
) -> None:
    """Print a table of metrics, in percent where reports show them so, with a column for the difference."""
    rows: dict[str, tuple[Any, ...]] = {}
    for (split, name), pair in metrics.items():
        percent = name in METRICS and METRICS[name].percent
        one, other = (value if value is None or not percent else 100 * value for value in pair)
        label = f"{split} {name.replace('_', ' ')}{' in %' if percent else ''}"
        rows[label] = (one, other, None if one is None or other is None else other - one)
    _print_pairs("metrics", rows, (*heads, "difference"))


def _print_pairs(title: str, pairs: Mapping[str, tuple[Any, ...]], heads: tuple[str, ...]) -> None:
    """Print a table with a row for each name and the values below `heads`; that all is equal without names."""
    if not pairs:
        return echo(f"{title}: equal")
    columns = {title: [*pairs]}
    for head, values in zip(heads, zip(*pairs.values(), strict=True), strict=True):
        columns[head] = [f"{value:.6g}" if isinstance(value, float) else plain_value(value) for value in values]
    print_table(columns, texts=columns)


def _print_arrays(differences: Mapping[str, ArrayDifference]) -> None:
    """Print ``array keys (4, 2): largest difference 0.0012`` or ``identical``, or the shapes that differ."""
    for name, difference in differences.items():
        one, other = difference.shapes
        if one != other:
            shapes = ["missing" if shape is None else f"shape {shape}" for shape in difference.shapes]
            print_line(f"array {name}: {shapes[0]} and {shapes[1]}")
            continue
        words = "identical" if difference.identical else "not comparable"
        if not difference.identical and difference.largest is not None:
            words = f"largest difference {difference.largest:.4g}"
        print_line(f"array {name} {one}: {words}")


def _print_curve(difference: float | None) -> None:
    words = "other epochs" if difference is None else f"largest difference {difference:.4g}" if difference else "equal"
    echo(f"curve: {words}")
