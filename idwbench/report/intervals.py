"""95 % bootstrap intervals of means over seeds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from idwbench.report.statistics import Interval, Statistic, present_splits

__all__ = ["interval_notes", "interval_splits", "mean_interval", "with_intervals"]

_LEVEL = 0.95
_RESAMPLES = 9_999
_MIN_VALUES = 3
_SEED = 0
# Limits the memory of resampling; it does not change the random numbers.
_BATCH_ELEMENTS = 2**22


def mean_interval(by_seed: Mapping[int, float]) -> Interval | None:
    """Return the 95 % bootstrap interval of the mean of finite values; None for fewer than 3.

    The interval is BCa (bias-corrected and accelerated; Efron 1987, *Better bootstrap confidence intervals*) over 9,999
    resamples, or the percentile interval where BCa is undefined, such as for equal values. It depends on values and
    seeds only: each call resamples with the same generator.
    """
    values = [by_seed[seed] for seed in sorted(by_seed)]
    if len(values) < _MIN_VALUES:
        return None
    if min(values) == max(values):  # the mean of all resamples, but for rounding
        return Interval(values[0], values[0], "percentile")
    low, high = _bootstrap(values, "BCa")
    if math.isfinite(low) and math.isfinite(high):
        return Interval(low, high, "BCa")
    return Interval(*_bootstrap(values, "percentile"), "percentile")


def interval_splits(splits: Iterable[str]) -> tuple[str, ...]:
    """Return the splits with an interval: test and holdout, or all if there are neither."""
    found = tuple(splits)
    return tuple(split for split in found if split in ("test", "holdout")) or found


def with_intervals(
    rows: Iterable[Mapping[str, Statistic]], chosen: Iterable[str] = ()
) -> tuple[dict[str, Statistic], ...]:
    """Return the statistics of each row with intervals for `interval_splits` and the splits in `chosen`."""
    rows = tuple(rows)
    splits = {*interval_splits(present_splits(rows)), *chosen}
    return tuple(
        {
            split: replace(one, interval=mean_interval(one.values)) if split in splits else one
            for split, one in row.items()
        }
        for row in rows
    )


def interval_notes(rows: Iterable[Mapping[str, Statistic]]) -> tuple[str, ...]:
    """Return the name of the method, and which means have no interval, for statistics from `with_intervals`."""
    rows = tuple(rows)
    statistics = [one for row in rows for split, one in row.items()]
    methods = {one.interval.method for one in statistics if one.interval is not None}
    notes = []
    if methods:
        where = "; percentile method where BCa is undefined, such as for equal values" * ("percentile" in methods)
        notes.append(
            f"95 % interval: of the mean over seeds, BCa bootstrap with {_RESAMPLES:,} resamples (SciPy){where}."
        )
    if any(one.n < _MIN_VALUES for one in statistics):
        notes.append(f"n < {_MIN_VALUES}: no interval.")
    return tuple(notes)


def _bootstrap(values: list[float], method: str) -> tuple[float, float]:
    from scipy.stats import bootstrap  # slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the distribution is degenerate: BCa is undefined, and NaN is returned
        found = bootstrap(
            (np.array(values),),
            np.mean,
            n_resamples=_RESAMPLES,
            batch=max(1, _BATCH_ELEMENTS // len(values)),
            confidence_level=_LEVEL,
            method=method,
            random_state=np.random.default_rng(_SEED),  # `rng` in newer versions of SciPy
        ).confidence_interval
    return float(found.low), float(found.high)
