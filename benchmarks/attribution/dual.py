"""Scores of the dual form for images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.attribution.recorded import Recorded
from idwbench.dual.attribution import layer_queries, own_contributions, row_attention, row_contributions

__all__ = ["DualScores"]

Scores = NDArray[np.floating]


class DualScores:
    """Attention and contributions of the training rows of a recorded training."""

    def __init__(self, recorded: Recorded) -> None:
        self.network, self.recording = recorded.network, recorded.recording
        self.train, self.n_classes = recorded.dataset.train, recorded.dataset.n_outputs

    @property
    def layers(self) -> list[str]:
        """The names of the layers."""
        return list(self.network.layers)

    def attention(self, layer: str, queries: NDArray[np.float32], answers: NDArray[np.int64]) -> Scores:
        """Return the attention of one layer (queries, rows); it does not depend on the answers."""
        with torch.no_grad():
            inputs = self.network.layer_inputs(torch.from_numpy(queries))[0][self.layers.index(layer)].numpy()
        return row_attention(self.recording.layers[layer], self.recording.rows, len(self.train), inputs)

    def signed(self, layer: str, queries: NDArray[np.float32], answers: NDArray[np.int64]) -> Scores:
        """Return the attention times 1 for rows labelled as the answer, and −1/(classes − 1) for others."""
        signs = np.where(self.train.labels == answers[:, None], 1, -1 / (self.n_classes - 1)).astype(np.float32)
        return self.attention(layer, queries, answers) * signs

    def contributions(self, layers: Sequence[str], queries: NDArray[np.float32], answers: NDArray[np.int64]) -> Scores:
        """Return the contributions to the logits of the answers (queries, rows), summed over layers."""
        asked = layer_queries(self.network, {name: self.network.layers[name] for name in layers}, queries, answers)
        found = np.zeros((len(queries), len(self.train)), np.float32)
        for name in layers:
            found += row_contributions(self.recording.layers[name], self.recording.rows, len(self.train), asked[name])
        return found

    def own(self, layers: Sequence[str]) -> Scores:
        """Return the contributions of each row to the logit of its own label (rows,), summed over layers."""
        chosen = {name: self.network.layers[name] for name in layers}
        asked = layer_queries(self.network, chosen, self.train.inputs, self.train.labels)
        return np.sum(
            [own_contributions(self.recording.layers[name], self.recording.rows, asked[name]) for name in layers],
            axis=0,
        )
