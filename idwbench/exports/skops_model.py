"""A prototype network as a fitted scikit-learn estimator, in a file of skops."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import numpy as np

from idwbench.attention.scores import get_method
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.dataset import Scaling
from idwbench.errors import OutputError
from idwbench.exports.array_model import array_model
from idwbench.models.model_card import card_text, saved_model_card
from idwbench.models.saved_model import SavedModel

__all__ = ["TRUSTED_TYPES", "fitted_estimator", "skops_content"]

# The types that a caller must trust when skops loads a file; those of NumPy and scikit-learn are trusted by default.
TRUSTED_TYPES = (
    "idwbench.estimators.classifier.PrototypeClassifier",
    "idwbench.estimators.regressor.PrototypeRegressor",
)
# The numbers of objects in the schema of skops, and in the names of its arrays.
_NUMBER = re.compile(r'(?<="__id__": )[0-9]+|(?<=")[0-9]+(?=\.npy")')


def skops_content(model: SavedModel) -> bytes:
    """Return the bytes of a file of skops with the `fitted_estimator` of a model; it holds no pickled objects.

    ``skops.io.load(path, trusted=TRUSTED_TYPES)`` reads it; the same model gives the same bytes.
    """
    import skops.io

    return _without_addresses(skops.io.dumps(fitted_estimator(model)))


def fitted_estimator(model: SavedModel) -> Any:
    """Return the model as a fitted estimator that takes inputs in the data's own units.

    It is a `PrototypeClassifier`, whose classes are the names of the classes, or a `PrototypeRegressor`, which predicts
    in the targets' own units; behind a `StandardScaler` of float64 in a `Pipeline` if the model scales its inputs. Its
    attribute ``model_card_`` is the model card as JSON.
    """
    from idwbench.estimators.classifier import PrototypeClassifier
    from idwbench.estimators.regressor import PrototypeRegressor

    arrays = array_model(model.network)
    if arrays.method != get_method(arrays.method.name) or arrays.method.learned:
        raise OutputError(f"scikit-learn's estimators have no method '{arrays.method.title}'")
    given: dict[str, Any] = {"method": arrays.method.name, "parameters": dict(arrays.parameters)}
    slopes = {name: part.copy() for name, part in arrays.slopes.items()}
    fitted: Any
    if model.class_names:
        order = np.argsort(model.class_names)  # scikit-learn sorts classes
        classes = np.array(model.class_names)[order]
        given["slopes"] = slopes | {name: slopes[name][..., order] for name in SLOPE_ARRAYS[1:] if slopes}
        fitted = PrototypeClassifier.from_prototypes(arrays.keys, arrays.values[:, order], classes, **given)
        repairs = model.repairs.changed(lambda outputs: outputs[order], np.argsort(order).tolist())
    else:
        targets = model.target_scaling
        values, mean = arrays.values.astype(np.float64) * targets.std, np.broadcast_to(targets.mean, model.n_outputs)
        given["slopes"] = slopes | {name: slopes[name] * targets.std for name in SLOPE_ARRAYS[1:] if slopes}
        fitted = PrototypeRegressor.from_prototypes(arrays.keys, values, intercept=mean, **given)
        # What is not the intercept is part of the values, since weights sum to 1.
        repairs = model.repairs.changed(lambda outputs: outputs * targets.std + mean - fitted.intercept_)
    if len(repairs):
        fitted.patches_ = repairs.content()
    fitted.model_card_ = card_text(saved_model_card(model))
    return _behind_scaler(fitted, model.scaling)


def _behind_scaler(fitted: Any, scaling: Scaling) -> Any:
    """Return a fitted pipeline of the scaling and an estimator; the estimator alone if nothing is scaled."""
    if not np.any(scaling.mean != 0) and not np.any(scaling.std != 1):
        return fitted
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    # The scaler rounds its mean and its result to the type of the inputs. Functions of NumPy are trusted by default.
    converter = FunctionTransformer(np.positive, validate=True, kw_args={"dtype": "float64"})
    converter.set_params(feature_names_out="one-to-one").n_features_in_ = fitted.n_features_in_
    scaler = StandardScaler()
    mean, std = (np.broadcast_to(part, fitted.n_features_in_).copy() for part in (scaling.mean, scaling.std))
    scaler.mean_, scaler.scale_, scaler.var_ = mean, std, std**2
    scaler.n_features_in_, scaler.n_samples_seen_ = fitted.n_features_in_, 1
    return Pipeline([("float64", converter), ("scaling", scaler), ("prototypes", fitted)])


def _without_addresses(content: bytes) -> bytes:
    """Return a file of skops with numbers from 0 in place of addresses in memory, and without times."""
    numbers: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], str(len(numbers)))

    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(made, "w") as written:
        schema = _NUMBER.sub(numbered, given.read("schema.json").decode())
        for entry in given.namelist():
            stem = entry.removesuffix(".npy")
            name = f"{numbers[stem]}.npy" if stem in numbers else entry
            written.writestr(zipfile.ZipInfo(name), schema if entry == "schema.json" else given.read(entry))
    return made.getvalue()
