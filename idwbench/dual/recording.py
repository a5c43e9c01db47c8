"""Finished recordings, read from disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from idwbench.dual.coefficients import adam_coefficients, step_coefficients
from idwbench.dual.facts import LayerFacts, RecordingFacts, parameters_sha256, read_facts
from idwbench.dual.growing_arrays import mapped_array
from idwbench.dual.memory import LayerMemory
from idwbench.errors import RecordingError

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = ["Recording", "RecordingReader", "open_recording"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Recording:
    """The history of a training.

    Attributes:
        folder: Its folder.
        facts: The training and the recorded layers.
        rows: The row of the training data that each slot comes from (slots,).
        slot_steps: The step of each slot, from 0 (slots,).
        layers: The recorded layers by name.
    """

    folder: Path
    facts: RecordingFacts
    rows: NDArray[np.int64]
    slot_steps: NDArray[np.int64]
    layers: Mapping[str, LayerMemory]

    @property
    def steps(self) -> int:
        """Return the number of steps."""
        return self.facts.steps

    @classmethod
    def open(cls, folder: Path, *, run_key: str | None = None, parameters_sha256: str | None = None) -> Recording:
        """Open the recording in a folder.

        Args:
            folder: Its folder.
            run_key: The run that it must be of; by default any.
            parameters_sha256: The checksum that the recorded layers' parameters must have; by default any.

        Raises:
            RecordingError: it is missing, not complete, cut, damaged, or of another model.
        """
        facts = read_facts(folder)
        if not facts.complete:
            raise RecordingError("the recording is not complete", file=folder)
        if run_key not in (None, facts.run_key):
            raise RecordingError(f"the recording is of the run {facts.run_key}, expected {run_key}", file=folder)
        if parameters_sha256 not in (None, facts.parameters_sha256):
            raise RecordingError("the recording is of another model: the parameters differ", file=folder)
        return RecordingReader(folder, facts).recording()


def open_recording(results: Results, run: StoredRun) -> Recording:
    """Open the recording of a stored run.

    Raises:
        RecordingError: the run has none, or as `Recording.open`.
        ResultsError: the database cannot be read.
    """
    if results.recording_folder is None:
        raise RecordingError("only databases in a file have recordings: expected SQLite")
    pointer = results.load_arrays(run.run_key).get("recording")
    if pointer is None:
        raise RecordingError(f"the run {run.run_key} was not recorded")
    checksum = pointer.astype(np.uint8).tobytes().hex()
    return Recording.open(results.recording_folder / run.run_key, run_key=run.run_key, parameters_sha256=checksum)


@dataclass(frozen=True)
class RecordingReader:
    """Opens the files of a recording.

    Attributes:
        folder: Where they are.
        facts: What they must hold.
    """

    folder: Path
    facts: RecordingFacts

    def recording(self) -> Recording:
        """Return the recording; raises `RecordingError` if a file is missing, cut or damaged."""
        layers = {name: self.layer(name) for name in self.facts.layers}
        final = (self._parameters(name, "final", layer) for name, layer in self.facts.layers.items())
        if parameters_sha256(final) != self.facts.parameters_sha256:
            raise RecordingError(
                "the recording is damaged: the final parameters have another checksum", file=self.folder
            )
        return Recording(self.folder, self.facts, self.rows, self.slot_steps, layers)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Return the row of the training data of each slot."""
        path = self.folder / "rows.npy"
        rows = np.array(mapped_array(path, (self.facts.slots,), "i"), np.int64)
        n_rows = [layer.folded for layer in self.facts.layers.values() if layer.folded is not None]
        if rows.size and (rows.min() < 0 or any(rows.max() >= n for n in n_rows)):
            raise RecordingError("is damaged: it has rows that the training data does not have", file=path)
        return rows

    @cached_property
    def steps(self) -> Array:
        """Return rate, clip and number of slots of each step."""
        return np.array(self._array("steps", self.facts.steps, 3))

    @cached_property
    def slot_steps(self) -> NDArray[np.int64]:
        """Return the step of each slot."""
        counts = self.steps[:, 2]
        if not (counts >= 0).all() or counts.sum() != self.facts.slots:
            raise RecordingError("is damaged: the steps have another number of slots", file=self.folder / "steps.npy")
        return np.repeat(np.arange(len(counts)), counts.astype(np.int64))

    def layer(self, name: str) -> LayerMemory:
        """Return a layer; raises `RecordingError` if one of its files is missing, cut or damaged."""
        facts, layer = self.facts, self.facts.layers[name]
        stored_with = layer.gradients_of or name
        folded = layer.folded is not None
        keys = self._array(f"{name}.{'inputs' if folded else 'keys'}", layer.folded or facts.slots, layer.features)
        coefficients, factor = self._coefficients(name, layer)
        initial, initial_bias = _split(self._parameters(name, "initial", layer), layer)
        weight, bias = _split(self._parameters(name, "final", layer), layer)
        residual, residual_bias = (
            (None, None) if layer.residual_share is None else _split(self._parameters(name, "residual", layer), layer)
        )
        return LayerMemory(
            stored_keys=keys,
            gradients=self._array(f"{stored_with}.gradients", facts.slots, layer.outputs),
            slot_steps=self.slot_steps,
            coefficients=coefficients,
            units=np.array(self._array(f"{stored_with}.units", facts.steps)) if facts.dtype == "float16" else None,
            initial=initial,
            initial_bias=initial_bias,
            initial_factor=factor,
            weight=weight,
            bias=bias,
            residual=residual,
            residual_bias=residual_bias,
            key_rows=self.rows if folded else None,
        )

    def _coefficients(self, name: str, layer: LayerFacts) -> tuple[NDArray[np.float64], float | NDArray[np.float64]]:
        rates, clips, facts = self.steps[:, 0], self.steps[:, 1], self.facts
        if facts.exact:
            return step_coefficients(rates, clips, facts.momentum, facts.weight_decay)
        scales = np.array(self._array(f"{name}.scales", facts.steps, layer.outputs))
        return adam_coefficients(scales, clips, facts.weight_decay)

    def _parameters(self, name: str, when: str, layer: LayerFacts) -> Array:
        return np.array(self._array(f"{name}.{when}", layer.outputs, layer.features + layer.bias))

    def _array(self, name: str, *shape: int) -> Array:
        return mapped_array(self.folder / f"{name}.npy", shape)


def _split(parameters: Array, layer: LayerFacts) -> tuple[Array, Array | None]:
    """Return weight and bias of [weight, bias]."""
    return parameters[:, : layer.features], parameters[:, layer.features] if layer.bias else None
