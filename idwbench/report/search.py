"""The trials of a search as data: their history, axes of their settings, and how much each setting matters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from idwbench.errors import ConfigError
from idwbench.report.frame import Runs, check_metric, chosen_split, one_metric, rows, run_table
from idwbench.report.labels import metric_label, plain_value, setting_label, sortable, value_label, varying_settings
from idwbench.runs.metrics import METRICS, UNKNOWN_METRIC

__all__ = ["RANDOM", "Search", "SettingAxis", "importance", "search_trials", "setting_axis"]

RANDOM = "random numbers"
_MIN_TRIALS, _SPLITS, _LEFT_OUT, _SHUFFLES, _TREES = 20, 20, 0.3, 10, 50
_LOG_RATIO = 10  # of the largest number of a setting to the smallest, from which its axis is one of logarithms


@dataclass(frozen=True)
class Search:
    """The trials of a search that have a value, by number, in the order in which they were chosen.

    Attributes:
        metric: The name of the metric.
        split: The split of the values: validation where all trials have it.
        trials: The mean ``value`` over seeds and the ``best`` so far, shares in %; its ``rank`` from 0 (worst) to 1;
            and in words the value with its spread, ``text``, and the settings, ``label``.
        settings: The settings that vary among them by name, without underscores, NaN where a trial has none.
    """

    metric: str
    split: str
    trials: pandas.DataFrame
    settings: pandas.DataFrame

    @property
    def label(self) -> str:
        """The name of the values: ``validation accuracy in %``."""
        return f"{self.split} {metric_label(self.metric)}"


@dataclass(frozen=True)
class SettingAxis:
    """Places from 0 to 1 for the values of a setting, NaN where a trial has none, and texts at some of them."""

    places: pandas.Series[float]
    ticks: dict[float, str]


def search_trials(runs: Runs, metric: str | None = None) -> Search:
    """Return the trials of a search.

    A trial is a setting; it has a value if all of its runs are complete. Trials are counted from 1, with those that
    have no value.

    Args:
        runs: The runs of the search, in any state and in its order.
        metric: The metric, by default that of the task.

    Raises:
        ConfigError: no run has the metric, or fewer than two trials have a value.
    """
    table = run_table(runs)
    if metric is not None:
        check_metric(table, metric)
    name = metric or one_metric(table.headline)
    is_complete = (table.state == "complete").groupby(table.row).all()
    every = [row for row in rows(table, name) if is_complete[row.number]]
    split = chosen_split(every, name, None)
    found = [row for row in every if split in row.statistics]
    varying = varying_settings([row.settings for row in found])
    if len(found) < 2 or not varying:
        raise ConfigError("fewer than two trials have a value")
    numbers = pandas.Index([row.number + 1 for row in found], name="trial")
    definition, values = METRICS.get(name, UNKNOWN_METRIC), [row.statistics[split] for row in found]
    shown = [(100 if definition.percent else 1) * one.mean for one in values]
    trials = pandas.DataFrame(
        {"value": shown, "text": [value_label(name, one.mean, one.std) for one in values]}, numbers
    )
    trials["rank"] = (trials.value.rank(ascending=definition.higher_is_better) - 1) / (len(trials) - 1)
    trials["best"] = trials.value.cummax() if definition.higher_is_better else trials.value.cummin()
    own = [{setting: row.settings[setting] for setting in varying if setting in row.settings} for row in found]
    trials["label"] = [" · ".join(setting_label(*one) for one in settings.items()) for settings in own]
    settings = pandas.DataFrame(own, numbers, varying, dtype=object)
    return Search(name, split, trials, settings.rename(columns=lambda setting: setting.replace("_", " ")))


def setting_axis(values: pandas.Series[Any]) -> SettingAxis:
    """Return the axis of a setting: even in numbers, in their logarithm if they span a wide range, or by category."""
    known = [value for value in values if not _is_missing(value)]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        low, high = min(known), max(known)
        scale = np.log if low > 0 and high / low >= _LOG_RATIO else np.positive
        ends = scale([low, high]).astype(float)
        middle = ends.mean() if scale is np.positive else math.exp(ends.mean())
        numbers = [low, round(middle) if {*map(type, known)} == {int} else middle, high]
        found, ticks = ((scale(one) - ends[0]) / (ends[1] - ends[0] or 1.0) for one in (values.astype(float), numbers))
        return SettingAxis(found, dict(zip(ticks.tolist(), (f"{number:.3g}" for number in numbers), strict=True)))
    ordered = _ordered(known)
    steps = {value: place / max(len(ordered) - 1, 1) for place, value in enumerate(ordered)}
    return SettingAxis(values.map(steps).astype(float), {place: plain_value(value) for value, place in steps.items()})


def importance(search: Search) -> tuple[pandas.DataFrame, float]:
    """Return how much each setting matters for the order of the trials, and how well that order can be predicted.

    A random forest learns the ranks of 70 % of the trials and predicts those of the others, for 20 random splits. The
    importance of a setting is the fall of R² on the others if its values are shuffled among these (Breiman 2001,
    *Random forests*). A column of random numbers, `RANDOM`, shows what chance alone gives. With ranks, a few very bad
    trials do not hide the differences among the good ones.

    Returns:
        ``mean``, ``low`` and ``high`` (the 10th and 90th percentile) over the splits by setting, the largest mean first
        and `RANDOM` last; and the mean R² of the forest on the trials that were left out.

    Raises:
        ConfigError: fewer than 20 trials.
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import ShuffleSplit

    n = len(search.trials)
    if n < _MIN_TRIALS:
        raise ConfigError(f"the importance of settings needs at least {_MIN_TRIALS} trials with a value, got {n}")
    # Trees only compare, so that the places of values in their order are enough.
    inputs = np.column_stack([_codes(column) for _, column in search.settings.items()])
    ranks, generator, scores, falls = search.trials["rank"].to_numpy(), np.random.default_rng(0), [], []
    for train, test in ShuffleSplit(_SPLITS, test_size=_LEFT_OUT, random_state=0).split(inputs):
        table = np.column_stack([inputs, generator.random(n)])
        forest = RandomForestRegressor(_TREES, random_state=0).fit(table[train], ranks[train])
        shuffled = np.stack([table[test]] * (1 + _SHUFFLES * table.shape[1]))
        for place, one in enumerate(shuffled[1:]):
            one[:, place // _SHUFFLES] = generator.permutation(one[:, place // _SHUFFLES])
        answers = forest.predict(shuffled.reshape(-1, table.shape[1])).reshape(len(shuffled), -1)
        score = 1 - ((answers - ranks[test]) ** 2).mean(1) / (ranks[test].var() or 1.0)
        scores.append(score[0])
        falls.append(score[0] - score[1:].reshape(-1, _SHUFFLES).mean(1))
    table = pandas.DataFrame(falls, columns=[*search.settings, RANDOM])
    found = pandas.DataFrame({"mean": table.mean(), "low": table.quantile(0.1), "high": table.quantile(0.9)})
    found = found.sort_values("mean", ascending=False, kind="stable")
    return found.loc[[*found.index.drop(RANDOM), RANDOM]], float(np.mean(scores))


def _codes(values: pandas.Series[Any]) -> list[int]:
    places = {value: place for place, value in enumerate(_ordered(value for value in values if not _is_missing(value)))}
    return [-1 if _is_missing(value) else places[value] for value in values]


def _ordered(values: Iterable[Any]) -> list[Any]:
    return sorted({*values}, key=lambda value: sortable({"": value}))


def _is_missing(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
