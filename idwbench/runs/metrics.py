"""The registry of metrics, computed from a model's outputs on a split; arrays need no import of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from idwbench.runs.dataset_base import Task

__all__ = [
    "ANSWERED_SPLITS",
    "ATTENDED_PLACES",
    "ATTENTION_METRICS",
    "AT_BEST_EPOCH",
    "FORGETTING_MEASURES",
    "FORGETTING_WAYS",
    "HEADLINES",
    "LAYER_STATISTICS",
    "METRICS",
    "NEWEST_QUALITY",
    "PATCH_MEASURES",
    "PATCH_WAYS",
    "QUALITY_METRICS",
    "SPLITS",
    "UNKNOWN_METRIC",
    "MetricDefinition",
    "Metrics",
    "evaluate",
    "metric_order",
]

# In the order of tables.
SPLITS = ("train", "validation", "test", "holdout")
# Agreement of the class with the largest total attention in layer 0, 1, …, see `idwbench.models.key_sums`.
ATTENTION_METRICS = tuple(
    f"{name}_{layer}" for layer in range(5) for name in ("target_if_wrong", "output_if_wrong", "output_if_right")
)
# Where that class is in data of several parts, in the same way: the target, the class that is answered, or another
# class of the input's part, and of the other part. A part and whether answers are right stand for the split.
ATTENDED_PLACES = tuple(f"attends_{part}{kind}" for part in ("", "other_") for kind in ("target", "answer", "class"))
ANSWERED_SPLITS = ("right_1", "wrong_1", "right_2", "wrong_2")
# What studies of patches compare: the keys of their metrics, where a way stands for the split.
PATCH_WAYS = (
    *("unpatched", "exact", "margin_1", "confidence_50", "confidence_90", "authors"),
    *("local", "local_half", "local_s8", "local_s2", "override", "fine_tuning", "retraining"),
)
PATCH_MEASURES = (
    *("success", "probability", "noise_kept", "shift_kept", "neighbours_right", "better", "worse"),
    *("calibration_error", "logit_change"),
)
# What studies of memories compare if a part is masked, in the same way; see `idwbench.training.memory_study_engine`.
FORGETTING_WAYS = ("whole", "masked", "masked_last", "ascended", "fine_tuned", "retrained", "other_seed")
FORGETTING_MEASURES = ("masked_accuracy", "rest_accuracy", "different_answers", "total_variation")
# Statistics of layers, whose metrics have the layer in place of a split; see `idwbench.training.layer_statistics`.
LAYER_STATISTICS = ("score_variance", "weight_entropy", "gradient_norm", "score_gradient_norm")
# Values by split and name.
Metrics = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class MetricDefinition:
    """One metric.

    Attributes:
        task: The task whose models have the metric; None for the cost of training, the quality of prototypes,
            studies of patches, kernel regression, hash tables, alignments, and multilayer perceptrons.
        function: ``(outputs (n, outputs), targets) -> value``; targets are labels (n,), or numbers (n, outputs), and
            these are in their own units. None if it is not computed from outputs, see `idwbench.models.neighbours`.
        percent: Whether tables show the value times 100.
        higher_is_better: The order of leaderboards, and what is marked.
        has_best: Whether some values are better than others; of descriptions nothing is marked.
        is_count: Whether it is a number of inputs, which tables show without decimals.
    """

    name: str
    task: Task | None = None
    function: Callable[[Any, Any], float] | None = None
    percent: bool = False
    higher_is_better: bool = False
    has_best: bool = True
    is_count: bool = False


def _accuracy(logits: Any, labels: Any) -> float:
    return float((logits.argmax(-1) == labels).mean())


def _rmse(outputs: Any, targets: Any) -> float:
    return math.sqrt(((outputs - targets) ** 2).mean())


def _r2(outputs: Any, targets: Any) -> float:
    residual, total = (float((numbers**2).sum()) for numbers in (outputs - targets, targets - targets.mean(0)))
    return 1 - residual / total if total > 0 else math.nan


_description = partial(MetricDefinition, higher_is_better=True, has_best=False)
_share = partial(MetricDefinition, percent=True, higher_is_better=True)


# The first metric of a task is its headline metric, see `HEADLINES`.
METRICS: dict[str, MetricDefinition] = {
    metric.name: metric
    for metric in (
        _share("accuracy", "classification", _accuracy),
        MetricDefinition("rmse", "regression", _rmse),
        MetricDefinition("r2", "regression", _r2, higher_is_better=True),
        _share("recall", "lookup"),
        *map(_share, ("recall_before", "gradient_share")),
        *map(_description, ("gradient_norm", "score_gradient_norm", "weight_entropy", "score_variance")),
        *(MetricDefinition(name, "language") for name in ("bits_per_character", "perplexity")),
        *(_share(name, "sequence_to_sequence") for name in ("exact_match", "token_accuracy")),
        _share("alignment"),
        *map(MetricDefinition, ("loss", "seconds_per_step", "fit_seconds", "predict_seconds")),
        _share("converged"),
        *map(MetricDefinition, ("activation_memory", "queries_without_neighbours")),
        *map(MetricDefinition, ("coverage", "relative_coverage", "chamfer", "dead_keys", "key_distance")),
        MetricDefinition("outside_features", percent=True),
        *(MetricDefinition(name, higher_is_better=True) for name in ("key_spacing", "key_correlation")),
        *map(_share, ("key_agreement", "nearest_key_accuracy", "accuracy_before")),
        *map(MetricDefinition, ("changed_exact", "changed_logit_margin", "changed_authors", "patched")),
        _share("smallest_eta"),
        *(MetricDefinition(f"calibration_error_{n}") for n in (0, 1, 5, 20, 100)),
        MetricDefinition("relative_radius"),
        *(
            replace(measure, name=f"{measure.name}{suffix}")
            for suffix in ("", "_together")
            for measure in (
                *map(_share, PATCH_MEASURES[: PATCH_MEASURES.index("better")]),
                MetricDefinition("better", higher_is_better=True),
                *map(MetricDefinition, ("worse", "calibration_error", "logit_change")),
            )
        ),
        *map(_share, ("accuracy_1", "accuracy_2", "accuracy_1_before", *ATTENTION_METRICS)),
        *(MetricDefinition(f"{place}_{layer}", percent=True) for layer in range(5) for place in ATTENDED_PLACES),
        MetricDefinition("answered_inputs", is_count=True),
        *(MetricDefinition(name, percent=True) for name in FORGETTING_MEASURES),
        *map(_share, ("same_answers", "attention_to_answer")),
        MetricDefinition("wrong_inputs", is_count=True),
        MetricDefinition("residual_share", percent=True),
        MetricDefinition("best_epoch", has_best=False, is_count=True),
    )
}
# Any other, such as that of a plugin: nothing is known of it.
UNKNOWN_METRIC = MetricDefinition("", higher_is_better=True, has_best=False)
# The metric that curves and tables of a task show by default.
HEADLINES: dict[Task, MetricDefinition] = {metric.task: metric for metric in reversed(METRICS.values()) if metric.task}
AT_BEST_EPOCH = "_at_best_epoch"
METRICS |= {
    name: replace(metric, name=name, task=None, function=None)
    for metric in HEADLINES.values()
    for name in [f"{metric.name}{AT_BEST_EPOCH}"]
}

# The quality of prototypes, see `idwbench.models.neighbours`.
QUALITY_METRICS = (
    *("coverage", "relative_coverage", "chamfer", "dead_keys", "key_distance", "key_spacing", "key_agreement"),
    *("nearest_key_accuracy", "key_correlation", "outside_features"),
)
NEWEST_QUALITY = QUALITY_METRICS[-1]  # runs that have it have all of them


def evaluate(task: Task, outputs: Any, targets: Any) -> dict[str, float]:
    """Return the metrics of a task by name, without those that are undefined (NaN)."""
    functions = ((m.name, m.function) for m in METRICS.values() if m.task == task and m.function is not None)
    values = {name: function(outputs, targets) for name, function in functions}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def metric_order(pair: tuple[str, str]) -> tuple[Any, ...]:
    """Return a key that sorts splits and names of metrics as in tables, and unknown ones after these."""
    split, name = pair
    place = [*METRICS].index(name) if name in METRICS else len(METRICS)
    return (SPLITS.index(split) if split in SPLITS else len(SPLITS), place, pair)
