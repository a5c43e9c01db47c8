"""A trained layer and the attention over its training give the same answers."""

from __future__ import annotations

from collections.abc import Iterator
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

SGD = (
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "schedule": "cosine", "warmup_epochs": 1},
    {"weight_decay": 0.05},
    {"gradient_clip": 0.1},
    {"momentum": 0.8, "weight_decay": 0.05, "gradient_clip": 0.1, "schedule": "cosine"},
)
ADAM = (
    {"optimizer": "adam"},
    {"optimizer": "adam_amsgrad", "schedule": "cosine"},
    {"optimizer": "adam", "weight_decay": 0.05, "gradient_clip": 0.1},
)


def protocol(**settings: object) -> Protocol:
    base = {"epochs": 3, "batch_size": 8, "learning_rate": 0.3, "optimizer": "sgd", "schedule": "constant"}
    return Protocol(**(base | {"learning_rate": 0.01} if "optimizer" in settings else base) | settings)


def differences(module: nn.Module, recording: Recording) -> Iterator[float]:
    """Yield for each layer the largest difference of the dual form's answers, relative to the scale of the answers."""
    generator = np.random.default_rng(0)
    for name, memory in recording.layers.items():
        layer = module.get_submodule(name)
        queries = generator.normal(size=(7, layer.in_features))
        yield difference(memory, layer, queries)


def difference(memory: LayerMemory, layer: nn.Module, queries: np.ndarray) -> float:
    expected = layer.double()(torch.from_numpy(queries)).detach().numpy()
    return float(np.abs(memory.answers(queries) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("settings", SGD + ADAM)
@pytest.mark.parametrize("fold", [False, True])
def test_a_layer_answers_as_attention_over_its_training(settings, fold, tmp_path: Path) -> None:
    made = RecordedTraining(protocol(**settings), tmp_path / "run", fold=fold)
    recording = made.run()
    assert max(differences(made.module, recording)) < 1e-10
    for name, memory in recording.layers.items():
        layer = made.module.get_submodule(name)
        assert np.array_equal(memory.weight, layer.weight.detach().numpy())
        assert (memory.bias is None) == (layer.bias is None)
        share = recording.facts.layers[name].residual_share
        if recording.facts.exact:
            assert memory.residual is None and share is None
        else:
            assert memory.residual is not None and share is not None and 0.001 < share < 1


def wrong_memories(memory: LayerMemory, rates: np.ndarray, clips: np.ndarray, p: Protocol) -> Iterator[LayerMemory]:
    """Yield memories whose formula leaves something out."""
    yield replace(memory, coefficients=-rates * clips)  # the tail of the momentum
    yield replace(memory, coefficients=-rates * clips / (1 - p.momentum))  # the end of the training cuts the tail
    yield replace(memory, coefficients=step_coefficients(rates, 1.0, p.momentum, p.weight_decay)[0])  # the clipping
    yield replace(memory, coefficients=step_coefficients(rates, clips, p.momentum)[0])  # the weight decay
    yield replace(memory, initial_factor=0.0)  # W_0
    yield replace(memory, initial_factor=1.0)  # the decay of W_0


def test_a_formula_that_leaves_something_out_is_wrong(tmp_path: Path) -> None:
    settings = protocol(momentum=0.8, weight_decay=0.05, gradient_clip=0.1)
    made = RecordedTraining(settings, tmp_path / "run")
    recording = made.run()
    rates, clips, _ = np.load(tmp_path / "run" / "steps.npy").T
    for name, memory in recording.layers.items():
        layer, queries = made.module.get_submodule(name), np.eye(memory.features)
        assert difference(memory, layer, queries) < 1e-10
        for wrong in wrong_memories(memory, rates, clips, settings):
            assert difference(wrong, layer, queries) > 1e-3


@pytest.mark.parametrize("settings", ADAM)
def test_the_residual_of_adam_is_what_row_factors_leave_of_its_updates(settings, tmp_path: Path) -> None:
    settings = protocol(**settings)
    recording = RecordedTraining(settings, tmp_path / "run").run()
    # The same training by torch.optim.Adam; an Adam without the remainders of its updates must reach W_T − residual.
    made = RecordedTraining(settings, tmp_path / "other")
    optimizer = torch.optim.Adam(
        made.module.parameters(), amsgrad=settings.optimizer == "adam_amsgrad", weight_decay=settings.weight_decay
    )
    without = {name: joined(layer) for name, layer in made.module.layers.items()}
    moments = {name: np.zeros_like(weight) for name, weight in without.items()}
    generator, step = np.random.default_rng(5), 0
    for epoch in range(settings.epochs):
        optimizer.param_groups[0]["lr"] = learning_rate(settings, epoch)
        order = generator.permutation(27)
        for start in range(0, 27, 8):
            optimizer.zero_grad()
            made.losses(order[start : start + 8]).mean().backward()
            if settings.gradient_clip:
                nn.utils.clip_grad_norm_(made.module.parameters(), settings.gradient_clip)
            gradients = {name: joined(layer, "grad") for name, layer in made.module.layers.items()}
            before = {name: joined(layer) for name, layer in made.module.layers.items()}
            optimizer.step()
            step += 1
            for name, layer in made.module.layers.items():
                decayed = gradients[name] + settings.weight_decay * without[name]
                moments[name] = 0.9 * moments[name] + 0.1 * decayed
                moment = joined(layer, lambda p: optimizer.state[p]["exp_avg"]) / (1 - 0.9**step)
                update = joined(layer) - before[name]
                scales = [
                    np.linalg.lstsq(m[:, None], u, rcond=None)[0].item() for m, u in zip(moment, update, strict=True)
                ]
                without[name] += np.array(scales)[:, None] * moments[name] / (1 - 0.9**step)
    for name, memory in recording.layers.items():
        residual = memory.residual
        assert np.abs(joined(made.module.layers[name]) - without[name] - residual).max() < 1e-10
        moved = np.linalg.norm(memory.remainder() + memory.change())
        if settings.weight_decay == 0:  # then W_0 stays as it is
            share = recording.facts.layers[name].residual_share
            assert share == pytest.approx(np.linalg.norm(residual) / moved, rel=1e-8)
        queries = np.eye(memory.features)
        assert difference(replace(memory, residual=None), made.module.layers[name], queries) > 1e-3


def joined(layer: nn.Linear, of=lambda parameter: parameter) -> np.ndarray:
    """Return [weight, bias], or something of the same shapes, in float64."""
    of = (lambda parameter: parameter.grad) if of == "grad" else of
    parts = [of(layer.weight)] if layer.bias is None else [of(layer.weight), of(layer.bias)[:, None]]
    return torch.cat(parts, 1).detach().double().numpy().copy()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch_size", "settings"),
    [
        (128, {"momentum": 0.9, "weight_decay": 0.001, "gradient_clip": 0.02, "learning_rate": 0.03}),
        (768, {"optimizer": "adam", "learning_rate": 0.002}),
        (768, {"optimizer": "adam_amsgrad", "learning_rate": 0.002, "weight_decay": 0.001}),
    ],
)
def test_the_dual_form_holds_for_96000_slots_in_float32(batch_size, settings, tmp_path: Path) -> None:
    settings = protocol(epochs=1, batch_size=batch_size, **settings)
    sizes, folder = (10, 16, 12, 4), tmp_path / "run"
    made = RecordedTraining(settings, folder, dtype=torch.float32, record_dtype="float32", n_train=96_000, sizes=sizes)
    recording = made.run()
    assert (recording.steps, len(recording.rows)) == (96_000 // batch_size, 96_000)
    assert max(differences(made.module, recording)) < 1e-4
    memory = recording.layers["layer_0"]
    rates, clips, _ = np.load(folder / "steps.npy").T
    wrong = [replace(memory, initial_factor=0.0)]
    if recording.facts.exact:
        wrong = list(wrong_memories(memory, rates, clips, settings))
    for other in wrong:
        assert difference(other, made.module.layer_0, np.eye(10)) > 1e-4


@pytest.mark.parametrize("settings", [{"momentum": 0.9}, {"optimizer": "adam"}])
def test_half_precision_keeps_three_digits_also_of_tiny_gradients(settings, tmp_path: Path) -> None:
    made = RecordedTraining(protocol(**settings), tmp_path / "run", dtype=torch.float32, record_dtype="float16")
    made.loss_scale = 1e-7 if "momentum" in settings else 1.0
    recording = made.run()
    whole = RecordedTraining(protocol(**settings), tmp_path / "whole", dtype=torch.float32, record_dtype="float32")
    whole.loss_scale = made.loss_scale
    expected = whole.run()
    for name, memory in recording.layers.items():
        assert memory.stored_keys.dtype == memory.gradients.dtype == np.float16
        exact = expected.layers[name]
        change = exact.change()
        assert np.abs(memory.change() - change).max() < 2e-3 * np.abs(change).max()
        assert np.allclose(memory.output_gradients(slice(5, 9)), exact.output_gradients(slice(5, 9)), rtol=2e-3, atol=0)


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("record_dtype", ["float32", "float16"])
def test_a_training_in_double_precision_may_be_recorded_in_a_smaller_type(record_dtype, fold, tmp_path: Path) -> None:
    made = RecordedTraining(protocol(momentum=0.9), tmp_path / "run", record_dtype=record_dtype, fold=fold)
    recording = made.run()
    assert max(differences(made.module, recording)) < (1e-5 if record_dtype == "float32" else 2e-3)


def test_a_layer_with_positions_has_a_slot_for_each(tmp_path: Path) -> None:
    made = RecordedTraining(protocol(momentum=0.9), tmp_path / "run", positions=5)
    recording = made.run()
    assert max(differences(made.module, recording)) < 1e-10
    order = np.random.default_rng(5)
    rows = np.concatenate([order.permutation(27) for _ in range(3)])
    assert np.array_equal(recording.rows, np.repeat(rows, 5))
    keys = recording.layers["layer_0"].keys(slice(0, 5))
    assert np.array_equal(keys, made.positions_of(rows[:1])[0])


def test_a_layer_that_is_used_twice_in_a_step_has_the_slots_of_both_calls(tmp_path: Path) -> None:
    made = RecordedTraining(protocol(momentum=0.9), tmp_path / "run", twice=True)
    recording = made.run()
    assert max(differences(made.module, recording)) < 1e-10
    assert len(recording.rows) == 2 * 27 * 3
