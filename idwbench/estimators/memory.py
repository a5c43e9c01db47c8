"""What all estimators have in common: a memory of keys and values, which they explain and draw."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

__all__ = ["MemoryEstimator", "MemoryRegressor", "PrototypeExplanation"]

_SHOWN = 10

Floats = NDArray[np.floating[Any]]


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
    outputs: Floats
    prototypes: NDArray[np.int64]
    weights: Floats
    keys: Floats
    values: Floats
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


class MemoryEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator with keys `prototypes_` and values `values_`, whose answers are Σ_j weights_j · values_j."""

    prototypes_: Floats
    values_: NDArray[Any]
    n_features_in_: int

    def explain(self, x: Any, *, top: int | None = None) -> PrototypeExplanation:
        """Return the weight of each prototype in the answer to one input, by decreasing weight.

        Args:
            x: (features,), of any shape with as many numbers, or a data frame of one row.
            top: How many prototypes; all if left out.

        Raises:
            ValueError: not one valid input.
        """
        weights, outputs = self._terms(self._one_row(x))
        if top is not None and top < 1:
            raise ValueError(f"top: expected a number above 0, got {top}")
        order = np.argsort(-weights, kind="stable")[:top]
        values = self.values_[order]
        labels = self.classes_[values.argmax(1)] if hasattr(self, "classes_") else None
        prediction = self._answers(outputs[None])[0]
        return PrototypeExplanation(prediction, outputs, order, weights[order], self.prototypes_[order], values, labels)

    @abstractmethod
    def _terms(self, row: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the weights (prototypes,) for one input (1, features), and its outputs (outputs,)."""

    @abstractmethod
    def _answers(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Return labels (n,), or targets in their shape, for outputs (n, outputs)."""

    def _one_row(self, x: Any) -> NDArray[Any]:
        """Return one input, given as (features,), (1, features), an image or a data frame of one row, as (1, features).

        Raises:
            ValueError: more than one row, the wrong number of features, or numbers that are not finite.
        """
        check_is_fitted(self, "prototypes_")
        dtype = self.prototypes_.dtype
        if hasattr(x, "columns"):
            rows = self._inputs(x)
            if len(rows) != 1:
                raise ValueError(f"x: expected one row, got {len(rows)}")
            return rows
        flat = np.asarray(x).reshape(1, -1)
        if flat.shape[1] != self.n_features_in_:
            raise ValueError(f"x: expected {self.n_features_in_} features of one input, got {flat.shape[1]}")
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and an error
            return np.asarray(check_array(flat, dtype=dtype, input_name="x"))

    def _inputs(self, X: Any) -> NDArray[Any]:
        """Return valid inputs (n, features) in the type of the prototypes."""
        check_is_fitted(self, "prototypes_")  # a fit that failed leaves `n_features_in_`
        with np.errstate(over="ignore"):
            return np.asarray(validate_data(self, X, dtype=self.prototypes_.dtype, order="C", reset=False))

    @property
    def _repr_html_(self) -> Any:
        """The function that returns the diagram, and a drawing of the prototypes once the estimator is fitted."""
        diagram = super()._repr_html_
        return lambda: diagram() + self._drawing()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what notebooks show."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._drawing()
        return bundle

    def _drawing(self) -> str:
        if not hasattr(self, "prototypes_"):
            return ""
        from idwbench.estimators.drawing import prototypes_html

        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        image_shape = getattr(self, "image_shape", None)
        return prototypes_html(self.prototypes_, self.values_, self._class_names(), image_shape, names)

    def _class_names(self) -> Sequence[str]:
        """Return one name for each class; none for a regression."""
        return tuple(map(str, getattr(self, "classes_", ())))


class MemoryRegressor(RegressorMixin, MemoryEstimator):  # type: ignore[misc]
    """A regressor of one or several targets."""

    _one_dimensional: bool

    def __sklearn_tags__(self) -> Any:
        """Return the tags: several outputs are possible."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _answers(self, outputs: NDArray[Any]) -> NDArray[Any]:
        return outputs[:, 0] if self._one_dimensional else outputs
