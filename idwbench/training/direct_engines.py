"""The engines of models without epochs: baselines, kernel regression, and scikit-learn's methods."""

from __future__ import annotations

import time

import numpy as np

from idwbench.data.dataset import Dataset
from idwbench.models.initialisation import baseline_prototypes, check_prototypes
from idwbench.models.kernel_regression import KernelRegression, training_values
from idwbench.models.neighbours import nearest
from idwbench.models.scikit_learn import FittedEstimator, check_data, make_estimator
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.baseline import BaselineConfig
from idwbench.runs.kinds.kernel_regression import KernelRegressionConfig
from idwbench.runs.kinds.scikit_learn import ScikitLearnConfig
from idwbench.training.engine import Context, Fitted, one_by_one
from idwbench.training.threads import limited_threads

__all__ = ["ENGINES"]


def _fit_baseline(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Return prototypes from k-means, or random training inputs.

    Raises:
        ConfigError: more prototypes than training inputs; for ``kmeans``, than distinct ones, or than clusters that
            k-means can separate.
    """
    assert isinstance(config.model, BaselineConfig)
    keys, values = baseline_prototypes(config.model, dataset, config.seed)
    metrics: dict[tuple[str, str], float] = {}
    for name, split in dataset.splits.items():
        metrics |= dataset.metrics(name, values[nearest(split.inputs, keys)[0]])
    return Fitted(metrics, {"keys": keys, "values": values}, keys.size + values.size)


def _fit_kernel_regression(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Predict every split from the training data.

    Raises:
        ConfigError: a rule finds no bandwidth, since all training inputs are equal.
    """
    model = config.model
    assert isinstance(model, KernelRegressionConfig)
    values = training_values(dataset)
    memory = KernelRegression.of(model.kernel, model.parameters, dataset.train.inputs, values, order=model.order)
    # The prediction without neighbours: class frequencies, or the mean target.
    mean = values.mean(0, dtype=np.float64).astype(np.float32)
    chosen = [name for name, value in model.parameters.items() if isinstance(value, str)]
    shown = [name for name in memory.parameters if name in (*chosen, "bandwidth")]
    metrics = {("train", name): memory.parameters[name] for name in shown}
    for name, split in dataset.splits.items():
        outputs = memory.predict(split.inputs)
        missing = np.isnan(outputs[:, 0])
        outputs[missing] = mean
        metrics |= dataset.metrics(name, outputs)
        metrics[name, "queries_without_neighbours"] = float(missing.sum())
    return Fitted(metrics, {}, len(chosen))


def _fit_scikit_learn(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Fit one method on one thread and measure it; times are processor time of this thread."""
    model = config.model
    assert isinstance(model, ScikitLearnConfig)
    metrics: dict[tuple[str, str], float] = {}
    estimator = make_estimator(model, dataset.task, dataset.n_outputs, config.seed)
    # A limit that is set outside does not hold for the OpenMP of another thread.
    with limited_threads(1):
        begun = time.thread_time()
        fitted = FittedEstimator(model, estimator, dataset)
        metrics["train", "fit_seconds"] = time.thread_time() - begun
        for name, split in dataset.splits.items():
            if name == "train" and not model.evaluate_train:
                continue
            begun = time.thread_time()
            outputs = fitted.outputs(split.inputs)
            metrics[name, "predict_seconds"] = time.thread_time() - begun
            metrics |= dataset.metrics(name, outputs)
    if fitted.converged is not None:
        metrics["train", "converged"] = float(fitted.converged)
    return Fitted(metrics, fitted.arrays, fitted.n_parameters)


ENGINES = {
    "baseline": one_by_one("baseline", _fit_baseline, check=check_prototypes),
    "kernel_regression": one_by_one("kernel_regression", _fit_kernel_regression),
    "scikit_learn": one_by_one("scikit_learn", _fit_scikit_learn, check=check_data),
}
