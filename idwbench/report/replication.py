"""What the spread of a table is over: seeds of runs, or seeds of the data; copies of one result count once.

A run that nothing random affects but its data, such as kernel regression, has the same result for all seeds. Runs of
one setting on data sets that differ only in their seed, with one run on each, are replicates: each data set is a new
split, or a new sample.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from idwbench.results.records import ReportedRun
from idwbench.runs.datasets import DatasetConfig

__all__ = ["Replication", "data_seed", "distinct_runs", "group_alike", "replication_notes", "replication_of"]

_Run = TypeVar("_Run", bound=ReportedRun)


@dataclass(frozen=True)
class Replication:
    """The seeds of the data that are replicates, in increasing order, by `data_key` without its seed."""

    pooled: dict[str, tuple[int, ...]]

    def data_seeds(self, dataset: DatasetConfig) -> tuple[int, ...]:
        """Return the seeds of the data that are pooled with `dataset`; empty if none are."""
        return self.pooled.get(_without_seed(dataset), ()) if self.pooled else ()

    def data_key(self, dataset: DatasetConfig) -> str:
        """Return a text that is equal for data sets whose runs belong to one table."""
        return _without_seed(dataset) if self.data_seeds(dataset) else dataset.identity("path")

    def seed(self, run: ReportedRun) -> int:
        """Return the seed that distinguishes replicates, by which tests pair them: that of the data, or of the run."""
        if not self.pooled:
            return run.seed
        return data_seed(run.setting.dataset) if self.data_seeds(run.setting.dataset) else run.seed


def replication_of(runs: Iterable[ReportedRun]) -> Replication:
    """Return the data sets whose seeds are replicates: with at most one run of each setting for each of their seeds."""
    groups: dict[str, list[list[ReportedRun]]] = defaultdict(list)
    for alike in group_alike(runs):
        groups[_without_seed(alike[0].setting.dataset)].append(alike)
    found = {key: sorted({data_seed(runs[0].setting.dataset) for runs in group}) for key, group in groups.items()}
    return Replication({key: tuple(s) for key, s in found.items() if len(s) > 1 and _has_one_run_each(groups[key])})


def group_alike(runs: Iterable[ReportedRun]) -> list[list[ReportedRun]]:
    """Return runs grouped by the objects of their settings: those of a group are equal, and those of two may be."""
    groups: dict[tuple[int, int, int], list[ReportedRun]] = {}
    last, group = None, []
    for run in runs:
        setting = run.setting
        if setting is not last:
            last = setting
            parts = id(setting.dataset), id(setting.model), id(setting.protocol)
            group = groups.setdefault(parts, [])
        group.append(run)
    return list(groups.values())


def distinct_runs(runs: Iterable[_Run]) -> list[_Run]:
    """Return each run once, and of runs that differ only in a seed without effect the first complete one."""
    given = [*runs]
    if not any(group[0].setting.model.is_deterministic for group in group_alike(given)):
        return [*{run.run_key: run for run in given}.values()]
    kept: dict[str, _Run] = {}
    for run in given:
        key = run.run_key
        if run.setting.model.is_deterministic:
            key = run.setting.with_seed(0).run_key
            if key in kept and _preference(kept[key]) <= _preference(run):
                continue
        kept[key] = run
    return list(kept.values())


def replication_notes(runs: Sequence[ReportedRun], replication: Replication) -> list[str]:
    """Return notes on what the spread is over, where it is not over the seeds of runs."""
    settings = (alike[0].setting for alike in group_alike(runs))
    models = [(setting.model, replication.data_seeds(setting.dataset)) for setting in settings]
    notes = [
        f"Spread and tests: over {_seeds_label(found)} of the data." for found in sorted({s for _, s in models if s})
    ]
    alone = [model for model, seeds in models if model.is_deterministic and not seeds]
    names = sorted({"kernel regression" if model.kind == "kernel_regression" else model.method for model in alone})
    if len(names) == 1:
        notes.append(f"The result of {names[0]} does not depend on the seed; it counts once and has no spread.")
    elif names:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        notes.append(f"The results of {listed} do not depend on the seed; they count once and have no spread.")
    return notes


def data_seed(dataset: DatasetConfig) -> int:
    """Return the seed of a data set, 0 if it has none."""
    return int(getattr(dataset, "seed", 0))


def _without_seed(dataset: DatasetConfig) -> str:
    return dataset.identity("path", "seed")


def _has_one_run_each(groups: Iterable[Sequence[ReportedRun]]) -> bool:
    seeds: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for alike in groups:
        setting = alike[0].setting
        if not setting.model.is_deterministic:
            key = setting.model.identity(), setting.protocol.identity(), data_seed(setting.dataset)
            seeds[key].update(run.seed for run in alike)
    return all(len(found) == 1 for found in seeds.values())


def _preference(run: ReportedRun) -> tuple[bool, int]:
    return run.state != "complete", run.seed


def _seeds_label(seeds: Collection[int]) -> str:
    """Return ``the 6 seeds 0 to 5``, or a list if they are not consecutive."""
    low, high = min(seeds), max(seeds)
    if high - low + 1 == len(seeds):
        return f"the {len(seeds)} seeds {low} to {high}"
    return f"the {len(seeds)} seeds {', '.join(map(str, seeds))}"
