"""The metrics of a model as lines."""

from __future__ import annotations

from collections.abc import Iterator

from idwbench.runs.metrics import METRICS, SPLITS, Metrics

__all__ = ["metric_lines"]


def metric_lines(metrics: Metrics) -> Iterator[str]:
    """Yield ``test accuracy 97.00 %`` for each metric of a task, by split."""
    of_task = sorted(name for name, metric in METRICS.items() if metric.task is not None)
    for split, name in ((split, name) for split in SPLITS for name in of_task):
        if (value := metrics.get((split, name))) is not None:
            yield f"{split} {name} {100 * value:.2f} %" if METRICS[name].percent else f"{split} {name} {value:.4g}"
