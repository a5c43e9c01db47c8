"""The runs that charts show of a group: those of its best settings, so that their number is limited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from idwbench.report.frame import Row, rows, run_table
from idwbench.report.statistics import SPLITS, higher_is_better
from idwbench.results.records import StoredRun
from idwbench.runs.metrics import headline_metric

__all__ = ["ChosenRuns", "RankedSetting", "choose_grid", "choose_runs", "rank_settings"]

_OF_A_METHOD, _OF_ONE_METHOD = 4, 10  # settings with one number of prototypes
_COUNTS = 4  # numbers of prototypes
_MOST = 80  # settings in all
_MOST_CELLS = 200  # of a heat map


@dataclass(frozen=True)
class RankedSetting:
    """The complete runs of one setting, the mean of its metric, and the run whose metric is best."""

    group: Row
    mean: float
    best: StoredRun

    @property
    def method(self) -> str:
        """The method."""
        return self.best.setting.model.method


@dataclass(frozen=True)
class ChosenRuns:
    """The run keys of the chosen settings, and a sentence on the others."""

    run_keys: tuple[str, ...]
    left_out: tuple[str, ...]


def rank_settings(runs: Sequence[StoredRun]) -> list[RankedSetting]:
    """Return the settings with complete runs, the best mean of the headline metric first."""
    table = run_table(run for run in runs if run.state == "complete")
    table["metric"] = [headline_metric(config.dataset.task).name for config in table.config]
    found: list[tuple[float, RankedSetting]] = []
    parts = table.groupby("metric", sort=False)
    for metric, group in [(name, row) for name, part in parts for row in rows(part, name)]:
        sign = -1 if higher_is_better(metric) else 1
        by_split = group.statistics
        split = next((split for split in SPLITS if split in by_split), None)
        if split is None:
            continue
        name: str = split

        def score(run: StoredRun, sign: int = sign, metric: str = metric, split: str = name) -> tuple[float, int]:
            value = run.metric(metric, split)
            return (float("inf") if value is None else sign * value, run.seed)

        mean = by_split[name].mean
        found.append((sign * mean, RankedSetting(group, mean, min(group.complete, key=score))))
    return [setting for _, setting in sorted(found, key=lambda pair: pair[0])]


def choose_runs(ranked: Sequence[RankedSetting]) -> ChosenRuns:
    """Return the runs of the best settings of each method and number of prototypes."""
    cells: dict[tuple[int, str], list[RankedSetting]] = defaultdict(list)
    for setting in ranked:
        cells[setting.best.setting.model.prototypes, setting.method].append(setting)
    counts = _spread(sorted({count for count, _ in cells}))
    limit = _OF_ONE_METHOD if len({method for _, method in cells}) == 1 else _OF_A_METHOD
    kept = [
        setting
        for place in range(limit)
        for (count, _), settings in cells.items()
        if count in counts
        for setting in settings[place : place + 1]
    ][:_MOST]
    left = len(ranked) - len(kept)
    words = f"{len(kept):,} of {len(ranked):,} settings: the best of each method and number of prototypes"
    return ChosenRuns(tuple(key for setting in kept for key in setting.group.run_keys), (words,) if left else ())


def choose_grid(ranked: Sequence[RankedSetting]) -> ChosenRuns:
    """Return the runs of the data set, method and number of prototypes with the most pairs of power and epsilon."""
    grids: dict[tuple[str, str, int, str], list[RankedSetting]] = defaultdict(list)
    for setting in ranked:
        config = setting.best.setting
        if all(isinstance(config.model.parameters.get(name), float) for name in ("power", "epsilon")):
            data = setting.group.settings["dataset"] + config.dataset.identity("path")
            key = (data, setting.method, config.model.prototypes, config.protocol.identity())
            grids[key].append(setting)
    if not grids:
        return ChosenRuns((), ())
    chosen = max(grids.values(), key=len)
    left = len(grids) - 1
    words = f"not drawn: {left:,} other combinations of data set, method, number of prototypes and protocol"
    keys = tuple(key for setting in chosen[:_MOST_CELLS] for key in setting.group.run_keys)
    return ChosenRuns(keys, (words,) if left else ())


def _spread(counts: Sequence[int]) -> set[int]:
    """Return at most `_COUNTS` of the numbers, the first and the last among them."""
    if len(counts) <= _COUNTS:
        return {*counts}
    return {counts[round(place * (len(counts) - 1) / (_COUNTS - 1))] for place in range(_COUNTS)}
