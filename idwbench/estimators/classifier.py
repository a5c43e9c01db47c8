"""`PrototypeClassifier`: a classifier whose parameters are prototypes."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from idwbench.errors import PatchError
from idwbench.estimators.patches import added_prototype, solve_patch
from idwbench.estimators.prototypes import AbstractPrototypeEstimator
from idwbench.estimators.training import Rows, plain
from idwbench.models.array_weights import softmax
from idwbench.models.criteria import Criterion
from idwbench.models.patch_solution import Patch

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
        classes_: The labels, in ascending order.
        prototypes_: The keys k, (n_prototypes, features), float32, in the units of the inputs.
        values_: The values v, (n_prototypes, classes).
        patches_: Position and class of the prototypes that `patch` added; only after a patch.
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
        margin: float | None = None,
        logit_margin: float | None = None,
        confidence: float | None = None,
        keep_logits: bool = False,
    ) -> Self:
        """Return a classifier with one more prototype, which predicts `label` for the input `x`; this one is unchanged.

        The key of the new prototype is x, and its value η e_c is the smallest that meets the criterion, in closed form
        (see `idwbench.models.patching`); with `keep_logits` z(x) + η e_c. If the criterion is met without, a copy is
        returned. Only for the method ``idw``.

        Args:
            x: One input, as for `explain`.
            label: One of `classes_`.
            margin: The part of the former lead by which η exceeds that of the tie; 0.001 unless another one is given.
            logit_margin: Lead over the logit of the next class.
            confidence: Probability of the label.
            keep_logits: Whether the value keeps the logits at x, which changes the probabilities there less.

        Raises:
            ValueError: another method, not one valid input, an unknown label, a criterion that cannot be met, or one
                that would break an earlier patch.
        """
        query = self._one_row(x)[0]
        if self.method_ != "idw":
            raise ValueError(f"only classifiers with method 'idw' can be patched, this one has {self.method_!r}")
        places = np.flatnonzero(self.classes_ == label)
        if len(places) != 1 or len(self.classes_) < 2:
            raise ValueError(f"label: expected one of {self.classes_}, got {label!r}")
        try:
            criterion = Criterion.of(margin=margin, logit_margin=logit_margin, confidence=confidence)
            prototypes = (self.prototypes_, self.values_)
            patch = solve_patch(query, int(places[0]), prototypes, self.parameters_, criterion, keep_logits=keep_logits)
        except PatchError as error:
            raise ValueError(error.render(".".join(map(str, error.location)))) from None
        return copy.deepcopy(self) if patch is None else self._patched(patch)

    def _patched(self, patch: Patch) -> Self:
        patched = copy.deepcopy(self)
        patched._set_prototypes(*added_prototype((self.prototypes_, self.values_), patch))
        patched.patches_ = [
            *getattr(self, "patches_", []),
            {"prototype": len(self.prototypes_), "label": patch.label},
        ]
        for record in patched.patches_:
            place = record["prototype"]
            weights = patched._weights(patched.prototypes_[place][None])
            if (weights @ patched.values_.astype(np.float64)).argmax() != record["label"]:
                raise ValueError(f"x: the patch would change the answer at that of prototype {place}; patch both again")
        return patched

    @classmethod
    def from_prototypes(
        cls,
        prototypes: ArrayLike,
        values: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        feature_names: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Return a fitted classifier with given prototypes.

        Args:
            prototypes: Keys (prototypes, features).
            values: (prototypes, classes), what each prototype adds to the logits for its weight.
            classes: Labels (classes,) in ascending order; 0, 1, … if left out.
            feature_names: (features,).
            params: Parameters of the classifier, such as ``method``, ``power`` and ``epsilon``.

        Raises:
            ValueError: arrays that do not fit each other or are not finite, or an invalid parameter.
        """
        model = cls._given(prototypes, values, feature_names, params)
        n_classes = model.values_.shape[1]
        labels = np.arange(n_classes) if classes is None else np.asarray(classes)
        if labels.shape != (n_classes,) or not np.array_equal(np.unique(labels), labels):
            raise ValueError(f"classes: expected {n_classes} different labels in ascending order, got {labels}")
        model.classes_ = labels
        model.values_ = model.values_.astype(np.float32)
        return model

    def _answers(self, outputs: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.classes_[outputs.argmax(1)])
