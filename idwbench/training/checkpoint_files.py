"""Checkpoint files: the state of an interrupted training, as arrays and JSON in one ``.safetensors``.

A file belongs to one configuration, one version of the packages and one processor type; another is not used. It is
written atomically and never unpickled.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from numpy.typing import NDArray

from idwbench import __version__
from idwbench.data.dataset import array_sha256
from idwbench.files import make_folder, write_file
from idwbench.runs.config import RunConfig

__all__ = ["CheckpointFile", "Checkpoints", "State"]

FORMAT = "idwbench-checkpoint-1"


@dataclass(frozen=True)
class State:
    """Arrays by name, and facts that JSON can hold."""

    arrays: Mapping[str, NDArray[np.generic]]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class CheckpointFile:
    """The checkpoint of one training.

    Attributes:
        path: The file; its folder is created when needed.
        identity: What was trained: configuration, data and device. A file with another identity is not used.
        note: Receives one line if a file exists and cannot be used.
    """

    path: Path
    identity: str
    note: Callable[[str], None] = lambda line: None

    def save(self, state: State) -> None:
        """Write the state atomically.

        Raises:
            OutputError: the file cannot be written.
        """
        arrays = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
        facts = {**self._origin(), "facts": state.facts, "sha256": _checksum(arrays, state.facts)}
        content = safetensors.numpy.save(arrays, {"checkpoint": json.dumps(facts, sort_keys=True)})
        make_folder(self.path.parent)
        write_file(self.path, content, overwrite=True)

    def load(self) -> State | None:
        """Return the state, or None if there is no file or it cannot be used, with a note."""
        if not self.path.exists():
            return None
        try:
            content = self.path.read_bytes()
            facts = json.loads(_metadata(content)["checkpoint"])
            arrays = safetensors.numpy.load(content)
            problem = self._problem(facts, arrays)
        except (OSError, ValueError, LookupError, TypeError, safetensors.SafetensorError):
            problem = "is damaged"
        if problem:
            self.note(f"{self.path}: the checkpoint {problem}; the training starts anew")
            return None
        return State(arrays, facts["facts"])

    def delete(self) -> None:
        """Delete the file and its folder, if that is empty; without an error if they cannot be deleted."""
        try:
            self.path.unlink(missing_ok=True)
            self.path.parent.rmdir()
        except OSError:
            pass

    def _origin(self) -> dict[str, str]:
        return {
            "format": FORMAT,
            "identity": self.identity,
            "versions": f"idwbench {__version__}, torch {torch.__version__}, numpy {np.__version__}",
            "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        }

    def _problem(self, facts: dict[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> str:
        """Return why a file cannot be used, or an empty text."""
        origin = self._origin()
        if facts["identity"] != origin["identity"]:
            return "is of another configuration"
        for name in ("format", "versions", "machine"):
            if facts[name] != origin[name]:
                return f"was written by {facts[name]}, not {origin[name]}"
        return "" if facts["sha256"] == _checksum(arrays, facts["facts"]) else "is damaged"


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of many runs: ``<run key>.safetensors`` in one folder, or none without a folder."""

    folder: Path | None = None
    note: Callable[[str], None] = lambda line: None

    def file(self, config: RunConfig, data_sha256: str, device: str) -> CheckpointFile | None:
        """Return the file of a run on data with that checksum, or None without a folder."""
        if self.folder is None:
            return None
        identity = f"{config.run_key} {data_sha256} {device}"
        return CheckpointFile(self.folder / f"{config.run_key}.safetensors", identity, self.note)

    def delete(self, configs: Sequence[RunConfig]) -> None:
        """Delete the files of runs."""
        for config in configs:
            if (file := self.file(config, "", "")) is not None:
                file.delete()


def _metadata(content: bytes) -> dict[str, str]:
    """Return the metadata in the header of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    found: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
    return found


def _checksum(arrays: Mapping[str, NDArray[np.generic]], facts: Mapping[str, Any]) -> str:
    names = sorted(arrays)
    text = np.frombuffer(json.dumps([names, facts], sort_keys=True).encode(), np.uint8)
    return array_sha256(text, *(arrays[name] for name in names))
