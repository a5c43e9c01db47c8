"""The engine of studies of patches, which read the trained network from the results database."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import TrainingError
from idwbench.models.patch_study import study_patches
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.runs.results import RunResult
from idwbench.training.engine import SingleRunEngine

__all__ = ["PatchStudyEngine"]


class PatchStudyEngine(SingleRunEngine):
    """Makes the runs of kind ``patch_study``; the networks that they patch are complete runs of `results`."""

    name = "patch_study"

    def __init__(self, results: Results) -> None:
        self.results = results

    def train_one(self, config: RunConfig, dataset: Dataset) -> RunResult:
        """Study the patches of one network; the study of a diverged network is diverged.

        Raises:
            ResultsError: the network is not stored.
            TrainingError: the network has no result, or was trained on other data.
        """
        started = time.perf_counter()
        model, required = config.model, config.required
        assert isinstance(model, PatchStudyConfig) and required is not None
        network = self.results.find_run(required.run_key)
        if network.state not in ("complete", "diverged"):
            raise TrainingError(f"the run {network.run_key[:12]}, whose network is to be patched, is {network.state}")
        if network.data_sha256 not in (None, dataset.sha256):
            raise TrainingError(f"the run {network.run_key[:12]} was trained on other data: the checksums differ")
        complete = network.state == "complete"
        metrics, found = self._study(model, network.run_key, dataset) if complete else ({}, {})
        return RunResult(
            config=config,
            state="complete" if complete else "diverged",
            curve=(),
            metrics=metrics,
            arrays=found,
            n_parameters=network.n_parameters,
            diverged_epoch=network.diverged_epoch,
            seconds=time.perf_counter() - started,
            engine=self.name,
            device="cpu",
            threads=1,
        )

    def _study(
        self, model: PatchStudyConfig, run_key: str, dataset: Dataset
    ) -> tuple[dict[tuple[str, str], float], dict[str, NDArray[np.generic]]]:
        arrays = self.results.load_arrays(run_key)
        keys, values = (np.asarray(arrays[name], np.float64) for name in ("keys", "values"))
        return study_patches(model, keys, values, dataset)
