"""Models of prototypes that were made elsewhere, such as the centres of k-means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset, Scaling
from idwbench.data.folder import resolve_files
from idwbench.data.loading import load_dataset
from idwbench.errors import ModelFileError, PatchError, did_you_mean
from idwbench.models.given_prototypes import GivenPrototypes, given_prototypes
from idwbench.models.inputs import find_label
from idwbench.models.neighbours import nearest
from idwbench.models.prototypes import PrototypeNetwork
from idwbench.models.saved_model import SavedModel, task_metrics
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import UnknownConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig

__all__ = ["import_prototypes"]


def import_prototypes(
    prototypes: Any,
    values: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    dataset: str | Mapping[str, Any] | None = None,
    method: str | None = None,
    scaled: bool = False,
    data_dir: Path | None = None,
    **parameters: Any,
) -> SavedModel:
    """Return a model with prototypes that were made elsewhere; it is explained, patched and exported like any other.

    A label c becomes the value e_c, 1 for its class and 0 for the others. Without values and labels, which needs a data
    set, a value is the mean of the targets of the training inputs nearest to its prototype: class frequencies, or the
    mean target; a prototype that is nearest to none takes those of the nearest input. Without a data set the inputs are
    not scaled, and values without the names of classes are targets of a regression.

    Args:
        prototypes: The path of an ``.npz`` file, an array (prototypes, features) or of images, or a fitted object of
            scikit-learn such as `KMeans` or `NearestCentroid`; see `given_prototypes`.
        values: (prototypes, classes), what each prototype adds to the logits for its weight, or the targets of a
            regression (prototypes, outputs) in their own units.
        labels: (prototypes,), in place of values: the names of classes or, if these are not integers, numbers from 0.
        class_names: One name for each class, in the order of the columns of values; with a data set its names, in any
            order. By default those of the data set, or the labels in ascending order.
        dataset: Name or settings of a data set, which gives the scaling and the classes, and on which the metrics are
            measured.
        method: The method that turns distances or products into weights: that of a fitted estimator of this library,
            with its parameters, otherwise ``idw`` if it is left out.
        scaled: Whether the prototypes are in the scaled units of the data set, and not in the data's own.
        data_dir: Folder of the image archives.
        parameters: Parameters of the method, such as ``power``; they have defaults.

    Raises:
        ModelFileError: the file cannot be read, the arrays do not fit each other or the data, or a fitted estimator has
            another method or parameter, or an intercept.
        ConfigError: unknown method, parameter or data set.
        DatasetError: the data cannot be loaded.
    """
    given = given_prototypes(prototypes, values, labels, class_names)
    try:
        config, data = _dataset(given, dataset, method, parameters, data_dir)
        return _model(given, config, data, scaled)
    except ModelFileError as error:
        file = prototypes if isinstance(prototypes, str | PathLike) else None
        raise ModelFileError(error.problem, hint=error.hint, file=file) from None


def _dataset(
    given: GivenPrototypes,
    dataset: str | Mapping[str, Any] | None,
    method: str | None,
    parameters: Mapping[str, Any],
    data_dir: Path | None,
) -> tuple[RunConfig, Dataset | None]:
    method, resolved = _method(given, method, parameters)
    settings: dict[str, Any] = {"method": method, "prototypes": len(given.prototypes), **resolved}
    if dataset is None:
        if given.values is None and given.labels is None:
            raise ModelFileError("values and labels are missing", hint="give one of them, or a data set to derive them")
        has_classes = given.labels is not None or given.class_names is not None
        unknown = UnknownConfig(task="classification" if has_classes else "regression")
        return run_config(unknown, **settings), None
    config = run_config(dataset if isinstance(dataset, str) else dict(dataset), **settings)
    config = config.model_copy(update={"dataset": resolve_files(config.dataset, Path.cwd())})
    return config, load_dataset(config.dataset, data_dir)


def _method(
    given: GivenPrototypes, method: str | None, parameters: Mapping[str, Any]
) -> tuple[str, Mapping[str, ParameterValue]]:
    """Return the method and all its parameters: those of a fitted estimator, which the arguments may only repeat."""
    if given.method is None:
        name = "idw" if method is None else method
        return name, get_method(name).resolve(parameters)
    if method not in (None, given.method):
        raise ModelFileError(f"method: expected '{given.method}', that of the {given.source}, got '{method}'")
    resolved = get_method(given.method).resolve({**given.parameters, **parameters})
    for name, value in given.parameters.items():
        if resolved[name] != value:
            raise ModelFileError(f"{name}: expected {value}, that of the {given.source}, got {resolved[name]}")
    return given.method, resolved


def _model(given: GivenPrototypes, config: RunConfig, data: Dataset | None, scaled: bool) -> SavedModel:
    scaling = data.scaling if data else Scaling.identity()
    keys = _keys(given, data, scaling, scaled)
    values, class_names = _values(given, data, keys)
    assert isinstance(config.model, PrototypesConfig)
    method, parts = get_method(config.model.method), (torch.from_numpy(part) for part in (keys, values))
    network = PrototypeNetwork(method, config.model.parameters, *parts)
    from idwbench.results.rows import package_versions  # which imports the database

    versions = package_versions()
    source = {"imported_from": given.source} | ({"source_sha256": given.sha256} if given.sha256 else {})
    return SavedModel(
        network=network,
        config=config,
        scaling=scaling,
        image_shape=data.image_shape if data else given.image_shape,
        class_names=class_names,
        provenance={
            **source,
            **({"data_sha256": data.sha256} if data else {}),
            "versions": {name: versions[name] for name in ("idwbench", "numpy", "python", "torch")},
        },
        metrics=_metrics(network, data) if data else {},
    )


def _keys(given: GivenPrototypes, data: Dataset | None, scaling: Scaling, scaled: bool) -> NDArray[np.float32]:
    n_features = given.prototypes.shape[1]
    if data is not None and n_features != data.n_features:
        raise ModelFileError(f"prototypes: expected {data.n_features} features, those of the data, got {n_features}")
    keys = given.prototypes.astype(np.float32) if scaled else scaling.apply(given.prototypes)
    if not np.isfinite(keys).all():
        raise ModelFileError("prototypes: too large for float32 when they are scaled")
    return keys


def _values(
    given: GivenPrototypes, data: Dataset | None, keys: NDArray[np.float32]
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Return the values (prototypes, outputs) and the names of the classes; none for a regression.

    The columns are in the order of the data's classes.
    """
    names = given.class_names or (data.class_names if data else ())
    if data is not None and given.labels is not None and not data.class_names:
        raise ModelFileError("labels: the data set is a regression; expected values")
    if given.values is not None:
        _check_columns(given.values, data.class_names if data else names, data)
    if data is not None and given.class_names is not None:
        _check_class_names(given.class_names, data.class_names)
    if given.labels is not None:
        values, names = _one_hot(given.labels, names)
    elif given.values is not None:
        values = given.values.astype(np.float32)
    else:
        assert data is not None  # `_dataset` has refused it
        return _mean_targets(data, keys), data.class_names
    if data is None or not names:
        return values, names
    return values[:, [names.index(name) for name in data.class_names]], data.class_names


def _check_columns(values: NDArray[Any], names: Sequence[str], data: Dataset | None) -> None:
    n_outputs = data.n_outputs if data else len(names) or values.shape[1]
    if values.shape[1] != n_outputs:
        counted = "classes" if names else "targets"
        raise ModelFileError(f"values: expected {n_outputs} columns, the {counted}, got {values.shape[1]}")


def _check_class_names(given: Sequence[str], expected: Sequence[str]) -> None:
    """Raise an error unless the given names are those of the data set, in any order."""
    problem = "class_names: expected those of the data set"
    if not expected:
        raise ModelFileError(f"{problem}, which is a regression and has none")
    for name in given:
        if name not in expected:
            raise ModelFileError(f"{problem}, which has no class '{name}'", hint=did_you_mean(name, expected))
    for name in expected:
        if name not in given:
            raise ModelFileError(f"{problem}, of which '{name}' is missing")


def _one_hot(labels: NDArray[Any], names: Sequence[str]) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Return e_c for each label, and the names of the classes: by default all labels in ascending order."""
    words = list(map(str, labels.tolist()))
    names = tuple(names) or tuple(map(str, np.unique(labels).tolist()))
    if len(names) < 2:
        raise ModelFileError(f"labels: every label is '{names[0]}'; at least two classes are needed")
    return np.eye(len(names), dtype=np.float32)[[_label(*pair, names) for pair in enumerate(words)]], names


def _label(place: int, word: str, names: Sequence[str]) -> int:
    """Return the class of a label: its name or, if the names are not integers, its number from 0."""
    try:
        return find_label(word, names)
    except PatchError as error:
        raise ModelFileError(f"labels[{place}]: {error.problem}", hint=error.hint) from None


def _mean_targets(data: Dataset, keys: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean target of the training inputs nearest to each key, in the targets' own units."""
    train, key_of = data.train, nearest(data.train.inputs, keys)[0]
    targets = np.eye(data.n_outputs)[train.labels] if data.class_names else data.target_scaling.invert(train.targets)  # type: ignore[arg-type]
    counts = np.bincount(key_of, minlength=len(keys))
    sums = np.zeros((len(keys), data.n_outputs))
    np.add.at(sums, key_of, targets)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        sums[empty], counts[empty] = targets[nearest(keys[empty], train.inputs)[0]], 1
    return np.asarray(sums / counts[:, None], np.float32)


def _metrics(network: PrototypeNetwork, data: Dataset) -> Mapping[str, Mapping[str, float]]:
    """Return the metrics on all splits of the data; outputs of a regression are in the targets' own units."""
    metrics: dict[tuple[str, str], float] = {}
    for name, split in data.splits.items():
        outputs = network.outputs(split.inputs)
        metrics |= data.metrics(name, outputs if data.class_names else data.target_scaling.apply(outputs))
    return task_metrics(metrics, data.task)
