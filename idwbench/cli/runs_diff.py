"""`idwbench runs diff`: what differs between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from idwbench.cli.options import DEFAULT_DATABASE, Database, Json
from idwbench.cli.output import echo, echo_json, print_line
from idwbench.cli.runs_options import RunKey

if TYPE_CHECKING:
    from idwbench.results.comparison import Comparison

__all__ = ["runs_diff"]


def runs_diff(one: RunKey, other: RunKey, db: Database = DEFAULT_DATABASE, json: Json = False) -> None:
    """Compare two runs: settings and environment that differ, metrics side by side, the curve and the arrays."""
    from idwbench.results.comparison import compare_runs
    from idwbench.results.store import Results

    found = compare_runs(Results(db, read_only=True), one, other)
    if json:
        from idwbench.cli.runs_differences import array_facts

        metrics = {"_".join(key): values for key, values in found.metrics.items()}
        facts: dict[str, Any] = {"runs": [run.run_key for run in found.runs], "settings": found.settings}
        facts |= {"metrics": metrics, "curve_difference": found.curve, "environment": found.environment}
        echo_json({**facts, "arrays": array_facts(found.arrays)}, indent=1)
        return
    _print_comparison(found)


def _print_comparison(found: Comparison) -> None:
    from idwbench.cli.runs_differences import array_line, curve_line, print_differences, print_metric_differences

    one, other = found.runs
    heads = (one.run_key[:12], other.run_key[:12]) if one.run_key != other.run_key else ("one", "other")
    print_differences("settings", found.settings, heads)
    if not found.settings:
        echo("settings: equal")
    if {one.state, other.state} != {"complete"}:
        print_differences("state", {"state": (one.state, other.state)}, heads)
    print_metric_differences(found.metrics, heads)
    if found.curve != 0:
        echo(curve_line(found.curve))
    for name, difference in found.arrays.items():
        print_line(f"array {array_line(name, difference)}")
    print_differences("environment", found.environment, heads)
    if not found.environment:
        echo("environment: equal")
