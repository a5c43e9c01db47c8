"""Options of the commands `idwbench runs …`, and the selection of runs by them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from idwbench.cli.errors import OneLineCommand

if TYPE_CHECKING:
    from idwbench.results.listing import RunRow
    from idwbench.results.store import Results

__all__ = ["RunKey", "RunKeys", "SelectingCommand", "States", "Sweep", "Where", "selected_keys", "selected_rows"]

_CONDITION = re.compile(r"\w+\s*(!=|>=|<=|=|>|<)")

RunKey = Annotated[str, typer.Argument(help="Key of a run, or its beginning.", show_default=False)]
RunKeys = Annotated[list[str] | None, typer.Argument(help="Keys of runs, or their beginnings.", show_default=False)]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="NAME=VALUE...",
        help="Conditions that all hold, such as method=idw,neg_dist prototypes>=16 test_accuracy>0.95.",
        show_default=False,
    ),
]
Sweep = Annotated[str | None, typer.Option("--sweep", help="Only the runs of this sweep.", show_default=False)]
States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        help="planned, running, stale (without its process), retraining, complete, diverged, failed; may be repeated.",
        show_default=False,
    ),
]


class SelectingCommand(OneLineCommand):
    """A command with ``--where``, which takes all conditions that follow: ``--where method=idw prototypes=16``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; a condition after another one gets an option of its own."""
        expanded: list[str] = []
        value_follows = in_conditions = False
        for word in args:
            if in_conditions and not value_follows and _CONDITION.match(word):
                expanded.append("--where")
            elif not value_follows:
                in_conditions = word.startswith("--where")
            value_follows = word == "--where"
            expanded.append(word)
        return super().parse_args(ctx, expanded)


def selected_rows(
    results: Results, keys: Sequence[str] | None, where: Sequence[str] | None, sweep: str | None, states: Any
) -> list[RunRow]:
    """Return the runs with these keys, or all that meet the conditions.

    Raises:
        IdwbenchError: unknown key, column, sweep or state, or both keys and conditions.
    """
    from idwbench.errors import ConfigError

    if not keys:
        return results.list_runs(where or (), sweep=sweep, states=states or None)
    if where or sweep is not None or states:
        raise ConfigError("give either keys or conditions", location=("where",))
    found = [results.find_run(key).run_key for key in keys]
    rows = {row.run_key: row for row in results.list_runs([f"run_key={','.join(found)}"])}
    return [rows[key] for key in dict.fromkeys(found)]


def selected_keys(
    results: Results, keys: Sequence[str] | None, where: Sequence[str] | None, sweep: str | None, states: Any
) -> list[str]:
    """Return the keys of `selected_rows`."""
    return [row.run_key for row in selected_rows(results, keys, where, sweep, states)]
