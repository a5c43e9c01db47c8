"""What stored runs say, by seed: `Evidence` of the paper's settings, `OpenEvidence` of networks, texts and tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS
from idwbench.claims.series import Series
from idwbench.errors import ConfigError, ResultsError
from idwbench.report.references import REFERENCES
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.datasets import parse_dataset
from idwbench.runs.metrics import METRICS, headline_metric
from idwbench.runs.protocol import default_protocol

__all__ = [
    "KINDS",
    "MNIST",
    "PAPER_METHODS",
    "RIVALS",
    "TWO_MOONS",
    "Arrays",
    "Evidence",
    "LoadArrays",
    "OpenEvidence",
    "has_settings",
    "open_runs",
]

TWO_MOONS, MNIST = "two_moons", "mnist"
# The six methods of Table 1, and those but IDW.
PAPER_METHODS = tuple(dict.fromkeys(found.model.method for found in REFERENCES if found.dataset == MNIST))
RIVALS = tuple(method for method in PAPER_METHODS if method != "idw")
# On Two Moons the 4,000 new points, since 40 test points are too few to distinguish methods.
ACCURACY_SPLIT = {TWO_MOONS: "holdout", MNIST: "test"}

# Of the runs that can answer the questions that the paper leaves open.
KINDS = ("network", "transformer_lm", "hash_table")
_OPEN_DATASETS = ("digits", "aesop", "lookup")

Arrays = Mapping[str, NDArray[np.generic]]
LoadArrays = Callable[[str], Arrays]

# The paper's tables and figures are by its authors' code, which divides by √prototypes.
_PAPER_PARAMETERS: dict[str, dict[str, str]] = {"scaled_dot": {"scale": "prototypes"}}
# Settings of a kind that may have any value: of several runs with one seed the one with the largest value counts.
_FREE_SETTINGS = ("n_cases",)


class Evidence:
    """Finished runs with the default data and protocol of Two Moons and MNIST; others do not count.

    Models are selected by their settings: `kind`, `method`, `prototypes`, parameters of the method and others; what
    is not given has its default.
    """

    def __init__(
        self,
        runs: Iterable[StoredRun],
        load_arrays: LoadArrays,
        find_others: Callable[[], Iterable[StoredRun]] = tuple,
    ) -> None:
        """Select the runs that count.

        `load_arrays` returns the arrays of the run with a key; `find_others` the runs for the open questions.
        """
        self._load_arrays, self._find_others = load_arrays, find_others
        self._runs: dict[tuple[object, ...], list[StoredRun]] = defaultdict(list)
        for run in runs:
            config, model = run.config, run.config.model
            if run.state in ("complete", "diverged") and _is_default(run):
                self._runs[config.dataset.name, model.kind, model.method, model.prototypes].append(run)

    @classmethod
    def from_results(cls, results: Results) -> Evidence:
        """Return the evidence of a database."""
        found = [run for dataset in ACCURACY_SPLIT for run in results.find_runs(dataset=dataset)]
        return cls(found, results.load_arrays, partial(open_runs, results))

    @cached_property
    def open(self) -> OpenEvidence:
        """The evidence for the questions that the paper leaves open."""
        return OpenEvidence(self._find_others())

    def accuracy(self, dataset: str, **model: Any) -> Series:
        """Return the accuracy in percent, on new points of Two Moons and on the test images of MNIST."""
        return self.measure(dataset, "accuracy", lambda run: _percent(run, ACCURACY_SPLIT[dataset]), **model)

    def metric(self, dataset: str, name: str, split: str = "train", **model: Any) -> Series:
        """Return a metric."""
        return self.measure(dataset, name, lambda run: run.metrics.get((split, name)), **model)

    def from_arrays(self, dataset: str, what: str, function: Callable[[Arrays], float | None], **model: Any) -> Series:
        """Return a quantity that is computed from the arrays of each run; None where they do not have it."""
        return self.measure(dataset, what, lambda run: function(self.arrays(run)), **model)

    def measure(self, dataset: str, what: str, function: Callable[[StoredRun], float | None], **model: Any) -> Series:
        """Return `function` of each complete run by seed; the name of the series is that of the model."""
        runs = self.complete(dataset, **model)
        values: dict[int, float] = {}
        for run in runs:
            value = function(run)
            if value is not None and math.isfinite(value):
                values[run.config.seed] = float(value)
        without = len(runs) - len(values)
        lack = f"{without} run{'s' if without > 1 else ''} without {what.replace('_', ' ')}" if without else ""
        return Series(_name(dataset, model), values, lack)

    def complete(self, dataset: str, **model: Any) -> list[StoredRun]:
        """Return the complete runs of a model, one for each seed."""
        return [run for run in self.finished(dataset, **model) if run.state == "complete"]

    def finished(self, dataset: str, **model: Any) -> list[StoredRun]:
        """Return the complete and diverged runs of a model by seed, one for each."""
        wanted = {"kind": "prototypes", **model}
        place = (dataset, wanted["kind"], wanted["method"], wanted["prototypes"])
        at_place = self._runs.get(place, [])
        settings = _settings(type(at_place[0].config.model), wanted) if at_place else None
        found = [run for run in at_place if _has_settings(run.config.model, settings)]
        return list({run.config.seed: run for run in sorted(found, key=_order)}.values())

    def training_inputs(self, dataset: str) -> NDArray[np.float64]:
        """Return the scaled training inputs of the default data set (n, features)."""
        from idwbench.data.loading import load_dataset

        return load_dataset(_default_dataset(dataset)).train.inputs.astype(np.float64)

    def arrays(self, run: StoredRun) -> Arrays:
        """Return the arrays of a run; nothing if they cannot be read."""
        try:
            return self._load_arrays(run.run_key)
        except ResultsError:
            return {}


def _is_default(run: StoredRun) -> bool:
    dataset = run.config.dataset
    known = dataset.name in ACCURACY_SPLIT
    return known and dataset == _default_dataset(dataset.name) and run.config.protocol == default_protocol(dataset.name)


@cache
def _default_dataset(name: str) -> Any:
    return parse_dataset(name)


def _order(run: StoredRun) -> tuple[object, ...]:
    return (run.config.seed, *(getattr(run.config.model, name, 0) for name in _FREE_SETTINGS), run.run_key)


def _settings(kind: type[Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings of a kind of model: those in `wanted`, and defaults for others; None if one has neither."""
    fields = {name: field for name, field in kind.model_fields.items() if name not in _FREE_SETTINGS}
    settings = {name: field.default for name, field in fields.items() if not field.is_required()}
    settings |= {name: value for name, value in wanted.items() if name in fields}
    if "parameters" in fields:
        given = {name: value for name, value in wanted.items() if name not in kind.model_fields}
        settings["parameters"] = _parameters(wanted["method"], given)
    return settings if len(settings) == len(fields) else None


def _has_settings(model: Any, settings: Mapping[str, Any] | None) -> bool:
    return settings is not None and all(getattr(model, name) == value for name, value in settings.items())


def _parameters(method: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return METHODS[method].resolve({**_PAPER_PARAMETERS.get(method, {}), **given})
    except ConfigError:  # a setting of another kind of model
        return {}


def _percent(run: StoredRun, split: str) -> float | None:
    value = run.metric("accuracy", split)
    return None if value is None else 100 * value


def _name(dataset: str, model: Mapping[str, Any]) -> str:
    """Return ``idw, 16 prototypes, p=1``."""
    method = METHODS.get(model["method"])
    numbers = {name: float(value) for name, value in model.items() if name in ("power", "epsilon")}
    words = [model["method"], f"{model['prototypes']} prototypes", method.label(numbers) if method else ""]
    words += [model["kind"].replace("_", " ")] if model.get("kind", "prototypes") == "patch_study" else []
    words += ["MNIST"] if dataset == MNIST else []
    return ", ".join(word for word in words if word)


def open_runs(results: Results) -> list[StoredRun]:
    """Return the runs of a database that can answer the open questions."""
    found = (run for name in _OPEN_DATASETS for run in results.find_runs(dataset=name, states=("complete", "diverged")))
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
