"""A prototype network as a Python module of one file that needs only NumPy."""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention import scores
from idwbench.attention.scores import log_patch_weight
from idwbench.attention.slopes import slope_terms
from idwbench.exports.array_model import ArrayModel, array_model, squared_distances
from idwbench.models.array_weights import softmax
from idwbench.models.model_card import CARD_NAME, card_text, saved_model_card
from idwbench.models.saved_model import SavedModel

__all__ = ["numpy_source"]

_LONGEST_LIST = 64  # numbers; larger arrays are in base64
_LINE = 100
# Of patches: what they have beside keys and values.
_SHAPES = ("log_peaks", "radii", "steepness")
_CONSTANTS = ("HIT_SQ_DIST", "EXP_BOUND")
# What tells NumPy from torch in the functions of scores, as regular expressions, and what NumPy alone needs.
_REPLACED = ("array_namespace", "matrix_product", "is_number", "new_axis")
_PLAIN = (
    (r" +xp = array_namespace\(\w+\)\n", ""),
    (r"\bxp\.", "np."),
    (r"\bmatrix_product\(", "np.matmul("),
    (r"\bnew_axis\(", "np.expand_dims("),
    (r"\bis_number\((\w+), ([\d.]+)\)", r"\1 == \2"),
    (r'not hasattr\(\w+, "requires_grad"\) and ', ""),
    (r"\bNumber\b", "float"),
)
# The names of `FlatSlopes` in a module, and the terms of an answer with values that have no slope, or one.
_SLOPES = ("SLOPE_INPUTS", "SLOPES_AT_KEYS", "SLOPE_OUTPUTS")
_TERMS = ("Σ_j w_j v_j", "Σ_j w_j (v_j + A_j (x − k_j))")
_WEIGHTINGS = {
    "softmax": "w_j = exp(s_j) / Σ_i exp(s_i)",
    "shared_by_hits": "w_j = exp(s_j) / Σ_i exp(s_i); keys at distance 0 share the weight equally",
    "relu": "w_j = max(0, s_j)",
}


def numpy_source(model: SavedModel) -> str:
    """Return the text of the module; the functions of its formulas are those of `idwbench.attention.scores`.

    It has ``predict``, ``explain`` and, for a classifier, ``logits`` and ``predict_proba``; inputs are in the data's
    own units. All of it is computed in float64 from the model's float32 arrays; inputs are scaled to float32 first, as
    the model does. Of a table ``features`` makes inputs of rows by the names of their columns. Names of classes and of
    the data, which can hold any character, are written as ASCII.
    """
    arrays, card = array_model(model.network, model.patch_prototypes), saved_model_card(model)
    functions = _needed(arrays)
    used = {name for function in functions for name in function.__code__.co_names}
    flat = arrays.all_slopes
    slopes = {} if flat is None else dict(zip(_SLOPES, flat[:3], strict=True))
    targets = () if model.class_names else (("TARGET_MEAN", "mean"), ("TARGET_STD", "std"))
    columns = [(one.name, one.categories, one.fill) for one in model.columns.columns] if model.columns else []
    return "\n".join(
        [
            _template("head").format(
                model=card["model"],
                formula=card["formula"],
                distance=",  d = ‖x − k_j‖" if arrays.compares_distances else "",
                weighting=_WEIGHTINGS[arrays.weighting.__name__],
                terms=_TERMS[bool(arrays.slopes)],
                outputs="the predictions, before their scaling" if targets else "the logits",
                functions="explain" if targets else "predict_proba, logits and explain",
                file=CARD_NAME,
                card=card_text(card),
            ),
            *([f"CLASSES = {list(model.class_names)!a}"] if model.class_names else []),
            _array("MEAN", model.scaling.mean),
            _array("STD", model.scaling.std),
            *(_array(name, getattr(model.target_scaling, part)) for name, part in targets),
            _array("KEYS", arrays.all_keys),
            _array("VALUES", arrays.all_values),
            *(_array(name.upper(), part) for name, part in arrays.arguments.items() if isinstance(part, np.ndarray)),
            *(_array(name.upper(), getattr(arrays.patches, name)) for name in _SHAPES if arrays.patches is not None),
            *(_array(name, part) for name, part in slopes.items()),
            *(f"{name} = {getattr(scores, name)!r}" for name in _CONSTANTS if name in used),
            "",
            *(f"\n{_plain(inspect.getsource(function))}" for function in functions),
            *([f"COLUMNS = {columns!a}", _template("table")] if columns else []),
            _template("shared").format(
                weighting=arrays.weighting.__name__,
                score=_score(arrays),
                terms=_TERMS[bool(arrays.slopes)],
                slopes=f" + slope_terms(found, rows, {', '.join(slopes)}, {flat.rank})" if flat else "",
            ),
            _template("regressor" if targets else "classifier"),
            _template("explanation").format(outputs="predict" if targets else "logits"),
        ]
    )


def _template(name: str) -> str:
    """Return a part of a module that is alike for all methods."""
    return files("idwbench.exports").joinpath("templates", f"{name}.txt").read_text(encoding="utf-8")


def _score(model: ArrayModel) -> str:
    """Return the expression of the scores as text."""
    keys = "KEYS" if model.patches is None else f"KEYS[:{len(model.keys)}]"
    compared = f"squared_distances(inputs, {keys})" if model.compares_distances else f"inputs, {keys}"
    texts = {
        name: name.upper() if isinstance(value, np.ndarray) else repr(value) for name, value in model.arguments.items()
    }
    numbers = "".join(f", {name}={text}" for name, text in texts.items())
    score = f"{model.score.__name__}({compared}{numbers})"
    if model.patches is None:
        return score
    distances = f"squared_distances(inputs, KEYS[{len(model.keys)}:])"
    return f"np.concatenate([{score}, log_patch_weight({distances}, {', '.join(_SHAPES).upper()})], axis=-1)"


def _needed(model: ArrayModel) -> list[Callable[..., Any]]:
    """Return the functions of the formulas that a module needs."""
    by_distance = model.compares_distances or model.patches is not None
    waiting: list[Callable[..., Any]] = [squared_distances] if by_distance else []
    waiting += [model.score, model.weighting, softmax, *([] if model.patches is None else [log_patch_weight])]
    waiting += [slope_terms] if model.slopes else []
    functions: dict[str, Callable[..., Any]] = {}
    while waiting:
        function = waiting.pop(0)
        functions[function.__name__] = function
        named = (function.__globals__.get(name) for name in function.__code__.co_names if name not in _REPLACED)
        waiting += [other for other in named if inspect.isfunction(other) and other.__name__ not in functions]
    return list(functions.values())


def _plain(source: str) -> str:
    """Return the source of a function for NumPy and torch alike as one for NumPy."""
    for pattern, replacement in _PLAIN:
        source = re.sub(pattern, replacement, source)
    return source


def _array(name: str, array: NDArray[np.floating]) -> str:
    """Return an assignment of an array: its numbers if they are few, else base64 of its bytes in little-endian."""
    if array.size <= _LONGEST_LIST:
        shortest = array.astype(str).astype(np.float64)  # the shortest texts; it is enough if they are read as the same
        numbers = np.where(shortest.astype(array.dtype) == array, shortest, array.astype(np.float64))
        return f"{name} = np.array({numbers.tolist()!r}, np.{array.dtype.name}).astype(np.float64)"
    little = array.astype(array.dtype.newbyteorder("<"))
    text = base64.b64encode(little.tobytes()).decode()
    lines = "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))
    return f'{name} = _decoded("{little.dtype.str}", {array.shape}, """\n{lines}\n""")'
