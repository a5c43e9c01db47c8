"""Explanations of kernel regression, whose memory is the training data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.explanations.answers import ExplainedAnswer
from idwbench.explanations.masks import parse_mask
from idwbench.explanations.queries import DatasetInputs, Request, read_query, task_names
from idwbench.explanations.training_rows import training_item
from idwbench.explanations.weighted import WeightedMemory, explain_weighted
from idwbench.models.kernel_regression import KernelRegression, training_values
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.kernel_regression import KernelRegressionConfig
from idwbench.runs.metrics import Metrics

__all__ = ["TRAINING_DATA", "KernelAttention", "explain_kernel_regression"]

TRAINING_DATA = "training_data"


@dataclass(frozen=True)
class KernelAttention:
    """The weights and outputs of kernel regression; without neighbours the output is the mean value."""

    regression: KernelRegression

    def weights(self, queries: NDArray[np.float32]) -> NDArray[np.floating]:
        """Return the weight of each training sample (n, samples); 0 for a query without neighbours."""
        return np.nan_to_num(self.regression.weights(queries))

    def outputs(self, queries: NDArray[np.float32]) -> NDArray[np.floating]:
        """Return class frequencies, or scaled predictions (n, outputs)."""
        found = self.regression.predict(queries)
        mean = self.regression.values.mean(0, dtype=np.float64).astype(found.dtype)
        return np.where(np.isnan(found), mean, found)

    def without(self, where: NDArray[np.bool_]) -> KernelAttention:
        """Return the same without some training samples (samples,), with the same bandwidth."""
        return KernelAttention(
            replace(self.regression, keys=self.regression.keys[~where], values=self.regression.values[~where])
        )


def explain_kernel_regression(
    config: RunConfig, metrics: Metrics, dataset: Dataset, request: Request
) -> ExplainedAnswer:
    """Return the training samples behind an answer.

    Args:
        config: The run.
        metrics: Its metrics, which hold the parameters that a rule chose.
        dataset: The data of the run.
        request: What to explain.

    Raises:
        ExplanationError: the input or the mask is not valid.
        DatasetError: the data set in `x` cannot be loaded.
    """
    names = task_names(config)
    query = read_query(request, DatasetInputs(config, dataset))
    mask = parse_mask(request.masks, dataset.class_names, names, f"the data set {config.dataset_label}")
    attention = KernelAttention(_regression(config, metrics, dataset))
    memory = WeightedMemory(
        model=config.model.label,
        kind="training data",
        layer=TRAINING_DATA,
        attends=attention,
        values=attention.regression.values,
        item=lambda row: training_item(config, dataset, row),
        class_names=dataset.class_names,
        image_shape=dataset.image_shape,
        target_scaling=dataset.target_scaling,
        tasks=dataset.train.tasks,
        outputs_are_frequencies=True,
    )
    is_alone = not memory.attends.weights(query.inputs[None]).any()
    explained = explain_weighted(memory, query, 0 if is_alone else request.top, mask, (dataset, ""), names)
    if not is_alone:
        return explained
    alone = "no training sample is within the bandwidth: the answer is the mean of all"
    return replace(explained, warnings=(*explained.warnings, alone))


def _regression(config: RunConfig, metrics: Metrics, dataset: Dataset) -> KernelRegression:
    """Return the regression with the bandwidth that the run has used."""
    model = config.model
    assert isinstance(model, KernelRegressionConfig)
    stored: Mapping[str, float] = {name: value for (split, name), value in metrics.items() if split == "train"}
    parameters = {
        name: stored.get(name, value) if isinstance(value, str) else value for name, value in model.parameters.items()
    }
    return KernelRegression.of(model.kernel, parameters, dataset.train.inputs, training_values(dataset))
