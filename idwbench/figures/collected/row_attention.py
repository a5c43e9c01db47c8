"""The attention of a recorded network to each training sample, for each of its layers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import IdwbenchError
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["RecordedNetwork", "recorded_network"]

Queries = NDArray[np.floating]


@dataclass(frozen=True)
class RecordedNetwork:
    """A multilayer perceptron with the recording of its training.

    Attributes:
        run: Its run.
        dataset: Its data, whose scaling may differ from that of other models.
        results: The database.
    """

    run: StoredRun
    dataset: Dataset
    results: Results

    def attention(self, queries: Queries) -> tuple[dict[str, NDArray[np.floating]], NDArray[np.int64]]:
        """Return the total attention (n, training rows) by layer, and the answers (n,), to queries in own units."""
        import torch

        from idwbench.dual.attribution import row_attention
        from idwbench.dual.recording import open_recording
        from idwbench.models.perceptron import load_mlp

        recording = open_recording(self.results, self.run)
        network = load_mlp(self.results, self.run.run_key)
        with torch.no_grad():
            inputs, logits = network.layer_inputs(torch.from_numpy(self.dataset.scaling.apply(queries)))
        found = {
            name: row_attention(recording.layers[name], recording.rows, len(self.dataset.train), of_layer.numpy())
            for name, of_layer in zip(network.layer_names, inputs, strict=True)
        }
        return found, logits.argmax(1).numpy()


def recorded_network(results: Results, dataset: Dataset, data_dir: Path | None) -> tuple[RecordedNetwork | None, str]:
    """Return the recorded network of the lowest seed on the same data set, or None and what is missing, in one line."""
    from idwbench.data.loading import load_dataset
    from idwbench.dual.recording import open_recording

    name, problem = dataset.config.name, ""
    runs = [
        run
        for run in results.find_runs(states=["complete"])
        if run.config.model.kind == "mlp" and run.config.dataset.name == name
    ]
    for run in sorted(runs, key=lambda run: run.config.seed):
        try:
            open_recording(results, run)
            own = dataset if run.config.dataset == dataset.config else load_dataset(run.config.dataset, data_dir)
        except IdwbenchError as error:
            problem = problem or str(error)
            continue
        if own.class_names == dataset.class_names and own.n_features == dataset.n_features:
            return RecordedNetwork(run, own, results), ""
    return None, problem or f"the database has no run of kind 'mlp' with record: true on {name}"
