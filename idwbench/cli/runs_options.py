"""Options of the commands `idwbench runs …`, and the selection of runs by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["RunKey", "RunKeys", "States", "Sweep", "Where", "selected_keys"]

RunKey = Annotated[str, typer.Argument(help="Key of a run, or its beginning.", show_default=False)]
RunKeys = Annotated[list[str] | None, typer.Argument(help="Keys of runs, or their beginnings.", show_default=False)]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="EXPRESSION",
        help="Only runs for which it holds, such as 'prototypes == 16 and test_accuracy > 0.95'.",
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


def selected_keys(
    results: Results,
    keys: Sequence[str] | None,
    where: str | None,
    sweep: str | None,
    states: Sequence[str] | None,
) -> list[str]:
    """Return the keys of the runs with these beginnings of keys, or of all that meet the conditions.

    Raises:
        IdwbenchError: unknown key, column, sweep or state, or both keys and conditions.
    """
    from idwbench.errors import ConfigError

    if not keys:
        return list(results.to_frame(where=where, sweep=sweep, states=states or None)["run_key"])
    if where is not None or sweep is not None or states:
        raise ConfigError("give either keys or conditions", location=("where",))
    return list(dict.fromkeys(results.find_run(key).run_key for key in keys))
