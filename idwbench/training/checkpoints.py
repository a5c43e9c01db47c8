"""Checkpoints: the state of an interrupted training, as tensors and plain numbers in one file of torch.

A file belongs to one configuration, one version of the packages and one processor type; another is not used. It is
written atomically and read without unpickling objects.
"""

from __future__ import annotations

import platform
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from idwbench import __version__
from idwbench.files import make_folder, write_file

__all__ = ["CheckpointFile"]

FORMAT = "idwbench-checkpoint-2"


@dataclass(frozen=True)
class CheckpointFile:
    """The checkpoint of one training.

    Its state are tensors by name, and facts: numbers, texts, None, and lists and dictionaries of them.

    Attributes:
        path: The file; its folder is created when needed.
        identity: What was trained: configuration, data and device. A file with another identity is not used.
        note: Receives one line if a file exists and cannot be used.
    """

    path: Path
    identity: str
    note: Callable[[str], None] = lambda line: None

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write the state atomically.

        Raises:
            OutputError: the file cannot be written.
        """
        tensors = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
        content = BytesIO()
        torch.save({"origin": self._origin(), "tensors": tensors, "facts": dict(facts)}, content)
        make_folder(self.path.parent)
        write_file(self.path, content.getvalue(), overwrite=True)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return tensors and facts, or None if there is no file or it cannot be used, with a note."""
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
                return held["tensors"], held["facts"]
        elif self._earlier.exists():
            path, problem = self._earlier, "was written by an earlier version"
        if problem:
            self.note(f"{path}: the checkpoint {problem}; the training starts again")
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
            "identity": self.identity,
            "format": FORMAT,
            "versions": f"idwbench {__version__}, torch {torch.__version__}, numpy {np.__version__}",
            "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        }

    def _problem(self, origin: Mapping[str, str]) -> str:
        """Return why a file of that origin cannot be used, or an empty text."""
        for name, expected in self._origin().items():
            if origin[name] != expected:
                is_other = name == "identity"
                return "is of another configuration" if is_other else f"was written by {origin[name]}, not {expected}"
        return ""
