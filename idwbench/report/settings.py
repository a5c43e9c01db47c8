"""Settings of runs as flat mappings, those that vary among runs, and titles of those that do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from idwbench.attention.scores import METHODS
from idwbench.report.labels import setting_label
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DatasetConfig, dataset_label
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS, ScikitLearnConfig
from idwbench.runs.settings import Settings

__all__ = [
    "constants_title",
    "dataset_words",
    "flat_settings",
    "method_order",
    "ordered_parameters",
    "setting_names",
    "sortable",
    "varying_settings",
]

# Neither is a setting of its own in tables: the label of the data set stands for both.
_OF_FILES = ("name", "path")
_UNTITLED = (*_OF_FILES, "sha256", "plugin_sha256", "kind")


def flat_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run without its seed, named as the columns of `Results.to_frame`.

    ``dataset`` is the label, ``model`` the kind, and settings of the data set begin with ``dataset_``.
    """
    model = dict(config.model)
    first = {"dataset": config.dataset_label, "method": config.model.method, "model": model.pop("kind")}
    counts = {"prototypes": model.pop("prototypes", None)}
    for name in ("method", "kernel", "similarity", "parameters", *_named_by_method(config)):
        model.pop(name, None)
    model = {name: value for name, value in model.items() if value is not None or name == "plugin_sha256"}
    dataset = {f"dataset_{name}": value for name, value in config.dataset if name not in _OF_FILES}
    return {**first, **ordered_parameters(config.model), **counts, **model, **dataset, **dict(config.protocol)}


def varying_settings(settings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names that have at least two values among the mappings that have the name."""
    return tuple(name for name in setting_names(settings) if _varies(name, settings))


def _varies(name: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a setting has several values; a parameter of scikit-learn's methods, among runs of one method."""
    values: dict[str, set[Any]] = defaultdict(set)
    for one in settings:
        if name in one:
            method = SCIKIT_LEARN_METHODS.get(one.get("method", "")) if one.get("model") == "scikit_learn" else None
            values[method.name if method is not None and method.takes(name) else ""].add(one[name])
    return any(len(found) > 1 for found in values.values())


def dataset_words(datasets: Sequence[DatasetConfig]) -> list[list[str]]:
    """Return for each data set its label, and its settings that differ from the default or among equal labels."""
    labels = [*map(dataset_label, datasets)]
    seen: dict[tuple[str, str], set[object]] = defaultdict(set)
    for label, dataset in zip(labels, datasets, strict=True):
        for name, value in dataset:
            seen[label, name].add(value)
    return [
        [label, *_dataset_settings(dataset, {name for name, _ in dataset if len(seen[label, name]) > 1})]
        for label, dataset in zip(labels, datasets, strict=True)
    ]


def _dataset_settings(dataset: DatasetConfig, varying: Collection[str]) -> Iterator[str]:
    fields = type(dataset).model_fields
    for name, value in dataset:
        if name == "sha256":  # only distinguishes files of the same name
            yield from (f"sha256 {value[:8]}",) if name in varying and value else ()
        elif name not in _OF_FILES and (name in varying or value != fields[name].default):
            yield setting_label(name, value)


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
            if f"{prefix}{name}" not in varying and not ("method" in varying and name in _named_by_method(config))
        )
        words += dict.fromkeys(shown)
    return " · ".join(words)


def _named_by_method(config: RunConfig) -> tuple[str, ...]:
    """Return the settings of a model that are part of its name in tables."""
    return getattr(config.model, "named_by_method", ())


def _labels(settings: Settings) -> Iterator[tuple[str, str]]:
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if name == "parameters":
            usual = settings.usual_parameters if isinstance(settings, ScikitLearnConfig) else {}
            shown = {name: number for name, number in value.items() if name not in usual or usual[name] != number}
            yield from ((parameter, setting_label(parameter, number)) for parameter, number in shown.items())
        elif name in ("method", "kernel", "similarity"):
            yield "method", settings.method  # type: ignore[attr-defined]  # a model
        elif name not in _UNTITLED and (field.is_required() or value != field.default):
            yield name, setting_label(name, value)


def ordered_parameters(model: ModelConfig) -> dict[str, float | str]:
    """Return the parameters in the order of the method; a model of another kind may have none."""
    known = [parameter.name for parameter in METHODS[model.method].parameters] if model.method in METHODS else []
    names = [*(name for name in known if name in model.parameters), *sorted(model.parameters.keys() - set(known))]
    return {name: model.parameters[name] for name in names}


def method_order(method: str) -> tuple[int, str]:
    """Return a key that sorts methods in the order of the registry, then others by name."""
    names = list(METHODS)
    return (names.index(method) if method in METHODS else len(names), method)


def sortable(values: Mapping[str, object]) -> tuple[object, ...]:
    """Return values of different types in a comparable form: None, then numbers, then words."""
    return tuple((value is not None, isinstance(value, str), value or 0) for value in values.values())


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
