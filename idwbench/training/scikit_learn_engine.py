"""The engine of scikit-learn's methods: one fit, and predictions on every split."""

from __future__ import annotations

import time

from idwbench.data.dataset import Dataset
from idwbench.models.scikit_learn import check_data, fit, make_estimator
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.scikit_learn import ScikitLearnConfig
from idwbench.runs.results import RunResult
from idwbench.training.engine import SingleRunEngine
from idwbench.training.threads import limited_threads

__all__ = ["ScikitLearnEngine"]


class ScikitLearnEngine(SingleRunEngine):
    """Fits the runs of kind ``scikit_learn``, one after the other and each on one thread."""

    name = "scikit_learn"

    @classmethod
    def check(cls, config: RunConfig, dataset: Dataset) -> None:
        """Raise `ConfigError` if the training data is not enough for the method."""
        assert isinstance(config.model, ScikitLearnConfig)
        check_data(config.model, dataset)

    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return 1: a fit may take long, and is stored at once."""
        return 1

    def train_one(self, config: RunConfig, dataset: Dataset) -> RunResult:
        """Fit one method and measure it; times are processor time of this thread."""
        started = time.perf_counter()
        model = config.model
        assert isinstance(model, ScikitLearnConfig)
        metrics: dict[tuple[str, str], float] = {}
        estimator = make_estimator(model, dataset.task, dataset.n_outputs, config.seed)
        # A limit that is set outside does not hold for the OpenMP of another thread.
        with limited_threads(1):
            begun = time.thread_time()
            fitted = fit(model, estimator, dataset)
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
        return RunResult(
            config=config,
            state="complete",
            curve=(),
            metrics=metrics,
            arrays=fitted.arrays,
            n_parameters=fitted.n_parameters,
            diverged_epoch=None,
            seconds=time.perf_counter() - started,
            engine=self.name,
            device="cpu",
            threads=1,
        )
