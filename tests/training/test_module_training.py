"""The training of modules against the optimizers of torch, and the bytes of an interrupted training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from float64_loop import make_optimizer
from module_trainings import CHILD_MARK, N_TRAIN, Interrupted, make_training, state_bytes
from torch import nn
from torch.nn import functional

from idwbench.runs.protocol import Protocol, learning_rate
from idwbench.training.checkpoints import CheckpointFile
from idwbench.training.module_training import activation_memory
from idwbench.training.optimizers import flat_parameters

PROTOCOLS = (
    {},
    {"optimizer": "adam", "weight_decay": 0.01, "schedule": "constant"},
    {"optimizer": "sgd", "momentum": 0.9, "gradient_clip": 0.05, "warmup_epochs": 1},
    {"optimizer": "sgd"},
)


def reference(protocol: Protocol) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Return parameters and mean losses by epoch of a loop with the optimizers of torch, in float64."""
    made = make_training(protocol)
    module = made.module.double()
    optimizer = make_optimizer([*module.parameters()], protocol)
    generator, means = np.random.default_rng(5), []
    for epoch in range(protocol.epochs):
        optimizer.param_groups[0]["lr"] = learning_rate(protocol, epoch)
        order, total = torch.from_numpy(generator.permutation(N_TRAIN)), 0.0
        for rows in order.split(protocol.batch_size):
            outputs = module(made.inputs[rows].double())
            losses = functional.cross_entropy(outputs, made.labels[rows], reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            if protocol.gradient_clip:
                nn.utils.clip_grad_norm_(module.parameters(), protocol.gradient_clip)
            optimizer.step()
            total += float(losses.detach().sum())
        means.append(total / N_TRAIN)
    return module.state_dict(), means


@pytest.mark.parametrize("settings", PROTOCOLS)
def test_training_follows_the_optimizers_of_torch(settings: dict[str, object]) -> None:
    protocol = Protocol(epochs=3, batch_size=8, learning_rate=0.05, **settings)
    training = make_training(protocol).training()
    trained = training.train()
    expected, means = reference(protocol)
    for name, tensor in training.module.state_dict().items():
        torch.testing.assert_close(tensor.double(), expected[name], rtol=1e-3, atol=2e-5)
    assert [p.values["train", "loss"] for p in trained.curve] == pytest.approx(means, rel=1e-5)
    assert [p.values["train", "learning_rate"] for p in trained.curve] == [learning_rate(protocol, e) for e in range(3)]


@pytest.mark.parametrize("settings", PROTOCOLS)
def test_a_training_interrupted_in_any_step_gives_the_same_bytes(settings: dict[str, object], tmp_path: Path) -> None:
    protocol = Protocol(epochs=2, batch_size=8, learning_rate=0.05, **settings)
    whole = make_training(protocol).training()
    curve = whole.train().curve
    steps = 2 * -(-N_TRAIN // 8)
    for stop in range(1, steps + 1):
        path = tmp_path / f"{stop}.pt"
        interrupted = make_training(protocol, stop_after=stop).training(path, checkpoint_seconds=0)
        with pytest.raises(Interrupted):
            interrupted.train()
        resumed = make_training(protocol)
        training = resumed.training(path)
        trained = training.train()
        assert state_bytes(training.module) == state_bytes(whole.module)
        assert trained.curve == curve
        assert resumed.steps == steps - (stop - 1)  # the steps before the interruption are not repeated
        assert len(training.progress.step_seconds) == steps


@pytest.mark.slow
def test_a_killed_process_is_continued_with_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    folder = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    child = subprocess.Popen(
        [sys.executable, str(folder / "module_trainings.py"), str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline().strip() == CHILD_MARK  # it waits in the second epoch
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    protocol = Protocol(epochs=3, batch_size=8, learning_rate=0.05)
    whole, resumed = make_training(protocol).training(), make_training(protocol)
    whole.train()
    training = resumed.training(path)
    training.train()
    assert state_bytes(training.module) == state_bytes(whole.module)
    assert resumed.steps < 3 * -(-N_TRAIN // 8)
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


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
    assert other.load() is None and "is of another configuration; the training starts anew" in notes[-1]
    content = file.path.read_bytes()
    place = content.index(np.arange(4.0, dtype=np.float32).tobytes())
    for damaged in (b"", content[:20], content[:-1], content[:place] + b"\x01" + content[place + 1 :], b"\xff" * 64):
        file.path.write_bytes(damaged)
        assert file.load() is None and "is damaged" in notes[-1]
    file.path.write_bytes(content)
    monkeypatch.setattr("idwbench.training.checkpoints.__version__", "9.9.9")
    assert file.load() is None and "not idwbench 9.9.9" in notes[-1]
    file.path.rename(tmp_path / "a.safetensors")
    assert file.load() is None and "was written by an earlier version; the training starts anew" in notes[-1]
    assert len(notes) == 8
    file.delete()
    assert not tmp_path.exists()
    file.delete()


def test_activation_memory_counts_what_backward_needs_once() -> None:
    module = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
    inputs = torch.randn(7, 6)
    expected = 4 * (7 * 6 + 7 * 5)  # the inputs; the result of the ReLU, which both of its neighbours save
    assert activation_memory(module, lambda: module(inputs))[1] * 2**20 == expected
    flat_parameters(module.parameters())
    assert activation_memory(module, lambda: module(inputs))[1] * 2**20 == expected
