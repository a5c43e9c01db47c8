"""`idwbench runs replay`: train a stored run again and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, DataDir, Json, Plugins, load_plugins
from idwbench.cli.output import echo, echo_json, print_line
from idwbench.cli.runs_options import RunKey

if TYPE_CHECKING:
    from idwbench.sweep.replay import Replay

__all__ = ["runs_replay"]


def runs_replay(
    run: RunKey,
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    json: Json = False,
) -> None:
    """Train a stored run again, with its engine and on its device, and compare the results.

    Prints `identical` if the state, all metrics, the curve and the bytes of all arrays are equal, else how far they are
    apart and what differs in the environment; the exit code is then 1. The stored result does not change.
    """
    load_plugins(plugin)
    from idwbench.cli.interruption import interruptible
    from idwbench.cli.progress import RunProgress
    from idwbench.sweep.replay import replay_run

    with interruptible(lambda: "the stored result is as it was"), RunProgress() as progress:
        replay = replay_run(run, db, data_dir=data_dir, observer=progress)
    if json:
        echo_json(_facts(replay), indent=1)
    else:
        _print_replay(replay)
    if not replay.identical:
        raise typer.Exit(1)


def _facts(replay: Replay) -> dict[str, Any]:
    from idwbench.cli.runs_differences import array_facts

    metrics = {"_".join(key): {"stored": pair[0], "new": pair[1]} for key, pair in replay.metrics.items()}
    facts = {"run_key": replay.run.run_key, "identical": replay.identical, "states": replay.states}
    facts |= {"metrics": metrics, "curve_difference": replay.curve, "arrays": array_facts(replay.arrays)}
    return {**facts, "environment": replay.environment}


def _print_replay(replay: Replay) -> None:
    from idwbench.cli.runs_differences import array_line, curve_line, print_differences, print_metric_differences

    heads = ("stored", "new")
    if replay.identical:
        echo("identical")
    else:
        if replay.states[0] != replay.states[1]:
            echo(f"state: stored {replay.states[0]}, new {replay.states[1]}")
        differing = {key: pair for key, pair in replay.metrics.items() if pair[0] != pair[1]}
        print_metric_differences(differing, heads)
        if replay.metrics and not differing:
            echo("metrics: equal")
        for name, difference in replay.arrays.items():
            print_line(f"array {array_line(name, difference)}")
        echo(curve_line(replay.curve))
        if not replay.environment:
            echo("environment: equal")
    print_differences("environment", replay.environment, heads)
