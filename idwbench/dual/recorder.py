"""The recorder of a training: inputs and output gradients of linear layers at every step, written to disk."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idwbench.dual.coefficients import BETA_1
from idwbench.dual.layer_calls import Layer, LayerCalls, Weights, joined
from idwbench.dual.memory import release_pages
from idwbench.dual.recording import LayerFacts, Recording, RecordingFacts, file_checksum, parameters_sha256
from idwbench.errors import FullDiskError, OutputError, RecordingError, TrainingError
from idwbench.files import is_full_disk, make_folder
from idwbench.machine import readable_bytes

__all__ = ["Recorder", "Recordings"]

Array = NDArray[Any]

# Headers, JSON and the file system's own needs.
_OVERHEAD = 2**20
# Folded inputs that are copied before their pages leave the memory of the process.
_ROWS_AT_ONCE = 2**12


class Recorder:
    """Writes the history of linear layers into a folder, one step after the other.

    It writes into ``<folder>.partial``, which `finish` renames: a folder with the right name is complete. All files
    have their full size from the start, with the disk space reserved, so that a training does not fill the disk.

    Args:
        layers: The layers by name: `torch.nn.Linear`, recorded by hooks, or `Weights`.
        folder: Folder of the recording.
        facts: The training.
        steps: Number of steps of the training.
        slots: Number of slots of the whole training.
        dtype: float32, float16 (half the space) or float64.
        fold: Distinct inputs (rows, features) of layers that see nothing but rows of them: each is stored once.
    """

    def __init__(
        self,
        layers: Mapping[str, Layer],
        folder: Path,
        facts: RecordingFacts,
        *,
        steps: int,
        slots: int,
        dtype: str = "float32",
        fold: Mapping[str, Array] | None = None,
    ) -> None:
        self.layers, self.folder, self.fold = dict(layers), folder, dict(fold or {})
        self.partial = folder.with_name(f"{folder.name}.partial")
        described = {name: _layer_facts(layer, self.fold.get(name)) for name, layer in self.layers.items()}
        self.facts = replace(facts, dtype=dtype, layers=described, steps=steps, slots=slots)
        self.steps = self.slots = 0
        self._rows: NDArray[np.int64] | None = None
        self._calls = LayerCalls(self.layers)
        self._before: dict[str, Tensor] = {}
        self._arrays: dict[str, Array] = {}

    @property
    def position(self) -> dict[str, int]:
        """The steps and slots that were recorded, for a checkpoint."""
        return {"steps": self.steps, "slots": self.slots}

    @property
    def needed_bytes(self) -> int:
        """The disk space of the whole recording, to within a MiB."""
        shapes = self.facts.array_shapes
        return _OVERHEAD + sum(math.prod(shape) * self._dtype(name).itemsize for name, shape in shapes.items())

    def start(self) -> None:
        """Begin a new recording, with the present weights as the initial ones; an unfinished one is deleted.

        Raises:
            FullDiskError: there is not enough disk space; nothing is left of the recording then.
            OutputError: the folder cannot be written.
        """
        self.discard()
        make_folder(self.partial)
        self.steps = self.slots = 0
        try:
            self._check_space()
            for name, shape in self.facts.array_shapes.items():
                self._arrays[name] = _reserved_array(self.partial / f"{name}.npy", shape, self._dtype(name))
            for name, layer in self.layers.items():
                self._arrays[f"{name}.initial"][...] = joined(layer).cpu().numpy()
            for name, inputs in self.fold.items():
                for start in range(0, len(inputs), _ROWS_AT_ONCE):
                    rows = slice(start, start + _ROWS_AT_ONCE)
                    self._arrays[f"{name}.inputs"][rows] = inputs[rows]
                    self._release_pages()
            self.facts.write(self.partial)
        except OutputError:
            self.discard()
            raise
        self._calls.attach()

    def resume(self, position: Mapping[str, int]) -> bool:
        """Continue an unfinished recording from a position; return False if it has not got so far.

        What was recorded after the position is recorded again.

        Raises:
            OutputError: a file cannot be written.
        """
        self.close()
        steps, slots = position["steps"], position["slots"]
        try:
            if not RecordingFacts.read(self.partial).same_training(self.facts):
                return False
            arrays = self.facts.mapped_arrays(self.partial, "r+")
        except RecordingError:
            return False
        if arrays["steps"][:steps, 2].sum() != slots:
            return False
        self.facts.write(self.partial)  # those of a recording that was complete say so
        self._arrays, self.steps, self.slots = arrays, steps, slots
        self._calls.attach()
        return True

    def begin_step(self, rows: NDArray[np.int64]) -> None:
        """Begin a step; `rows`, of any shape, are the rows of the training data that the slots come from, in order."""
        self._rows = rows.reshape(-1)
        self._calls.begin_step()
        if not self.facts.exact:
            self._before = {name: joined(layer) for name, layer in self.layers.items()}

    def take(self, name: str, inputs: Tensor, gradients: Tensor) -> None:
        """Take inputs (…, features) of a layer in this step, and the gradient (…, outputs) of its outputs.

        Outside of a step nothing is taken.
        """
        self._calls.take(name, inputs, gradients)

    @torch.no_grad()
    def end_step(self, rate: float, clip: float = 1.0, moments: Tensor | None = None) -> None:
        """Write a step, after the optimizer changed the weights.

        Args:
            rate: The learning rate.
            clip: What the gradient of all parameters was multiplied by.
            moments: For Adam, its first moments, in the storage order of the parameters.

        Raises:
            TrainingError: an input of a layer is too large for the type of the recording.
        """
        assert self._rows is not None, "end_step without begin_step"
        new = slice(self.slots, self.slots + len(self._rows))
        if self.steps >= self.facts.steps or new.stop > self.facts.slots:
            raise ValueError(f"the recording has room for {self.facts.steps} steps with {self.facts.slots} slots")
        for name in self.layers:
            inputs, gradients = self._calls.step(name, len(self._rows))
            self._write_keys(name, inputs, new)
            if self.facts.layers[name].gradients_of is None:
                self._write_gradients(name, gradients, new)
            if not self.facts.exact:
                self._write_scales(name, moments)
        self._arrays["rows"][new] = self._rows
        self._arrays["steps"][self.steps] = rate, clip, len(self._rows)
        self.steps, self.slots = self.steps + 1, new.stop
        self._rows = None
        self._calls.end_step()
        self._release_pages()

    def flush(self) -> None:
        """Write everything to the disk, before a checkpoint with `position` is written."""
        for array in self._arrays.values():
            if isinstance(array, np.memmap):
                array.flush()

    def finish(self) -> NDArray[np.uint8]:
        """Complete the recording, and return the array ``recording`` of its run.

        This is the SHA-256 of the recorded layers' final parameters, which `open_recording` compares. For Adam the
        residual of each layer is computed by one pass over the recording.

        Raises:
            OutputError: a file cannot be written.
        """
        with closing(self):
            facts = self.facts
            if self.steps != facts.steps or self.slots != facts.slots:
                recorded = f"{self.steps} of {facts.steps} steps and {self.slots} of {facts.slots} slots"
                raise ValueError(f"{recorded} were recorded")
            final = {name: joined(layer).cpu().numpy() for name, layer in self.layers.items()}
            for name, array in final.items():
                self._arrays[f"{name}.final"][...] = array
            checksum = parameters_sha256(final.values())
            self.facts = replace(facts, parameters_sha256=checksum)
            if not facts.exact:
                self.facts = replace(self.facts, layers=self._with_residuals())
            self.close()
            checksums = {name: file_checksum(self.partial / f"{name}.npy") for name in facts.array_shapes}
            self.facts = replace(self.facts, complete=True, checksums=checksums)
            self.facts.write(self.partial)
            with _writing(self.folder):
                shutil.rmtree(self.folder, ignore_errors=True)
                self.partial.rename(self.folder)
            return np.frombuffer(bytes.fromhex(checksum), np.uint8)

    def close(self) -> None:
        """Stop recording; the unfinished recording stays on disk, to be continued or replaced."""
        self._calls.detach()
        self._arrays = {}

    def discard(self) -> None:
        """Stop recording, and delete the unfinished recording."""
        self.close()
        shutil.rmtree(self.partial, ignore_errors=True)

    def _release_pages(self) -> None:
        """Take what was written out of the memory of the process."""
        for array in self._arrays.values():
            release_pages(array)

    def _check_space(self) -> None:
        needed, free = self.needed_bytes, shutil.disk_usage(self.partial).free
        if free < needed:
            sizes = f"{readable_bytes(needed)} of disk space, and {readable_bytes(free)} are free"
            raise FullDiskError(f"the recording needs {sizes}", file=self.folder)

    def _dtype(self, name: str) -> np.dtype[Any]:
        """Return the type of the numbers in a file."""
        layer, _, content = name.rpartition(".")
        if content in ("keys", "gradients"):
            return np.dtype(self.facts.dtype)
        if content == "inputs":
            return self.fold[layer].dtype
        if content in ("initial", "final"):
            return np.dtype(str(self.layers[layer].weight.dtype).removeprefix("torch."))
        return np.dtype("int64" if content == "rows" else "float64")

    def _write_keys(self, name: str, inputs: Tensor, new: slice) -> None:
        if name not in self.fold:
            keys = torch.from_numpy(self._arrays[f"{name}.keys"][new])
            keys.copy_(inputs)
            if self.facts.dtype == "float16" and not _largest(keys) < math.inf:
                self.discard()  # it could not be continued
                raise TrainingError(f"the inputs of the layer '{name}' are too large for a recording in float16")
        elif not np.array_equal(inputs.numpy(), self.fold[name][self._rows]):
            raise ValueError(f"the inputs of the folded layer '{name}' are not the rows of its distinct inputs")

    def _write_gradients(self, name: str, gradients: Tensor, new: slice) -> None:
        stored = torch.from_numpy(self._arrays[f"{name}.gradients"][new])
        if self.facts.dtype == "float16":  # most gradients are below its smallest number
            unit = _largest(gradients) or 1.0
            self._arrays[f"{name}.units"][self.steps] = unit
            torch.div(gradients, unit, out=stored)
        else:
            stored.copy_(gradients)

    def _write_scales(self, name: str, moments: Tensor | None) -> None:
        """Write the factor of each row of the corrected first moment that is nearest to the row's update."""
        if moments is None:
            raise ValueError("the recording of a training with Adam needs its first moments")
        layer = self.layers[name]
        corrected = joined(layer, moments) / (1 - BETA_1 ** (self.steps + 1))
        scales = _row_scales(joined(layer) - self._before[name], corrected)
        self._arrays[f"{name}.scales"][self.steps] = scales.cpu().numpy()

    def _with_residuals(self) -> dict[str, LayerFacts]:
        """Write the residuals of all layers, and return the facts of the layers with their shares."""
        described = {}
        for name, memory in Recording.read(self.partial, self.facts).layers.items():
            residual = self._arrays[f"{name}.residual"][...] = memory.remainder()
            moved = np.linalg.norm(memory.final.astype(np.float64) - memory.initial)
            share = float(np.linalg.norm(residual) / moved) if moved else 0.0
            described[name] = replace(self.facts.layers[name], residual_share=share)
        return described


@dataclass(frozen=True)
class Recordings:
    """Makes the recorders of runs: ``<run key>/`` in one folder.

    Attributes:
        folder: `Results.recording_folder`, or None if there is none.
        note: Receives one line with the disk space of each recording before its training begins.
    """

    folder: Path | None = None
    note: Callable[[str], None] = lambda line: None

    def recorder(self, layers: Mapping[str, Layer], facts: RecordingFacts, **options: Any) -> Recorder:
        """Return the recorder of a run, after its disk space was said; options as for `Recorder`.

        Raises:
            RecordingError: there is no folder.
        """
        if self.folder is None:
            raise RecordingError("a recording needs a database in a file: expected SQLite")
        recorder = Recorder(layers, self.folder / facts.run_key, facts, **options)
        needed = readable_bytes(recorder.needed_bytes)
        self.note(f"the recording of run {facts.run_key[:8]} needs {needed} in {self.folder}")
        return recorder


def _layer_facts(layer: Layer, inputs: Array | None) -> LayerFacts:
    outputs, features = layer.weight.shape
    folded = None if inputs is None else len(inputs)
    gradients_of = layer.gradients_of if isinstance(layer, Weights) else None
    return LayerFacts(features, outputs, layer.bias is not None, folded, gradients_of=gradients_of)


def _largest(numbers: Tensor) -> float:
    """Return the largest absolute value; NaN if there is one."""
    smallest, largest = torch.aminmax(numbers)
    return max(-float(smallest), float(largest))


def _row_scales(update: Tensor, moment: Tensor) -> Tensor:
    """Return the factors (outputs,) of rows of Adam's first moment that are nearest to the rows of its update."""
    products, squares = (update * moment).sum(1).double(), (moment * moment).sum(1).double()
    return torch.where(squares > 0, products / squares.where(squares > 0, 1.0), 0.0)


def _reserved_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Create a file in NumPy's format with its full disk space, and return its array, memory-mapped.

    Without the reserved space a full disk would end the process by a signal in the middle of a training.
    """
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with _writing(path):
        with path.open("wb", buffering=0) as file:
            np.lib.format.write_array_header_1_0(file, header)
            size = math.prod(shape) * dtype.itemsize
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, file.tell() + size)
            else:  # macOS and Windows
                zeros = bytes(2**20)
                for start in range(0, size, len(zeros)):
                    file.write(zeros[: size - start])
        return np.lib.format.open_memmap(path, mode="r+")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = FullDiskError if is_full_disk(error) else OutputError
        raise kind(f"the recording cannot be written: {error.strerror or error}", file=path) from None
