"""The recordings of many runs: ``<run key>/`` in one folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from idwbench.dual.disk_space import check_space, folder_bytes, recording_bytes
from idwbench.dual.facts import RecordingFacts
from idwbench.dual.layer_calls import Layer
from idwbench.dual.recorder import Recorder
from idwbench.errors import RecordingError
from idwbench.machine import readable_bytes

__all__ = ["Recordings"]


@dataclass(frozen=True)
class Recordings:
    """Makes the recorders of runs.

    Attributes:
        folder: `Results.recording_folder`, or None if there is none.
        note: Receives one line with the disk space of each recording before its training begins.
    """

    folder: Path | None = None
    note: Callable[[str], None] = lambda line: None

    def recorder(
        self,
        layers: Mapping[str, Layer],
        facts: RecordingFacts,
        *,
        steps: int,
        slots: int,
        dtype: str = "float32",
        fold: Mapping[str, NDArray[Any]] | None = None,
    ) -> Recorder:
        """Return the recorder of a run, after its disk space was said and checked.

        Args:
            layers: The layers by name.
            facts: The run.
            steps: Number of steps of the training.
            slots: Number of slots of the whole training.
            dtype: float32 or float16.
            fold: Distinct inputs by layer, see `Recorder`.

        Raises:
            RecordingError: there is no folder.
            FullDiskError: there is not enough disk space.
        """
        if self.folder is None:
            raise RecordingError("a recording needs a database in a file: expected SQLite")
        recorder = Recorder(layers, self.folder / facts.run_key, facts, dtype=dtype, fold=fold)
        needed = recording_bytes(recorder.facts, steps=steps, slots=slots)
        self.note(f"the recording of run {facts.run_key[:8]} needs {readable_bytes(needed)} in {self.folder}")
        check_space(recorder.partial, needed - folder_bytes(recorder.partial))
        return recorder
