"""Finished recordings, read from disk, and the files that a recording has."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from idwbench.dual.coefficients import adam_coefficients, step_coefficients
from idwbench.dual.memory import LayerMemory
from idwbench.errors import RecordingError
from idwbench.files import read_file, write_file

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = ["LayerFacts", "Recording", "RecordingFacts", "file_checksum", "open_recording", "parameters_sha256"]

# A checksum is that of the whole file up to this size. Larger files would take longer than a second, since CRC-32 reads
# one to three gigabytes in a second, and a recording has several such files.
_WHOLE_BYTES, _BLOCK_BYTES = 2**27, 2**16

FORMAT = "idwbench-recording-1"
FILE = "recording.json"

Array = NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class LayerFacts:
    """One layer of a recording.

    Attributes:
        features: Length of its inputs.
        outputs: Length of its outputs.
        bias: Whether it has a bias.
        folded: Number of distinct inputs if each is stored once, or None.
        residual_share: ‖residual‖/‖W_T − W_0‖ for Adam, otherwise None.
        gradients_of: The layer that its gradients are stored with, or None for its own. It is in the file only if it
            is not None.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # for reading

    features: int
    outputs: int
    bias: bool
    folded: int | None = None
    residual_share: float | None = None
    gradients_of: str | None = None


@dataclass(frozen=True)
class RecordingFacts:
    """The training that a recording belongs to, and what was recorded of it.

    Attributes:
        run_key: Key of the run, or any other name of the training.
        data_sha256: Checksum of the training data.
        optimizer: sgd, adam or adam_amsgrad.
        momentum: Momentum of sgd.
        weight_decay: Weight decay.
        dtype: Type of the stored keys and gradients.
        layers: The recorded layers by name.
        steps: Number of steps of the whole training.
        slots: Number of slots of the whole training.
        parameters_sha256: `parameters_sha256` of the recorded layers after the training.
        complete: Whether the training was recorded to its end.
        checksums: `file_checksum` of each array's file by its name; recordings of version 0.2.0 have none.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # for reading

    run_key: str
    data_sha256: str
    optimizer: str = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0
    dtype: str = "float32"
    layers: Mapping[str, LayerFacts] = field(default_factory=dict)
    steps: int = 0
    slots: int = 0
    parameters_sha256: str = ""
    complete: bool = False
    checksums: Mapping[str, str] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether the dual form holds without a residual."""
        return self.optimizer == "sgd"

    def same_training(self, other: RecordingFacts) -> bool:
        """Return whether two recordings are of the same training, recorded in the same way."""
        return self._settings() == other._settings()

    def _settings(self) -> RecordingFacts:
        layers = {name: replace(layer, residual_share=None) for name, layer in self.layers.items()}
        return replace(self, layers=layers, parameters_sha256="", complete=False, checksums={})

    @property
    def array_shapes(self) -> dict[str, Shape]:
        """Return the shapes of all arrays of a recording, by the names of their files without ``.npy``."""
        shapes: dict[str, Shape] = {"rows": (self.slots,), "steps": (self.steps, 3)}
        for name, layer in self.layers.items():
            columns = layer.features + layer.bias
            shapes |= {f"{name}.{when}": (layer.outputs, columns) for when in ("initial", "final")}
            if layer.folded is None:
                shapes[f"{name}.keys"] = (self.slots, layer.features)
            else:
                shapes[f"{name}.inputs"] = (layer.folded, layer.features)
            if layer.gradients_of is None:
                shapes[f"{name}.gradients"] = (self.slots, layer.outputs)
                if self.dtype == "float16":
                    shapes[f"{name}.units"] = (self.steps,)
            if not self.exact:
                shapes |= {f"{name}.scales": (self.steps, layer.outputs), f"{name}.residual": (layer.outputs, columns)}
        return shapes

    def write(self, folder: Path) -> None:
        """Write ``recording.json`` atomically, with a checksum of its own.

        Raises:
            OutputError: it cannot be written.
        """
        stored = asdict(self)
        for layer in stored["layers"].values():
            if layer["gradients_of"] is None:
                del layer["gradients_of"]
        content = json.dumps({"format": FORMAT, **stored, "sha256": _facts_sha256(stored)}, indent=1) + "\n"
        write_file(folder / FILE, content.encode(), overwrite=True)

    @classmethod
    def read(cls, folder: Path) -> RecordingFacts:
        """Read ``recording.json``.

        Raises:
            RecordingError: there is no such folder or file, or it is damaged or of another format.
        """
        if not folder.is_dir():
            problem = "there is no recording: it was moved or deleted, or the run was not recorded"
            raise RecordingError(problem, file=folder, hint="train the run again to record it")
        from pydantic import TypeAdapter

        path = folder / FILE
        content = read_file(path, RecordingError)
        try:
            stored: dict[str, Any] = json.loads(content)
            name, checksum = stored.pop("format"), stored.pop("sha256", None)
            is_damaged = checksum not in (None, _facts_sha256(stored))
            facts: RecordingFacts = TypeAdapter(cls).validate_python(stored)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise RecordingError("is damaged: expected the facts of a recording", file=path) from None
        if name != FORMAT:
            raise RecordingError(f"has the format {name!r}, expected '{FORMAT}'", file=path)
        if is_damaged:
            raise RecordingError("is damaged: it has a different checksum", file=path)
        return facts

    def mapped_arrays(self, folder: Path, mode: Literal["c", "r+"] = "c") -> dict[str, Array]:
        """Return all arrays of a recording, memory-mapped.

        Args:
            folder: Where the files are.
            mode: ``r+`` to write into the files; by default changes stay in memory.

        Raises:
            RecordingError: a file is missing, cut, or does not hold an array of the right shape and kind of numbers.
        """
        shapes = self.array_shapes
        arrays = {name: _mapped_array(folder / f"{name}.npy", shape, "c") for name, shape in shapes.items()}
        if mode == "r+":  # only now, since NumPy enlarges files that are cut
            arrays = {name: _mapped_array(folder / f"{name}.npy", shape, "r+") for name, shape in shapes.items()}
        return arrays


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

    @property
    def final_sha256(self) -> str:
        """Return the `parameters_sha256` of the last parameters in its files."""
        return parameters_sha256(memory.final for memory in self.layers.values())

    @classmethod
    def open(cls, folder: Path, *, run_key: str | None = None, parameters_sha256: str | None = None) -> Recording:
        """Open the recording in a folder, and compare the checksums of its files.

        Args:
            folder: Its folder.
            run_key: The run that it must be of; by default any.
            parameters_sha256: The checksum that the recorded layers' parameters must have; by default any.

        Raises:
            RecordingError: it is missing, not complete, cut, damaged, or of another model.
        """
        facts = RecordingFacts.read(folder)
        if not facts.complete:
            raise RecordingError("the recording is not complete", file=folder)
        if run_key not in (None, facts.run_key):
            raise RecordingError(f"the recording is of the run {facts.run_key}, expected {run_key}", file=folder)
        if parameters_sha256 not in (None, facts.parameters_sha256):
            raise RecordingError("the recording is of another model: the parameters differ", file=folder)
        recording = cls.read(folder, facts)
        if recording.final_sha256 != facts.parameters_sha256:
            raise RecordingError(
                "the recording is damaged: the final parameters have a different checksum", file=folder
            )
        for name, checksum in facts.checksums.items():
            if file_checksum(folder / f"{name}.npy") != checksum:
                raise RecordingError("is damaged: it has a different checksum", file=folder / f"{name}.npy")
        return recording

    @classmethod
    def read(cls, folder: Path, facts: RecordingFacts) -> Recording:
        """Return the recording of a training whose steps were all recorded.

        Raises:
            RecordingError: a file is missing, cut, or does not hold what the facts say.
        """
        arrays = facts.mapped_arrays(folder)
        rows, steps = np.array(arrays["rows"], np.int64), np.array(arrays["steps"])
        n_rows = min((layer.folded for layer in facts.layers.values() if layer.folded is not None), default=np.inf)
        if rows.size and not 0 <= rows.min() <= rows.max() < n_rows:
            problem = "is damaged: it has rows that the training data does not have"
            raise RecordingError(problem, file=folder / "rows.npy")
        counts = steps[:, 2]
        if not (counts >= 0).all() or counts.sum() != facts.slots:
            raise RecordingError("is damaged: the steps have another number of slots", file=folder / "steps.npy")
        slot_steps = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
        layers = {name: _layer_memory(name, facts, arrays, rows, slot_steps) for name in facts.layers}
        return cls(folder, facts, rows, slot_steps, layers)


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


def file_checksum(path: Path) -> str:
    """Return the CRC-32 of a file, in hexadecimal; above 128 MiB that of 2,048 blocks of 64 KiB at equal distances.

    The first and the last block are those of the file.

    Raises:
        RecordingError: the file cannot be read.
    """
    try:
        size, checksum = path.stat().st_size, 0
        starts = np.arange(0, size, _BLOCK_BYTES)
        if size > _WHOLE_BYTES:
            starts = np.linspace(0, size - _BLOCK_BYTES, _WHOLE_BYTES // _BLOCK_BYTES).astype(np.int64)
        with path.open("rb", buffering=0) as file:
            for start in starts.tolist():
                file.seek(start)
                checksum = zlib.crc32(file.read(_BLOCK_BYTES), checksum)
    except OSError as error:
        raise RecordingError(f"cannot be read ({error.strerror or error})", file=path) from None
    return f"{checksum:08x}"


def _mapped_array(path: Path, shape: Shape, mode: Literal["c", "r+"]) -> Array:
    try:
        array: Array = np.load(path, mmap_mode=mode if 0 not in shape else None, allow_pickle=False)
    except FileNotFoundError:
        raise RecordingError("is missing in the recording", file=path) from None
    except (OSError, ValueError, EOFError):
        raise RecordingError("is cut or damaged", file=path) from None
    if array.shape != shape:
        raise RecordingError(f"has the shape {array.shape}, expected {shape}", file=path)
    kind, numbers = ("i", "integers") if path.stem == "rows" else ("f", "floating-point numbers")
    if array.dtype.kind != kind:
        raise RecordingError(f"has the type {array.dtype}, expected {numbers}", file=path)
    return array


def _layer_memory(
    name: str,
    facts: RecordingFacts,
    arrays: Mapping[str, Array],
    rows: NDArray[np.int64],
    slot_steps: NDArray[np.int64],
) -> LayerMemory:
    """Return one layer of a recording, with what is small in memory."""
    layer, (rates, clips, _) = facts.layers[name], np.array(arrays["steps"]).T
    stored_with, is_folded = layer.gradients_of or name, layer.folded is not None
    coefficients, factor = (
        step_coefficients(rates, clips, facts.momentum, facts.weight_decay)
        if facts.exact
        else adam_coefficients(np.array(arrays[f"{name}.scales"]), clips, facts.weight_decay)
    )
    return LayerMemory(
        stored_keys=arrays[f"{name}.{'inputs' if is_folded else 'keys'}"],
        gradients=arrays[f"{stored_with}.gradients"],
        slot_steps=slot_steps,
        coefficients=coefficients,
        units=np.array(arrays[f"{stored_with}.units"]) if facts.dtype == "float16" else np.ones(facts.steps),
        initial=np.array(arrays[f"{name}.initial"]),
        initial_factor=factor,
        final=np.array(arrays[f"{name}.final"]),
        residual=None if layer.residual_share is None else np.array(arrays[f"{name}.residual"]),
        key_rows=rows if is_folded else None,
    )


def parameters_sha256(parameters: Iterable[NDArray[np.generic]]) -> str:
    """Return the SHA-256 of arrays: their shapes, types and bytes, in order."""
    digest = hashlib.sha256()
    for array in parameters:
        digest.update(f"{array.shape} {array.dtype.str} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _facts_sha256(stored: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()
