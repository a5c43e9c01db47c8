"""A trained layer and the attention over its training give the same answers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from recorded import RecordedTraining
from torch import nn

from idwbench.dual.coefficients import step_coefficients
from idwbench.dual.memory import LayerMemory
from idwbench.dual.recording import Recording
from idwbench.runs.protocol import Protocol, learning_rate

ALL_OF_SGD = {"momentum": 0.8, "weight_decay": 0.05, "gradient_clip": 0.1, "schedule": "cosine"}
SGD = ({}, {"momentum": 0.9, "schedule": "cosine", "warmup_epochs": 1}, {"weight_decay": 0.05}, ALL_OF_SGD)
ADAM = (
    {"optimizer": "adam"},
    {"optimizer": "adam_amsgrad", "schedule": "cosine"},
    {"optimizer": "adam", "weight_decay": 0.05, "gradient_clip": 0.1},
)


def training(settings: dict[str, object], folder: Path, **options: object) -> RecordedTraining:
    base = {"epochs": 3, "batch_size": 8, "optimizer": "sgd", "schedule": "constant"}
    rate = 0.01 if "optimizer" in settings else 0.3
    return RecordedTraining(Protocol(**base | {"learning_rate": rate} | settings), folder / "run", **options)


def recorded(settings: dict[str, object], folder: Path, **options: object) -> tuple[RecordedTraining, Recording]:
    trained = training(settings, folder, **options)
    return trained, trained.run()


def batches() -> list[np.ndarray]:
    """Return the rows of each step."""
    order = np.random.default_rng(5)
    return [rows for _ in range(3) for rows in np.split(order.permutation(27), [8, 16, 24])]


def difference(memory: LayerMemory, layer: nn.Linear) -> float:
    """Return the largest difference of the dual form's answers, relative to the scale of the answers."""
    queries = np.random.default_rng(0).normal(size=(7, memory.features))
    expected = layer.double()(torch.from_numpy(queries)).detach().numpy()
    return float(np.abs(memory.answers(queries) - expected).max() / np.abs(expected).max())


def largest_difference(trained: RecordedTraining, recording: Recording) -> float:
    return max(difference(memory, trained.layers[name]) for name, memory in recording.layers.items())


def joined(layer: nn.Linear, part=lambda parameter: parameter) -> np.ndarray:
    """Return [weight, bias], or something of the same shapes."""
    parts = [part(layer.weight)] if layer.bias is None else [part(layer.weight), part(layer.bias)[:, None]]
    return torch.cat(parts, 1).detach().numpy().copy()


@pytest.mark.parametrize(
    ("settings", "fold"), [*((settings, False) for settings in SGD + ADAM), (ALL_OF_SGD, True), (ADAM[0], True)]
)
def test_a_layer_answers_as_attention_over_its_training(settings, fold, tmp_path):
    trained, recording = recorded(settings, tmp_path, fold=fold)
    assert largest_difference(trained, recording) < 1e-10
    for name, memory in recording.layers.items():
        assert np.array_equal(memory.final, joined(trained.layers[name]))
        share = recording.facts.layers[name].residual_share
        assert (memory.residual is None) == (share is None) == ("optimizer" not in settings)
        assert share is None or 0.001 < share < 1


# Smaller types, and a layer that is used twice in a step.
@pytest.mark.parametrize(
    ("options", "bound"),
    [({"record_dtype": "float32"}, 1e-5), ({"record_dtype": "float16", "fold": True}, 2e-3), ({"twice": True}, 1e-10)],
)
def test_the_dual_form_of_other_recordings_is_as_exact_as_their_numbers(options, bound, tmp_path):
    trained, recording = recorded({"momentum": 0.9}, tmp_path, **options)
    assert largest_difference(trained, recording) < bound
    visits = 2 if "twice" in options else 1
    assert np.array_equal(recording.rows, np.concatenate([np.tile(rows, visits) for rows in batches()]))


def test_a_formula_that_leaves_something_out_is_wrong(tmp_path):
    trained, recording = recorded(ALL_OF_SGD, tmp_path)
    p, (rates, clips, _) = trained.protocol, np.load(trained.folder / "steps.npy").T
    wrong = {
        "the tail of the momentum": {"coefficients": -rates * clips},
        "the end of the training, which cuts the tail": {"coefficients": -rates * clips / (1 - p.momentum)},
        "the clipping": {"coefficients": step_coefficients(rates, 1.0, p.momentum, p.weight_decay)[0]},
        "the weight decay": {"coefficients": step_coefficients(rates, clips, p.momentum)[0]},
        "W_0": {"initial_factor": 0.0},
        "the decay of W_0": {"initial_factor": 1.0},
    }
    for name, memory in recording.layers.items():
        for part, changes in wrong.items():
            assert difference(replace(memory, **changes), trained.layers[name]) > 1e-3, part


@pytest.mark.slow
def test_the_dual_form_holds_for_96000_slots_in_float32(tmp_path):
    settings = {"momentum": 0.9, "weight_decay": 0.001, "gradient_clip": 0.02, "learning_rate": 0.03}
    sizes = {"n_train": 96_000, "sizes": (10, 16, 12, 4), "dtype": torch.float32, "record_dtype": "float32"}
    trained, recording = recorded({"epochs": 1, "batch_size": 400, **settings}, tmp_path, **sizes)
    assert (recording.steps, len(recording.rows)) == (240, 96_000)
    assert largest_difference(trained, recording) < 1e-4


@pytest.mark.parametrize("settings", ADAM)
def test_the_factors_of_adam_are_the_nearest_to_its_updates_and_the_residual_is_what_they_leave(settings, tmp_path):
    recording = training(settings, tmp_path).run()
    again = training(settings, tmp_path / "again")  # the same by torch.optim.Adam
    layers, p = again.layers, again.protocol
    parameters = list(again.module.parameters())
    optimizer = torch.optim.Adam(parameters, amsgrad=p.optimizer == "adam_amsgrad", weight_decay=p.weight_decay)
    factors: dict[str, list[np.ndarray]] = {name: [] for name in layers}
    for step, rows in enumerate(batches()):
        optimizer.param_groups[0]["lr"] = learning_rate(p, step // 4)
        optimizer.zero_grad()
        again.losses(rows).mean().backward()
        if p.gradient_clip:
            nn.utils.clip_grad_norm_(parameters, p.gradient_clip)
        before = {name: joined(layer) for name, layer in layers.items()}
        optimizer.step()
        for name, layer in layers.items():
            moment = joined(layer, lambda parameter: optimizer.state[parameter]["exp_avg"]) / (1 - 0.9 ** (step + 1))
            squares = np.maximum((moment**2).sum(1), 1e-300)
            factors[name].append(((joined(layer) - before[name]) * moment).sum(1) / squares)  # by least squares
    for name, memory in recording.layers.items():
        # The bytes of the steps differ in rounding alone.
        np.testing.assert_allclose(memory.final, joined(layers[name]), rtol=0, atol=1e-10)
        np.testing.assert_allclose(
            np.load(recording.folder / f"{name}.scales.npy"), factors[name], rtol=1e-6, atol=1e-9
        )
        if p.weight_decay == 0:  # then W_0 stays as it is
            moved = np.linalg.norm(memory.final - memory.initial)
            share = recording.facts.layers[name].residual_share
            assert share == pytest.approx(np.linalg.norm(memory.residual) / moved, rel=1e-8)
        assert difference(replace(memory, residual=None), layers[name]) > 1e-3


def test_half_precision_keeps_three_digits_also_of_tiny_gradients(tmp_path):
    options = {"dtype": torch.float32, "loss_scale": 1e-7}
    half, whole = (
        recorded({"momentum": 0.9}, tmp_path / numbers, record_dtype=numbers, **options)[1].layers
        for numbers in ("float16", "float32")
    )
    for name, exact in whole.items():
        assert half[name].stored_keys.dtype == half[name].gradients.dtype == np.float16
        assert np.abs(half[name].change() - exact.change()).max() < 2e-3 * np.abs(exact.change()).max()
        gradients, expected = (memory.output_gradients(slice(5, 9)) for memory in (half[name], exact))
        assert np.allclose(gradients, expected, rtol=2e-3, atol=0)
