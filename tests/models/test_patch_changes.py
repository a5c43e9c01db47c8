"""The patches of a model: earlier ones still hold, can be listed, and are undone without a trace."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from array_models import saved_array_model

from idwbench.data.loading import load_dataset
from idwbench.errors import ModelFileError, PatchConflictError, PatchError
from idwbench.models.criteria import Criterion
from idwbench.models.model_file import load_model
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patching import apply_patch, make_patch
from idwbench.models.saved_model import SavedModel
from idwbench.runs.config import run_config

ASSETS = Path(__file__).parents[1] / "assets" / "0.1.0"


@pytest.fixture(scope="module")
def moons() -> SavedModel:
    """An `idw` model of Two Moons with 16 prototypes on the data."""
    config = run_config("two_moons", prototypes=16)
    dataset = load_dataset(config.dataset)
    rows = np.concatenate([np.flatnonzero(dataset.train.labels == label)[::13] for label in (0, 1)])
    arrays = {"keys": dataset.train.inputs[rows], "values": 4 * np.eye(2, dtype=np.float32)[dataset.train.labels[rows]]}
    return saved_array_model(config, dataset, arrays)


@pytest.fixture(scope="module")
def cases(moons) -> list[tuple[list[float], int]]:
    """Ten points with the label that the model does not give them."""
    points = np.random.default_rng(3).uniform([-1, -0.5], [2, 1], size=(10, 2)).round(3)
    wrong = 1 - moons.network.predict(points.astype(np.float32))
    return [(point.tolist(), int(label)) for point, label in zip(points, wrong, strict=True)]


def holding(model: SavedModel, cases: list[tuple[list[float], int]]) -> int:
    points, labels = (np.array(part) for part in zip(*cases, strict=True))
    return int((model.network.predict(points.astype(np.float32)) == labels).sum())


@pytest.mark.slow
def test_ten_patches_one_after_the_other_all_hold_at_the_end(moons, cases):
    model, network = moons, moons.network
    for point, label in cases:
        model = model.patch(point, label)
        alone = make_patch(network, np.float32(point), label)
        network = network if alone is None else apply_patch(network, alone)
    assert holding(model, cases) == 10
    assert all(patch.holds for patch in model.recorded_patches())
    assert holding(dataclasses.replace(moons, network=network), cases) < 10


def test_ten_patches_at_once_all_hold_with_those_before(moons, cases):
    model = moons.patch(*cases[0], logit_margin=1.0).patch(*cases[1], confidence=0.9, keep_logits=True)
    points, labels = (list(part) for part in zip(*cases[2:], strict=True))
    model = model.patch_all(points, labels)
    assert holding(model, cases) == 10
    assert [patch.criterion.kind for patch in model.recorded_patches()][:3] == ["logit_margin", "confidence", "margin"]
    assert all(patch.holds for patch in model.recorded_patches())


def test_a_patch_that_breaks_no_other_leaves_the_others_as_they_are(moons):
    first = moons.patch([-1.0, 1.0], 1, logit_margin=1.0)
    second = first.patch([2.0, -0.5], 0)
    assert second.patches[0] == first.patches[0]
    assert torch.equal(second.network.values[:17], first.network.values)


@pytest.mark.parametrize("point", [[0.0, 1.0], [0.0, 1.0 + 1e-6]])
def test_a_patch_that_contradicts_an_earlier_one_is_refused_and_names_it(moons, point):
    model = moons.patch([0.0, 1.0], 1, logit_margin=1.0)
    with pytest.raises(PatchConflictError, match="different labels for patch 1 and this input") as error:
        model.patch(point, 0, logit_margin=1.0)
    assert error.value.conflicts[0][:2] == ("patch 1", "this input")


def test_rows_that_contradict_each_other_are_named(moons):
    with pytest.raises(PatchConflictError, match="input 0 and input 2"):
        moons.patch_all([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], [0, 0, 1])


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        ([[0.0, 1.0]], [0, 1], r"labels: expected 1, one for each input, got 2"),
        ([[0.0, 1.0], [0.0, np.nan]], [0, 1], r"\[1\]\.x: expected finite numbers"),
        ([[0.0, 1.0], [0.0, 1.0]], [0, "lowr"], r"\[1\]\.label: no class is called 'lowr'"),
    ],
)
def test_wrong_rows_are_named(moons, inputs, labels, message):
    with pytest.raises(PatchError, match=message):
        moons.patch_all(inputs, labels)


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_undoing_the_latest_patch_restores_the_bytes_of_the_file_before(moons, tmp_path, ending):
    steps = [
        ([0.0, 1.0], 1, {}),
        ([0.0, 1.01], 0, {"confidence": 0.9, "keep_logits": True}),
        ([0.0, 0.99], 0, {"logit_margin": 2.0}),
    ]
    moons.save(tmp_path / f"new.{ending}")
    load_model(tmp_path / f"new.{ending}").save(tmp_path / f"0.{ending}")
    for number, (point, label, options) in enumerate(steps, start=1):
        load_model(tmp_path / f"{number - 1}.{ending}").patch(point, label, **options).save(
            tmp_path / f"{number}.{ending}"
        )
    assert "replaced" in load_model(tmp_path / f"3.{ending}").patches[2]
    for number in (3, 2, 1):
        undone = load_model(tmp_path / f"{number}.{ending}").undo_patch(number)
        undone.save(tmp_path / f"undone.{ending}", overwrite=True)
        assert (tmp_path / f"undone.{ending}").read_bytes() == (tmp_path / f"{number - 1}.{ending}").read_bytes()


def test_undoing_a_patch_in_the_middle_keeps_the_others_and_they_hold(moons, cases):
    model = moons
    for point, label in cases[:6]:
        model = model.patch(point, label)
    undone = model.undo_patch(3)
    kept = [patch for number, patch in enumerate(model.recorded_patches(), start=1) if number != 3]
    assert [patch.record.x for patch in undone.recorded_patches()] == [patch.record.x for patch in kept]
    np.testing.assert_array_equal([patch.key for patch in undone.recorded_patches()], [patch.key for patch in kept])
    assert all(patch.holds for patch in undone.recorded_patches())
    assert not all(patch.holds for patch in without_row(model, 3).recorded_patches())


def without_row(model: SavedModel, number: int) -> SavedModel:
    """The model without a patch, the others as they are."""
    rows = [row for row in range(len(model.network.keys)) if row != 16 + number - 1]
    network = PrototypeNetwork(
        model.network.method,
        model.network.parameters_of_method,
        model.network.keys.detach()[rows],
        model.network.values.detach()[rows],
    )
    return dataclasses.replace(model, network=network, patches=model.patches[: number - 1] + model.patches[number:])


def test_undoing_a_patch_that_was_solved_again_with_others_leaves_no_needlessly_large_eta(moons):
    alone = moons.patch([0.0, 1.0], 1)
    model = alone.patch([0.0, 1.001], 0, logit_margin=0.1)
    assert model.patches[0]["eta"] > 10 * alone.patches[0]["eta"]
    assert model.undo_patch(1).patches[0]["eta"] < model.patches[1]["eta"] / 10


@pytest.mark.parametrize("number", [-1, 0, 2, 99])
def test_a_patch_that_does_not_exist_is_not_undone(moons, number):
    with pytest.raises(PatchError, match=rf"no patch has the number {number} \(expected 1 to 1\)"):
        moons.patch([0.0, 1.0], 1).undo_patch(number)
    with pytest.raises(PatchError, match="the model has no patches"):
        moons.undo_patch(1)


def test_a_patch_of_version_0_1_0_is_listed_checked_and_undone():
    model = load_model(ASSETS / "digits-patched.safetensors")
    (patch,) = model.recorded_patches()
    assert (patch.number, patch.record.x, patch.record.label, patch.holds) == (1, "digits:test:3", 8, True)
    assert patch.criterion == Criterion("margin", 1e-3)
    plain = load_model(ASSETS / "digits.safetensors")
    undone = model.undo_patch(1)
    assert torch.equal(undone.network.keys, plain.network.keys)
    assert torch.equal(undone.network.values, plain.network.values)
    assert undone.patches == plain.patches == ()


def test_a_patch_that_no_longer_holds_is_listed_as_such_and_hinders_no_other(moons):
    model = moons.patch([0.0, 1.0], 1, logit_margin=1.0)
    network = make_and_apply(model, [0.0, 1.0], 0)
    broken = dataclasses.replace(model, network=network, patches=(*model.patches, record_of(network, 0)))
    assert [patch.holds for patch in broken.recorded_patches()] == [False, True]
    again = broken.patch([2.0, -0.5], 0)
    assert [patch.holds for patch in again.recorded_patches()] == [False, True, True]


def make_and_apply(model: SavedModel, point: list[float], label: int):
    return apply_patch(model.network, make_patch(model.network, np.float32(point), label))


def record_of(network, label: int) -> dict[str, object]:
    eta = float(network.values.detach()[-1, label])
    return {
        "x": "0,1", "label": label, "eta": eta, "criterion": "margin", "amount_requested": 1e-3, "amount": 1e-3,
        "label_before": 1 - label,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": 1.0}, "the prototype of patch 1 does not fit its record"),
        ({"label": 7}, "the prototype of patch 1 does not fit its record"),
        ({"label": "1"}, "damaged record of patch 1: label"),
        ({"criterion": "hope"}, "damaged record of patch 1: criterion"),
        ({"amount_requested": -1.0}, "damaged record of patch 1: margin: must be above 0"),
    ],
)
def test_records_that_do_not_fit_are_refused(moons, change, message):
    model = moons.patch([0.0, 1.0], 1)
    damaged = dataclasses.replace(model, patches=({**model.patches[0], **change},))
    with pytest.raises(ModelFileError, match=message):
        damaged.recorded_patches()


def test_a_record_too_many_is_refused(moons):
    model = moons.patch([0.0, 1.0], 1)
    damaged = dataclasses.replace(model, patches=model.patches * 2)
    with pytest.raises(ModelFileError, match="16 learned prototypes and 2 patches are recorded, but 17"):
        damaged.undo_patch(1)
