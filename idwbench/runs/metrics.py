"""The registry of metrics, computed from a model's outputs on a split."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from idwbench.runs.datasets import Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ATTENTION_METRICS",
    "METRICS",
    "QUALITY_METRICS",
    "SPLITS",
    "MetricDefinition",
    "Metrics",
    "evaluate",
    "evaluate_classifiers",
    "headline_metric",
    "nearest_values",
]

# In the order of tables.
SPLITS = ("train", "validation", "test", "holdout")
_NUMBERS_AT_ONCE = 2**22
# Agreement of the class with the largest total attention in layer 0, 1, …, see `idwbench.models.perceptron`.
ATTENTION_METRICS = tuple(
    f"{name}_{layer}" for layer in range(5) for name in ("target_if_wrong", "output_if_wrong", "output_if_right")
)
# Values by split and name.
Metrics = Mapping[tuple[str, str], float]
MetricFunction = Callable[["NDArray[np.floating]", "NDArray[np.generic]"], float]


@dataclass(frozen=True)
class MetricDefinition:
    """One metric.

    Attributes:
        task: The task whose models have the metric; None for the cost of training, the quality of prototypes,
            studies of patches, kernel regression, hash tables, and multilayer perceptrons.
        function: ``(outputs (n, outputs), targets) -> value``; targets are labels (n,) or numbers (n, outputs). None if
            it is not computed from outputs, see `idwbench.models.neighbours`.
        percent: Whether tables show the value times 100.
    """

    name: str
    task: Task | None = None
    function: MetricFunction | None = None
    percent: bool = False
    higher_is_better: bool = False


def _accuracy(logits: NDArray[np.floating], labels: NDArray[np.generic]) -> float:
    import numpy as np

    return int(np.count_nonzero(_is_right(logits, labels))) / len(labels)


def _is_right(logits: NDArray[np.floating], labels: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return where the argmax of the last axis of `logits` (..., n, classes) is the label (n,)."""
    import numpy as np

    if logits.shape[-1] != 2:
        return np.asarray(logits.argmax(-1) == labels)
    # In a small part of the time; for argmax, too, the first NaN is the largest number.
    first, second = logits[..., 0], logits[..., 1]
    is_second = (second > first) | (np.isnan(second) & ~np.isnan(first))
    return np.asarray(is_second == (labels == 1))


def _rmse(outputs: NDArray[np.floating], targets: NDArray[np.generic]) -> float:
    import numpy as np

    return float(np.sqrt(np.mean((outputs.astype(np.float64) - targets.astype(np.float64)) ** 2)))


def _r2(outputs: NDArray[np.floating], targets: NDArray[np.generic]) -> float:
    import numpy as np

    truth = targets.astype(np.float64)
    residual = float(((outputs.astype(np.float64) - truth) ** 2).sum())
    total = float(((truth - truth.mean(0)) ** 2).sum())
    return 1 - residual / total if total > 0 else float("nan")


def nearest_values(outputs: NDArray[np.floating], stored: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the index (n,) of the stored value nearest to each of `outputs` (n, features); −1 for one with NaN.

    The order of ‖o − v‖² is that of ‖v‖² − 2 o·v. Of equal distances the first counts.
    """
    import numpy as np

    exact, asked = stored.astype(np.float64), outputs.astype(np.float64)
    is_finite = np.isfinite(asked).all(1)
    norms = np.einsum("ij,ij->i", exact, exact)
    found = np.full(len(asked), -1, np.int64)
    rows = max(1, _NUMBERS_AT_ONCE // len(exact))
    for start in range(0, len(asked), rows):
        part = asked[start : start + rows]
        found[start : start + rows] = (norms - 2 * np.nan_to_num(part, posinf=0, neginf=0) @ exact.T).argmin(1)
    found[~is_finite] = -1
    return found


def _shares(*names: str) -> list[MetricDefinition]:
    return [MetricDefinition(name, percent=True, higher_is_better=True) for name in names]


# The first metric of a task is its headline metric.
METRICS: dict[str, MetricDefinition] = {
    metric.name: metric
    for metric in (
        MetricDefinition("accuracy", "classification", _accuracy, percent=True, higher_is_better=True),
        MetricDefinition("rmse", "regression", _rmse),
        MetricDefinition("r2", "regression", _r2, higher_is_better=True),
        MetricDefinition("recall", "lookup", percent=True, higher_is_better=True),
        *_shares("recall_before", "gradient_share"),
        MetricDefinition("gradient_norm", higher_is_better=True),
        *map(MetricDefinition, ("weight_entropy", "score_variance")),
        *(MetricDefinition(name, "language") for name in ("bits_per_character", "perplexity")),
        *map(MetricDefinition, ("loss", "seconds_per_step", "fit_seconds", "predict_seconds")),
        *_shares("converged"),
        *map(MetricDefinition, ("activation_memory", "queries_without_neighbours")),
        *map(MetricDefinition, ("coverage", "relative_coverage", "chamfer", "dead_keys", "key_distance")),
        MetricDefinition("key_spacing", higher_is_better=True),
        *_shares("key_agreement", "nearest_key_accuracy", "accuracy_before"),
        *map(MetricDefinition, ("changed_exact", "changed_logit_margin", "changed_authors", "patched")),
        *_shares("smallest_eta"),
        *(MetricDefinition(f"calibration_error_{n}") for n in (0, 1, 5, 20, 100)),
        *_shares("accuracy_1", "accuracy_2", "accuracy_1_before", *ATTENTION_METRICS),
        MetricDefinition("wrong_inputs"),
        MetricDefinition("residual_share", percent=True),
    )
}


# The quality of prototypes, see `idwbench.models.neighbours`.
QUALITY_METRICS = (
    *("coverage", "relative_coverage", "chamfer", "dead_keys", "key_distance", "key_spacing", "key_agreement"),
    "nearest_key_accuracy",
)


def headline_metric(task: Task) -> MetricDefinition:
    """Return the metric that curves and tables of a task show by default."""
    return next(metric for metric in METRICS.values() if metric.task == task)


def evaluate(
    task: Task, split: str, outputs: NDArray[np.floating], targets: NDArray[np.generic]
) -> dict[tuple[str, str], float]:
    """Return the metrics of a task on one split, without those that are undefined (NaN)."""
    found = {(split, name): function(outputs, targets) for name, function in _functions(task)}
    return {key: value for key, value in found.items() if math.isfinite(value)}


def evaluate_classifiers(
    split: str, logits: NDArray[np.floating], labels: NDArray[np.generic]
) -> list[dict[tuple[str, str], float]]:
    """Return what `evaluate` returns for each of some models, from their `logits` (models, n, classes)."""
    import numpy as np

    right = np.count_nonzero(_is_right(logits, labels), axis=1)
    return [{(split, "accuracy"): n / len(labels)} for n in right.tolist()]


@cache
def _functions(task: Task) -> list[tuple[str, MetricFunction]]:
    return [(m.name, m.function) for m in METRICS.values() if m.task == task and m.function is not None]
