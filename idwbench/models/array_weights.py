"""Weights of the built-in methods on NumPy arrays in float64, without torch; for predictions with given prototypes.

The weights of an input do not depend on the other inputs of a call, but for the last digits of float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.array_scores import DISTANCE_SCORES, PRODUCT_SCORES, relu, shared_by_hits, softmax
from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import get_method
from idwbench.models.pairwise import PairwiseDistances

__all__ = ["array_weighting", "array_weights", "scores_on_arrays"]

Floats = NDArray[np.float64]
Parameters = Mapping[str, ParameterValue]


def array_weights(method: str, parameters: Parameters, inputs: NDArray[Any], keys: NDArray[Any]) -> Floats:
    """Return the weights (n, prototypes) of keys (prototypes, features) for inputs (n, features).

    The softmax of the scores over the keys, or for ``fc_relu`` max(0, score). Scores of +∞ share the weight equally.

    Args:
        method: One of `idwbench.attention.array_scores.ARRAY_METHODS`.
        parameters: All parameters of the method.
        inputs: Finite numbers.
        keys: Finite numbers.
    """
    return array_weighting(method, parameters)(scores_on_arrays(method, parameters, inputs, keys))


def array_weighting(method: str, parameters: Parameters) -> Callable[..., Floats]:
    """Return the function from scores to weights; only with ε = 0 can scores be +∞, which share the weight."""
    if get_method(method).weighting == "relu":
        return relu
    return shared_by_hits if parameters.get("epsilon") == 0 else softmax


def scores_on_arrays(method: str, parameters: Parameters, inputs: NDArray[Any], keys: NDArray[Any]) -> Floats:
    """Return the scores (n, prototypes); arguments as for `array_weights`."""
    queries, memory = (np.ascontiguousarray(array, np.float64) for array in (inputs, keys))
    if method in PRODUCT_SCORES:
        return PRODUCT_SCORES[method](queries, memory, **parameters)
    scores = np.empty((len(queries), len(memory)))
    for rows, sq_dist in PairwiseDistances(memory).parts(queries):
        scores[rows] = DISTANCE_SCORES[method](sq_dist.astype(np.float64, copy=False), **parameters)
    return scores
