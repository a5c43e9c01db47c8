"""Labels of numbers and settings in tables and figures, and which settings of runs a table shows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from idwbench.attention.scores import METHODS
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS, ScikitLearnConfig
from idwbench.runs.metrics import METRICS, UNKNOWN_METRIC
from idwbench.runs.settings import Settings

__all__ = [
    "cell_label",
    "constants_title",
    "count_label",
    "dataset_words",
    "flat_settings",
    "metric_label",
    "ordered_parameters",
    "plain_value",
    "range_label",
    "setting_label",
    "setting_labels",
    "setting_names",
    "sortable",
    "value_label",
    "varying_settings",
]

_SIGNIFICANT_DIGITS = 4
_MOST_NUMBERS = 6
# Neither is a setting of its own in tables: the label of the data set stands for both.
_OF_FILES = ("name", "path")
_UNTITLED = (*_OF_FILES, "sha256", "plugin_sha256", "kind")


def cell_label(value: Any) -> str:
    """Return a value as a text of a table: a number with four digits, of a list the first six, "" for None."""
    if isinstance(value, list):
        more = ", ..." if len(value) > _MOST_NUMBERS else ""
        return ", ".join(map(cell_label, value[:_MOST_NUMBERS])) + more
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value or ""


def count_label(count: int, noun: str) -> str:
    """Return ``1 run`` or ``2 runs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def range_label(numbers: Collection[int]) -> str:
    """Return ``3 to 10`` for the least and the largest of some numbers, or ``10`` if they are equal."""
    return " to ".join(str(number) for number in dict.fromkeys((min(numbers), max(numbers))))


def metric_label(metric: str) -> str:
    """Return ``accuracy in %``, or ``rmse (lower is better)``."""
    definition = METRICS.get(metric, UNKNOWN_METRIC)
    unit = " in %" if definition.percent else ""
    is_lower = definition.has_best and not definition.higher_is_better
    return metric.replace("_", " ") + unit + (" (lower is better)" if is_lower else "")


def value_label(metric: str, mean: float, other: float | None = None, between: str = " ± ") -> str:
    """Return ``97.50 ± 1.18`` for a metric in percent, four significant digits for another; `other` may be missing.

    Numbers of inputs have no decimals.
    """
    numbers = (mean,) if other is None else (mean, other)
    definition = METRICS.get(metric, UNKNOWN_METRIC)
    if definition.percent:
        return between.join(f"{100 * number:.2f}" for number in numbers)
    if definition.is_count:
        return between.join(f"{number:,.0f}" for number in numbers)
    largest = max(map(abs, numbers))
    form = f".{_SIGNIFICANT_DIGITS - 1}e" if largest else ".0f"
    if 1e-4 <= largest < 1e6:
        form = f".{max(0, _SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(largest)))}f"
    return between.join(f"{number:{form}}" for number in numbers)


def plain_value(value: object) -> str:
    """Return the value of a setting in tables: ``0.001``, ``2`` for 2.0, ``none`` for None, ``a, b`` for a list.

    Truth values are ``true`` and ``false``, as in YAML.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(plain_value, value))
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def setting_label(name: str, value: object) -> str:
    """Return the name and the value of a setting: ``learning rate 0.001``."""
    return f"{name.replace('_', ' ')} {plain_value(value)}"


def setting_labels(settings: Settings, others: Collection[str] = ()) -> dict[str, str]:
    """Return the labels of settings that have no default or differ from it, and of `others`, by name."""
    fields = type(settings).model_fields
    return {
        name: setting_label(name, value[:8] if name == "sha256" and value else value)
        for name, value in settings
        if fields[name].is_required() or value != fields[name].default or name in others
    }


def flat_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run without its seed, named as the columns of `Results.to_frame`.

    ``dataset`` is the label, ``model`` the kind, and settings of the data set begin with ``dataset_``.
    """
    model = dict(config.model)
    first = {"dataset": config.dataset_label, "method": config.model.method, "model": model.pop("kind")}
    counts = {"prototypes": model.pop("prototypes", None)}
    for name in ("method", "kernel", "similarity", "parameters", *getattr(config.model, "named_by_method", ())):
        model.pop(name, None)
    model = {name: value for name, value in model.items() if value is not None or name == "plugin_sha256"}
    dataset = {f"dataset_{name}": value for name, value in config.dataset if name not in _OF_FILES}
    return {**first, **ordered_parameters(config.model), **counts, **model, **dataset, **dict(config.protocol)}


def varying_settings(settings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names that have at least two values among the mappings that have the name.

    A parameter of scikit-learn's methods and the checksum of a plugin vary among runs of one method.
    """
    values: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for one in settings:
        method = SCIKIT_LEARN_METHODS.get(one["method"]) if one.get("model") == "scikit_learn" else None
        for name, value in one.items():
            is_of_method = name == "plugin_sha256" or (method is not None and method.takes(name))
            values[name, one["method"] if is_of_method else ""].add(value)
    varying = {name for (name, _), known in values.items() if len(known) > 1}
    return tuple(name for name in setting_names(settings) if name in varying)


def dataset_words(labels: Sequence[str], datasets: Sequence[DatasetConfig]) -> list[list[str]]:
    """Return for each data set its label, and its settings that differ from the default or among equal labels."""
    values: dict[tuple[str, str], set[object]] = defaultdict(set)
    for label, dataset in zip(labels, datasets, strict=True):
        for name, value in dataset:
            values[label, name].add(value)
    words = []
    for label, dataset in zip(labels, datasets, strict=True):
        telling = {name for name, value in dataset if len(values[label, name]) > 1 and (value or name != "sha256")}
        hidden = {*_OF_FILES, "sha256"} - (telling & {"sha256"})  # which only tells files of one name apart
        words.append([label, *(text for name, text in setting_labels(dataset, telling).items() if name not in hidden)])
    return words


def constants_title(configs: Sequence[RunConfig], varying: Collection[str]) -> str:
    """Return one line with the settings that do not vary among runs, without those at an optional default."""
    labels = sorted({config.dataset_label for config in configs})
    words = [labels[0] if len(labels) == 1 else f"{len(labels)} data sets"]
    for part in ("dataset", "model", "protocol"):
        prefix = "dataset_" if part == "dataset" else ""
        shown = (
            label
            for config in configs
            for name, label in _labels(getattr(config, part))
            if f"{prefix}{name}" not in varying
            and not ("method" in varying and name in getattr(config.model, "named_by_method", ()))
        )
        words += dict.fromkeys(shown)
    return " · ".join(words)


def _labels(settings: Settings) -> Iterator[tuple[str, str]]:
    chosen = setting_labels(settings)
    for name, value in settings:
        if name == "parameters":
            usual = settings.usual_parameters if isinstance(settings, ScikitLearnConfig) else {}
            shown = {name: number for name, number in value.items() if name not in usual or usual[name] != number}
            yield from ((parameter, setting_label(parameter, number)) for parameter, number in shown.items())
        elif name in ("method", "kernel", "similarity"):
            yield "method", settings.method  # type: ignore[attr-defined]  # a model
        elif name not in _UNTITLED and name in chosen:
            yield name, chosen[name]


def ordered_parameters(model: ModelConfig) -> dict[str, float | str]:
    """Return the parameters in the order of the method; a model of another kind may have none."""
    known = [parameter.name for parameter in METHODS[model.method].parameters] if model.method in METHODS else []
    names = [*(name for name in known if name in model.parameters), *sorted(model.parameters.keys() - set(known))]
    return {name: model.parameters[name] for name in names}


def sortable(values: Mapping[str, object]) -> tuple[object, ...]:
    """Return values of different types in a comparable form: None, then numbers, then words.

    Methods are in the order of the registry, and then others.
    """
    places = {method: place for place, method in enumerate(METHODS)}
    return tuple(
        (
            value is not None,
            places.get(str(value), len(places)) if name == "method" else 0,
            isinstance(value, str),
            value or 0,
        )
        for name, value in values.items()
    )


def setting_names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return all names; one that the first mapping lacks follows its predecessor."""
    names: list[str] = []
    for one in settings:
        place = 0
        for name in one:
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    return names
