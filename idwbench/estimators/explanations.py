"""What an estimator attends to when it answers one input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PrototypeExplanation", "explained", "one_row"]

_SHOWN = 10


@dataclass(frozen=True)
class PrototypeExplanation:
    """The terms of one answer Σ_j weights_j · values_j (+ the intercept of a regressor), by decreasing weight.

    Printed, it is a table of the largest weights.

    Attributes:
        prediction: The predicted label, or the predicted targets.
        outputs: Logits (classes,), or predictions (outputs,).
        prototypes: Positions (m,) in `prototypes_`.
        weights: (m,); over all prototypes those of a softmax sum to 1.
        keys: The prototypes themselves, (m, features).
        values: Their values, (m, outputs).
        labels: The label (m,) with the largest value of each prototype; None for a regression.
    """

    prediction: Any
    outputs: NDArray[np.floating[Any]]
    prototypes: NDArray[np.int64]
    weights: NDArray[np.floating[Any]]
    keys: NDArray[np.floating[Any]]
    values: NDArray[np.floating[Any]]
    labels: NDArray[Any] | None = None

    def __str__(self) -> str:
        rows = [
            f"prediction: {self.prediction}",
            "prototype    weight  " + ("label" if self.labels is not None else "value"),
        ]
        for place in range(min(_SHOWN, len(self.prototypes))):
            value = self.labels[place] if self.labels is not None else np.round(self.values[place], 4).tolist()
            rows.append(f"{self.prototypes[place]:>9}  {self.weights[place]:>8.4f}  {value}")
        if (hidden := len(self.prototypes) - _SHOWN) > 0:
            rows.append(f"and {hidden} more with a weight of {self.weights[_SHOWN:].sum():.4f} together")
        return "\n".join(rows)


def explained(
    weights: NDArray[np.floating[Any]],
    keys: NDArray[np.floating[Any]],
    values: NDArray[np.floating[Any]],
    outputs: NDArray[np.floating[Any]],
    prediction: Any,
    top: int | None,
    classes: NDArray[Any] | None = None,
) -> PrototypeExplanation:
    """Return the explanation for weights (prototypes,), with the `top` largest only."""
    if top is not None and top < 1:
        raise ValueError(f"top: expected a number above 0, got {top}")
    order = np.argsort(-weights, kind="stable")[:top]
    labels = None if classes is None else classes[values[order].argmax(1)]
    return PrototypeExplanation(prediction, outputs, order, weights[order], keys[order], values[order], labels)


def one_row(estimator: Any, x: Any) -> NDArray[Any]:
    """Return one input, given as (features,), (1, features), an image or a data frame of one row, as (1, features).

    Raises:
        ValueError: more than one row, the wrong number of features, or numbers that are not finite.
    """
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data

    check_is_fitted(estimator, "prototypes_")
    dtype = estimator.prototypes_.dtype
    if hasattr(x, "columns"):
        rows = np.asarray(validate_data(estimator, x, dtype=dtype, reset=False))
        if len(rows) != 1:
            raise ValueError(f"x: expected one row, got {len(rows)}")
        return rows
    flat = np.asarray(x).reshape(1, -1)
    if flat.shape[1] != estimator.n_features_in_:
        raise ValueError(f"x: expected {estimator.n_features_in_} features of one input, got {flat.shape[1]}")
    return np.asarray(check_array(flat, dtype=dtype, input_name="x"))
