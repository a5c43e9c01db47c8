"""The disk space of a recording, before a training begins."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from idwbench.dual.facts import LayerFacts, RecordingFacts
from idwbench.errors import FullDiskError
from idwbench.machine import readable_bytes

__all__ = ["check_space", "folder_bytes", "recording_bytes"]

# Headers, JSON and the file system's own needs.
_OVERHEAD = 2**20


def recording_bytes(facts: RecordingFacts, *, steps: int, slots: int) -> int:
    """Return the bytes of a recording, to within a MiB.

    Args:
        facts: Its layers, optimizer and type of numbers.
        steps: Number of steps of the training.
        slots: Number of slots: inputs of a layer in the whole training.
    """
    number = np.dtype(facts.dtype).itemsize
    total = 8 * slots + 24 * steps + _OVERHEAD
    return total + sum(_layer_bytes(layer, facts, number, steps, slots) for layer in facts.layers.values())


def _layer_bytes(layer: LayerFacts, facts: RecordingFacts, number: int, steps: int, slots: int) -> int:
    own = max(4, number)  # the module's numbers
    keys = layer.features * (number * slots if layer.folded is None else own * layer.folded)
    own_gradients = layer.gradients_of is None
    by_step = steps * 8 * ((0 if facts.exact else layer.outputs) + (own_gradients and facts.dtype == "float16"))
    parameters = layer.outputs * (layer.features + layer.bias) * (2 * own + (0 if facts.exact else 8))
    return keys + own_gradients * number * slots * layer.outputs + by_step + parameters


def check_space(folder: Path, needed: int) -> None:
    """Check that the disk of a folder, which need not exist, has room for a number of bytes.

    Raises:
        FullDiskError: it has not.
    """
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        problem = f"the recording needs {readable_bytes(needed)} of disk space, and {readable_bytes(free)} are free"
        raise FullDiskError(problem, file=folder)


def folder_bytes(folder: Path) -> int:
    """Return the bytes of the files in a folder, 0 without it."""
    return sum(file.stat().st_size for file in folder.glob("*")) if folder.is_dir() else 0
