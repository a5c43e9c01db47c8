"""The gates' gradients of an LSTM against autograd, and its matrices as attention over their training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from idwbench.dual.layer_calls import gate_gradients, lstm_layers, previous_states, record_lstm
from idwbench.dual.recorder import Recorder
from idwbench.dual.recording import Recording, RecordingFacts
from idwbench.models.text_model import LstmLanguageModel
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.protocol import Protocol
from idwbench.training.language_model_engine import random_windows, steps_of_epoch
from idwbench.training.module_training import ModuleTraining

N_ROWS, N_TOKENS = 60, 7


def model_in(dtype: torch.dtype, context: int = 6) -> LstmLanguageModel:
    generator = torch.Generator().manual_seed(0)
    return LstmLanguageModel(LstmConfig(embedding=3, width=5, context=context), N_TOKENS, generator).to(dtype)


def tokens() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(0, N_TOKENS, N_ROWS + 1))


@pytest.mark.parametrize("length", [1, 2, 9])
def test_errors_times_keys_are_the_gradients_of_autograd(length: int) -> None:
    model, taken = model_in(torch.float64), Taken()
    record_lstm(taken.take, model.lstm)
    codes = tokens()[: 4 * (length + 1)].view(4, length + 1)
    logits = model(codes[:, :-1])
    functional.cross_entropy(logits.flatten(0, 1), codes[:, 1:].flatten()).backward()
    for name, suffix in (("lstm.input", "ih_l0"), ("lstm.recurrent", "hh_l0")):
        keys, gradients = (part.flatten(0, 1) for part in taken.layers[name])
        expected, bias = (getattr(model.lstm, f"{kind}_{suffix}").grad for kind in ("weight", "bias"))
        assert (gradients.T @ keys - expected).abs().max() < 1e-10
        assert (gradients.sum(0) - bias).abs().max() < 1e-10
        assert expected.abs().max() > 1e-4 or (name == "lstm.recurrent" and length == 1)
    inputs, previous = taken.layers["lstm.input"][0], taken.layers["lstm.recurrent"][0]
    assert torch.equal(previous, previous_states(model.lstm(inputs)[0].detach()))


SHAPES = [(3, 5, 4, 6), (3, 64, 1, 3), (200, 64, 1, 3), (64, 128, 8, 2), (6, 5, 4, 1), (32, 256, 4, 3)]


@pytest.mark.parametrize(("features", "units", "batch", "length"), SHAPES)
def test_gradients_in_float32_are_those_in_float64_within_rounding(
    features: int, units: int, batch: int, length: int
) -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(features, units, batch_first=True)
    inputs, above = torch.randn(batch, length, features), torch.randn(batch, length, units)
    gates = gate_gradients(lstm, inputs, lstm(inputs)[0].detach(), above)
    lstm, inputs, above = lstm.double(), inputs.double(), above.double()
    expected = gate_gradients(lstm, inputs, lstm(inputs)[0].detach(), above)
    # Each step adds sums of `features` or `units` terms to a chain of `length` steps.
    bound = length * (features + 4 * units) * torch.finfo(torch.float32).eps
    assert (gates - expected).abs().max() < bound * expected.abs().max()


class Taken:
    """A recorder that keeps keys and gradients in memory."""

    def __init__(self) -> None:
        self.layers: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def take(self, name: str, keys: torch.Tensor, gradients: torch.Tensor) -> None:
        self.layers[name] = keys, gradients


BIASES = ("bias_ih_l0", "bias_hh_l0")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("frozen", [BIASES[:1], BIASES[1:], BIASES, None], ids=["ih", "hh", "both", "no_bias"])
def test_an_lstm_whose_bias_is_not_trained_is_recorded(frozen: tuple[str, ...] | None, dtype: torch.dtype) -> None:
    lstm = nn.LSTM(3, 5, batch_first=True, bias=frozen is not None, dtype=dtype)
    for name in frozen or ():
        getattr(lstm, name).requires_grad_(False)
    taken, draws = Taken(), torch.Generator().manual_seed(0)
    record_lstm(taken.take, lstm)
    states = lstm(torch.randn(4, 6, 3, dtype=dtype, generator=draws))[0]
    states.backward(torch.randn(4, 6, 5, dtype=dtype, generator=draws))
    for name, weight in (("lstm.input", lstm.weight_ih_l0), ("lstm.recurrent", lstm.weight_hh_l0)):
        keys, gradients = (part.flatten(0, 1) for part in taken.layers[name])
        assert (gradients.T @ keys - weight.grad).abs().max() < 1e-5 * weight.grad.abs().max()


def test_a_frozen_lstm_is_recorded_with_the_gradients_of_its_gates() -> None:
    lstm, inputs = nn.LSTM(3, 5, batch_first=True), torch.randn(4, 6, 3, requires_grad=True)
    usual, frozen = Taken(), Taken()
    for taken in (usual, frozen):
        lstm.requires_grad_(taken is usual)
        handle = record_lstm(taken.take, lstm)
        lstm(inputs)[0].square().sum().backward()
        handle.remove()
    for name, (_, expected) in usual.layers.items():
        assert (frozen.layers[name][1] - expected).abs().max() < 1e-5 * expected.abs().max()


def recorded(folder: Path, dtype: torch.dtype, n_epochs: int = 4) -> tuple[LstmLanguageModel, Recording]:
    model, text = model_in(dtype), tokens()
    protocol = Protocol(
        epochs=n_epochs, batch_size=2, learning_rate=0.7, optimizer="sgd", momentum=0.9, gradient_clip=0.3
    )
    layers = {**lstm_layers(model.lstm), "head": model.head}
    facts = RecordingFacts("run", "data", protocol.optimizer, protocol.momentum)
    steps, numbers = n_epochs * steps_of_epoch(N_ROWS, model.context, protocol.batch_size), str(dtype)
    slots = steps * protocol.batch_size * model.context
    recorder = Recorder(layers, folder / "run", facts, steps=steps, slots=slots, dtype=numbers.removeprefix("torch."))
    record_lstm(recorder.take, model.lstm)

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
        before = queries.numpy() @ memory.initial[:, :-1].T + memory.initial[:, -1]
        assert np.abs(before - expected).max() > 0.05


def test_both_matrices_share_the_gradients_on_disk(tmp_path: Path) -> None:
    recorded(tmp_path, torch.float32)
    folder, layers = tmp_path / "run", json.loads((tmp_path / "run" / "recording.json").read_bytes())["layers"]
    assert layers["lstm.recurrent"]["gradients_of"] == "lstm.input"
    assert not any("gradients_of" in layers[name] for name in ("lstm.input", "head"))
    assert {file.name for file in folder.glob("*.gradients.npy")} == {"lstm.input.gradients.npy", "head.gradients.npy"}


def test_slots_are_the_rows_of_the_windows_in_order(tmp_path: Path) -> None:
    recording = recorded(tmp_path, torch.float32, n_epochs=1)[1]
    generator = np.random.default_rng(2)
    rows = np.concatenate([part.ravel() for part in random_windows(N_ROWS, 6, 2)(generator, 0)])
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
    assert gate_gradients(lstm, inputs, states, torch.ones(2, 4, 5)).isnan().all()


def test_a_gate_that_is_shut_gives_no_gradients() -> None:
    lstm = nn.LSTM(3, 5, batch_first=True)
    with torch.no_grad():
        lstm.bias_ih_l0[15:] = -1000  # the output gate is exactly 0
    inputs, gradients = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)), torch.ones(2, 4, 5)
    states = lstm(inputs)[0].detach()
    assert not states.any()
    assert not gate_gradients(lstm, inputs, states, gradients).any()
