"""`PrototypeRegressor`: a regressor whose parameters are prototypes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idwbench.attention.scores import get_method
from idwbench.estimators.prototypes import AbstractPrototypeEstimator, MemoryRegressor
from idwbench.estimators.training import Rows

__all__ = ["PrototypeRegressor"]

Floats = NDArray[np.float64]


class PrototypeRegressor(MemoryRegressor, AbstractPrototypeEstimator):
    """A regressor that attends to learned prototypes: ŷ(x) = Σ_j a_j(x) v_j.

    The weights a are those of `PrototypeClassifier`. Keys and values are learned by gradient descent on the mean
    squared error of standardised targets, by the fused engine, without torch. All parameters are those of
    `PrototypeClassifier`.

    Attributes:
        prototypes_: The keys k, (n_prototypes, features), float32, in the units of the inputs.
        values_: The values v, (n_prototypes, outputs).
        slopes_: Only of values with a slope, as of `PrototypeClassifier`.
        intercept_: (outputs,), added to the sum; 0 but for ``fc_relu``, whose weights do not sum to 1.
        method_, parameters_, loss_curve_, n_iter_, n_features_in_, feature_names_in_: As of `PrototypeClassifier`.

    Example:
        >>> import numpy as np
        >>> from idwbench import PrototypeRegressor
        >>> X = np.linspace(-2, 2, 80)[:, None]
        >>> model = PrototypeRegressor(8, method="neg_dist", random_state=0).fit(X, np.sin(2 * X[:, 0]))
        >>> model.score(X, np.sin(2 * X[:, 0])) > 0.95
        True
    """

    intercept_: Floats
    _mean: Floats
    _scale: Floats

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train one epoch on inputs (n, features) and targets, at a constant learning rate.

        The first call determines the scaling of the targets.

        Args:
            X: Finite numbers.
            y: Finite numbers, (n,) or (n, outputs).
            sample_weight: (n,), not negative.

        Raises:
            ValueError: invalid data or parameters, or the training diverged.
        """
        warm = hasattr(self, "prototypes_")
        self._train(self._rows(X, y, sample_weight, warm), warm=warm, one_epoch=True)
        return self

    def _rows(self, X: Any, y: Any, sample_weight: Any, warm: bool) -> Rows:
        rows = self._valid_rows(X, y, sample_weight, warm, multi_output=True, y_numeric=True)
        targets = np.asarray(rows.targets, np.float64).reshape(len(rows.targets), -1)
        if warm and targets.shape[1] != self.values_.shape[1]:
            raise ValueError(f"y: expected {self.values_.shape[1]} outputs as before, got {targets.shape[1]}")
        self._one_dimensional = rows.targets.ndim == 1
        return rows._replace(targets=targets)

    def predict(self, X: Any) -> Floats:
        """Return predictions (n,) or (n, outputs), in the shape of the targets, for inputs (n, features)."""
        return self._answers(self._outputs(X))

    def _sums(self, weights: Floats, inputs: NDArray[np.float32]) -> Floats:
        return super()._sums(weights, inputs) + self.intercept_

    @classmethod
    def from_prototypes(
        cls,
        prototypes: ArrayLike,
        values: ArrayLike,
        *,
        intercept: ArrayLike = 0.0,
        slopes: Mapping[str, ArrayLike] | None = None,
        feature_names: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Return a fitted regressor with given prototypes.

        Args:
            prototypes: Keys (prototypes, features).
            values: The target of each prototype, (prototypes,) or (prototypes, outputs).
            intercept: A number or (outputs,), added to the sum.
            slopes: Those of the values, if they have one: ``slope_inputs`` (rank, prototypes, features) and
                ``slope_outputs`` (rank, prototypes, outputs).
            feature_names: (features,).
            params: Parameters of the regressor, such as ``method``, ``power`` and ``epsilon``.

        Raises:
            ValueError: arrays that do not fit each other or are not finite, or an invalid parameter.
        """
        given = np.asarray(values, np.float64)
        columns = given[:, None] if given.ndim == 1 else given
        model = cls._given(prototypes, columns, slopes, feature_names, params)
        model._one_dimensional = given.ndim == 1
        n_outputs = model.values_.shape[1]
        added = np.asarray(intercept, np.float64)
        if added.shape not in ((), (n_outputs,)) or not np.isfinite(added).all():
            raise ValueError(f"intercept: expected a finite number or {n_outputs} of them, got {intercept!r}")
        model._mean, model._scale = np.broadcast_to(added, n_outputs).copy(), np.ones(n_outputs)
        model._set_values(model.values_, model._slopes())
        return model

    def _training_targets(self, rows: Rows, warm: bool) -> NDArray[np.float32]:
        from sklearn.preprocessing import StandardScaler

        if not warm:
            scaler = StandardScaler().fit(rows.targets, sample_weight=rows.weights)
            self._mean, self._scale = scaler.mean_, scaler.scale_
        return np.ascontiguousarray(((rows.targets - self._mean) / self._scale).astype(np.float32))

    def _set_values(self, values: NDArray[np.float32], slopes: Mapping[str, NDArray[np.float32]]) -> None:
        super()._set_values(values, slopes)
        if slopes:
            self.slopes_["slope_outputs"] = (slopes["slope_outputs"] * self._scale).astype(np.float32)
        scaled = values.astype(np.float64) * self._scale
        # Softmax weights sum to 1, so that the mean can be part of each value.
        is_normalised = get_method(self.method_).weighting == "softmax"
        self.values_ = scaled + self._mean if is_normalised else scaled
        self.intercept_ = np.zeros(len(self._mean)) if is_normalised else np.array(self._mean)
