"""What the estimators with learned prototypes have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from idwbench.attention.records import ParameterValue
from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.errors import ConfigError
from idwbench.estimators.explanations import one_row
from idwbench.estimators.notebooks import DrawnPrototypes
from idwbench.estimators.rows import Rows, mean_one, merged
from idwbench.estimators.settings import AUTO_BATCH, EstimatorTask, engine_config, seed_of, with_automatic
from idwbench.estimators.training import TrainingState, train_one_epoch, train_prototypes
from idwbench.models.array_weights import array_weights

__all__ = ["AbstractPrototypeEstimator"]

Floats = NDArray[np.float64]


class AbstractPrototypeEstimator(DrawnPrototypes, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator with learned prototypes; outputs(x) = Σ_j a_j(x) v_j."""

    _task: ClassVar[EstimatorTask]

    prototypes_: NDArray[np.float32]
    values_: NDArray[Any]
    n_features_in_: int
    n_iter_: int
    loss_curve_: Floats
    method_: str
    parameters_: dict[str, ParameterValue]
    _training: dict[str, Any]

    def __init__(
        self,
        n_prototypes: int = 16,
        *,
        method: str = "idw",
        power: float | None = None,
        epsilon: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        initialisation: str = "default",
        optimizer: str = "adam_amsgrad",
        learning_rate: float = 0.05,
        schedule: str = "cosine",
        batch_size: int | str = "auto",
        epochs: int | str = "auto",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        gradient_clip: float = 0.0,
        warmup_epochs: int = 0,
        image_shape: tuple[int, int] | None = None,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.method = method
        self.power = power
        self.epsilon = epsilon
        self.parameters = parameters
        self.initialisation = initialisation
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.epochs = epochs
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.warmup_epochs = warmup_epochs
        self.image_shape = image_shape
        self.random_state = random_state
        self.warm_start = warm_start

    def transform(self, X: Any) -> Floats:
        """Return the attention weights (n, prototypes) of the prototypes for inputs (n, features).

        The softmax of the scores, whose rows sum to 1; with the method ``fc_relu`` max(0, score).
        """
        return self._weights(X)

    def _outputs(self, X: Any) -> Floats:
        """Return Σ_j a_j v_j, (n, outputs)."""
        return np.asarray(self._weights(X) @ self.values_.astype(np.float64))

    def _weights(self, X: Any) -> Floats:
        """Return the attention weights (n, prototypes), an array whatever the container of `transform`."""
        check_is_fitted(self, "prototypes_")  # a fit that failed leaves `n_features_in_`
        inputs = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        return array_weights(self.method_, self.parameters_, inputs, self.prototypes_)

    def _terms(self, x: Any) -> tuple[Floats, Floats]:
        """Return the weights (prototypes,) for one input, and Σ_j a_j v_j (outputs,)."""
        row = one_row(self, x)
        weights = array_weights(self.method_, self.parameters_, row, self.prototypes_)[0]
        return weights, np.asarray(weights @ self.values_.astype(np.float64))

    @property
    def _n_features_out(self) -> int:
        return len(self.prototypes_)

    def _train(self, rows: Rows, *, warm: bool = False, one_epoch: bool = False) -> None:
        """Train on rows with labels, or targets (n, outputs) in their own units, and set the fitted attributes.

        Args:
            rows: With weights above 0.
            warm: Whether to start from the prototypes of the last training.
            one_epoch: Whether to train one epoch only, and to continue the optimizer if `warm`.
        """
        if self.batch_size == "auto":
            rows = merged(rows, AUTO_BATCH) or rows
        parameters = with_automatic(self.get_params(deep=False), len(rows.inputs))
        seed = self._training["seed"] if warm and one_epoch else None
        seed = seed_of(self.random_state) if seed is None else seed
        self._check_image_shape()
        if warm:  # its rows may be too few for the initialisation, which is not needed
            parameters["initialisation"] = "mean"
        config = engine_config(self._task, seed, parameters)
        start = self._start(config.network.prototypes) if warm else None
        self._scale_targets(rows, warm)
        train = Split(rows.inputs, self._scaled(rows.targets), weights=mean_one(rows.weights))
        first = Split(train.inputs[:1], train.targets[:1])  # a data set has test data, which is not used here
        names = tuple(self._class_names())
        dataset = Dataset(config.dataset, train, first, None, Scaling.identity(), None, names, "")
        try:
            trained = (train_one_epoch if one_epoch else train_prototypes)(config, dataset, start)
        except ConfigError as error:
            raise ValueError(f"n_prototypes: {error.problem}") from None
        before = (self.loss_curve_, self.n_iter_) if warm and one_epoch else (np.empty(0), 0)
        self.loss_curve_ = np.append(before[0], trained.losses)
        self.n_iter_ = before[1] + len(trained.losses)
        self.method_, self.parameters_ = config.network.method, dict(config.network.parameters)
        self.__dict__.pop("patches_", None)
        self.prototypes_ = trained.keys[0].copy()
        self._training = {"keys": trained.keys, "values": trained.values, "steps": trained.steps, "seed": seed}
        self._set_values(trained.values[0])

    def _start(self, n_prototypes: int) -> TrainingState:
        """Return the state of the last training."""
        if len(self.prototypes_) != n_prototypes:
            raise ValueError(
                f"n_prototypes: expected {len(self.prototypes_)}, the number of prototypes so far, got {n_prototypes}"
            )
        state = self._training
        return TrainingState(state["keys"], state["values"], state["steps"], [])

    def _check_image_shape(self) -> None:
        if self.image_shape is None:
            return
        sizes, expected = tuple(self.image_shape), self.n_features_in_
        if len(sizes) != 2 or sizes[0] * sizes[1] != expected:
            raise ValueError(f"image_shape: expected (height, width) of {expected} pixels, got {self.image_shape}")

    def _set_given(self, prototypes: ArrayLike, values: ArrayLike, feature_names: Any) -> None:
        """Set the fitted attributes that all estimators have to given prototypes."""
        keys = check_array(prototypes, dtype=np.float32, order="C", input_name="prototypes")
        outputs = check_array(values, dtype=np.float64, order="C", input_name="values")
        if len(keys) != len(outputs):
            raise ValueError(f"values: expected {len(keys)} rows, one for each prototype, got {len(outputs)}")
        self.n_features_in_ = keys.shape[1]
        if feature_names is not None:
            names = np.asarray(feature_names, dtype=object)
            if names.shape != (keys.shape[1],):
                raise ValueError(f"feature_names: expected {keys.shape[1]} names, got {names.shape}")
            self.feature_names_in_ = names
        self._check_image_shape()
        parameters = with_automatic({**self.get_params(deep=False), "n_prototypes": len(keys)}, 1)
        network = engine_config(self._task, 0, parameters).network
        self.method_, self.parameters_ = network.method, dict(network.parameters)
        self.loss_curve_, self.n_iter_ = np.empty(0), 0
        self._set_prototypes(keys.copy(), outputs.copy())

    def _set_prototypes(self, prototypes: NDArray[np.float32], values: NDArray[Any]) -> None:
        """Replace the prototypes by given ones, from which a later training starts."""
        self.n_prototypes = len(prototypes)
        self.prototypes_, self.values_ = prototypes, values
        start = TrainingState.of(prototypes, values.astype(np.float32))
        self._training = {"keys": start.keys, "values": start.values, "steps": 0, "seed": None}

    @abstractmethod
    def _scale_targets(self, rows: Rows, warm: bool) -> None:
        """Choose the scaling of the targets, unless it is that of the last training."""

    @abstractmethod
    def _scaled(self, targets: NDArray[Any]) -> NDArray[np.int64] | NDArray[np.float32]:
        """Return targets in the units of training."""

    @abstractmethod
    def _set_values(self, values: NDArray[np.float32]) -> None:
        """Set `values_` from the values (prototypes, outputs) in the units of training."""
