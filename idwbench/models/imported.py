"""Models of prototypes that were made elsewhere, such as the centres of k-means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import get_method
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.dataset import Dataset, Scaling
from idwbench.data.files import checked_rows, read_npz
from idwbench.data.folder import resolve_files
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError, ModelFileError, PatchError, did_you_mean
from idwbench.files import file_sha256
from idwbench.models.demands import Repairs
from idwbench.models.inputs import find_label
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.neighbours import nearest
from idwbench.models.saved_model import SavedModel, task_metrics
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import UnknownConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.settings import is_storable

__all__ = ["import_prototypes"]

# In an .npz file: the names of prototypes, of which one is required, and the others.
_KEYS = ("prototypes", "keys")
_OTHERS = ("values", "labels", "class_names")
_ROWS = {2: "(prototypes, features)", 3: "(prototypes, height, width)"}
# The attributes of fitted objects: prototypes, and where they have them values, labels and classes.
_ATTRIBUTES = (
    {"prototypes": "prototypes_", "values": "values_", "class_names": "classes_"},  # of this library
    {"prototypes": "cluster_centers_"},  # KMeans
    {"prototypes": "centroids_", "labels": "classes_"},  # NearestCentroid
)

_Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class _Given:
    """Prototypes as they were given, checked one by one but not against each other.

    Attributes:
        prototypes: (prototypes, features), finite, in the data's own or in scaled units.
        image_shape: (height, width) if they were given as images.
        values: (prototypes, outputs), finite, or None.
        labels: (prototypes,), integers or texts, or None.
        class_names: Names of the classes, or None.
    """

    prototypes: NDArray[np.float64]
    image_shape: tuple[int, int] | None
    values: NDArray[np.float64] | None
    labels: NDArray[Any] | None
    class_names: tuple[str, ...] | None


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
        prototypes: An array (prototypes, features) or of images; the path of an ``.npz`` file with ``prototypes`` (or
            ``keys``), and ``values``, ``labels`` and ``class_names`` if any, of which nothing is unpickled; or a fitted
            object with ``cluster_centers_`` (k-means), ``centroids_`` with ``classes_`` (nearest centroid), or
            ``prototypes_`` with ``values_``, ``method_`` and ``parameters_`` (the estimators of this library, with
            their patches and slopes). What is given as another argument replaces what the file or object has.
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
    arguments = {"values": values, "labels": labels, "class_names": class_names}
    replacing = {name: np.asarray(part) for name, part in arguments.items() if part is not None}
    file = Path(prototypes) if isinstance(prototypes, str | PathLike) else None
    try:
        source, arrays = _object_arrays(prototypes) if file is None else _file_arrays(file)
        given = _checked({**arrays, **replacing})
        slopes: dict[str, NDArray[np.float32]] = getattr(prototypes, "slopes_", {})
        rank = {"slope_rank": len(slopes[SLOPE_ARRAYS[0]])} if slopes else {}
        settings = {"prototypes": len(given.prototypes), **_method(prototypes, method, parameters), **rank}
        is_patched = hasattr(prototypes, "patches_")
        if replacing and (is_patched or slopes):
            what = f"a patched {source['imported_from']}" if is_patched else "values with a slope"
            raise ModelFileError(f"{next(iter(replacing))}: cannot be replaced in {what}")
        config, data = _dataset(given, dataset, settings, data_dir)
        model = _model(given, slopes, source, config, data, scaled)
        if not is_patched:
            return model
        return _with_patches(model, prototypes.patches_, given.class_names, scaled)
    except ModelFileError as error:
        raise ModelFileError(error.problem, hint=error.hint, file=file) from None


def _file_arrays(path: Path) -> tuple[dict[str, str], _Arrays]:
    """Return the name and checksum of an ``.npz`` file, and its arrays."""
    try:
        arrays = read_npz(path, (), (*_KEYS, *_OTHERS))
    except DatasetError as error:
        raise ModelFileError(error.problem, hint=error.hint) from None
    for name in _KEYS:
        if name in arrays:
            arrays["prototypes"] = arrays.pop(name)
            return {"imported_from": path.name, "source_sha256": file_sha256(path, ModelFileError)}, arrays
    raise ModelFileError("'prototypes' is missing", hint="an array (prototypes, features)")


def _object_arrays(content: Any) -> tuple[dict[str, str], _Arrays]:
    """Return the name of an object's class and its arrays, or "arrays" and an array itself."""
    for attributes in _ATTRIBUTES:
        if hasattr(content, attributes["prototypes"]):
            names = {name: attribute for name, attribute in attributes.items() if hasattr(content, attribute)}
            arrays = {name: np.asarray(getattr(content, attribute)) for name, attribute in names.items()}
            return {"imported_from": type(content).__name__}, arrays
    if hasattr(content, "fit"):
        expected = ", ".join(attributes["prototypes"] for attributes in _ATTRIBUTES)
        raise ModelFileError(f"{type(content).__name__} is not fitted, or has no prototypes", hint=f"one of {expected}")
    try:
        return {"imported_from": "arrays"}, {"prototypes": np.asarray(content)}
    except ValueError:
        raise ModelFileError("prototypes: expected an array (prototypes, features)") from None


def _checked(arrays: _Arrays) -> _Given:
    if "values" in arrays and "labels" in arrays:
        raise ModelFileError("it has values and labels; expected one of them")
    given = arrays["prototypes"]
    try:
        prototypes = checked_rows("prototypes", given, _ROWS)
        values = arrays.get("values")
        if values is not None:
            values = checked_rows("values", values, {1: "(prototypes,)", 2: "(prototypes, outputs)"})
    except DatasetError as error:
        raise ModelFileError(error.problem, hint=error.hint) from None
    labels = _words("labels", arrays.get("labels"))
    for name, part in (("values", values), ("labels", labels)):
        if part is not None and len(part) != len(prototypes):
            raise ModelFileError(f"{name}: expected {len(prototypes)}, one for each prototype, got {len(part)}")
    names = _words("class_names", arrays.get("class_names"))
    class_names = tuple(map(str, names.tolist())) if names is not None else None
    if class_names is not None and len(set(class_names)) < max(2, len(class_names)):
        raise ModelFileError("class_names: expected at least two names, all different")
    shape = (given.shape[1], given.shape[2]) if given.ndim == 3 else None
    return _Given(prototypes, shape, values, labels, class_names)


def _words(name: str, array: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return integers or texts (n,)."""
    if array is None:
        return None
    if array.dtype == object and all(isinstance(word, str) for word in array.reshape(-1)):
        array = array.astype(str)
    if array.dtype.kind not in "biuU" or array.ndim != 1:
        problem = f"{name}: expected integers or texts (n,), got {array.dtype} {array.shape}"
        raise ModelFileError(problem)
    if array.dtype.kind == "U":
        try:
            storable = all(map(is_storable, array.tolist()))
        except (SystemError, ValueError):  # NumPy found a number that is no code point
            raise ModelFileError(f"{name}: a text is not valid Unicode") from None
        if not storable:
            raise ModelFileError(f"{name}: a text has a NUL or a lone surrogate")
    return array


def _method(content: Any, method: str | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the method and all its parameters: those of a fitted estimator, which the arguments may only repeat.

    Raises:
        ModelFileError: a fitted object with ``prototypes_`` is not a model of a method, or adds an intercept, or the
            arguments differ from it.
        ConfigError: unknown method or parameter.
    """
    own: dict[str, ParameterValue] = {}
    name = "idw" if method is None else method
    if hasattr(content, "prototypes_"):
        model = type(content).__name__
        if not (hasattr(content, "method_") and hasattr(content, "parameters_")):
            hint = "give the arrays and the method, if it is one of this library"
            raise ModelFileError(f"{model} has prototypes_ but no method_ and parameters_", hint=hint)
        if np.any(getattr(content, "intercept_", 0)):
            raise ModelFileError(f"{model} adds intercept_ to its sums, which a model of prototypes cannot")
        name, own = content.method_, dict(content.parameters_)
        if method not in (None, name):
            raise ModelFileError(f"method: expected '{name}', that of the {model}, got '{method}'")
    if learned := get_method(name).learned:
        names = ", ".join(one.name for one in learned)
        raise ModelFileError(f"method: '{name}' also learns {names}, which prototypes made elsewhere do not have")
    resolved = get_method(name).resolve({**own, **parameters})
    for parameter, value in own.items():
        if resolved[parameter] != value:
            raise ModelFileError(f"{parameter}: expected {value}, that of the {model}, got {resolved[parameter]}")
    return {"method": name, **resolved}


def _dataset(
    given: _Given, dataset: str | Mapping[str, Any] | None, settings: Mapping[str, Any], data_dir: Path | None
) -> tuple[RunConfig, Dataset | None]:
    if dataset is None:
        if given.values is None and given.labels is None:
            raise ModelFileError("values and labels are missing", hint="give one of them, or a data set to derive them")
        has_classes = given.labels is not None or given.class_names is not None
        unknown = UnknownConfig(task="classification" if has_classes else "regression")
        return run_config(unknown, **settings), None
    config = run_config(dataset if isinstance(dataset, str) else dict(dataset), **settings)
    config = config.model_copy(update={"dataset": resolve_files(config.dataset, Path.cwd())})
    return config, load_dataset(config.dataset, data_dir)


def _model(
    given: _Given,
    slopes: Mapping[str, NDArray[np.float32]],
    source: Mapping[str, str],
    config: RunConfig,
    data: Dataset | None,
    scaled: bool,
) -> SavedModel:
    from idwbench.results.provenance import package_versions  # which imports the database

    scaling = data.scaling if data else Scaling.identity()
    keys = _keys(given, data, scaling, scaled)
    values, class_names = _values(given, data, keys)
    assert isinstance(config.model, PrototypesConfig)
    arrays = {"keys": keys, "values": values}
    if slopes:
        inputs, outputs = (np.asarray(slopes[name], np.float64) for name in SLOPE_ARRAYS)
        if given.class_names is not None:
            outputs = outputs[..., [given.class_names.index(name) for name in class_names]]
        parts = inputs * (1.0 if scaled else scaling.std), outputs
        arrays |= {name: np.array(part, np.float32, order="C") for name, part in zip(SLOPE_ARRAYS, parts, strict=True)}
    network = PrototypeNetwork.of(config.model.method_record, config.model.parameters, arrays)
    versions = package_versions()
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
        columns=data.columns if data else None,
    )


def _with_patches(
    model: SavedModel, content: Mapping[str, Any], class_names: tuple[str, ...] | None, scaled: bool
) -> SavedModel:
    """Return the model with the patches of an estimator, whose classes may have another order."""
    if not scaled and ((model.scaling.mean != 0).any() or (model.scaling.std != 1).any()):
        problem = "radii of patches in the data's own units cannot be scaled"
        raise ModelFileError(problem, hint="import the estimator before it is patched, or without a data set")
    repairs = Repairs.parse(**content, is_classification=bool(model.class_names))
    if class_names is not None:
        order = np.array([class_names.index(name) for name in model.class_names])
        repairs = repairs.changed(lambda outputs: outputs[order], np.argsort(order).tolist())
    return replace(model, repairs=repairs)


def _keys(given: _Given, data: Dataset | None, scaling: Scaling, scaled: bool) -> NDArray[np.float32]:
    n_features = given.prototypes.shape[1]
    if data is not None and n_features != data.n_features:
        raise ModelFileError(f"prototypes: expected {data.n_features} features, those of the data, got {n_features}")
    keys = given.prototypes.astype(np.float32) if scaled else scaling.apply(given.prototypes)
    if not np.isfinite(keys).all():
        raise ModelFileError("prototypes: too large for float32 when they are scaled")
    return keys


def _values(
    given: _Given, data: Dataset | None, keys: NDArray[np.float32]
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Return the values (prototypes, outputs) and the names of the classes; none for a regression.

    The columns are in the order of the data's classes.
    """
    names = given.class_names or (data.class_names if data else ())
    if data is not None and given.labels is not None and not data.class_names:
        raise ModelFileError("labels: the data set is a regression; expected values")
    if given.values is not None:
        n_outputs = data.n_outputs if data else len(names) or given.values.shape[1]
        if given.values.shape[1] != n_outputs:
            counted = "classes" if (data.class_names if data else names) else "targets"
            problem = f"values: expected {n_outputs} columns, the {counted}, got {given.values.shape[1]}"
            raise ModelFileError(problem)
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
    """Return e_c for each label, and the names of the classes: by default all labels in ascending order.

    A label is the name of its class or, if the names are not integers, its number from 0.
    """
    names = tuple(names) or tuple(map(str, np.unique(labels).tolist()))
    if len(names) < 2:
        raise ModelFileError(f"labels: every label is '{names[0]}'; at least two classes are needed")
    columns = []
    for place, word in enumerate(map(str, labels.tolist())):
        try:
            columns.append(find_label(word, names))
        except PatchError as error:
            raise ModelFileError(f"labels[{place}]: {error.problem}", hint=error.hint) from None
    return np.eye(len(names), dtype=np.float32)[columns], names


def _mean_targets(data: Dataset, keys: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean target of the training inputs nearest to each key, in the targets' own units."""
    train, key_of = data.train, nearest(data.train.inputs, keys)[0]
    targets = np.eye(data.n_outputs)[train.labels] if data.class_names else data.target_scaling.invert(train.targets)
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
