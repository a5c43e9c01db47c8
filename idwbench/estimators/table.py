"""A table as inputs of an estimator: `TableEncoder`; and explanations within a pipeline in the units of its inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from idwbench.data.columns import Columns
from idwbench.data.frames import coded_frame
from idwbench.errors import DatasetError
from idwbench.estimators.prototypes import MemoryEstimator
from idwbench.models.array_weights import AnswerTerms

__all__ = ["TableEncoder", "explain_pipeline", "patch_pipeline"]


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer of data frames with numbers, categories and missing values, as ``idwbench train`` reads a table.

    Numbers are standardised, a category becomes a feature of 0 and 1 for each category, and a missing value the median
    or the most frequent category of the rows that it was fitted to.

    Attributes:
        columns_: Names, categories, and what stands for missing values.
        mean_, scale_: (features,), of numbers; 0 and 1 for categories.
        feature_names_in_: The names of the columns.
        n_features_in_: Their number.
    """

    columns_: Columns
    mean_: NDArray[np.float64]
    scale_: NDArray[np.float64]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns of a data frame; `y` is ignored.

        Raises:
            ValueError: no data frame, or a column of dates, remarks or without a value.
        """
        if not hasattr(X, "iloc"):
            raise ValueError(f"X: expected a data frame of pandas, got {type(X).__name__}")
        try:
            columns, codes = coded_frame(X)
            self.columns_ = columns.fitted(codes)
        except DatasetError as error:
            raise ValueError(str(error)) from None
        features, is_number = self.columns_.encode(codes), ~self.columns_.is_category
        spreads = features.std(0)
        self.mean_ = features.mean(0) * is_number
        self.scale_ = np.where(is_number & (spreads > 0), spreads, 1.0)
        self.feature_names_in_ = np.array(self.columns_.names, dtype=object)
        self.n_features_in_ = len(self.columns_)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the features (n, features) of a data frame, whose columns may have any order.

        Raises:
            ValueError: a column is missing or unknown, or a value is no number or of no known category.
        """
        check_is_fitted(self, "columns_")
        if not hasattr(X, "iloc"):
            raise ValueError(f"X: expected a data frame of pandas, got {type(X).__name__}")
        if missing := [name for name in self.columns_.names if name not in X.columns]:
            raise ValueError(f"X: has no column {missing[0]!r}")
        try:
            features = [self.columns_.row(row) for row in X[list(self.columns_.names)].to_dict("records")]
        except DatasetError as error:
            raise ValueError(str(error)) from None
        return (np.array(features).reshape(len(X), -1) - self.mean_) / self.scale_

    def inverse_transform(self, X: Any) -> Any:
        """Return a data frame in original units for features (n, features); of categories the largest."""
        import pandas as pd

        check_is_fitted(self, "columns_")
        own = np.asarray(X, np.float64) * self.scale_ + self.mean_
        table = {}
        for column in self.columns_.columns:
            part = own[:, self.columns_.slices[column.name]]
            table[column.name] = [column.text(row) for row in part] if column.categories else part[:, 0]
        return pd.DataFrame(table)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features: ``bill_length_mm``, ``island=Biscoe``."""
        return np.array(self.columns_.features, dtype=object)


def explain_pipeline(pipeline: Pipeline, x: Any, *, top: int | None = None) -> AnswerTerms:
    """Return the weight of each prototype in the answer of a pipeline to one input, with keys in its original units.

    Args:
        pipeline: Fitted; its last step is an estimator of idwbench.
        x: One row as the pipeline takes it: an array (1, features), or a data frame of one row.
        top: How many prototypes; all if left out.

    Raises:
        ValueError: another last step, not one valid input, or a transformer without ``inverse_transform``.
    """
    model, before = _steps(pipeline)
    terms: AnswerTerms = model.explain(before.transform(x), top=top)
    if not hasattr(before, "inverse_transform"):
        raise ValueError("pipeline: a transformer has no inverse_transform; TableEncoder has one")
    return replace(terms, keys=before.inverse_transform(terms.keys))


def patch_pipeline(
    pipeline: Pipeline, x: Any, label: Any, *, X: Any = None, y: Any = None, **settings: Any
) -> Pipeline:
    """Return a pipeline whose classifier predicts `label` for the input `x`; the one that is given is unchanged.

    Arguments and errors are those of `PrototypeClassifier.patch`, with inputs as the pipeline takes them; a radius is
    in the units of the transformed inputs.
    """
    model, before = _steps(pipeline)
    if not hasattr(model, "patch"):
        raise ValueError(f"pipeline: {type(model).__name__} cannot be patched")
    rows = None if X is None else before.transform(X)
    patched = model.patch(before.transform(x), label, X=rows, y=y, **settings)
    return Pipeline([*pipeline.steps[:-1], (pipeline.steps[-1][0], patched)])


def _steps(pipeline: Pipeline) -> tuple[Any, Pipeline]:
    """Return the estimator of idwbench at the end of a pipeline, and the steps before it."""
    model = pipeline[-1]
    if not isinstance(model, MemoryEstimator) or len(pipeline) < 2:
        raise ValueError("pipeline: expected transformers and an estimator of idwbench as the last step")
    return model, pipeline[:-1]
