"""Prototypes that were made elsewhere: an ``.npz`` file, arrays, or a fitted object of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idwbench.data.files import checked_rows, read_npz
from idwbench.errors import DatasetError, ModelFileError
from idwbench.files import file_sha256
from idwbench.runs.settings import is_storable

__all__ = ["GivenPrototypes", "given_prototypes"]

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


@dataclass(frozen=True)
class GivenPrototypes:
    """Prototypes as they were given, checked one by one but not against each other.

    Attributes:
        prototypes: (prototypes, features), finite, in the data's own or in scaled units.
        image_shape: (height, width) if they were given as images.
        values: (prototypes, outputs), finite, or None.
        labels: (prototypes,), integers or texts, or None.
        class_names: Names of the classes, or None.
        source: Name of the file, or of the object's class.
        sha256: Checksum of the file, or None.
        method: The method of a fitted estimator of this library, or None.
        parameters: All its parameters; empty without a method.
    """

    prototypes: NDArray[np.float64]
    image_shape: tuple[int, int] | None
    values: NDArray[np.float64] | None
    labels: NDArray[Any] | None
    class_names: tuple[str, ...] | None
    source: str
    sha256: str | None = None
    method: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def given_prototypes(
    prototypes: Any,
    values: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
) -> GivenPrototypes:
    """Return prototypes from the path of an ``.npz`` file, an array, or a fitted object of scikit-learn.

    An ``.npz`` file has ``prototypes`` (or ``keys``), and may have ``values``, ``labels`` and ``class_names``; nothing
    is unpickled. An object has ``cluster_centers_`` (k-means), ``centroids_`` with ``classes_`` (nearest centroid), or
    ``prototypes_`` with ``values_``, ``method_`` and ``parameters_`` (the estimators of this library). What is given as
    an argument replaces what the file or object has.

    Raises:
        ModelFileError: no such file, an array that is missing, of a wrong shape or type, or not finite, or an object
            with prototypes and without a method, or with an intercept.
    """
    arguments = {"values": values, "labels": labels, "class_names": class_names}
    given = {name: np.asarray(part) for name, part in arguments.items() if part is not None}
    if not isinstance(prototypes, str | PathLike):
        source, arrays = _of_object(prototypes)
        checked = _checked({**arrays, **given}, source)
        if not hasattr(prototypes, "prototypes_"):
            return checked
        return replace(checked, method=prototypes.method_, parameters=dict(prototypes.parameters_))
    path = Path(prototypes)
    try:
        content = read_npz(path, (), (*_KEYS, *_OTHERS))
        for name in _KEYS:
            if name in content:
                content["prototypes"] = content.pop(name)
                break
        else:
            raise DatasetError("'prototypes' is missing", hint="an array (prototypes, features)")
        return replace(_checked({**content, **given}, path.name), sha256=file_sha256(path, ModelFileError))
    except (DatasetError, ModelFileError) as error:
        raise ModelFileError(error.problem, hint=error.hint, file=path) from None


def _of_object(content: Any) -> tuple[str, dict[str, NDArray[Any]]]:
    """Return the name of an object's class and its arrays, or "arrays" and an array itself."""
    for attributes in _ATTRIBUTES:
        if hasattr(content, attributes["prototypes"]):
            _check_model(content)
            names = {name: attribute for name, attribute in attributes.items() if hasattr(content, attribute)}
            return type(content).__name__, {name: np.asarray(getattr(content, part)) for name, part in names.items()}
    if hasattr(content, "fit"):
        expected = ", ".join(attributes["prototypes"] for attributes in _ATTRIBUTES)
        raise ModelFileError(f"{type(content).__name__} is not fitted, or has no prototypes", hint=f"one of {expected}")
    try:
        return "arrays", {"prototypes": np.asarray(content)}
    except ValueError:
        raise ModelFileError("prototypes: expected an array (prototypes, features)") from None


def _check_model(content: Any) -> None:
    """Raise an error for an object with ``prototypes_`` that is not a model of a method, without an intercept."""
    if not hasattr(content, "prototypes_"):
        return
    name = type(content).__name__
    if not (hasattr(content, "method_") and hasattr(content, "parameters_")):
        hint = "give the arrays and the method, if it is one of this library"
        raise ModelFileError(f"{name} has prototypes_ but no method_ and parameters_", hint=hint)
    if np.any(getattr(content, "intercept_", 0)):
        raise ModelFileError(f"{name} adds intercept_ to its sums, which a model of prototypes cannot")


def _checked(arrays: dict[str, NDArray[Any]], source: str) -> GivenPrototypes:
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
    return GivenPrototypes(prototypes, shape, values, labels, class_names, source)


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
