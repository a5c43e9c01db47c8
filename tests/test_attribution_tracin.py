from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from benchmarks.attribution.tracin import TracIn
from idwbench.dual.attribution import layer_queries, row_contributions
from idwbench.dual.recorder import Recorder
from idwbench.dual.recording import Recording, RecordingFacts
from idwbench.runs.protocol import Protocol
from idwbench.training.module_training import ModuleTraining


@pytest.fixture
def task():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(12, 4)).astype(np.float32)
    return inputs, generator.integers(0, 3, size=12), generator.normal(size=(5, 4)).astype(np.float32), np.arange(5) % 3


def gradients(module, inputs, labels, number):
    """The gradient of a number of each input, flat."""
    rows = []
    for row, label in zip(torch.from_numpy(inputs), torch.from_numpy(labels), strict=True):
        module.zero_grad()
        number(module(row[None]), label[None]).backward()
        rows.append(torch.cat([parameter.grad.flatten() for parameter in module.parameters()]))
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("explained", ["loss", "logit"])
def test_tracin_is_the_product_of_gradients_at_the_checkpoints(task, explained):
    inputs, labels, queries, answers = task
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    states = [
        {name: value + shift for name, value in module.state_dict().items()}
        for shift in (torch.zeros(()), torch.ones(()))
    ]
    expected = 0
    for state in states:
        module.load_state_dict(state)
        trained = gradients(module, inputs, labels, functional.cross_entropy)
        asked = gradients(
            module,
            queries,
            answers,
            functional.cross_entropy if explained == "loss" else lambda outputs, label: -outputs[0, label].sum(),
        )
        expected = expected + 0.1 * asked @ trained.T
    tracin = TracIn(module, None, states, 0.1, inputs, labels, explained, batch_size=5)
    np.testing.assert_allclose(tracin.scores(queries, answers), expected, rtol=1e-4, atol=1e-5)
    own = TracIn(module, None, states, 0.1, inputs, labels, explained, batch_size=5)
    everything = TracIn(module, None, states, 0.1, inputs, labels, "loss", batch_size=5).scores(inputs, labels)
    np.testing.assert_allclose(own.self_influence(), np.diag(everything), rtol=1e-4)


def test_tracin_at_each_step_is_the_contribution_to_a_linear_layer(task, tmp_path):
    """The gradient of a query's logit is the query at every checkpoint, and that of a row is recorded."""
    inputs, labels, queries, answers = task
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3, bias=False))
    states = [{name: tensor.clone() for name, tensor in module.state_dict().items()}]

    def keep():
        states.append({name: tensor.clone() for name, tensor in module.state_dict().items()})
        return {}

    rows, steps, rate = np.arange(len(inputs)), 5, 0.5
    facts, slots = RecordingFacts("run", "data"), steps * len(rows)
    recorder = Recorder({"0": module[0]}, tmp_path / "run", facts, steps=steps, slots=slots)
    ModuleTraining(
        module,
        Protocol(epochs=steps, batch_size=12, learning_rate=rate, optimizer="sgd", schedule="constant"),
        lambda batch: functional.cross_entropy(
            module(torch.from_numpy(inputs[batch])), torch.from_numpy(labels[batch]), reduction="none"
        ),
        lambda generator, epoch: [rows],
        np.random.default_rng(0),
        evaluate=keep,
        recorder=recorder,
    ).train()
    recorder.finish()
    asked = layer_queries(module, {"0": module[0]}, queries, answers)["0"]
    memory = Recording.open(tmp_path / "run").layers["0"]
    found = row_contributions(memory, np.tile(rows, steps), len(rows), asked)
    tracin = TracIn(module, "0", states[:steps], rate / len(rows), inputs, labels)
    np.testing.assert_allclose(found, tracin.scores(queries, answers), atol=1e-6)
    fewer = TracIn(module, "0", states[1:2], rate * steps / len(rows), inputs, labels).scores(queries, answers)
    assert np.abs(found - fewer).max() > 1e-2
