"""The engine of studies of patches, which read the trained network from the results database."""

from __future__ import annotations

import numpy as np

from idwbench.data.dataset import Dataset
from idwbench.errors import TrainingError
from idwbench.models.patch_study import special_cases, study_patches
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.training.engine import Context, Fitted, one_by_one, small_stack

__all__ = ["ENGINES"]


def _fit(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Study the patches of one network; the study of a diverged network is diverged.

    Raises:
        ValueError: the context has no database.
        ResultsError: the network is not stored.
        TrainingError: the network has no result, or was trained on other data.
    """
    model, required, results = config.model, config.required, context.results
    assert isinstance(model, PatchStudyConfig) and required is not None
    if results is None:
        raise ValueError("a study of patches needs the database of the trained runs")
    network = results.find_run(required.run_key)
    if network.state not in ("complete", "diverged"):
        raise TrainingError(f"the run {network.run_key[:12]}, whose network is to be patched, is {network.state}")
    if network.data_sha256 not in (None, dataset.sha256):
        raise TrainingError(f"the run {network.run_key[:12]} was trained on other data: the checksums differ")
    if network.state == "diverged":
        return Fitted({}, {}, None, diverged_epoch=network.diverged_epoch)
    arrays = results.load_arrays(network.run_key)
    keys, values = (np.asarray(arrays[name], np.float64) for name in ("keys", "values"))
    cases = model.n_cases if model.cases == "wrong" else special_cases(dataset)
    metrics, study = study_patches(model.parameters, keys, values, dataset.splits, cases)
    return Fitted(metrics, study, network.n_parameters)


ENGINES = {"patch_study": one_by_one("patch_study", _fit, max_stack=small_stack)}
