"""The files of interrupted trainings, and the memory of a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from idwbench.training.checkpoints import CheckpointFile
from idwbench.training.module_training import activation_memory
from idwbench.training.optimizers import flat_parameters


def test_checkpoints_of_another_run_or_version_and_damaged_ones_are_not_used(tmp_path: Path, monkeypatch) -> None:
    notes: list[str] = []
    file = CheckpointFile(tmp_path / "a.pt", "this run", notes.append)
    assert file.load() is None and notes == []
    position = np.random.default_rng(5).bit_generator.state
    tensors, facts = {"x": torch.arange(4.0), "none": torch.zeros(0, 2)}, {"nan": [1e-300], "generator": position}
    file.save(tensors, facts)
    loaded = file.load()
    assert loaded is not None and loaded[1] == facts
    assert all(torch.equal(loaded[0][name], tensor) for name, tensor in tensors.items())
    other = CheckpointFile(file.path, "another run", notes.append)
    assert other.load() is None and "is of another configuration; the training starts again" in notes[-1]
    content = file.path.read_bytes()
    place = content.index(np.arange(4.0, dtype=np.float32).tobytes())
    for damaged in (b"", content[:20], content[:-1], content[:place] + b"\x01" + content[place + 1 :], b"\xff" * 64):
        file.path.write_bytes(damaged)
        assert file.load() is None and "is damaged" in notes[-1]
    file.path.write_bytes(content)
    monkeypatch.setattr("idwbench.training.checkpoints.__version__", "9.9.9")
    assert file.load() is None and "not idwbench 9.9.9" in notes[-1]
    file.path.rename(tmp_path / "a.safetensors")
    assert file.load() is None and "was written by an earlier version; the training starts again" in notes[-1]
    assert len(notes) == 8
    for _ in range(2):
        file.delete()
        assert not tmp_path.exists()


def test_activation_memory_counts_what_backward_needs_once() -> None:
    module, inputs = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)), torch.randn(7, 6)
    expected = 4 * (7 * 6 + 7 * 5)  # the inputs; the result of the ReLU, which both of its neighbours save
    assert activation_memory(module, lambda: module(inputs))[1] * 2**20 == expected
    flat_parameters(module.parameters())
    assert activation_memory(module, lambda: module(inputs))[1] * 2**20 == expected
