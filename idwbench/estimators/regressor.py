"""`PrototypeRegressor`: a regressor whose parameters are prototypes."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from idwbench.attention.scores import get_method
from idwbench.estimators.explanations import PrototypeExplanation, explained
from idwbench.estimators.prototypes import AbstractPrototypeEstimator
from idwbench.estimators.rows import Rows, checked_weights
from idwbench.estimators.settings import EstimatorTask

__all__ = ["PrototypeRegressor"]

Floats = NDArray[np.float64]


class PrototypeRegressor(RegressorMixin, AbstractPrototypeEstimator):  # type: ignore[misc]
    """A regressor that attends to learned prototypes: ŷ(x) = Σ_j a_j(x) v_j.

    The weights a are those of `PrototypeClassifier`. Keys and values are learned by gradient descent on the mean
    squared error of standardised targets, by the fused engine, without torch.

    Args:
        n_prototypes: Number of prototypes.
        method: Score and weighting: ``idw``, ``inv_dist``, ``neg_dist``, ``gaussian``, ``cosine``, ``scaled_dot`` or
            ``fc_relu``.
        power: p of ``idw``, ``inv_dist`` and ``neg_dist``; 2 if None.
        epsilon: ε of ``idw`` and ``inv_dist``; 0.001 if None.
        parameters: Other parameters of the method, such as ``{"temperature": 0.1}``.
        initialisation: ``mean``, ``samples`` or ``kmeans`` of the training data, or ``default``, that of the method.
        optimizer: ``adam_amsgrad``, ``adam`` or ``sgd``.
        learning_rate: Learning rate before its schedule.
        schedule: ``cosine`` or ``constant``; `partial_fit` uses the learning rate itself.
        batch_size: Rows of a step; ``auto`` for 200, or for all distinct rows if they are fewer.
        epochs: Passes over the data; ``auto`` for about 2,000 steps, from 20 to 500 epochs.
        momentum: Momentum of ``sgd``.
        weight_decay: This multiple of prototypes and values is added to their gradients.
        gradient_clip: Maximum norm of the gradient; 0 for none.
        warmup_epochs: Epochs of linear warm-up of the learning rate.
        image_shape: (height, width) of inputs that are images, for the drawing in notebooks.
        random_state: Seed of initialisation and order of the rows, a `RandomState`, or None for a new seed each time.
        warm_start: Whether `fit` starts from the prototypes of the last one.

    Attributes:
        prototypes_: The keys k, (n_prototypes, features), float32, in the units of the inputs.
        values_: The values v, (n_prototypes, outputs).
        intercept_: (outputs,), added to the sum; 0 but for ``fc_relu``, whose weights do not sum to 1.
        method_: The method of the fitted prototypes.
        parameters_: All parameters of the method.
        loss_curve_: Mean loss of each epoch.
        n_iter_: Number of epochs.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, if the inputs had names.

    Example:
        >>> import numpy as np
        >>> from idwbench import PrototypeRegressor
        >>> X = np.linspace(-2, 2, 80)[:, None]
        >>> model = PrototypeRegressor(8, method="neg_dist", random_state=0).fit(X, np.sin(2 * X[:, 0]))
        >>> model.score(X, np.sin(2 * X[:, 0])) > 0.95
        True
    """

    _task: ClassVar[EstimatorTask] = "regression"

    intercept_: Floats
    _mean: Floats
    _scale: Floats
    _one_dimensional: bool

    def __sklearn_tags__(self) -> Any:
        """Return the tags: several outputs are possible."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn prototypes from inputs (n, features) and targets (n,) or (n, outputs).

        Args:
            X: Finite numbers; they are converted to float32.
            y: Finite numbers; they are standardised for the training.
            sample_weight: (n,), not negative; see `idwbench.estimators.rows`.

        Raises:
            ValueError: invalid data or parameters, or the training diverged.
        """
        warm = self.warm_start and hasattr(self, "prototypes_")
        if not warm:
            self.__dict__.pop("prototypes_", None)  # a fit that fails leaves an estimator that is not fitted
        self._train(self._rows(X, y, sample_weight, warm), warm=warm)
        return self

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
        X, y = validate_data(self, X, y, dtype=np.float32, order="C", reset=not warm, multi_output=True, y_numeric=True)
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        if warm and targets.shape[1] != self.values_.shape[1]:
            raise ValueError(f"y: expected {self.values_.shape[1]} outputs as before, got {targets.shape[1]}")
        self._one_dimensional = y.ndim == 1
        return Rows(X, targets, checked_weights(sample_weight, X)).positive()

    def predict(self, X: Any) -> Floats:
        """Return predictions (n,) or (n, outputs), in the shape of the targets, for inputs (n, features)."""
        found = self._outputs(X) + self.intercept_
        return found[:, 0] if self._one_dimensional else found

    def explain(self, x: Any, *, top: int | None = None) -> PrototypeExplanation:
        """Return the weight of each prototype in the answer to one input, by decreasing weight.

        Args:
            x: (features,), of any shape with as many numbers, or a data frame of one row.
            top: How many prototypes; all if left out.

        Raises:
            ValueError: not one valid input.
        """
        weights, outputs = self._terms(x)
        outputs = outputs + self.intercept_
        prediction = outputs[0] if self._one_dimensional else outputs
        return explained(weights, self.prototypes_, self.values_, outputs, prediction, top)

    @classmethod
    def from_prototypes(
        cls,
        prototypes: ArrayLike,
        values: ArrayLike,
        *,
        intercept: ArrayLike = 0.0,
        feature_names: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Return a fitted regressor with given prototypes.

        Args:
            prototypes: Keys (prototypes, features).
            values: The target of each prototype, (prototypes,) or (prototypes, outputs).
            intercept: A number or (outputs,), added to the sum.
            feature_names: (features,).
            params: Parameters of the regressor, such as ``method``, ``power`` and ``epsilon``.

        Raises:
            ValueError: arrays that do not fit each other or are not finite, or an invalid parameter.
        """
        given = np.asarray(values, np.float64)
        made = cls(**{"n_prototypes": len(np.asarray(prototypes)), **params})
        made._set_given(prototypes, given[:, None] if given.ndim == 1 else given, feature_names)
        made._one_dimensional = given.ndim == 1
        n_outputs = made.values_.shape[1]
        added = np.asarray(intercept, np.float64)
        if added.shape not in ((), (n_outputs,)) or not np.isfinite(added).all():
            raise ValueError(f"intercept: expected a finite number or {n_outputs} of them, got {intercept!r}")
        made._mean, made._scale = np.broadcast_to(added, n_outputs).copy(), np.ones(n_outputs)
        made._set_values(made.values_)
        return made

    def _scale_targets(self, rows: Rows, warm: bool) -> None:
        from sklearn.preprocessing import StandardScaler

        if not warm:
            fitted = StandardScaler().fit(rows.targets, sample_weight=rows.weights)
            self._mean, self._scale = fitted.mean_, fitted.scale_

    def _scaled(self, targets: NDArray[Any]) -> NDArray[np.float32]:
        scaled = ((targets - self._mean) / self._scale).astype(np.float32)
        return np.ascontiguousarray(scaled)

    def _set_values(self, values: NDArray[np.float32]) -> None:
        scaled = values.astype(np.float64) * self._scale
        # Softmax weights sum to 1, so that the mean can be part of each value.
        is_normalised = get_method(self.method_).weighting == "softmax"
        self.values_ = scaled + self._mean if is_normalised else scaled
        self.intercept_ = np.zeros(len(self._mean)) if is_normalised else np.array(self._mean)
