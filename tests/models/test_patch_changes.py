"""The patches of a model: they hold together, are listed, undone without a trace, measured, and read from files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from array_models import saved_array_model

from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError, ModelFileError, PatchConflictError, PatchError
from idwbench.models.criteria import Criterion
from idwbench.models.effects import SplitEffect, large_effect, measured_effects
from idwbench.models.model_file import load_model
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patch_files import PatchLine, read_patch_file
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
    """Eight points with the label that the model does not give them."""
    points = np.random.default_rng(3).uniform([-1, -0.5], [2, 1], size=(8, 2)).round(3)
    wrong = 1 - moons.network.predict(points.astype(np.float32))
    return [(point.tolist(), int(label)) for point, label in zip(points, wrong, strict=True)]


def holding(model: SavedModel, cases: list[tuple[list[float], int]]) -> int:
    points, labels = (np.array(part) for part in zip(*cases, strict=True))
    return int((model.network.predict(points.astype(np.float32)) == labels).sum())


def without_row(model: SavedModel, number: int) -> SavedModel:
    """The model without a patch, the others as they are."""
    network = model.network
    rows = [row for row in range(len(network.keys)) if row != 16 + number - 1]
    keys, values = network.keys.detach()[rows], network.values.detach()[rows]
    network = PrototypeNetwork(network.method, network.parameters_of_method, keys, values)
    return dataclasses.replace(model, network=network, patches=model.patches[: number - 1] + model.patches[number:])


def test_eight_patches_one_after_the_other_all_hold_at_the_end_and_without_the_third(moons, cases):
    model, network = moons, moons.network
    for point, label in cases:
        model = model.patch(point, label)
        alone = make_patch(network, np.float32(point), label)
        network = network if alone is None else apply_patch(network, alone)
    assert holding(model, cases) == 8
    assert all(patch.holds for patch in model.recorded_patches())
    assert holding(dataclasses.replace(moons, network=network), cases) < 8  # patches made without the others
    undone = model.undo_patch(3)
    for before, after in zip(np.delete(model.recorded_patches(), 2), undone.recorded_patches(), strict=True):
        assert after.holds and after.record.x == before.record.x and np.array_equal(after.key, before.key)
    assert not all(patch.holds for patch in without_row(model, 3).recorded_patches())


def test_eight_patches_at_once_all_hold_with_those_before(moons, cases):
    model = moons.patch(*cases[0], logit_margin=1.0).patch(*cases[1], confidence=0.9, keep_logits=True)
    points, labels = (list(part) for part in zip(*cases[2:], strict=True))
    model = model.patch_all(points, labels)
    assert holding(model, cases) == 8
    assert [patch.criterion.kind for patch in model.recorded_patches()][:3] == ["logit_margin", "confidence", "margin"]
    assert all(patch.holds for patch in model.recorded_patches())


def test_a_patch_that_breaks_no_other_leaves_the_others_as_they_are(moons):
    first = moons.patch([-1.0, 1.0], 1, logit_margin=1.0)
    second = first.patch([2.0, -0.5], 0)
    assert second.patches[0] == first.patches[0]
    assert torch.equal(second.network.values[:17], first.network.values)


def test_a_patch_that_contradicts_an_earlier_one_is_refused_and_names_it(moons):
    model = moons.patch([0.0, 1.0], 1, logit_margin=1.0)
    for point in ([0.0, 1.0], [0.0, 1.0 + 1e-6]):
        with pytest.raises(PatchConflictError, match="different labels for patch 1 and this input") as error:
            model.patch(point, 0, logit_margin=1.0)
        assert error.value.conflicts[0][:2] == ("patch 1", "this input")


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        ([[0.0, 1.0]], [0, 1], r"labels: expected 1, one for each input, got 2"),
        ([[0.0, 1.0], [0.0, np.nan]], [0, 1], r"\[1\]\.x: expected finite numbers"),
        ([[0.0, 1.0], [0.0, 1.0]], [0, "lowr"], r"\[1\]\.label: no class is called 'lowr'"),
        ([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], [0, 0, 1], "input 0 and input 2"),
    ],
)
def test_wrong_rows_are_named(moons, inputs, labels, message):
    with pytest.raises(PatchError, match=message):
        moons.patch_all(inputs, labels)


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_undoing_the_latest_patch_restores_the_bytes_of_the_file_before(moons, tmp_path, ending):
    paths = [tmp_path / f"{number}.{ending}" for number in range(4)]
    moons.save(tmp_path / f"new.{ending}")
    load_model(tmp_path / f"new.{ending}").save(paths[0])
    load_model(paths[0]).patch([0.0, 1.0], 1).save(paths[1])
    load_model(paths[1]).patch([0.0, 1.01], 0, confidence=0.9, keep_logits=True).save(paths[2])
    load_model(paths[2]).patch([0.0, 0.99], 0, logit_margin=2.0).save(paths[3])
    assert "replaced" in load_model(paths[3]).patches[2]
    for number in (3, 2, 1):
        load_model(paths[number]).undo_patch(number).save(tmp_path / f"undone.{ending}", overwrite=True)
        assert (tmp_path / f"undone.{ending}").read_bytes() == paths[number - 1].read_bytes()


def test_undoing_a_patch_that_was_solved_again_with_others_leaves_no_needlessly_large_eta(moons):
    alone = moons.patch([0.0, 1.0], 1)
    model = alone.patch([0.0, 1.001], 0, logit_margin=0.1)
    assert model.patches[0]["eta"] > 10 * alone.patches[0]["eta"]
    assert model.undo_patch(1).patches[0]["eta"] < model.patches[1]["eta"] / 10


def test_a_patch_that_does_not_exist_is_not_undone(moons):
    for number in (-1, 0, 2, 99):
        with pytest.raises(PatchError, match=rf"no patch has the number {number} \(expected 1 to 1\)"):
            moons.patch([0.0, 1.0], 1).undo_patch(number)
    with pytest.raises(PatchError, match="the model has no patches"):
        moons.undo_patch(1)


def test_a_patch_of_version_0_1_0_is_listed_checked_and_undone():
    model = load_model(ASSETS / "digits-patched.safetensors")
    (patch,) = model.recorded_patches()
    assert (patch.number, patch.record.x, patch.record.label, patch.holds) == (1, "digits:test:3", 8, True)
    assert patch.criterion == Criterion("margin", 1e-3)
    plain, undone = load_model(ASSETS / "digits.safetensors"), model.undo_patch(1)
    assert torch.equal(undone.network.keys, plain.network.keys)
    assert torch.equal(undone.network.values, plain.network.values)
    assert undone.patches == plain.patches == ()


def test_a_patch_that_no_longer_holds_is_listed_as_such_and_hinders_no_other(moons):
    model = moons.patch([0.0, 1.0], 1, logit_margin=1.0)
    network = apply_patch(model.network, make_patch(model.network, np.float32([0.0, 1.0]), 0))
    record = {"x": "0,1", "label": 0, "eta": float(network.values.detach()[-1, 0]), "label_before": 1}
    record |= {"criterion": "margin", "amount_requested": 1e-3, "amount": 1e-3}
    broken = dataclasses.replace(model, network=network, patches=(*model.patches, record))
    assert [patch.holds for patch in broken.recorded_patches()] == [False, True]
    again = broken.patch([2.0, -0.5], 0)
    assert [patch.holds for patch in again.recorded_patches()] == [False, True, True]


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
def test_records_that_do_not_fit_or_are_too_many_are_refused(moons, change, message):
    model = moons.patch([0.0, 1.0], 1)
    with pytest.raises(ModelFileError, match=message):
        dataclasses.replace(model, patches=({**model.patches[0], **change},)).recorded_patches()
    with pytest.raises(ModelFileError, match="16 learned prototypes and 2 patches are recorded, but 17"):
        dataclasses.replace(model, patches=model.patches * 2).undo_patch(1)


# Their effect on the model's own data


def test_the_effect_is_measured_on_the_data_of_the_training(moons):
    data = load_dataset(moons.config.dataset)
    query = data.test.inputs[0]
    after = moons.patch(query, 1 - int(moons.network.predict(query[None])[0]), logit_margin=90.0)
    effects, problem = measured_effects(moons, after)
    assert problem == "" and effects.keys() == {"train", "test"}
    old, new = (model.network.predict(data.test.inputs) for model in (moons, after))
    assert effects["test"].changed == (old != new).sum() > 1
    assert effects["test"].changed_others == (old != new)[1:].sum() == effects["test"].changed - 1
    assert effects["test"].accuracy_after == pytest.approx((new == data.test.labels).mean())


def test_nothing_is_measured_on_other_or_unknown_or_missing_data_which_is_said(moons):
    data = load_dataset(moons.config.dataset)
    other = dataclasses.replace(data, sha256="f" * 64)
    effects, problem = measured_effects(moons, moons, load=lambda config, folder: other)
    assert effects == {}
    assert problem.startswith("the effect on other inputs is not measured: the data two_moons is not what the model")
    assert "f" * 12 in problem and data.sha256[:12] in problem
    unknown = dataclasses.replace(moons, provenance={})
    effects, problem = measured_effects(unknown, unknown)
    assert effects == {} and "has no checksum of its data" in problem

    def missing(config, folder):
        raise DatasetError("no such file", file="mine.csv")

    expected = ({}, "the effect on other inputs is not measured: mine.csv: no such file")
    assert measured_effects(moons, moons, load=missing) == expected


def test_a_patch_that_changes_many_predictions_is_reported_with_its_distance_and_what_would_change_fewer(moons):
    def warning(point: np.ndarray, effect: SplitEffect, model: SavedModel = moons, **options: float) -> str:
        label = (model.class_names.index(model.predict(point[None])[0]) + 1) % model.n_outputs
        small = SplitEffect(1000, 11, 10, 0.5, 0.5)
        return large_effect(model, model.patch(point, label, **options), {"test": effect, "train": small})

    many, key = SplitEffect(1000, 31, 30, 0.5, 0.5), moons.network.keys.detach().numpy()[2]
    on_a_key = warning(key, many)
    assert on_a_key.startswith("30 of 1000 other test predictions changed; the nearest key, of prototype 2, is at")
    assert "at distance 0" in on_a_key and "train" not in on_a_key and "a patch outweighs it" in on_a_key
    assert "a smaller amount changes fewer" in warning(key + 5, many, logit_margin=9.0)
    digits = load_model(ASSETS / "digits.safetensors")  # more than two classes
    assert "without keep_logits fewer" in warning(np.zeros(64), many, digits, keep_logits=True)
    # One prediction, a hundredth, or those that were patched are no reason to warn.
    assert warning(key, SplitEffect(40, 2, 1, 0.5, 0.5)) == warning(key, SplitEffect(1000, 200, 10, 0.5, 0.5)) == ""


# Files of patches


@pytest.mark.parametrize(
    "content",
    [
        '\nx,label\n\n"0.0,1.0",upper\n,\nmnist:test:17,5\n',
        '\ufeff\r\nx,label\r\n\r\n"0.0,1.0",upper\r\n\r\nmnist:test:17,5',
        '\nlabel, x\n\nupper, "0.0,1.0"\n\n5 , mnist:test:17 \n',
        "\nx;label\n\n0.0,1.0;upper\n\nmnist:test:17;5\n",
        "\nx\tlabel\n\n0.0,1.0\tupper\n\nmnist:test:17\t5\n",
    ],
)
def test_rows_are_texts_with_their_line(tmp_path, content):
    (tmp_path / "patches.csv").write_bytes(content.encode())
    rows = read_patch_file(tmp_path / "patches.csv")
    assert rows == [PatchLine("0.0,1.0", "upper", 4), PatchLine("mnist:test:17", "5", 6)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, ": no such file"),
        (b"", ": is empty, expected the columns x and label"),
        (b"x,label\n", ": has a header but no rows"),
        (b"x,lable\n1,1\n", ":1: expected the columns x and label, got x, lable"),
        (b"x,label,x\n1,1,1\n", ":1: expected the columns x and label, got x, label, x"),
        (b"x,label\n0,1,upper\n", ':2: expected 2 columns, got 3 (numbers need quotes: "0.0,1.0",label)'),
        (b"x,label\na.png,1\nb.png\n", ":3: expected 2 columns, got 1"),
        (b"x,label\na.png,\n", ":2: label is missing"),
        (b"x,label\n,1\n", ":2: x is missing"),
        (b'x,label\na.png,1\n"0.0,1.0\n', ":3: not comma-separated values (unexpected end of data)"),
        (b"\xff\xfe\x00", ": not a text file in UTF-8"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_line(tmp_path, content, message):
    path = tmp_path / "patches.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PatchError) as error:
        read_patch_file(path)
    assert str(error.value) == f"{path}{message}"
