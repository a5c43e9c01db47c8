"""The engine of studies of patches, which read the trained network from the results database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset, Split
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patch_comparison import compare_ways
from idwbench.models.patch_study import Labels, special_cases, study_patches
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.training.engine import Context, Fitted, one_by_one, required_run, small_stack
from idwbench.training.selection import engine_of

__all__ = ["ENGINES"]

_COPIES = 10


def _fit(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Study the patches of one network; the study of a diverged network is diverged."""
    model, required, network = config.model, config.required, required_run(config, dataset, context)
    assert isinstance(model, PatchStudyConfig) and required is not None and context.results is not None
    if network.state == "diverged":
        return Fitted({}, {}, None, diverged_epoch=network.diverged_epoch)
    base = _base(required, context.results.load_arrays(network.run_key))
    if model.compare:
        retrain = partial(_retrained, required, dataset, context) if model.retrain else None
        study = compare_ways(base, dataset.splits, model.n_cases, dataset.image_shape, retrain)
    else:
        cases = model.n_cases if model.cases == "wrong" else special_cases(dataset)
        study = study_patches(base, dataset.splits, cases)
    return Fitted(*study, network.n_parameters)


def _base(network: RunConfig, arrays: Mapping[str, NDArray[np.generic]]) -> ArrayNetwork:
    return ArrayNetwork.of(PrototypeNetwork.of(network.network.method_record, network.model.parameters, arrays))


def _retrained(
    network: RunConfig, dataset: Dataset, context: Context, inputs: NDArray[np.float32], labels: Labels
) -> ArrayNetwork | None:
    """Return the network trained again with inputs that are added ten times; None if that diverges."""
    train = Split(
        np.concatenate([dataset.train.inputs, np.repeat(inputs, _COPIES, axis=0)]),
        np.concatenate([dataset.train.labels, np.repeat(labels, _COPIES)]),
    )
    context = Context(engine=context.engine, device=context.device)
    result = engine_of(network, context).train([network], replace(dataset, train=train), context)[0]
    return _base(network, result.arrays) if result.state == "complete" else None


ENGINES = {"patch_study": one_by_one("patch_study", _fit, max_stack=small_stack)}
