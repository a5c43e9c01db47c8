"""Weights of the built-in methods on NumPy arrays in float64, without torch; for predictions with given prototypes.

The weights of an input do not depend on the other inputs of a call, but for the last digits of float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import DistanceScore, get_method
from idwbench.models.neighbours import squared_distances

__all__ = ["AnswerTerms", "array_weighting", "array_weights", "relu", "scores_on_arrays", "shared_by_hits", "softmax"]

Array = NDArray[np.float64]
Parameters = Mapping[str, Any]

_SHOWN = 10


@dataclass(frozen=True)
class AnswerTerms:
    """The terms of one answer Σ_j weights_j · values_j (+ the intercept of a regressor), by decreasing weight.

    Printed, it is a table of the largest weights.

    Attributes:
        prediction: The predicted label, or the predicted targets.
        outputs: Logits (outputs,), or predictions of a regression in the targets' own units.
        prototypes: Positions (m,) in the model.
        weights: (m,); over all prototypes those of a softmax sum to 1.
        keys: The prototypes themselves, (m, features), in the data's own units.
        values: Their values, (m, outputs).
        labels: The label (m,) with the largest value of each prototype; None for a regression.
        patches: The number (m,) of the patch whose prototype it is, from 1; 0 for a learned one. None where there are
            no patches.
    """

    prediction: Any
    outputs: NDArray[np.floating[Any]]
    prototypes: NDArray[np.int64]
    weights: NDArray[np.floating[Any]]
    keys: NDArray[np.floating[Any]]
    values: NDArray[np.floating[Any]]
    labels: NDArray[Any] | None = None
    patches: NDArray[np.int64] | None = None

    def __str__(self) -> str:
        rows = [
            f"prediction: {self.prediction}",
            "prototype    weight  " + ("label" if self.labels is not None else "value"),
        ]
        for place in range(min(_SHOWN, len(self.prototypes))):
            value = self.labels[place] if self.labels is not None else np.round(self.values[place], 4).tolist()
            patch = f" (patch {self.patches[place]})" if self.patches is not None and self.patches[place] else ""
            rows.append(f"{self.prototypes[place]:>9}  {self.weights[place]:>8.4f}  {value}{patch}")
        if (hidden := len(self.prototypes) - _SHOWN) > 0:
            rows.append(f"and {hidden} more with a weight of {self.weights[_SHOWN:].sum():.4f} together")
        return "\n".join(rows)


def array_weights(method: str, parameters: Parameters, inputs: NDArray[Any], keys: NDArray[Any]) -> Array:
    """Return the weights (n, prototypes) of keys (prototypes, features) for inputs (n, features).

    The softmax of the scores over the keys, or for ``fc_relu`` max(0, score). Scores of +∞ share the weight equally.

    Args:
        method: One of the built-in methods.
        parameters: All parameters of the method, and the arrays that it learns.
        inputs: Finite numbers.
        keys: Finite numbers.
    """
    return array_weighting(get_method(method).weighting, parameters)(scores_on_arrays(method, parameters, inputs, keys))


def array_weighting(weighting: str, parameters: Parameters) -> Callable[..., Array]:
    """Return the function from scores to weights of ``softmax`` or ``relu``.

    Only with ε = 0 can scores be +∞, which share the weight of a softmax.
    """
    if weighting == "relu":
        return relu
    return shared_by_hits if parameters.get("epsilon") == 0 else softmax


def scores_on_arrays(method: str, parameters: Parameters, inputs: NDArray[Any], keys: NDArray[Any]) -> Array:
    """Return the scores (n, prototypes); arguments as for `array_weights`."""
    memory, chosen = np.ascontiguousarray(keys, np.float64), get_method(method)
    if isinstance(chosen.score, DistanceScore):
        return np.asarray(chosen.score.function(squared_distances(inputs, memory), **parameters))
    return np.asarray(chosen.scores(np.ascontiguousarray(inputs, np.float64), memory, parameters))


def softmax(scores: Array) -> Array:
    """Return exp(s) / Σ exp(s) over prototypes."""
    terms = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights: Array = terms / np.sum(terms, axis=-1, keepdims=True)
    return weights


def shared_by_hits(scores: Array) -> Array:
    """Return the softmax; keys that the input hits, whose score is +∞, share the weight equally."""
    hits = np.where(scores == np.inf, 1.0, 0.0)
    n_hits = np.sum(hits, axis=-1, keepdims=True)
    return np.where(n_hits > 0.0, hits / np.maximum(n_hits, 1.0), softmax(np.where(n_hits > 0.0, 0.0, scores)))


def relu(scores: Array) -> Array:
    """Return max(0, s)."""
    return np.maximum(scores, 0.0)
