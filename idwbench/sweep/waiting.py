"""Waiting for the runs of a sweep that other processes train."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import get_args

from idwbench.results.records import EndedState
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.sweep.runner import Runner, missing_requirements

__all__ = ["wait_for_others"]

_ENDED = get_args(EndedState)
# Pauses between two looks at the database.
_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 30.0


def wait_for_others(configs: Mapping[str, RunConfig], runner: Runner) -> None:
    """Look at the database with growing pauses until all runs have ended; train those that lost their process.

    Args:
        configs: The runs by key; all are in the database.
        runner: Trains what others leave; its observer receives the number of runs that are waited for.
    """
    results, left, pause = runner.results, list(configs), _FIRST_SECONDS
    while not runner.has_failed:
        states = results.run_states(left)
        left = [key for key in left if states[key] not in _ENDED]
        if not left:
            return
        n_ended = runner.n_ended
        if free := _ready([configs[key] for key in results.pending(left)], results):
            free = [*missing_requirements(free, results), *free]
            runner.observer.taken_over(len(free))
            runner.train_all(free)
        if runner.n_ended > n_ended:
            pause = _FIRST_SECONDS
            continue
        runner.observer.waiting(len(left))
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_SECONDS)


def _ready(configs: Sequence[RunConfig], results: Results) -> list[RunConfig]:
    """Return the runs that need no other run, or one that no other process trains at this time."""
    required = {config.run_key: run.run_key for config in configs if (run := config.required) is not None}
    states = results.run_states(list(set(required.values()))) if required else {}
    return [config for config in configs if states.get(required.get(config.run_key, "")) != "running"]
