"""`idwbench runs diff`: what differs between two runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from idwbench.cli.echo import echo, echo_json
from idwbench.cli.options import DEFAULT_DATABASE, Database, Json
from idwbench.cli.runs_options import RunKey

__all__ = ["runs_diff"]


def runs_diff(one: RunKey, other: RunKey, db: Database = DEFAULT_DATABASE, json: Json = False) -> None:
    """Compare two runs: settings and environment that differ, metrics side by side, the curve and the arrays."""
    from idwbench.results.comparison import compare_runs
    from idwbench.results.store import Results

    found = compare_runs(Results(db, read_only=True), one, other)
    if json:
        from idwbench.cli.runs_differences import facts_of_arrays

        metrics = {"_".join(key): values for key, values in found.metrics.items()}
        facts: dict[str, Any] = {"runs": [run.run_key for run in found.runs], "settings": found.settings}
        facts |= {"metrics": metrics, "curve_difference": found.curve, "environment": found.environment}
        echo_json({**facts, "arrays": facts_of_arrays(found.arrays)}, indent=1)
        return
    from idwbench.cli.runs_table import printable

    for line in _lines(found):
        echo(printable(line))


def _lines(found: Any) -> Iterator[str]:
    from idwbench.cli.runs_differences import array_line, curve_line, difference_table, metric_table

    keys = tuple(run.run_key[:12] for run in found.runs)
    if found.settings:
        yield from difference_table("settings", found.settings, keys)
    else:
        yield "settings: equal"
    if any(run.state != "complete" for run in found.runs):
        yield from ("", *difference_table("state", {"state": tuple(run.state for run in found.runs)}, keys))
    if found.metrics:
        yield from ("", *metric_table(found.metrics, keys))
    if found.curve != 0:
        yield from ("", curve_line(found.curve))
    if found.arrays:
        yield from ("", "arrays")
        yield from (f"  {array_line(name, difference)}" for name, difference in found.arrays.items())
    yield ""
    if found.environment:
        yield from difference_table("environment", found.environment, keys)
    else:
        yield "environment: equal"
