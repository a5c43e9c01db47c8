"""What estimators have in common: a memory of keys and values, which they explain and draw, and learned prototypes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import get_method
from idwbench.attention.slopes import SLOPE_ARRAYS, slope_terms
from idwbench.data.dataset import Split
from idwbench.errors import ConfigError
from idwbench.estimators.training import (
    AUTO_BATCH,
    Rows,
    TrainingState,
    checked_weights,
    mean_one,
    merged,
    parsed_training,
    relative,
    train_prototypes,
    training_seed,
)
from idwbench.models.array_weights import AnswerTerms, ArrayNetwork
from idwbench.models.demands import Repairs
from idwbench.models.patches import PatchPrototypes
from idwbench.runs.kinds.prototypes import TABLE_DEFAULTS, PrototypesConfig

__all__ = ["AbstractPrototypeEstimator", "MemoryEstimator", "MemoryRegressor"]

Floats = NDArray[np.float64]
AnyFloats = NDArray[np.floating[Any]]


class MemoryEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator with keys `prototypes_` and values `values_`, whose answers are Σ_j weights_j · values_j."""

    prototypes_: AnyFloats
    values_: NDArray[Any]
    n_features_in_: int

    def explain(self, x: Any, *, top: int | None = None) -> AnswerTerms:
        """Return the weight of each prototype in the answer to one input, by decreasing weight.

        Args:
            x: (features,), of any shape with as many numbers, or a data frame of one row.
            top: How many prototypes; all if left out.

        Raises:
            ValueError: not one valid input.
        """
        row = self._one_row(x)
        weights = self._weights(row)[0]
        outputs = self._sums(weights[None], row)[0]
        if top is not None and top < 1:
            raise ValueError(f"top: expected a number above 0, got {top}")
        order = np.argsort(-weights, kind="stable")[:top]
        keys, values = self._pairs()[0][order], self._values_at(row)[order]
        labels = self.classes_[values.argmax(1)] if hasattr(self, "classes_") else None
        prediction = self._answers(outputs[None])[0]
        patches = self._repairs().numbers(len(self.prototypes_))[order]
        return AnswerTerms(prediction, outputs, order, weights[order], keys, values, labels, patches)

    def _repairs(self) -> Repairs:
        """Return the patches; none of an estimator that has none."""
        content = getattr(self, "patches_", None)
        return Repairs() if content is None else Repairs.parse(**content, is_classification=hasattr(self, "classes_"))

    @abstractmethod
    def _weights(self, inputs: NDArray[Any]) -> AnyFloats:
        """Return the weights (n, prototypes) for inputs (n, features)."""

    def _sums(self, weights: NDArray[Any], inputs: NDArray[Any]) -> AnyFloats:
        """Return the outputs (n, outputs) for weights (n, prototypes) at inputs (n, features)."""
        return np.asarray(weights @ self._pairs()[1])

    def _values_at(self, row: NDArray[Any]) -> NDArray[Any]:
        """Return the values (prototypes, outputs) at one input (1, features)."""
        return self._pairs()[1]

    def _pairs(self) -> tuple[AnyFloats, NDArray[Any]]:
        """Return keys (prototypes, features) and values (prototypes, outputs)."""
        return self.prototypes_, self.values_

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

    def _get_params_html(self, *args: Any, **kwargs: Any) -> Any:
        """Return the table of parameters in a diagram, of a pipeline too, with the prototypes below it."""
        table = super()._get_params_html(*args, **kwargs)
        inner, drawing = table._repr_html_inner, self._drawing()
        table._repr_html_inner = lambda: inner() + drawing
        return table

    def _drawing(self) -> str:
        if not hasattr(self, "prototypes_"):
            return ""
        from idwbench.estimators.drawing import prototypes_html

        classes, features = (tuple(map(str, getattr(self, name, ()))) for name in ("classes_", "feature_names_in_"))
        image_shape = getattr(self, "image_shape", None)
        return prototypes_html(self.prototypes_, self.values_, classes, image_shape, features)


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


@dataclass(eq=False, repr=False)
class AbstractPrototypeEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MemoryEstimator):  # type: ignore[misc]
    """An estimator with learned prototypes; outputs(x) = Σ_j a_j(x) v_j."""

    n_prototypes: int = 16
    _: KW_ONLY
    method: str = "idw"
    power: float | None = None
    epsilon: float | None = None
    parameters: Mapping[str, Any] | None = None
    slope_rank: int = 0
    initialisation: str = "auto"
    key_bounds: str = "auto"
    key_penalty: float = 0.0
    optimizer: str = "adam_amsgrad"
    learning_rate: float = TABLE_DEFAULTS["learning_rate"]
    schedule: str = "cosine"
    batch_size: int | str = "auto"
    epochs: int | str = "auto"
    momentum: float = 0.0
    weight_decay: float = 0.0
    gradient_clip: float = 0.0
    warmup_epochs: int = 0
    image_shape: tuple[int, int] | None = None
    random_state: Any = None
    warm_start: bool = False

    prototypes_: NDArray[np.float32] = field(init=False)
    n_iter_: int = field(init=False)
    loss_curve_: Floats = field(init=False)
    method_: str = field(init=False)
    parameters_: dict[str, ParameterValue] = field(init=False)
    _training: dict[str, Any] = field(init=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn prototypes from inputs (n, features) and labels (n,), or targets (n,) or (n, outputs).

        Args:
            X: Finite numbers; they are converted to float32.
            y: Labels of any type that can be sorted; or finite numbers, which are standardised for the training.
            sample_weight: (n,), not negative; see `idwbench.estimators.training`.

        Raises:
            ValueError: invalid data or parameters, or the training diverged.
        """
        warm = self.warm_start and hasattr(self, "prototypes_")
        if not warm:
            self.__dict__.pop("prototypes_", None)  # a fit that fails leaves an estimator that is not fitted
        self._train(self._rows(X, y, sample_weight, warm), warm=warm)
        return self

    @abstractmethod
    def _rows(self, X: Any, y: Any, sample_weight: Any, warm: bool) -> Rows:
        """Return valid rows with a weight above 0, with numbers of classes or targets (n, outputs)."""

    def _valid_rows(self, X: Any, y: Any, sample_weight: Any, warm: bool, **checks: Any) -> Rows:
        """Return rows with a weight above 0 and the targets as they are; `checks` are those of `validate_data`."""
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and an error
            X, y = validate_data(self, X, y, dtype=np.float32, order="C", reset=not warm, **checks)
        weights = checked_weights(sample_weight, X)
        return Rows(X, y, None if weights is None else relative(weights)).positive()

    def transform(self, X: Any) -> Floats:
        """Return the attention weights (n, prototypes) of the prototypes for inputs (n, features).

        The softmax of the scores, whose rows sum to 1; with the method ``fc_relu`` max(0, score). Patches come last.
        """
        return self._weights(self._inputs(X))

    def _weights(self, inputs: NDArray[np.float32]) -> Floats:
        base = self._base()
        return self._patches().weights(base, inputs) if hasattr(self, "patches_") else base.weights(inputs)

    def _base(self) -> ArrayNetwork:
        """Return the network without patches."""
        values = np.asarray(self.values_, np.float32)
        return ArrayNetwork(get_method(self.method_), self.parameters_, self.prototypes_, values, self._slopes())

    def _slopes(self) -> dict[str, NDArray[np.float32]]:
        """Return the `SLOPE_ARRAYS` of the values by name; none without slopes."""
        slopes: dict[str, NDArray[np.float32]] = getattr(self, "slopes_", {})
        return slopes

    def _patches(self) -> PatchPrototypes:
        return self._repairs().prototypes(self._base())

    def _sums(self, weights: Floats, inputs: NDArray[np.float32]) -> Floats:
        sums = np.asarray(weights @ self._pairs()[1].astype(np.float64))
        if (slopes := self._base().flat_slopes) is not None:
            sums += slope_terms(weights[:, : len(self.prototypes_)], inputs.astype(np.float64), *slopes)
        return sums

    def _values_at(self, row: NDArray[np.float32]) -> NDArray[Any]:
        values = self._pairs()[1]
        if not self._slopes():
            return values
        rises = self._base().values_at(row[0]) - np.asarray(self.values_, np.float32)
        return values + np.pad(rises, ((0, len(values) - len(rises)), (0, 0)))

    def _pairs(self) -> tuple[AnyFloats, NDArray[Any]]:
        if not hasattr(self, "patches_"):
            return self.prototypes_, self.values_
        patches = self._patches()
        return np.concatenate([self.prototypes_, patches.keys]), np.concatenate([self.values_, patches.values])

    def _outputs(self, X: Any) -> Floats:
        """Return Σ_j a_j v_j, (n, outputs)."""
        inputs = self._inputs(X)
        return self._sums(self._weights(inputs), inputs)

    @property
    def _n_features_out(self) -> int:
        return len(self._pairs()[0])

    def _train(self, rows: Rows, *, warm: bool = False, one_epoch: bool = False) -> None:
        """Train on rows with labels, or targets (n, outputs) in their own units, and set the fitted attributes.

        Args:
            rows: With weights above 0.
            warm: Whether to start from the prototypes of the last training.
            one_epoch: Whether to train one epoch only, and to continue the optimizer if `warm`.
        """
        if self.batch_size == "auto":
            rows = merged(rows, AUTO_BATCH) or rows
        seed = self._training["seed"] if warm and one_epoch else None
        seed = training_seed(self.random_state) if seed is None else seed
        self._check_image_shape()
        parameters = self.get_params(deep=False)
        if warm:  # its rows may be too few for the initialisation, which is not needed
            parameters["initialisation"] = "mean"
        training = parsed_training(parameters, len(rows.inputs), seed)
        start = self._start(training.network) if warm else None
        train = Split(rows.inputs, self._training_targets(rows, warm), weights=mean_one(rows.weights))
        n_classes = len(getattr(self, "classes_", ()))
        try:
            state, losses = train_prototypes(training, train, n_classes, start, one_epoch=one_epoch)
        except ConfigError as error:
            name = "slope_rank" if error.location == ("slope_rank",) else "n_prototypes"
            raise ValueError(f"{name}: {error.problem}") from None
        self.loss_curve_ = np.append(self.loss_curve_ if warm and one_epoch else [], losses)
        self.n_iter_ = len(self.loss_curve_)
        self.method_, self.parameters_ = training.network.method, dict(training.network.parameters)
        self.__dict__.pop("patches_", None)
        self.prototypes_, self._training = state.keys[0].copy(), state._asdict()
        self._set_values(state.values[0], state.slopes_by_name())

    def _start(self, network: PrototypesConfig) -> TrainingState:
        """Return the state of the last training."""
        if len(self.prototypes_) != (n := network.prototypes):
            raise ValueError(
                f"n_prototypes: expected {len(self.prototypes_)}, the number of prototypes so far, got {n}"
            )
        if (rank := _rank(self._slopes())) != network.slope_rank:
            raise ValueError(f"slope_rank: expected {rank}, the rank of slopes so far, got {network.slope_rank}")
        return TrainingState(**self._training)

    def _check_image_shape(self) -> None:
        if self.image_shape is None:
            return
        sizes, expected = tuple(self.image_shape), self.n_features_in_
        if len(sizes) != 2 or sizes[0] * sizes[1] != expected:
            raise ValueError(f"image_shape: expected (height, width) of {expected} pixels, got {self.image_shape}")

    @classmethod
    def _given(
        cls,
        prototypes: Any,
        values: Any,
        slopes: Mapping[str, Any] | None,
        feature_names: Any,
        params: Mapping[str, Any],
    ) -> Self:
        """Return an estimator with the fitted attributes that all have, for given prototypes."""
        given_slopes = _slope_arrays(slopes)
        self = cls(**{"n_prototypes": len(np.asarray(prototypes)), "slope_rank": _rank(given_slopes), **params})
        keys = check_array(prototypes, dtype=np.float32, order="C", input_name="prototypes")
        outputs = check_array(values, dtype=np.float64, order="C", input_name="values")
        if len(keys) != len(outputs):
            raise ValueError(f"values: expected {len(keys)} rows, one for each prototype, got {len(outputs)}")
        _check_slopes(given_slopes, keys, outputs)
        self.n_features_in_ = keys.shape[1]
        if feature_names is not None:
            names = np.asarray(feature_names, dtype=object)
            if names.shape != (keys.shape[1],):
                raise ValueError(f"feature_names: expected {keys.shape[1]} names, got {names.shape}")
            self.feature_names_in_ = names
        self._check_image_shape()
        model = parsed_training({**self.get_params(deep=False), "n_prototypes": len(keys)}, 1, 0).network
        self.method_, self.parameters_ = model.method, dict(model.parameters)
        self.loss_curve_, self.n_iter_ = np.empty(0), 0
        self.n_prototypes, self.prototypes_, self.values_ = len(keys), keys.copy(), outputs.copy()
        if given_slopes:
            self.slopes_ = given_slopes
        # A later training starts from them.
        self._training = TrainingState.start(self.prototypes_, outputs.astype(np.float32), given_slopes)._asdict()
        return self

    def _training_targets(self, rows: Rows, warm: bool) -> NDArray[np.int64] | NDArray[np.float32]:
        """Return the targets in the units of training; unless `warm`, they determine these units."""
        return rows.targets

    def _set_values(self, values: NDArray[np.float32], slopes: Mapping[str, NDArray[np.float32]]) -> None:
        """Set `values_` (prototypes, outputs), and `slopes_` if there are any, from those in the units of training."""
        self.values_ = values.copy()
        self.__dict__.pop("slopes_", None)
        if slopes:
            self.slopes_ = dict(slopes)


def _rank(slopes: Mapping[str, NDArray[np.float32]]) -> int:
    return len(slopes[SLOPE_ARRAYS[0]]) if slopes else 0


def _slope_arrays(slopes: Mapping[str, Any] | None) -> dict[str, NDArray[np.float32]]:
    """Return given slopes as arrays of three axes, none for None or {}; raises `ValueError` for anything else."""
    is_mapping = isinstance(slopes, Mapping)
    if slopes is None or (is_mapping and not slopes):
        return {}
    if not is_mapping or {*slopes} != {*SLOPE_ARRAYS}:
        got = ", ".join(map(str, slopes)) if is_mapping else type(slopes).__name__
        raise ValueError(f"slopes: expected the arrays {' and '.join(SLOPE_ARRAYS)} by name, got {got}")
    arrays = {name: np.asarray(slopes[name], np.float32) for name in SLOPE_ARRAYS}
    for name, part in arrays.items():
        if part.ndim != 3:
            raise ValueError(f"slopes: {name}: expected three axes, with ranks and prototypes first, got {part.shape}")
    return arrays


def _check_slopes(slopes: Mapping[str, NDArray[np.float32]], keys: AnyFloats, values: AnyFloats) -> None:
    """Raise `ValueError` unless slopes, if there are any, fit keys and values and are finite."""
    for name, part in slopes.items():
        columns = (keys if name == SLOPE_ARRAYS[0] else values).shape[1]
        expected = (_rank(slopes), len(keys), columns)
        if part.shape != expected or not np.isfinite(part).all():
            raise ValueError(f"slopes: {name}: expected finite numbers of shape {expected}, got {part.shape}")
