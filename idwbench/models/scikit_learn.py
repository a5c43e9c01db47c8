"""scikit-learn's estimators for the settings of runs, their predictions, and what they learn."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.records import ParameterValue
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.machine import check_memory
from idwbench.runs.dataset_base import Task
from idwbench.runs.kinds.scikit_learn import ScikitLearnConfig

__all__ = ["FittedEstimator", "check_data", "make_estimator"]

# The names and words of settings for those of scikit-learn.
_NAMES = {"shrinkage": "learning_rate"}
_WORDS: dict[ParameterValue, object] = {"none": None, "all": None, "true": True, "false": False}


def check_data(model: ScikitLearnConfig, dataset: Dataset) -> None:
    """Check that the training data is enough for a method.

    Raises:
        ConfigError: fewer than two classes; more neighbours than training rows, more components than features, no class
            of two rows for class means, a class of one row if some are put aside to stop early, or more pairs of rows
            for an analysis of neighbourhoods than memory holds.
    """
    n, chosen = len(dataset.train), model.parameters
    if model.method == "nca_knn":  # three float64 arrays of pairs: distances, their softmax, and its part of the class
        check_memory(3 * 8 * n * n, model.label, ConfigError)
    for name, most, which in (("n_neighbors", n, "training rows"), ("n_components", dataset.n_features, "features")):
        value = chosen.get(name, 0.0)
        if not isinstance(value, str) and value > most:
            problem = f"expected at most {most}, the number of {which}, got {int(value)}"
            raise ConfigError(problem, location=(name,))
    if dataset.task == "regression":
        return
    sizes = [len(rows) for rows in dataset.groups]
    present = [size for size in sizes if size]
    if len(present) < 2 and model.method != "knn":
        problem = f"{model.method} needs training rows of at least two classes, got {len(present)}"
        raise ConfigError(problem, location=("method",))
    if model.method == "nearest_centroid" and n == len(present):
        raise ConfigError("nearest_centroid needs a class of two training rows", location=("method",))
    puts_aside = chosen.get("early_stopping") == "true" or (chosen.get("early_stopping") == "auto" and n > 10_000)
    if puts_aside and min(present) < 2:
        name = dataset.class_names[sizes.index(1)]
        problem = f"needs two training rows of each class, and '{name}' has one"
        raise ConfigError(problem, location=("early_stopping",), hint="choose false")


def make_estimator(model: ScikitLearnConfig, task: Task, n_outputs: int, seed: int) -> Any:
    """Return the estimator that is not fitted: a pipeline if there are several steps.

    Args:
        model: Its settings.
        task: ``classification`` or ``regression``.
        n_outputs: Number of targets of a regression; methods with one target are fitted once for each.
        seed: The ``random_state`` of methods that have one.
    """
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.neighbors import NeighborhoodComponentsAnalysis
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    method = model.definition
    chosen = _arguments(model) | ({} if method.is_deterministic else {"random_state": seed})
    module, name = method.estimators[task].split(".")
    make = getattr(import_module(f"sklearn.{module}"), name)
    steps = [StandardScaler()] if model.standardise else []
    if method.name == "nca_knn":
        search = {name: chosen.pop(name) for name in ("n_neighbors", "weights")}
        steps += [NeighborhoodComponentsAnalysis(**chosen), make(**search)]
    elif task == "regression" and n_outputs > 1 and method.name in ("svr", "hist_gradient_boosting"):
        steps.append(MultiOutputRegressor(make(**chosen)))
    else:
        steps.append(make(**chosen))
    return make_pipeline(*steps) if len(steps) > 1 else steps[0]


def _arguments(model: ScikitLearnConfig) -> dict[str, Any]:
    """Return the parameters of a model under the names and with the values of scikit-learn, without its defaults."""
    arguments: dict[str, Any] = {}
    for parameter in model.definition.parameters:
        value = model.parameters.get(parameter.name, "default")
        if value != "default":
            number = int(value) if parameter.whole and not isinstance(value, str) else value
            arguments[_NAMES.get(parameter.name, parameter.name)] = _WORDS.get(value, number)
    return arguments


class FittedEstimator:
    """The estimator of a model, fitted to the scaled training inputs, and to labels or scaled targets."""

    def __init__(self, model: ScikitLearnConfig, estimator: Any, dataset: Dataset) -> None:
        from sklearn.exceptions import ConvergenceWarning

        self.model, self.estimator, self.dataset = model, estimator, dataset
        targets = dataset.train.targets
        if dataset.task == "regression" and dataset.n_outputs == 1:
            targets = targets[:, 0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a metric says it
            # Of class means: a constant pixel does not matter to distances.
            warnings.filterwarnings("ignore", "self.within_class_std_dev_", UserWarning)
            estimator.fit(dataset.train.inputs, targets)

    def outputs(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return (n, outputs) for scaled inputs (n, features): 1 for the predicted class, or scaled predictions."""
        predicted = self.estimator.predict(inputs)
        if self.dataset.task == "classification":
            one_hot: NDArray[np.float32] = np.eye(self.dataset.n_outputs, dtype=np.float32)[predicted]
            return one_hot
        return np.asarray(predicted, np.float32).reshape(len(inputs), self.dataset.n_outputs)

    @property
    def _last(self) -> Any:
        return self.estimator[-1] if hasattr(self.estimator, "steps") else self.estimator

    @property
    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Class means as keys (classes, features) in the units of scaled data, with one-hot values; none of others."""
        if self.model.method != "nearest_centroid":
            return {}
        keys = self._last.centroids_
        if self.model.standardise:
            keys = self.estimator[0].inverse_transform(keys)
        values = np.eye(self.dataset.n_outputs, dtype=np.float32)[self._last.classes_]
        return {"keys": np.ascontiguousarray(keys, np.float32), "values": values}

    @property
    def n_parameters(self) -> int | None:
        """Number of learned numbers: coefficients, class means, projections, or nodes of trees.

        None for gradient boosting, which does not show its trees. Training rows that are kept are not counted.
        """
        last, method = self._last, self.model.method
        parts = last.estimators_ if method == "svr" and hasattr(last, "estimators_") else [last]
        if method == "nearest_centroid":
            return sum(array.size for array in self.arrays.values())
        if method == "nca_knn":
            return int(self.estimator[-2].components_.size)
        if method in ("svc", "svr"):
            return sum(int(part.dual_coef_.size + np.size(part.intercept_)) for part in parts)
        if method == "random_forest":
            return sum(int(tree.tree_.node_count) for tree in last.estimators_)
        if method == "hist_gradient_boosting":
            return None
        return 0 if method == "knn" else int(last.coef_.size + np.size(last.intercept_))

    @property
    def converged(self) -> bool | None:
        """Whether an optimisation ended before its largest number of iterations; None for a method without one."""
        if self.model.method == "logistic_regression":
            return bool(np.max(self._last.n_iter_) < self._last.max_iter)
        if self.model.method == "nca_knn":
            return bool(self.estimator[-2].n_iter_ < self.estimator[-2].max_iter)
        return None
