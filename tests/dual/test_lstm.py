"""The gates' gradients of an LSTM against autograd, and its matrices as attention over their training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from idwbench.dual.disk_space import folder_bytes, recording_bytes
from idwbench.dual.facts import RecordingFacts
from idwbench.dual.lstm import (
    computed_gates,
    gate_gradients,
    kept_gates,
    lstm_layers,
    previous_states,
    record_lstm,
)
from idwbench.dual.recorder import Recorder
from idwbench.dual.recording import Recording
from idwbench.models.lstm import LstmLanguageModel
from idwbench.runs.protocol import Protocol
from idwbench.training.language_model_engine import random_windows
from idwbench.training.module_training import ModuleTraining

N_ROWS, N_TOKENS = 60, 7


def model_in(dtype: torch.dtype, context: int = 6) -> LstmLanguageModel:
    generator = torch.Generator().manual_seed(0)
    return LstmLanguageModel(N_TOKENS, embedding=3, width=5, context=context, generator=generator).to(dtype)


def tokens() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(0, N_TOKENS, N_ROWS + 1))


@pytest.mark.parametrize("length", [1, 2, 9])
def test_errors_times_keys_are_the_gradients_of_autograd(length: int) -> None:
    model = model_in(torch.float64)
    kept: dict[str, torch.Tensor] = {}

    def keep(_: nn.Module, inputs: tuple[torch.Tensor, ...], outputs: tuple[torch.Tensor, object]) -> None:
        kept["inputs"], kept["states"] = inputs[0].detach(), outputs[0].detach()
        outputs[0].register_hook(lambda gradients: kept.update(gradients=gradients))

    model.lstm.register_forward_hook(keep)
    codes = tokens()[: 4 * (length + 1)].view(4, length + 1)
    logits = model(codes[:, :-1])
    functional.cross_entropy(logits.flatten(0, 1), codes[:, 1:].flatten()).backward()
    gates, before = gate_gradients(model.lstm, kept["inputs"], kept["states"], kept["gradients"])
    assert torch.equal(before, previous_states(kept["states"]))
    found = gates.flatten(0, 1).T
    keys = {"weight_ih_l0": kept["inputs"], "weight_hh_l0": previous_states(kept["states"])}
    for name, of_layer in keys.items():
        expected = getattr(model.lstm, name).grad
        assert (found @ of_layer.flatten(0, 1) - expected).abs().max() < 1e-10
        assert expected.abs().max() > 1e-4 or (name == "weight_hh_l0" and length == 1)
    for bias in (model.lstm.bias_ih_l0, model.lstm.bias_hh_l0):
        assert (found.sum(1) - bias.grad).abs().max() < 1e-10


@pytest.mark.parametrize(("units", "batch", "length"), [(5, 4, 6), (64, 1, 3), (128, 8, 2)])
def test_gates_that_the_forward_pass_kept_are_those_computed_again(units: int, batch: int, length: int) -> None:
    lstm = nn.LSTM(3, units, batch_first=True)
    inputs = torch.randn(batch, length, 3, generator=torch.Generator().manual_seed(0))
    states = lstm(inputs)[0]
    computed, kept = computed_gates(lstm, inputs, states.detach()), kept_gates(states)
    # Where torch has no oneDNN, nothing is kept.
    assert (kept is None) == (states.grad_fn.next_functions[0][0].name() != "MkldnnRnnLayerBackward0")
    assert kept is None or (kept[..., : 4 * units] - computed).abs().max() < 1e-6
    assert kept_gates(lstm.double()(inputs.double())[0]) is None


def test_gates_that_do_not_give_the_states_are_not_used() -> None:
    lstm = nn.LSTM(3, 5, batch_first=True)
    inputs, gradients = torch.randn(2, 4, 3), torch.randn(2, 4, 5)
    states = lstm(inputs)[0].detach()
    expected = gate_gradients(lstm, inputs, states, gradients)[0]
    for gates in (torch.full((4, 2, 20), 0.5), torch.full((4, 2, 20), torch.nan)):
        assert torch.equal(gate_gradients(lstm, inputs, states, gradients, gates)[0], expected)


def recorded(folder: Path, dtype: torch.dtype, n_epochs: int = 4) -> tuple[LstmLanguageModel, Recording]:
    model, text = model_in(dtype), tokens()
    protocol = Protocol(
        epochs=n_epochs, batch_size=2, learning_rate=0.7, optimizer="sgd", momentum=0.9, gradient_clip=0.3
    )
    layers = {**lstm_layers(model.lstm), "head": model.head}
    facts = RecordingFacts("run", "data", protocol.optimizer, protocol.momentum)
    recorder = Recorder(layers, folder / "run", facts, dtype=str(dtype).removeprefix("torch."))
    record_lstm(recorder, model.lstm)

    def losses(rows: np.ndarray) -> torch.Tensor:
        where = torch.from_numpy(rows)
        return functional.cross_entropy(model(text[where]).flatten(0, 1), text[where + 1].flatten(), reduction="none")

    batches = random_windows(N_ROWS, model.context, protocol.batch_size)
    ModuleTraining(model, protocol, losses, batches, np.random.default_rng(2), recorder=recorder).train()
    recorder.finish()
    return model, Recording.open(folder / "run")


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_both_matrices_are_attention_over_their_training(dtype: torch.dtype, bound: float, tmp_path: Path) -> None:
    model, recording = recorded(tmp_path, dtype)
    lstm = model.lstm
    primal = {
        "lstm.input": (lstm.weight_ih_l0, lstm.bias_ih_l0),
        "lstm.recurrent": (lstm.weight_hh_l0, lstm.bias_hh_l0),
        "head": (model.head.weight, model.head.bias),
    }
    assert list(recording.layers) == list(primal)
    steps = np.load(tmp_path / "run" / "steps.npy")
    assert (steps[:, 1] < 1).any() and (steps[:, 1] == 1).any()  # gradients that were clipped, and others
    for name, (weight, bias) in primal.items():
        memory = recording.layers[name]
        queries = torch.randn(9, weight.shape[1], dtype=dtype, generator=torch.Generator().manual_seed(3))
        expected = functional.linear(queries, weight, bias).detach().numpy()
        assert np.abs(memory.answers(queries.numpy()) - expected).max() < bound
        # Without the training the layer is its initial one.
        before = queries.numpy() @ memory.initial.T + memory.initial_bias
        assert np.abs(before - expected).max() > 0.05


def test_both_matrices_share_the_gradients_on_disk(tmp_path: Path) -> None:
    recording = recorded(tmp_path, torch.float32)[1]
    folder, layers = tmp_path / "run", json.loads((tmp_path / "run" / "recording.json").read_bytes())["layers"]
    assert layers["lstm.recurrent"]["gradients_of"] == "lstm.input"
    assert not any("gradients_of" in layers[name] for name in ("lstm.input", "head"))
    assert {file.name for file in folder.glob("*.gradients.npy")} == {"lstm.input.gradients.npy", "head.gradients.npy"}
    needed = recording_bytes(recording.facts, steps=recording.steps, slots=len(recording.rows))
    assert abs(needed - folder_bytes(folder)) < 2**20 + 10_000


def test_slots_are_the_rows_of_the_windows_in_order(tmp_path: Path) -> None:
    recording = recorded(tmp_path, torch.float32, n_epochs=1)[1]
    generator = np.random.default_rng(2)
    rows = np.concatenate([part.ravel() for part in random_windows(N_ROWS, 6, 2)(generator)])
    np.testing.assert_array_equal(recording.rows, rows)
    keys = {name: recording.layers[name].keys(slice(None)) for name in ("lstm.input", "lstm.recurrent", "head")}
    n_of_step = 12
    initial = model_in(torch.float32)
    np.testing.assert_array_equal(keys["lstm.input"][:n_of_step], initial.tokens(tokens()[rows[:n_of_step]]).detach())
    # The state before the first token of a window is zero, and before others that after the token before.
    previous = keys["lstm.recurrent"].reshape(-1, 6, 5)
    assert not previous[:, 0].any()
    np.testing.assert_array_equal(previous[:, 1:], keys["head"].reshape(-1, 6, 5)[:, :-1])


@pytest.mark.parametrize(
    "options", [{"num_layers": 2}, {"bidirectional": True}, {"bias": False}, {"batch_first": False}, {"proj_size": 1}]
)
def test_other_lstms_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected one layer of LSTM"):
        lstm_layers(nn.LSTM(2, 3, **{"batch_first": True, **options}))


def test_states_that_are_not_numbers_give_no_numbers() -> None:
    lstm = nn.LSTM(3, 5, batch_first=True)
    inputs, states = torch.full((2, 4, 3), torch.nan), torch.full((2, 4, 5), torch.nan)
    for gates in (None, torch.full((4, 2, 20), 0.5)):
        assert gate_gradients(lstm, inputs, states, torch.ones(2, 4, 5), gates)[0].isnan().all()


def test_a_gate_that_is_shut_gives_finite_gradients() -> None:
    lstm = nn.LSTM(3, 5, batch_first=True)
    with torch.no_grad():
        lstm.bias_ih_l0[15:] = -1000  # the output gate is exactly 0
    inputs, gradients = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)), torch.ones(2, 4, 5)
    states = lstm(inputs)[0].detach()
    assert not states.any()
    assert not gate_gradients(lstm, inputs, states, gradients)[0].any()
