"""The parts of an exported NumPy module that are alike for all methods."""

__all__ = ["CLASSIFIER", "EXPLANATION", "HEAD", "REGRESSOR", "SHARED"]

HEAD = '''\
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

SHARED = '''
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

CLASSIFIER = '''

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

REGRESSOR = '''

def predict(inputs: Array) -> Array:
    """Return predictions (n, outputs) in the targets' own units, of inputs in the data's own units."""
    return _outputs(inputs) * TARGET_STD + TARGET_MEAN
'''

EXPLANATION = '''

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
