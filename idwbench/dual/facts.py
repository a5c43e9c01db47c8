"""What a recording says of itself: the file ``recording.json`` in its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import RecordingError
from idwbench.files import read_file, write_file

__all__ = ["LayerFacts", "RecordingFacts", "parameters_sha256", "read_facts", "write_facts"]

FORMAT = "idwbench-recording-1"
FILE = "recording.json"


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


def parameters_sha256(parameters: Iterable[NDArray[np.generic]]) -> str:
    """Return the SHA-256 of arrays: their shapes, types and bytes, in order."""
    digest = hashlib.sha256()
    for array in parameters:
        digest.update(f"{array.shape} {array.dtype.str} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def write_facts(folder: Path, facts: RecordingFacts) -> None:
    """Write ``recording.json`` atomically, with a checksum of its own.

    Raises:
        OutputError: it cannot be written.
    """
    stored = asdict(facts)
    for layer in stored["layers"].values():
        if layer["gradients_of"] is None:
            del layer["gradients_of"]
    content = json.dumps({"format": FORMAT, **stored, "sha256": _facts_sha256(stored)}, indent=1) + "\n"
    write_file(folder / FILE, content.encode(), overwrite=True)


def read_facts(folder: Path) -> RecordingFacts:
    """Read ``recording.json``.

    Raises:
        RecordingError: there is no such folder or file, or it is damaged or of another format.
    """
    if not folder.is_dir():
        problem = "there is no recording: it was moved or deleted, or the run was not recorded"
        raise RecordingError(problem, file=folder, hint="train the run again to record it anew")
    path = folder / FILE
    content = read_file(path, RecordingError)
    try:
        stored: dict[str, Any] = json.loads(content)
        name, checksum = stored.pop("format"), stored.pop("sha256", None)
        is_damaged = checksum not in (None, _facts_sha256(stored))
        layers = {layer: LayerFacts(**facts) for layer, facts in stored.pop("layers").items()}
        facts = _checked(RecordingFacts(layers=layers, **stored))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise RecordingError("is damaged: expected the facts of a recording", file=path) from None
    if name != FORMAT:
        raise RecordingError(f"has the format {name!r}, expected '{FORMAT}'", file=path)
    if is_damaged:
        raise RecordingError("is damaged: it has another checksum", file=path)
    return facts


def _facts_sha256(stored: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


def _checked(facts: RecordingFacts) -> RecordingFacts:
    """Return the facts, whose values have the types of the fields; otherwise a `ValueError` is raised."""
    from pydantic import TypeAdapter

    checked: RecordingFacts = TypeAdapter(RecordingFacts).validate_python(asdict(facts))
    return checked
