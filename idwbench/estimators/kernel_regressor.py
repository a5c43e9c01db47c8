"""`KernelRegressor`: kernel regression, whose prototypes are the training data."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from idwbench.attention.kernels import get_kernel
from idwbench.errors import ConfigError
from idwbench.estimators.prototypes import MemoryRegressor
from idwbench.estimators.training import Rows, checked_weights, merged, plain, relative
from idwbench.models.array_weights import AnswerTerms
from idwbench.models.kernel_regression import KernelRegression
from idwbench.models.neighbours import SquaredDistances

__all__ = ["KernelRegressor"]

Floats = NDArray[np.floating[Any]]

_FALLBACKS = ("nearest", "mean", "nan")


@dataclass(eq=False, repr=False)
class KernelRegressor(MemoryRegressor):
    """Kernel regression: ŷ(x) = Σ_j w_j K(‖x − x_j‖) y_j / Σ_j w_j K(‖x − x_j‖) over the training data.

    Nadaraya (1964), Watson (1964); with the kernel ``shepard`` the interpolation of Shepard (1968). The weights w are
    those of the samples.

    Args:
        kernel: ``gaussian`` exp(−d²/(2h²)), ``boxcar`` 1{d ≤ h}, ``triangular`` max(0, 1 − d/h), ``epanechnikov``
            max(0, 1 − d²/h²), or ``shepard`` 1/(ε + d^p).
        bandwidth: h > 0 in the units of the inputs; ``scott`` for Scott's rule, or ``loo`` for leave-one-out
            cross-validation. ``shepard`` has none and ignores it.
        power: p > 0 of ``shepard``, or ``loo``.
        epsilon: ε ≥ 0 of ``shepard``; with 0, an input that equals training inputs gets the mean of their targets.
        order: 1 for local linear regression: the value at x of the plane that fits the training data best under the
            weights, see `idwbench.models.local_linear`. With several features it needs wider bandwidths than Scott's.
        fallback: Prediction for an input without neighbours, whose weights are all 0: ``nearest``, the mean target of
            the nearest training inputs, ``mean``, that of all, or ``nan``.

    Attributes:
        prototypes_: The training inputs, (n, features).
        values_: Their targets, (n, outputs).
        weights_: Their sample weights, (n,), or None.
        parameters_: The numbers of the kernel's parameters, such as the chosen ``bandwidth``.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, if the inputs had names.

    Example:
        >>> import numpy as np
        >>> from idwbench import KernelRegressor
        >>> X = np.linspace(0, 1, 11)[:, None]
        >>> KernelRegressor(bandwidth=0.1).fit(X, X[:, 0] ** 2).predict([[0.5]]).round(2)
        array([0.26])
    """

    kernel: str = "gaussian"
    _: KW_ONLY
    bandwidth: float | str = "scott"
    power: float | str = 2.0
    epsilon: float = 0.0
    fallback: str = "nearest"
    order: int = 0

    weights_: Floats | None = field(init=False)
    parameters_: dict[str, float] = field(init=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Store inputs (n, features) and targets (n,) or (n, outputs), and choose the bandwidth.

        The computation is in float32 if the inputs are, otherwise in float64. Whole sample weights count as so many
        copies of a row; otherwise weights are divided by their mean before they count.

        Raises:
            ValueError: invalid data or parameters, or the inputs allow no such choice of a bandwidth.
        """
        self.__dict__.pop("prototypes_", None)  # a fit that fails leaves an estimator that is not fitted
        if self.fallback not in _FALLBACKS:
            raise ValueError(f"fallback: expected one of {', '.join(_FALLBACKS)}, got {self.fallback!r}")
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        self._one_dimensional = y.ndim == 1
        weights = _copies(checked_weights(sample_weight, X))
        rows = Rows(X, np.asarray(y, X.dtype).reshape(len(y), -1), weights).positive()
        try:
            memory = self._fitted_memory(rows)
        except ConfigError as error:
            raise ValueError(error.render(".".join(map(str, error.location)))) from None
        self.prototypes_, self.values_, self.weights_ = memory.keys, memory.values, memory.row_weights
        self.parameters_ = dict(memory.parameters)
        return self

    def _fitted_memory(self, rows: Rows) -> KernelRegression:
        """Return the regression with copies of the rows, and with numbers for parameters that are rules."""
        kernel = get_kernel(self.kernel)
        parameters = kernel.resolve({p.name: plain(getattr(self, p.name)) for p in kernel.parameters})
        if (rows.inputs == rows.inputs[0]).all():  # the rules need distinct inputs, and any number will do
            numbers = {p.name: p.default for p in kernel.parameters}
            parameters = {name: numbers[name] if isinstance(v, str) else v for name, v in parameters.items()}
        if "loo" in parameters.values():
            rows = merged(rows, len(rows.inputs)) or rows  # the search depends on the order of rows
        weights = None if rows.weights is None else rows.weights.astype(rows.inputs.dtype)
        arrays = np.array(rows.inputs), np.array(rows.targets), weights
        return KernelRegression.of(self.kernel, parameters, *arrays, order=plain(self.order))

    def predict(self, X: Any) -> Floats:
        """Return estimates (n,) or (n, outputs), in the shape of the targets, for inputs (n, features)."""
        memory, queries = self._memory(), self._inputs(X)
        estimates = memory.predict(queries)
        missing = np.flatnonzero(np.isnan(estimates[:, 0]))
        if missing.size and self.fallback == "mean":
            estimates[missing] = np.average(self.values_, axis=0, weights=self.weights_)
        elif missing.size and self.fallback == "nearest":
            estimates[missing] = self._nearest_weights(queries[missing]) @ self.values_
        return self._answers(estimates)

    def explain(self, x: Any, *, top: int | None = 10) -> AnswerTerms:
        """Return the training inputs with the largest weights in the answer to one input.

        Args:
            x: (features,), of any shape with as many numbers, or a data frame of one row.
            top: How many training inputs; None for all.

        Raises:
            ValueError: not one valid input, or one without neighbours and the fallback is not ``nearest``.
        """
        return super().explain(x, top=top)

    def _weights(self, inputs: Floats) -> Floats:
        weights = self._memory().weights(inputs)
        if np.isnan(weights).any():
            if self.fallback != "nearest":
                raise ValueError("x: no training input has a weight for this input")
            weights = self._nearest_weights(inputs)
        return weights

    def _memory(self) -> KernelRegression:
        check_is_fitted(self, "prototypes_")
        return KernelRegression(
            get_kernel(self.kernel), self.parameters_, self.prototypes_, self.values_, self.weights_, self.order
        )

    def _nearest_weights(self, queries: Floats) -> Floats:
        """Return the weights (queries, n) that the nearest training inputs share."""
        weights = np.empty((len(queries), len(self.prototypes_)), self.prototypes_.dtype)
        for rows, sq_dist in SquaredDistances(self.prototypes_).blocks(queries):
            weights[rows] = sq_dist <= sq_dist.min(1, keepdims=True)
        if self.weights_ is not None:
            weights *= self.weights_
        return np.asarray(weights / weights.sum(1, keepdims=True))


def _copies(weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Return whole weights as they are, and others, or more copies than float64 counts, divided by their mean."""
    if weights is None or ((weights == np.round(weights)).all() and weights.max() <= 2**53):
        return weights
    weights = relative(weights)
    return np.asarray(weights / weights[weights > 0].mean())
