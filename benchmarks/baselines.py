"""What fits and predictions cost: scikit-learn's methods and prototypes on the data sets of the sweep `baselines`.

Processor time on one thread. Prediction is that of the test rows, by torch for networks of prototypes. Their training
includes the metrics of each epoch, which scikit-learn's methods do not have.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from benchmarks.tables import header, row
from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.models.initialisation import baseline_prototypes
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.neighbours import nearest
from idwbench.models.scikit_learn import FittedEstimator, make_estimator
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.baseline import BaselineConfig
from idwbench.runs.kinds.scikit_learn import ScikitLearnConfig
from idwbench.sweep.spec import plan, read_sweep
from idwbench.training import fused_engine
from idwbench.training.engine import Context

__all__ = ["baselines"]

SWEEP = Path(__file__).parents[1] / "sweeps/baselines.yaml"
LARGE = "digits"
_Result = TypeVar("_Result")


def baselines(mnist: Dataset) -> None:
    """Each model on the ten data sets, in milliseconds: mean ± standard deviation over the seeds of the data."""
    fused_engine.prepare()
    times: dict[str, dict[int, dict[str, tuple[float, float]]]] = {}
    for config in plan(read_sweep(SWEEP)):
        dataset, seed = load_dataset(config.dataset), getattr(config.dataset, "seed", 0)
        _measured(config, dataset)  # loads what a first fit needs
        times.setdefault(config.model.label, {}).setdefault(seed, {})[config.dataset.name] = _measured(config, dataset)
    titles = (f"fit, `{LARGE}`", f"predict, `{LARGE}`", "fit, ten sets", "predict, ten sets")
    header("model", *titles, numbers=len(titles))
    for label, by_seed in times.items():
        cells = [(*by_dataset[LARGE], *np.sum([*by_dataset.values()], axis=0)) for by_dataset in by_seed.values()]
        row(label, *(_spread(column) for column in zip(*cells, strict=True)))


def _spread(seconds: Sequence[float]) -> str:
    """Return mean ± sample standard deviation in milliseconds."""
    return f"{1000 * statistics.mean(seconds):,.1f} ± {1000 * statistics.stdev(seconds):,.1f}"


def _measured(config: RunConfig, dataset: Dataset) -> tuple[float, float]:
    """Return the seconds of a fit and of the prediction of the test rows."""
    model, inputs = config.model, dataset.test.inputs
    if isinstance(model, ScikitLearnConfig):
        estimator = make_estimator(model, dataset.task, dataset.n_outputs, config.seed)
        seconds, fitted = _timed(lambda: FittedEstimator(model, estimator, dataset))
        return seconds, _timed(lambda: fitted.outputs(inputs))[0]
    if isinstance(model, BaselineConfig):
        seconds, (keys, values) = _timed(lambda: baseline_prototypes(model, dataset, config.seed))
        return seconds, _timed(lambda: values[nearest(inputs, keys)[0]])[0]
    seconds, (result,) = _timed(lambda: fused_engine.ENGINES["fused"].train([config], dataset, Context()))
    arrays = (torch.from_numpy(np.array(result.arrays[name], np.float32)) for name in ("keys", "values"))
    network = PrototypeNetwork(get_method(model.method), model.parameters, *arrays)
    return seconds, _timed(lambda: network.predict(inputs))[0]


def _timed(work: Callable[[], _Result]) -> tuple[float, _Result]:
    started = time.process_time()
    found = work()
    return time.process_time() - started, found
