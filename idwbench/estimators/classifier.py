"""`PrototypeClassifier`: a classifier whose parameters are prototypes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from idwbench.errors import PatchError
from idwbench.estimators.prototypes import AbstractPrototypeEstimator
from idwbench.estimators.training import Rows, plain
from idwbench.models.array_weights import softmax
from idwbench.models.demands import asked
from idwbench.models.patch_solution import solved_repairs
from idwbench.models.radii import Rows as PatchRows

__all__ = ["PrototypeClassifier"]

Floats = NDArray[np.float64]


class PrototypeClassifier(ClassifierMixin, AbstractPrototypeEstimator):  # type: ignore[misc]
    """A classifier that attends to learned prototypes: logits(x) = Σ_j a_j(x) v_j.

    The weights a are the softmax over the prototypes of a score of x and the key k_j, such as −log(ε + ‖x − k_j‖^p) of
    ``idw``; with ``fc_relu`` they are max(0, x·k_j). Keys and values are learned by gradient descent on the
    cross-entropy, by the fused engine, without torch (arXiv 2310.18805). Distances depend on the scale of the features:
    put a `StandardScaler` in front unless they are alike.

    Args:
        n_prototypes: Number of prototypes.
        method: Score and weighting: ``idw``, ``inv_dist``, ``neg_dist``, ``gaussian``, ``cosine``, ``scaled_dot`` or
            ``fc_relu``.
        power: p of ``idw``, ``inv_dist`` and ``neg_dist``; 2 if None.
        epsilon: ε of ``idw`` and ``inv_dist``; 0.001 if None.
        parameters: Other parameters of the method, such as ``{"temperature": 0.1}``.
        slope_rank: Rank R of the slope of values, v_j + A_j (x − k_j); 0 for values without a slope.
        initialisation: ``mean``, ``samples`` or ``kmeans`` of the training data, or ``default``, that of the method;
            ``auto`` for ``samples``, or the default with too few rows and for products such as ``cosine``.
        key_bounds: ``data`` to hold prototypes within the range of each feature of the training data, or ``none``;
            ``auto`` for ``data``, or ``none`` for products.
        key_penalty: λ of the penalty that draws prototypes to data: λ times the mean distance of a prototype to the
            nearest row of its class in the batch, of a regression to the nearest row, is added to the loss; not for
            products.
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
        classes_: The labels, in ascending order.
        prototypes_: The keys k, (n_prototypes, features), float32, in the units of the inputs.
        values_: The values v, (n_prototypes, classes).
        slopes_: Only of values with a slope: arrays ``slope_inputs`` W (rank, n_prototypes, features) and
            ``slope_outputs`` U (rank, n_prototypes, classes); A_j = Σ_r u_rj w_rjᵀ.
        patches_: The demands and prototypes that `patch` added, as plain arrays and values; only after a patch.
        method_: The method of the fitted prototypes.
        parameters_: All parameters of the method.
        loss_curve_: Mean loss of each epoch.
        n_iter_: Number of epochs.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, if the inputs had names.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from idwbench import PrototypeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = PrototypeClassifier(6, random_state=0).fit(X, y)
        >>> model.prototypes_.shape, model.score(X, y) > 0.95
        ((6, 4), True)
    """

    classes_: NDArray[Any]

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train one epoch on inputs (n, features) and labels (n,), at a constant learning rate.

        Args:
            X: Finite numbers.
            y: Labels, all of them among `classes`.
            classes: All labels; required in the first call, and the same in all later ones if given.
            sample_weight: (n,), not negative.

        Raises:
            ValueError: invalid data or parameters, unknown labels, or the training diverged.
        """
        warm = hasattr(self, "prototypes_")
        rows = self._rows(X, y, sample_weight, warm, self._partial_classes(classes, warm))
        self._train(rows, warm=warm, one_epoch=True)
        return self

    def _rows(self, X: Any, y: Any, sample_weight: Any, warm: bool, classes: NDArray[Any] | None = None) -> Rows:
        rows = self._valid_rows(X, y, sample_weight, warm)
        check_classification_targets(y)
        if classes is None:
            classes = np.unique(rows.targets)
            if warm and not np.array_equal(classes, self.classes_):
                raise ValueError(f"warm_start: expected the classes so far, {self.classes_}, got {classes}")
        labels = np.searchsorted(classes, rows.targets)
        labels[labels == len(classes)] = 0
        if (unknown := rows.targets[classes[labels] != rows.targets]).size:
            raise ValueError(f"y: {plain(unknown[0])!r} is not among `classes`, {classes}")
        self.classes_, n = classes, plain(self.n_prototypes)
        if not warm and isinstance(n, int) and 0 < n < len(classes):
            text = f"n_prototypes={n} is less than the number of classes, {len(classes)}; some may never be predicted"
            warnings.warn(text, UserWarning, stacklevel=3)
        return rows._replace(targets=labels.astype(np.int64, copy=False))

    def _partial_classes(self, classes: Any, warm: bool) -> NDArray[Any]:
        if classes is None:
            if not warm:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            return np.asarray(self.classes_)
        given = np.unique(np.asarray(classes))
        if warm and not np.array_equal(given, self.classes_):
            raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit: {self.classes_}")
        return given

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels (n,) with the largest logits for inputs (n, features)."""
        return self._answers(self._outputs(X))

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities (n, classes), the softmax of the logits, for inputs (n, features)."""
        return softmax(self._outputs(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of the probabilities (n, classes)."""
        logits = self._outputs(X)
        return np.asarray(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

    def decision_function(self, X: Any) -> Floats:
        """Return the logits (n, classes) for inputs (n, features); with two classes their difference (n,)."""
        logits = self._outputs(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def patch(
        self,
        x: Any,
        label: Any,
        *,
        X: Any = None,
        y: Any = None,
        **settings: Any,
    ) -> Self:
        """Return a classifier with one more prototype, which predicts `label` for the input `x`; this one is unchanged.

        A local patch acts within a radius around x: there the label wins, and beyond it hardly anything changes (see
        `idwbench.models.patches`). All patches are solved again as a whole, so that their order does not matter. If the
        prototypes give the label already, a copy is returned. Not for the method ``fc_relu``.

        Args:
            x: One input, as for `explain`.
            label: One of `classes_`.
            X: Training inputs (n, features), for a radius that is not given: the largest that changes no right
                prediction of them.
            y: Their labels (n,).
            settings: ``kind``, ``radius``, ``steepness``, ``margin`` and ``confidence``, see
                `idwbench.models.demands.asked`; radii are in the units of the inputs.

        Raises:
            ValueError: not one valid input, an unknown label, or a patch that cannot hold together with earlier ones.
        """
        query, base, rows = self._one_row(x)[0], self._base(), None
        try:
            if (X is None) != (y is None):
                raise ValueError(f"{'y' if y is None else 'X'}: training inputs and labels are given together")
            if X is not None:
                check_consistent_length(X, y)
                rows = PatchRows(base, self._inputs(X), self._numbers(column_or_1d(y)))
            given = {"label": int(self._numbers([label])[0]), "x": query.astype(np.float64).tolist()}
            demand = asked(**settings).model_copy(update={"query": query, "name": "x", **given})
            repairs = solved_repairs(base, [*self._repairs().demands(), demand], rows)
        except PatchError as error:
            raise ValueError(error.render(".".join(map(str, error.location)))) from None
        patched = copy.deepcopy(self)
        if len(repairs):
            patched.patches_ = repairs.content()
        return patched

    def _numbers(self, labels: Any) -> NDArray[np.int64]:
        """Return the positions (n,) of labels in `classes_`."""
        given = np.asarray(labels)
        try:
            places = np.searchsorted(self.classes_, given)
        except TypeError:
            raise ValueError(f"label: expected one of {self.classes_}, got {plain(given[0])!r}") from None
        places[places == len(self.classes_)] = 0
        if (unknown := given[self.classes_[places] != given]).size or len(self.classes_) < 2:
            got = plain(unknown[0]) if unknown.size else plain(given[0])
            raise ValueError(f"label: expected one of {self.classes_}, got {got!r}")
        return places.astype(np.int64)

    @classmethod
    def from_prototypes(
        cls,
        prototypes: ArrayLike,
        values: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        slopes: Mapping[str, ArrayLike] | None = None,
        feature_names: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Return a fitted classifier with given prototypes.

        Args:
            prototypes: Keys (prototypes, features).
            values: (prototypes, classes), what each prototype adds to the logits for its weight.
            classes: Labels (classes,) in ascending order; 0, 1, … if left out.
            slopes: Those of the values, if they have one: ``slope_inputs`` (rank, prototypes, features) and
                ``slope_outputs`` (rank, prototypes, outputs).
            feature_names: (features,).
            params: Parameters of the classifier, such as ``method``, ``power`` and ``epsilon``.

        Raises:
            ValueError: arrays that do not fit each other or are not finite, or an invalid parameter.
        """
        model = cls._given(prototypes, values, slopes, feature_names, params)
        n_classes = model.values_.shape[1]
        labels = np.arange(n_classes) if classes is None else np.asarray(classes)
        if labels.shape != (n_classes,) or not np.array_equal(np.unique(labels), labels):
            raise ValueError(f"classes: expected {n_classes} different labels in ascending order, got {labels}")
        model.classes_ = labels
        model.values_ = model.values_.astype(np.float32)
        return model

    def _answers(self, outputs: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.classes_[outputs.argmax(1)])
