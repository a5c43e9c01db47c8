"""The text that a recorded language model was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.loading import load_dataset
from idwbench.dual.recording import Recording
from idwbench.errors import RecordingError
from idwbench.explanations.passage_texts import Passage
from idwbench.runs.datasets import LARGEST_VOCABULARY, DatasetConfig, dataset_label

__all__ = ["TrainingText"]

# Characters, or words, that are shown on either side of the attended tokens.
_AROUND = {"characters": 30, "words": 8}


@dataclass(frozen=True)
class TrainingText:
    """The training text.

    Attributes:
        tokens: Token r is the input of row r of the training data; the last one is the label of the last row.
        around: Number of tokens that are shown on either side of the attended ones.
    """

    tokens: tuple[str, ...]
    around: int

    @classmethod
    def load(cls, config: DatasetConfig, recording: Recording, unit: str, data_dir: Path | None) -> TrainingText:
        """Load the text, with its own words also where the vocabulary has none.

        Raises:
            RecordingError: it is not what was recorded.
            DatasetError: it cannot be loaded.
        """
        dataset = load_dataset(config, data_dir)
        if dataset.sha256 != recording.facts.data_sha256:
            problem = f"the text {dataset_label(config)} is not what was recorded: the checksums differ"
            raise RecordingError(problem, file=recording.folder)
        if not dataset.train.labels.all():  # some are unknown
            dataset = load_dataset(config.model_copy(update={"vocabulary_size": LARGEST_VOCABULARY}), data_dir)
        train = dataset.train
        codes = np.append(train.inputs[:, 0].astype(np.int64), train.labels[-1])
        return cls(tuple(dataset.class_names[code] for code in codes), _AROUND[unit])

    def passage(self, rows: NDArray[np.int64], facts: Mapping[str, Any]) -> Passage:
        """Return the passage around sorted rows."""
        first, stop = max(0, rows[0] - self.around), min(len(self.tokens), rows[-1] + 1 + self.around)
        marked = np.isin(np.arange(first, stop), rows)
        return Passage(tuple(rows.tolist()), self.tokens[first:stop], tuple(marked.tolist()), **facts)
