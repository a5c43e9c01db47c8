"""The recorder of a training: inputs and output gradients of linear layers at every step, written to disk."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idwbench.dual.coefficients import BETA_1
from idwbench.dual.facts import LayerFacts, RecordingFacts, parameters_sha256, read_facts, write_facts
from idwbench.dual.growing_arrays import GrowingArray, replace_folder, save_array
from idwbench.dual.layer_calls import Layer, LayerCalls, Weights, joined, joined_part
from idwbench.dual.recording import RecordingReader
from idwbench.errors import RecordingError, TrainingError
from idwbench.files import make_folder

__all__ = ["Recorder", "Weights", "largest"]

Array = NDArray[Any]


class Recorder:
    """Writes the history of linear layers into a folder, one step after the other.

    It writes into ``<folder>.partial``, which `finish` renames: a folder with the right name is complete.

    Args:
        layers: The layers by name: `torch.nn.Linear`, recorded by hooks, or `Weights`.
        folder: Folder of the recording.
        facts: The training.
        dtype: float32, float16 (half the space) or float64.
        fold: Distinct inputs (rows, features) of layers that see nothing but rows of them: each is stored once.
    """

    def __init__(
        self,
        layers: Mapping[str, Layer],
        folder: Path,
        facts: RecordingFacts,
        *,
        dtype: str = "float32",
        fold: Mapping[str, Array] | None = None,
    ) -> None:
        self.layers, self.folder, self.fold = dict(layers), folder, dict(fold or {})
        self.partial = folder.with_name(f"{folder.name}.partial")
        described = {name: _layer_facts(layer, self.fold.get(name)) for name, layer in self.layers.items()}
        self.facts = replace(facts, dtype=dtype, layers=described)
        self.steps = self.slots = 0
        self._dtype: torch.dtype = getattr(torch, dtype)
        self._rows: NDArray[np.int64] | None = None
        self._calls = LayerCalls(self.layers)
        self._before: dict[str, Tensor] = {}
        self._files: dict[str, GrowingArray] = {}

    @property
    def position(self) -> dict[str, int]:
        """The steps and slots that were recorded, for a checkpoint."""
        return {"steps": self.steps, "slots": self.slots}

    def start(self) -> None:
        """Begin a new recording, with the present weights as the initial ones; an unfinished one is deleted.

        Raises:
            OutputError: the folder cannot be written.
        """
        self.close()
        shutil.rmtree(self.partial, ignore_errors=True)
        make_folder(self.partial)
        self.steps = self.slots = 0
        for name, layer in self.layers.items():
            save_array(self.partial / f"{name}.initial.npy", joined(layer).cpu().numpy())
            if name in self.fold:
                save_array(self.partial / f"{name}.inputs.npy", self.fold[name])
        write_facts(self.partial, self.facts)
        self._open()

    def resume(self, position: Mapping[str, int]) -> bool:
        """Continue an unfinished recording from a position; return False if it has not got so far.

        What was recorded after the position is deleted.

        Raises:
            OutputError: a file cannot be written.
        """
        self.close()
        try:
            if not read_facts(self.partial).same_training(self.facts):
                return False
        except RecordingError:
            return False
        names = self._file_shapes()
        if not all((self.partial / f"{name}.npy").is_file() for name in [*names, *self._constant_files()]):
            return False
        write_facts(self.partial, self.facts)  # those of a recording that was complete say so
        self._open()
        self.steps, self.slots = position["steps"], position["slots"]
        if all([file.truncate(self._length(name)) for name, file in self._files.items()]):
            return True
        self.close()
        return False

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
            OutputError: the system refuses to write, for example because the disk is full.
        """
        assert self._rows is not None, "end_step without begin_step"
        for name in self.layers:
            inputs, gradients = self._calls.of_step(name, len(self._rows))
            self._write_keys(name, inputs)
            if self.facts.layers[name].gradients_of is None:
                self._write_gradients(name, gradients)
            if not self.facts.exact:
                self._write_scales(name, moments)
        self._files["rows"].append(self._rows)
        self._files["steps"].append(np.array([[rate, clip, len(self._rows)]]))
        self.steps, self.slots = self.steps + 1, self.slots + len(self._rows)
        self._rows = None
        self._calls.end_step()

    def flush(self) -> None:
        """Hand everything to the system, before a checkpoint with `position` is written."""
        for file in self._files.values():
            file.flush()

    def finish(self) -> NDArray[np.uint8]:
        """Complete the recording, and return the array ``recording`` of its run.

        This is the SHA-256 of the recorded layers' final parameters, which `open_recording` compares. For Adam the
        residual of each layer is computed by one pass over the recording.

        Raises:
            OutputError: a file cannot be written.
        """
        try:
            return self._finish()
        except BaseException:
            self.close()
            raise

    def _finish(self) -> NDArray[np.uint8]:
        final = {name: joined(layer).cpu().numpy() for name, layer in self.layers.items()}
        for name, array in final.items():
            save_array(self.partial / f"{name}.final.npy", array)
        for name, file in self._files.items():
            file.finish(self._length(name))
        self.close()
        checksum = parameters_sha256(final.values())
        self.facts = replace(self.facts, steps=self.steps, slots=self.slots, parameters_sha256=checksum)
        if not self.facts.exact:
            self.facts = replace(self.facts, layers={name: self._with_residual(name) for name in self.layers})
        self.facts = replace(self.facts, complete=True)
        write_facts(self.partial, self.facts)
        replace_folder(self.partial, self.folder)
        return np.frombuffer(bytes.fromhex(checksum), np.uint8)

    def close(self) -> None:
        """Stop recording; the unfinished recording stays on disk, to be continued or replaced."""
        self._calls.detach()
        for file in self._files.values():
            file.close()
        self._files = {}

    def discard(self) -> None:
        """Stop recording, and delete the unfinished recording."""
        self.close()
        shutil.rmtree(self.partial, ignore_errors=True)

    def _open(self) -> None:
        for name, (columns, dtype) in self._file_shapes().items():
            self._files[name] = GrowingArray(self.partial / f"{name}.npy", columns, dtype)
        self._calls.attach()

    def _write_keys(self, name: str, inputs: Tensor) -> None:
        if name not in self.fold:
            keys = self._new_rows(f"{name}.keys", inputs)
            keys.copy_(inputs)
            if self._dtype == torch.float16 and not largest(keys) < math.inf:
                self.discard()  # it could not be continued
                raise TrainingError(f"the inputs of the layer '{name}' are too large for a recording in float16")
        elif not np.array_equal(inputs.reshape(-1, inputs.shape[-1]).numpy(), self.fold[name][self._rows]):
            raise ValueError(f"the inputs of the folded layer '{name}' are not the rows of its distinct inputs")

    def _write_gradients(self, name: str, gradients: Tensor) -> None:
        stored = self._new_rows(f"{name}.gradients", gradients)
        if self._dtype == torch.float16:  # most gradients are below its smallest number
            unit = largest(gradients) or 1.0
            self._files[f"{name}.units"].append(np.array([unit]))
            torch.div(gradients, unit, out=stored)
        else:
            stored.copy_(gradients)

    def _new_rows(self, name: str, like: Tensor) -> Tensor:
        """Return new rows of a file, to be filled, in the shape of a tensor (…, columns)."""
        rows = self._files[name].new_rows(like.numel() // like.shape[-1])
        return torch.from_numpy(rows).view(like.shape)

    def _write_scales(self, name: str, moments: Tensor | None) -> None:
        """Write the factor of each row of the corrected first moment that is nearest to the row's update."""
        if moments is None:
            raise ValueError("the recording of a training with Adam needs its first moments")
        layer = self.layers[name]
        corrected = joined_part(moments, layer) / (1 - BETA_1 ** (self.steps + 1))
        scales = _row_scales(joined(layer) - self._before[name], corrected)
        self._files[f"{name}.scales"].append(scales.cpu().numpy()[None])

    def _with_residual(self, name: str) -> LayerFacts:
        """Write the residual of a layer, and return its facts with the share."""
        memory = RecordingReader(self.partial, self.facts).layer(name)
        residual = memory.remainder()
        save_array(self.partial / f"{name}.residual.npy", residual)
        final, initial = (np.load(self.partial / f"{name}.{when}.npy") for when in ("final", "initial"))
        moved = np.linalg.norm(final.astype(np.float64) - initial)
        share = float(np.linalg.norm(residual) / moved) if moved else 0.0
        return replace(self.facts.layers[name], residual_share=share)

    def _file_shapes(self) -> dict[str, tuple[int | None, str]]:
        """Return columns and type of the arrays that grow, by the name of the file."""
        files: dict[str, tuple[int | None, str]] = {"rows": (None, "int64"), "steps": (3, "float64")}
        for name, layer in self.facts.layers.items():
            if layer.folded is None:
                files[f"{name}.keys"] = (layer.features, self.facts.dtype)
            if layer.gradients_of is None:
                files[f"{name}.gradients"] = (layer.outputs, self.facts.dtype)
                if self.facts.dtype == "float16":
                    files[f"{name}.units"] = (None, "float64")
            if not self.facts.exact:
                files[f"{name}.scales"] = (layer.outputs, "float64")
        return files

    def _constant_files(self) -> list[str]:
        return [f"{name}.initial" for name in self.layers] + [f"{name}.inputs" for name in self.fold]

    def _length(self, name: str) -> int:
        return self.slots if name == "rows" or name.endswith((".keys", ".gradients")) else self.steps


def _layer_facts(layer: Layer, inputs: Array | None) -> LayerFacts:
    outputs, features = layer.weight.shape
    folded = None if inputs is None else len(inputs)
    gradients_of = layer.gradients_of if isinstance(layer, Weights) else None
    return LayerFacts(features, outputs, layer.bias is not None, folded, gradients_of=gradients_of)


def largest(numbers: Tensor) -> float:
    """Return the largest absolute value; NaN if there is one."""
    smallest, largest = torch.aminmax(numbers)
    return max(-float(smallest), float(largest))


def _row_scales(update: Tensor, moment: Tensor) -> Tensor:
    """Return the factors (outputs,) of rows of Adam's first moment that are nearest to the rows of its update."""
    products, squares = (update * moment).sum(1).double(), (moment * moment).sum(1).double()
    return torch.where(squares > 0, products / squares.where(squares > 0, 1.0), 0.0)
