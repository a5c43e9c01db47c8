"""Checkpoints: the state of an interrupted training, as tensors and plain numbers in one file of torch.

A file belongs to one configuration, one version of the packages and one processor type; another is not used. It is
written atomically and read without unpickling objects.
"""

from __future__ import annotations

import platform
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from idwbench import __version__
from idwbench.files import make_folder, write_file
from idwbench.runs.config import RunConfig

__all__ = ["CheckpointFile", "Checkpoints", "State"]

FORMAT = "idwbench-checkpoint-2"


@dataclass(frozen=True)
class State:
    """Tensors by name, and facts: numbers, texts, None, and lists and dictionaries of them."""

    tensors: Mapping[str, Tensor]
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
        tensors = {name: tensor.detach().cpu() for name, tensor in state.tensors.items()}
        content = BytesIO()
        torch.save({"origin": self._origin(), "tensors": tensors, "facts": dict(state.facts)}, content)
        make_folder(self.path.parent)
        write_file(self.path, content.getvalue(), overwrite=True)

    def load(self) -> State | None:
        """Return the state, or None if there is no file or it cannot be used, with a note."""
        path, problem = self.path, ""
        if path.exists():
            try:
                content = path.read_bytes()
                held = torch.load(BytesIO(content), weights_only=True)
                # Torch does not compare the checksums of the parts.
                is_damaged = zipfile.ZipFile(BytesIO(content)).testzip() is not None
                problem = "is damaged" if is_damaged else self._problem(held["origin"])
            except Exception:  # a damaged file can raise any
                problem = "is damaged"
            if not problem:
                return State(held["tensors"], held["facts"])
        elif self._earlier.exists():
            path, problem = self._earlier, "was written by an earlier version"
        if problem:
            self.note(f"{path}: the checkpoint {problem}; the training starts anew")
        return None

    def delete(self) -> None:
        """Delete the file and its folder, if that is empty; without an error if they cannot be deleted."""
        try:
            self.path.unlink(missing_ok=True)
            self._earlier.unlink(missing_ok=True)
            self.path.parent.rmdir()
        except OSError:
            pass

    @property
    def _earlier(self) -> Path:
        """The file of version 0.1, which is not read."""
        return self.path.with_suffix(".safetensors")

    def _origin(self) -> dict[str, str]:
        return {
            "format": FORMAT,
            "identity": self.identity,
            "versions": f"idwbench {__version__}, torch {torch.__version__}, numpy {np.__version__}",
            "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        }

    def _problem(self, origin: Mapping[str, str]) -> str:
        """Return why a file of that origin cannot be used, or an empty text."""
        expected = self._origin()
        if origin["identity"] != expected["identity"]:
            return "is of another configuration"
        for name in ("format", "versions", "machine"):
            if origin[name] != expected[name]:
                return f"was written by {origin[name]}, not {expected[name]}"
        return ""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of many runs: ``<run key>.pt`` in one folder, or none without a folder."""

    folder: Path | None = None
    note: Callable[[str], None] = lambda line: None

    def file(self, config: RunConfig, data_sha256: str, device: str) -> CheckpointFile | None:
        """Return the file of a run on data with that checksum, or None without a folder."""
        if self.folder is None:
            return None
        identity = f"{config.run_key} {data_sha256} {device}"
        return CheckpointFile(self.folder / f"{config.run_key}.pt", identity, self.note)

    def delete(self, configs: Sequence[RunConfig]) -> None:
        """Delete the files of runs."""
        for config in configs:
            if (file := self.file(config, "", "")) is not None:
                file.delete()
