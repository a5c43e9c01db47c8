"""The choice of hyperparameters by their validation metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.comparisons import higher_is_better, rounded
from idwbench.report.labels import count_label
from idwbench.report.settings import SettingRuns, sortable
from idwbench.report.statistics import Statistic, statistic
from idwbench.results.records import ReportedRun
from idwbench.runs.metrics import headline_metric

__all__ = ["Choice", "best_by_validation", "check_axes"]

_SPLIT = "validation"


@dataclass(frozen=True)
class Choice:
    """The settings that were kept, and notes on how they were chosen."""

    groups: tuple[SettingRuns, ...]
    notes: tuple[str, ...]


def check_axes(axes: Iterable[str], groups: Sequence[SettingRuns]) -> tuple[str, ...]:
    """Return `axes`, each once.

    Raises:
        ConfigError: an axis is no setting of the model or the protocol of any run.
    """
    names = (name for group in groups for name in group.settings)
    known = {name for name in names if name != "dataset" and not name.startswith("dataset_")}
    axes = tuple(dict.fromkeys(axes))
    for axis in axes:
        if axis not in known:
            problem = f"no setting of models or protocols is called '{axis}'"
            raise ConfigError(problem, location=("best_over",), hint=did_you_mean(axis, known))
    return axes


def best_by_validation(
    groups: Sequence[SettingRuns], varying: Collection[str], axes: Sequence[str], metric: str
) -> Choice:
    """Keep, for each combination of the other varying settings, the values of `axes` with the best validation metric.

    The metric is `metric`, or the headline metric of the task where `metric` is not measured on the validation split;
    compared are its means over seeds. Of equal means the first in the order of `axes` is kept. Settings whose runs all
    diverged are kept only if nothing else is left.

    Args:
        groups: The settings to choose from, with their runs.
        varying: The names of settings that vary.
        axes: The names of settings to choose.
        metric: The metric of the table.

    Raises:
        ConfigError: a complete run has no validation metric.
    """
    name = _measured([run for group in groups for run in group.complete], metric, axes)
    means = [_mean(group, name) for group in groups]
    candidates: dict[tuple[object, ...], list[int]] = defaultdict(list)
    others = [setting for setting in varying if setting not in axes]
    for place, group in enumerate(groups):
        candidates[tuple(group.settings.get(setting) for setting in others)].append(place)
    sign = -1 if higher_is_better(name) else 1

    def order(place: int) -> tuple[object, ...]:
        found, settings = means[place], groups[place].settings
        values = sortable({axis: settings.get(axis) for axis in axes})
        return (found is None, 0.0 if found is None else sign * rounded(found.mean), values)

    kept = sorted(min(places, key=order) for places in candidates.values())
    notes = [
        f"{', '.join(axes)}: chosen by the mean over seeds of {name.replace('_', ' ')} on the validation split, not by "
        f"test; {len(kept):,} of {count_label(len(groups), 'setting')} kept.",
        *(f"{axis} does not vary." for axis in axes if axis not in varying),
        *_unequal(candidates.values(), means),
    ]
    return Choice(tuple(groups[place] for place in kept), tuple(notes))


def _mean(group: SettingRuns, metric: str) -> Statistic | None:
    return statistic({place: run.metric(metric, _SPLIT) for place, run in enumerate(group.complete)})


def _measured(runs: Sequence[ReportedRun], metric: str, axes: Sequence[str]) -> str:
    """Return the metric to choose by; `runs` are complete."""
    name = metric
    if runs and all(run.metric(metric, _SPLIT) is None for run in runs):
        name = headline_metric(runs[0].setting.dataset.task).name
    lacking = [run for run in runs if run.metric(name, _SPLIT) is None]
    if lacking:
        # A study of patches has no such metric, whatever its data.
        has_split = any(run.setting.dataset.validation for run in lacking)
        raise ConfigError(
            f"{len(lacking):,} of {count_label(len(runs), 'complete run')} have no validation {name}, by which "
            f"{', '.join(axes)} would be chosen",
            location=("best_over",),
            hint="" if has_split else "add `validation: 0.1` to the data set of the sweep",
        )
    return name


def _unequal(candidates: Iterable[Sequence[int]], means: Sequence[Statistic | None]) -> list[str]:
    """Return a note if settings with different numbers of seeds were compared."""
    counts = [{found.n for place in places if (found := means[place]) is not None} for places in candidates]
    unequal = [n for n in counts if len(n) > 1]
    if not unequal:
        return []
    low, high = min(map(min, unequal)), max(map(max, unequal))
    return [f"Some were chosen among settings with different numbers of seeds ({low} to {high})."]
