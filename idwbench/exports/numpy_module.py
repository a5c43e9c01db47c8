"""A prototype network as a Python module of one file that needs only NumPy."""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention import scores
from idwbench.attention.scores import METHODS
from idwbench.exports.array_model import ArrayModel, squared_distances
from idwbench.models.array_weights import softmax
from idwbench.models.model_card import CARD_NAME, card_text

__all__ = ["numpy_source"]

_LONGEST_LIST = 64  # numbers; larger arrays are in base64
_LINE = 100
_CONSTANTS = ("HIT_SQ_DIST", "EXP_BOUND")
# What tells NumPy from torch in the functions of scores, as regular expressions, and what NumPy alone needs.
_REPLACED = ("array_namespace", "matrix_product", "is_number")
_PLAIN = (
    (r" +xp = array_namespace\(\w+\)\n", ""),
    (r"\bxp\.", "np."),
    (r"\bmatrix_product\(", "np.matmul("),
    (r"\bis_number\((\w+), ([\d.]+)\)", r"\1 == \2"),
    (r'not hasattr\(\w+, "requires_grad"\) and ', ""),
    (r"\bNumber\b", "float"),
)
_WEIGHTINGS = {
    "softmax": "w_j = exp(s_j) / Σ_i exp(s_i)",
    "shared_by_hits": "w_j = exp(s_j) / Σ_i exp(s_i); keys at distance 0 share the weight equally",
    "relu": "w_j = max(0, s_j)",
}

# The parts of a module that are alike for all methods.
_HEAD = '''\
r"""{model}: a trained model as one file that needs only NumPy.

    z(x) = Σ_j w_j v_j           {outputs}
    {weighting}
    s_j = {formula}{distance}

x is an input in scaled units, (input − MEAN) / STD; k_j and v_j are the rows of KEYS and VALUES. Call predict, or
{functions}, with inputs in the data's own units, one in each row.

Model card ({file}):

{card}
"""

import base64
import math
from typing import NamedTuple

import numpy as np

Array = np.ndarray


def _decoded(kind: str, shape: tuple, text: str) -> Array:
    return np.frombuffer(base64.b64decode(text), kind).reshape(shape).astype(np.float64)

'''

_SHARED = '''
def scaled(inputs: Array) -> Array:
    """Return inputs (n, features), or of a longer shape, in the model's units, rounded to float32 as in training."""
    raw = np.asarray(inputs, np.float64)
    if raw.ndim < 2 or math.prod(raw.shape[1:]) != KEYS.shape[1]:
        raise ValueError(f"expected inputs (n, {{KEYS.shape[1]}}), got {{raw.shape}}")
    rows = (raw.reshape(len(raw), KEYS.shape[1]) - MEAN) / STD
    if not (np.abs(rows) <= np.finfo(np.float32).max).all():
        raise ValueError("expected finite numbers that float32 can hold")
    return rows.astype(np.float32).astype(np.float64)


def weights(inputs: Array) -> Array:
    """Return the weight of each prototype (n, prototypes) for scaled inputs."""
    return {weighting}({score})


def _outputs(inputs: Array) -> Array:
    """Return Σ_j w_j v_j (n, outputs), for some inputs at a time, so that their distances take little memory."""
    rows = scaled(inputs)
    step = max(1, 2**20 // KEYS.size)
    parts = [weights(rows[start : start + step]) @ VALUES for start in range(0, len(rows), step)]
    return np.concatenate([np.empty((0, VALUES.shape[1])), *parts])
'''

_CLASSIFIER = '''

def logits(inputs: Array) -> Array:
    """Return the logits (n, classes) of inputs in the data's own units."""
    return _outputs(inputs)


def predict_proba(inputs: Array) -> Array:
    """Return the probabilities (n, classes) of inputs in the data's own units."""
    return softmax(logits(inputs))


def predict(inputs: Array) -> Array:
    """Return the names of the classes (n,) of inputs in the data's own units."""
    return np.array(CLASSES)[logits(inputs).argmax(1)]
'''

_REGRESSOR = '''

def predict(inputs: Array) -> Array:
    """Return predictions (n, outputs) in the targets' own units, of inputs in the data's own units."""
    return _outputs(inputs) * TARGET_STD + TARGET_MEAN
'''

_EXPLANATION = '''

class Explanation(NamedTuple):
    """The terms of an answer, in order of decreasing weight; keys are in the data's own units."""

    outputs: Array
    prototypes: Array
    weights: Array
    keys: Array
    values: Array


def explain(x: Array) -> Explanation:
    """Return which prototypes the answer to one input comes from, and with what weights."""
    row = np.asarray(x).reshape(1, -1)
    found = weights(scaled(row))[0]
    order = np.argsort(-found, kind="stable")
    return Explanation({outputs}(row)[0], order, found[order], KEYS[order] * STD + MEAN, VALUES[order])
'''


def numpy_source(model: ArrayModel) -> str:
    """Return the text of the module; the functions of its formulas are those of `idwbench.attention.scores`.

    It has ``predict``, ``explain`` and, for a classifier, ``logits`` and ``predict_proba``; inputs are in the data's
    own units. All of it is computed in float64 from the model's float32 arrays; inputs are scaled to float32 first, as
    the model does. Names of classes and of the data, which can hold any character, are written as ASCII.
    """
    functions = _needed(model)
    names = ("CLASSES",) if model.class_names else ()
    targets = () if model.class_names else (("TARGET_MEAN", "mean"), ("TARGET_STD", "std"))
    return "\n".join(
        [
            _HEAD.format(
                model=model.card["model"],
                formula=METHODS[model.method].formula,
                distance=",  d = ‖x − k_j‖" if model.compares_distances else "",
                weighting=_WEIGHTINGS[model.weighting.__name__],
                outputs="the predictions, before their scaling" if targets else "the logits",
                functions="explain" if targets else "predict_proba, logits and explain",
                file=CARD_NAME,
                card=card_text(model.card),
            ),
            *(f"{name} = {list(model.class_names)!a}" for name in names),
            _array("MEAN", model.scaling.mean),
            _array("STD", model.scaling.std),
            *(_array(name, getattr(model.target_scaling, part)) for name, part in targets),
            _array("KEYS", model.keys),
            _array("VALUES", model.values),
            *(f"{name} = {getattr(scores, name)!r}" for name in _CONSTANTS if _uses(functions, name)),
            "",
            *(f"\n{_plain(inspect.getsource(function))}" for function in functions),
            _SHARED.format(weighting=model.weighting.__name__, score=_score(model)),
            _REGRESSOR if targets else _CLASSIFIER,
            _EXPLANATION.format(outputs="predict" if targets else "logits"),
        ]
    )


def _score(model: ArrayModel) -> str:
    """Return the call of the score as text."""
    compared = "squared_distances(inputs, KEYS)" if model.compares_distances else "inputs, KEYS"
    numbers = "".join(f", {name}={value!r}" for name, value in model.parameters.items())
    return f"{model.score.__name__}({compared}{numbers})"


def _needed(model: ArrayModel) -> list[Callable[..., Any]]:
    """Return the functions of the formulas that a module needs."""
    waiting: list[Callable[..., Any]] = [squared_distances] if model.compares_distances else []
    waiting += [model.score, model.weighting, softmax]
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


def _uses(functions: list[Callable[..., Any]], name: str) -> bool:
    return any(name in function.__code__.co_names for function in functions)


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
