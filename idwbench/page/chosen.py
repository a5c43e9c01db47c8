"""The runs that charts show of a group: those of its best settings, so that their number is limited."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from idwbench.report.frame import Row, rows, run_table
from idwbench.report.statistics import SPLITS
from idwbench.results.records import StoredRun
from idwbench.runs.metrics import headline_metric

if TYPE_CHECKING:
    import pandas

__all__ = ["best_run", "choose_grid", "choose_runs", "rank_settings"]

_OF_A_METHOD, _OF_ONE_METHOD = 4, 10  # settings with one number of prototypes
_COUNTS = 4  # numbers of prototypes
_MOST = 80  # settings in all
_MOST_CELLS = 200  # of a heat map


def rank_settings(runs: pandas.DataFrame) -> list[Row]:
    """Return the settings with complete runs, the best mean of the headline metric first."""
    table = run_table(runs[runs.state == "complete"])
    tasks = table.config.map(lambda config: headline_metric(config.dataset.task).name)
    found = [row for metric, part in table.groupby(tasks, sort=False) for row in rows(part, str(metric))]
    return sorted((row for row in found if _split(row)), key=_loss)


def best_run(row: Row) -> StoredRun:
    """Return the run whose headline metric is best, of several that with the lowest seed."""
    metric = headline_metric(row.config.dataset.task)

    def rank(run: StoredRun) -> tuple[float, int]:
        value = run.metric(metric.name, _split(row))
        return (math.inf if value is None else -value if metric.higher_is_better else value, run.seed)

    return min(row.complete, key=rank)


def _split(row: Row) -> str:
    """Return the split that a setting is ranked by; an empty text if none was measured."""
    return next((split for split in SPLITS if split in row.statistics), "")


def _loss(row: Row) -> float:
    mean = row.statistics[_split(row)].mean
    return -mean if headline_metric(row.config.dataset.task).higher_is_better else mean


def choose_runs(ranked: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the keys of runs of the best settings of each method and number of prototypes, and what is left out."""
    cells: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for setting in ranked:
        model = setting.config.model
        cells[model.prototypes, model.method].append(setting)
    counts = _spread(sorted({count for count, _ in cells}))
    limit = _OF_ONE_METHOD if len({method for _, method in cells}) == 1 else _OF_A_METHOD
    kept = [
        setting
        for place in range(limit)
        for (count, _), settings in cells.items()
        if count in counts
        for setting in settings[place : place + 1]
    ][:_MOST]
    words = f"{len(kept):,} of {len(ranked):,} settings: the best of each method and number of prototypes"
    return _keys(kept), [words] if len(kept) < len(ranked) else []


def choose_grid(ranked: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the runs of the data set, method and number of prototypes with the most pairs of power and epsilon."""
    grids: dict[tuple[str, str, int, str], list[Row]] = defaultdict(list)
    for setting in ranked:
        config = setting.config
        model = config.model
        if all(isinstance(model.parameters.get(name), float) for name in ("power", "epsilon")):
            data = setting.settings["dataset"] + config.dataset.identity("path")
            grids[data, model.method, model.prototypes, config.protocol.identity()].append(setting)
    words = f"not drawn: {len(grids) - 1:,} other combinations of data set, method, number of prototypes and protocol"
    return _keys(max(grids.values(), key=len, default=[])[:_MOST_CELLS]), [words] if len(grids) > 1 else []


def _keys(settings: Sequence[Row]) -> list[str]:
    return [key for setting in settings for key in setting.run_keys]


def _spread(counts: Sequence[int]) -> set[int]:
    """Return at most `_COUNTS` of the numbers, the first and the last among them."""
    if len(counts) <= _COUNTS:
        return {*counts}
    return {counts[round(place * (len(counts) - 1) / (_COUNTS - 1))] for place in range(_COUNTS)}
