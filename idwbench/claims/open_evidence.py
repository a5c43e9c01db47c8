"""`OpenEvidence`: what stored runs of networks, language models and hash tables say, by seed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from idwbench.claims.series import Series
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.metrics import METRICS, headline_metric

__all__ = ["KINDS", "OpenEvidence", "has_settings", "open_runs"]

KINDS = ("network", "transformer_lm", "hash_table")
_DATASETS = ("digits", "aesop", "lookup")


def open_runs(results: Results) -> list[StoredRun]:
    """Return the runs of a database that can answer the open questions."""
    found = (run for name in _DATASETS for run in results.find_runs(dataset=name, states=("complete", "diverged")))
    return [run for run in found if run.config.model.kind in KINDS]


class OpenEvidence:
    """Finished runs, selected by their settings."""

    def __init__(self, runs: Iterable[StoredRun]) -> None:
        self.runs = tuple(runs)

    def metric(
        self, name: str, dataset: str, metric: str, split: str = "test", *, epochs: int | None = None, **model: Any
    ) -> Series:
        """Return a metric by seed, of the settings that are best by validation; the name of the series is `name`.

        `model` are settings that the model must have, and `epochs` those of its protocol. Of those that they leave
        open, and of the data, the combination with the most complete runs counts, of several that with the best mean
        validation metric.
        """
        return self.measure(name, dataset, lambda run: run.metrics.get((split, metric)), epochs=epochs, **model)

    def measure(
        self,
        name: str,
        dataset: str,
        function: Callable[[StoredRun], float | None],
        *,
        epochs: int | None = None,
        **model: Any,
    ) -> Series:
        """Return a function of each of the runs that `metric` selects."""
        values: dict[int, float] = {}
        for run in self.best(dataset, epochs=epochs, **model):
            value = function(run)
            if value is not None and math.isfinite(value):
                values[run.config.seed] = float(value)
        return Series(name, values)

    def best(self, dataset: str, *, epochs: int | None = None, **model: Any) -> list[StoredRun]:
        """Return the runs that `metric` selects, one for each seed."""
        groups = self.groups(dataset, epochs=epochs, **model)
        return max(groups, key=lambda runs: (len(runs), _validation(runs)), default=[])

    def groups(self, dataset: str, *, epochs: int | None = None, **model: Any) -> list[list[StoredRun]]:
        """Return the complete runs with these settings, those that differ in the seed alone together."""
        groups: dict[str, list[StoredRun]] = defaultdict(list)
        for run in self.runs:
            config = run.config
            has_epochs = epochs is None or config.protocol.epochs == epochs
            if (
                run.state == "complete"
                and config.dataset.name == dataset
                and has_settings(config.model, model)
                and has_epochs
            ):
                groups[config.model_copy(update={"seed": 0}).canonical_json()].append(run)
        return list(groups.values())


def has_settings(model: Any, wanted: Mapping[str, Any]) -> bool:
    """Return whether a model has these settings and parameters."""
    return all(getattr(model, name, model.parameters.get(name)) == value for name, value in wanted.items())


def _validation(runs: list[StoredRun]) -> float:
    """Return the mean validation metric, the higher the better; −∞ if a run lacks it."""
    metric = headline_metric(runs[0].config.dataset.task).name
    values = [run.metrics.get(("validation", metric)) for run in runs]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return -math.inf
    mean = sum(known) / len(known)
    return mean if METRICS[metric].higher_is_better else -mean
