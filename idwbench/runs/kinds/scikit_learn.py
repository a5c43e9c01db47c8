"""The settings of runs with scikit-learn's methods, and the registry of these: tasks and parameters of each.

Defaults are scikit-learn's. Parameters have scikit-learn's names, but for ``shrinkage``: its ``learning_rate`` is a
setting of the protocol here.
"""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from idwbench.attention.records import Parameter, ParameterValue, Record, find_record, parameters_label
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.dataset_base import DatasetConfig, Task
from idwbench.runs.kinds.base import ModelSettings, NoPlugin, NoPrototypes

__all__ = ["SCIKIT_LEARN_METHODS", "ScikitLearnConfig", "ScikitLearnMethod", "get_scikit_learn_method"]


@dataclass(frozen=True)
class ScikitLearnMethod(Record):
    """One method; its formula is what it is in words.

    Attributes:
        estimators: Module and class of scikit-learn for each task that it supports.
        counterpart: The method for the other task, if this supports one.
        is_deterministic: Whether the seed does not affect the result.
        scale_free: Whether standardised inputs give the same predictions.
    """

    estimators: Mapping[Task, str] = field(hash=False)
    counterpart: str = ""
    is_deterministic: bool = True
    scale_free: bool = False


_whole = partial(Parameter, minimum=1, maximum=2**31 - 1, whole=True)
_above_0 = partial(Parameter, minimum=0.0, exclusive=True)
_K = _whole("n_neighbors", 5.0, "k")
_WEIGHTS = Parameter("weights", "uniform", choices=("uniform", "distance"))
_MAX_DEPTH = _whole("max_depth", "none", words=("none",))
_KERNEL = (
    _above_0("C", 1.0),
    Parameter("kernel", "rbf", choices=("rbf", "linear", "poly", "sigmoid")),
    Parameter("gamma", "scale", minimum=0.0, words=("scale", "auto")),
    _whole("degree", 3.0, minimum=0),
    Parameter("coef0", 0.0),
    _above_0("tol", 1e-3),
)
_OF_KERNELS = {
    "gamma": ("kernel", ("rbf", "poly", "sigmoid")),
    "degree": ("kernel", ("poly",)),
    "coef0": ("kernel", ("poly", "sigmoid")),
}

# In the order of tables.
SCIKIT_LEARN_METHODS: dict[str, ScikitLearnMethod] = {
    method.name: method
    for method in (
        ScikitLearnMethod(
            "knn",
            "k nearest neighbours",
            {"classification": "neighbors.KNeighborsClassifier", "regression": "neighbors.KNeighborsRegressor"},
            parameters=(
                *(_K, _WEIGHTS, Parameter("metric", "minkowski", choices=("minkowski", "chebyshev", "cosine"))),
                Parameter("p", 2.0, minimum=1.0, maximum=1e6),
            ),
            labelled=("n_neighbors",),
            needs={"p": ("metric", ("minkowski",))},
        ),
        ScikitLearnMethod(
            "nearest_centroid",
            "the nearest class mean",
            {"classification": "neighbors.NearestCentroid"},
            parameters=(
                Parameter("metric", "euclidean", choices=("euclidean", "manhattan")),
                _above_0("shrink_threshold", "none", words=("none",)),
            ),
            labelled=(),
        ),
        ScikitLearnMethod(
            "nca_knn",
            "neighborhood components analysis, then k nearest neighbours",
            {"classification": "neighbors.KNeighborsClassifier"},
            parameters=(
                *(_K, _WEIGHTS, _whole("n_components", "none", words=("none",))),
                Parameter("init", "auto", choices=("auto", "pca", "lda", "identity", "random")),
                *(_whole("max_iter", 50.0), _above_0("tol", 1e-5)),
            ),
            labelled=("n_neighbors",),
            is_deterministic=False,
        ),
        ScikitLearnMethod(
            "svc",
            "a support vector machine",
            {"classification": "svm.SVC"},
            parameters=(*_KERNEL, Parameter("class_weight", "none", choices=("none", "balanced"))),
            labelled=("C", "kernel"),
            needs=_OF_KERNELS,
            counterpart="svr",
        ),
        ScikitLearnMethod(
            "svr",
            "support vector regression",
            {"regression": "svm.SVR"},
            parameters=(*_KERNEL, Parameter("epsilon", 0.1, "ε", minimum=0.0)),
            labelled=("C", "kernel"),
            needs=_OF_KERNELS,
            counterpart="svc",
        ),
        ScikitLearnMethod(
            "logistic_regression",
            "logistic regression",
            {"classification": "linear_model.LogisticRegression"},
            parameters=(
                *(_above_0("C", 1.0), _whole("max_iter", 100.0), _above_0("tol", 1e-4)),
                *(
                    Parameter("solver", "lbfgs", choices=("lbfgs", "newton-cg", "newton-cholesky")),
                    Parameter("class_weight", "none", choices=("none", "balanced")),
                ),
            ),
            labelled=("C",),
            counterpart="ridge",
        ),
        ScikitLearnMethod(
            "ridge",
            "ridge regression",
            {"regression": "linear_model.Ridge"},
            parameters=(Parameter("alpha", 1.0, "α", minimum=0.0),),
            labelled=("alpha",),
            counterpart="logistic_regression",
        ),
        ScikitLearnMethod(
            "linear_regression",
            "linear regression by least squares",
            {"regression": "linear_model.LinearRegression"},
            labelled=(),
            counterpart="logistic_regression",
            scale_free=True,
        ),
        ScikitLearnMethod(
            "random_forest",
            "a random forest",
            {"classification": "ensemble.RandomForestClassifier", "regression": "ensemble.RandomForestRegressor"},
            parameters=(
                *(_whole("n_estimators", 100.0), _MAX_DEPTH),
                # `default` is sqrt for classes and all for numbers; a number is a fraction of the features.
                _above_0("max_features", "default", maximum=1.0, words=("default", "sqrt", "log2", "all")),
                *(_whole("min_samples_split", 2.0, minimum=2), _whole("min_samples_leaf", 1.0)),
                *(
                    _whole("max_leaf_nodes", "none", minimum=2, words=("none",)),
                    Parameter("bootstrap", "true", choices=("true", "false")),
                ),
            ),
            labelled=("n_estimators",),
            is_deterministic=False,
            scale_free=True,
        ),
        ScikitLearnMethod(
            "hist_gradient_boosting",
            "gradient boosting of trees on histograms",
            {
                "classification": "ensemble.HistGradientBoostingClassifier",
                "regression": "ensemble.HistGradientBoostingRegressor",
            },
            parameters=(
                *(_above_0("shrinkage", 0.1), _whole("max_iter", 100.0)),
                *(_whole("max_leaf_nodes", 31.0, minimum=2, words=("none",)), _MAX_DEPTH),
                *(_whole("min_samples_leaf", 20.0), Parameter("l2_regularization", 0.0, minimum=0.0)),
                _above_0("max_features", 1.0, maximum=1.0),
                Parameter("max_bins", 255.0, minimum=2.0, maximum=255.0, whole=True),
                Parameter("early_stopping", "auto", choices=("auto", "true", "false")),
            ),
            labelled=("shrinkage", "max_iter"),
            is_deterministic=False,
            scale_free=True,
        ),
    )
}


def get_scikit_learn_method(name: object) -> ScikitLearnMethod:
    """Return the method of that name.

    Raises:
        ConfigError: it is missing (None) or unknown.
    """
    if name is None:
        raise ConfigError("'method' is missing", hint=did_you_mean("", SCIKIT_LEARN_METHODS))
    return find_record(SCIKIT_LEARN_METHODS, name, "method")


class ScikitLearnConfig(NoPrototypes, NoPlugin, ModelSettings):
    """A classifier or regressor of scikit-learn, fitted to the scaled inputs of the data set.

    `parameters` holds every parameter of the method that is used, defaults included.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"method": "knn"}

    kind: Literal["scikit_learn"] = "scikit_learn"
    method: str = Field(description="Method of scikit-learn.")
    parameters: dict[str, ParameterValue]
    standardise: bool = Field(
        default=False, description="Whether each feature is standardised, after the scaling of the data set."
    )
    evaluate_train: bool = Field(
        default=True,
        description="Whether metrics of the training rows are computed, which takes long with many neighbours.",
    )

    @property
    def definition(self) -> ScikitLearnMethod:
        """The record of the method."""
        return get_scikit_learn_method(self.method)

    @property
    def is_deterministic(self) -> bool:
        """Whether the seed does not affect the result."""
        return self.definition.is_deterministic

    @property
    def usual_parameters(self) -> dict[str, ParameterValue]:
        """The defaults of parameters that labels leave out."""
        method = self.definition
        return {p.name: p.default for p in method.parameters if p.name not in (method.labelled or ())}

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables: the main ones, and those that differ from their default."""
        words = [parameters_label(self.definition, self.parameters), "standardised" if self.standardise else ""]
        return ", ".join(filter(None, words))

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` for a text, a sequence, or a task that the method does not support."""
        super().check_dataset(dataset)
        if dataset.task not in self.definition.estimators:
            known = {"classification": "has classes", "regression": "is a regression", "lookup": "is a lookup"}
            problem = f"{self.method} supports {' and '.join(self.definition.estimators)}, and {dataset.name} "
            hint = f"choose {self.definition.counterpart}" if self.definition.counterpart else ""
            raise ConfigError(
                problem + known[dataset.task], location=("method",), hint="" if dataset.task == "lookup" else hint
            )

    @classmethod
    def completed(cls, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with all parameters of the method."""
        return {**fields, "parameters": get_scikit_learn_method(fields.get("method")).resolve(given)}

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` for inputs that are standardised for a method that they do not affect."""
        if self.standardise and self.definition.scale_free:
            problem = f"the predictions of {self.method} do not depend on the scale of the features"
            raise ConfigError(problem, location=("standardise",), hint="give it a block of its own")
