"""What differs between two runs: settings, metrics, curves, arrays, and the environment of their training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.metrics import metric_order
from idwbench.runs.results import CurvePoint

__all__ = ["ArrayDifference", "Comparison", "array_difference", "compare_runs", "curve_difference", "environment"]


@dataclass(frozen=True)
class ArrayDifference:
    """The difference of two arrays of one name.

    Attributes:
        identical: Whether type, shape and bytes are equal.
        largest: The largest absolute difference; None where it is not defined: one is missing, or the shapes differ, or
            the values are no numbers. Equal values that are not finite differ by 0, and NaN from a number by infinity.
        shapes: Of both; None for a missing one.
    """

    identical: bool
    largest: float | None
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None]


def environment(run: StoredRun) -> dict[str, Any]:
    """Return what the result of a run may depend on besides its settings: versions, processor, commit, data, …."""
    facts: dict[str, Any] = {name: getattr(run, name) for name in ("engine", "device", "threads", "host", "platform")}
    facts |= {f"cpu {name.replace('_', ' ')}": value for name, value in (run.cpu or {}).items()}
    facts |= {f"{name} version": value for name, value in (run.versions or {}).items()}
    facts |= {f"git {name.replace('_', ' ')}": value for name, value in (run.git or {}).items()}
    facts["data sha256"] = run.data_sha256
    return {name: value for name, value in facts.items() if value is not None}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the entries of two mappings that differ, by name, with None for a missing one."""
    names = dict.fromkeys((*one, *other))
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def array_difference(one: NDArray[np.generic] | None, other: NDArray[np.generic] | None) -> ArrayDifference:
    """Return the difference of two arrays, of which one may be missing."""
    shapes = (None if one is None else one.shape, None if other is None else other.shape)
    if one is None or other is None or one.shape != other.shape:
        return ArrayDifference(False, None, shapes)
    is_identical = one.dtype == other.dtype and one.tobytes() == other.tobytes()
    is_number = all(np.issubdtype(array.dtype, np.number) or array.dtype == bool for array in (one, other))
    other_kinds = 0.0 if is_identical else None
    return ArrayDifference(is_identical, _largest_difference(one, other) if is_number else other_kinds, shapes)


def _largest_difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    a, b = one.astype(np.float64), other.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        distances = np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf))
    return float(distances.max(initial=0.0))


def curve_difference(one: Sequence[CurvePoint], other: Sequence[CurvePoint]) -> float | None:
    """Return the largest difference of two learning curves, as of two arrays; None if they have other points."""
    first, second = (
        {(p.epoch, name): value for p in curve for name, value in p.values.items()} for curve in (one, other)
    )
    if first.keys() != second.keys():
        return None
    return _largest_difference(np.array([*first.values()]), np.array([second[place] for place in first]))


@dataclass(frozen=True)
class Comparison:
    """Two runs, and what differs.

    Attributes:
        runs: Both.
        settings: The settings that differ, by name: both values, None where a run has no such setting.
        metrics: All metrics by split and name: both values, None for a missing one.
        curve: Largest difference of the learning curves; None if they have other points.
        arrays: Differences of the arrays by name.
        environment: What differs between the environments, by name.
    """

    runs: tuple[StoredRun, StoredRun]
    settings: dict[str, tuple[Any, Any]]
    metrics: dict[tuple[str, str], tuple[float | None, float | None]]
    curve: float | None
    arrays: dict[str, ArrayDifference]
    environment: dict[str, tuple[Any, Any]]

    @property
    def identical(self) -> bool:
        """Whether the state, all metrics, the curve and the bytes of all arrays are equal."""
        same = self.runs[0].state == self.runs[1].state and self.curve == 0
        same = same and all(one == other for one, other in self.metrics.values())
        return same and all(difference.identical for difference in self.arrays.values())


def compare_runs(results: Results, one: str, other: str, others: Results | None = None) -> Comparison:
    """Compare two stored runs, given by their keys or the beginnings of these; `others` is the database of the second.

    Raises:
        ResultsError: no such run, or several.
    """
    stores = results, others or results
    first, second = runs = (stores[0].find_run(one), stores[1].find_run(other))
    pairs = sorted({*first.metrics, *second.metrics}, key=metric_order)
    arrays, others_arrays = (store.load_arrays(run.run_key) for store, run in zip(stores, runs, strict=True))
    names = sorted({*arrays, *others_arrays})
    return Comparison(
        runs=runs,
        settings=_differing(first.config.named_settings(), second.config.named_settings()),
        metrics={pair: (first.metrics.get(pair), second.metrics.get(pair)) for pair in pairs},
        curve=curve_difference(*(store.load_curve(run.run_key) for store, run in zip(stores, runs, strict=True))),
        arrays={name: array_difference(arrays.get(name), others_arrays.get(name)) for name in names},
        environment=_differing(environment(first), environment(second)),
    )
