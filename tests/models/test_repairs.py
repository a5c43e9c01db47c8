"""The patches of a model: they hold together, are undone without a trace, measured, stored, and read from files."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from array_models import saved_array_model
from case_tables import case_table

from idwbench.data.columns import Columns
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError, ModelFileError, PatchConflictError, PatchError
from idwbench.models.demands import Repairs
from idwbench.models.imported import import_prototypes
from idwbench.models.inputs import PatchLine, own_data, read_patch_file
from idwbench.models.model_card import saved_model_card
from idwbench.models.model_file import load_model
from idwbench.models.repair import repair
from idwbench.runs.config import run_config
from idwbench.runs.datasets import parse_dataset

ASSETS = Path(__file__).parents[1] / "assets" / "0.1.0"
UPPER = [PatchLine("0,1", "1")]


@pytest.fixture(scope="module")
def moons():
    """An `idw` model of Two Moons with 16 prototypes on the data."""
    config = run_config("two_moons", prototypes=16)
    dataset = load_dataset(config.dataset)
    rows = np.concatenate([np.flatnonzero(dataset.train.labels == label)[::13] for label in (0, 1)])
    arrays = {"keys": dataset.train.inputs[rows], "values": 4 * np.eye(2, dtype=np.float32)[dataset.train.labels[rows]]}
    return saved_array_model(config, dataset, arrays)


@pytest.fixture(scope="module")
def data(moons):
    return load_dataset(moons.config.dataset)


@pytest.fixture(scope="module")
def cases(moons):
    """Eight points with the label that the model does not give them."""
    points = np.random.default_rng(3).uniform([-1, -0.5], [2, 1], size=(8, 2)).round(3)
    wrong = 1 - moons.network.predict(points.astype(np.float32))
    return [(point.tolist(), int(label)) for point, label in zip(points, wrong, strict=True)]


@pytest.fixture(scope="module")
def regression():
    return load_model(Path(__file__).parents[1] / "assets" / "model_files" / "sine.pt")


def answers(model, cases):
    return model.outputs(np.float32([point for point, _ in cases])).argmax(1).tolist()


def test_patches_one_after_the_other_are_those_of_all_at_once_in_any_order_and_without_one_of_the_others(
    moons, data, cases
):
    points, labels = map(list, zip(*cases, strict=True))
    model = moons
    for point, label in cases:
        model = model.patch(point, label)
    assert answers(model, cases) == labels
    at_once = moons.patch_all(points[::-1], labels[::-1])
    np.testing.assert_allclose(at_once.outputs(data.test.inputs), model.outputs(data.test.inputs), atol=1e-9)
    for number in (-1, 0, 9, 99):
        with pytest.raises(PatchError, match=rf"no patch has the number {number} \(expected 1 to 8\)"):
            model.undo_patch(number)
    with pytest.raises(PatchError, match="the model has no patches"):
        moons.undo_patch(1)
    undone, others = model.undo_patch(3), moons.patch_all(points[:2] + points[3:], labels[:2] + labels[3:])
    np.testing.assert_allclose(undone.outputs(data.test.inputs), others.outputs(data.test.inputs), atol=1e-9)
    right = moons.outputs(data.train.inputs).argmax(1) == data.train.labels
    assert (model.outputs(data.train.inputs).argmax(1) == data.train.labels)[right].all()


def test_an_input_of_named_columns_may_be_a_mapping_or_a_row_of_a_frame(moons):
    named = dataclasses.replace(moons, columns=Columns.of_numbers(["east", "north"]))
    by_name = {"north": 1.0, "east": 0.0}
    for x in (by_name, pd.Series(by_name)):
        assert named.patch(x, 1).repairs.records == moons.patch([0.0, 1.0], 1).repairs.records
    frame = pd.DataFrame([by_name])[["east", "north"]]
    assert named.patch_all(frame, [1]).predict(frame) == moons.patch([0.0, 1.0], 1).predict([[0.0, 1.0]])
    with pytest.raises(PatchError, match="x: no column is called 'west'"):
        named.patch({"west": 1.0}, 1)


@pytest.mark.parametrize(("inputs", "labels", "message"), case_table("wrong_inputs")["patch_rows"])
def test_wrong_rows_are_named(moons, inputs, labels, message):
    with pytest.raises(PatchError, match=message):
        moons.patch_all(inputs, labels)


def test_a_regression_gets_a_target_and_needs_one(regression):
    x = np.zeros(regression.n_features)
    wanted = regression.predict(x[None])[0] + 0.5
    patched = regression.patch(x, target=wanted, radius=0.1)
    np.testing.assert_allclose(patched.predict(x[None])[0], wanted, rtol=1e-9)
    np.testing.assert_allclose(patched.predict(x[None] + 5), regression.predict(x[None] + 5), rtol=1e-5)
    for wrong, message in case_table("wrong_inputs")["regression_patches"]:
        with pytest.raises(PatchError, match=message):
            regression.patch(x, **{"radius": 0.1, **wrong})
    with pytest.raises(PatchConflictError, match=r"different targets for input 0 and input 1 \(distance 0\)"):
        regression.patch_all([x, x], targets=[1.0, 2.0], radius=0.1)


def test_labels_targets_and_values_of_patches_follow_the_outputs_of_a_model(moons, regression):
    repairs = moons.patch([0.0, 1.0], 1).repairs
    (record,), (turned,) = repairs.records, repairs.changed(lambda outputs: outputs[::-1], [1, 0]).records
    assert (turned.label, turned.label_before, turned.value.tolist()) == (0, 1, record.value[::-1].tolist())
    repairs = regression.patch(np.zeros(regression.n_features), target=2.0, radius=0.1).repairs
    (record,), (scaled,) = repairs.records, repairs.changed(lambda outputs: 3 * outputs + 1).records
    assert (scaled.target, scaled.value) == ([3 * record.target[0] + 1], 3 * record.value + 1)


def test_a_patch_of_version_0_1_0_keeps_working_and_is_undone(moons):
    model, plain = (load_model(ASSETS / f"{name}.safetensors") for name in ("digits-patched", "digits"))
    (record,) = model.repairs.records
    assert (record.x, record.label, record.kind, record.margin) == ("digits:test:3", 8, "exact", None)
    ([demand], [outputs]) = model.repairs.demands(), model.demanded_outputs()
    assert demand.is_met(outputs)
    undone = model.undo_patch(1)
    assert torch.equal(undone.network.keys, plain.network.keys)
    assert torch.equal(undone.network.values, plain.network.values)
    assert len(undone.repairs) == len(plain.repairs) == 0


@pytest.mark.parametrize(
    ("is_classification", "criterion", "margin"), [(True, "wins", None), (True, "margin", 1.5), (False, "margin", None)]
)
def test_records_with_a_criterion_and_an_amount_are_read(moons, regression, is_classification, criterion, margin):
    patched = moons.patch([0.0, 1.0], 1) if is_classification else regression.patch([0.0], target=2.0, radius=0.1)
    content = patched.repairs.content()
    old = content["contents"][0] | {"criterion": criterion, "amount": 1.5, "steepness_is_chosen": True}
    arrays = content["inputs"], content["values"]
    (record,) = Repairs.parse([old], *arrays, is_classification=is_classification).records
    assert (record.margin, record.steepness_given) == (margin, None)  # a margin has no meaning in a regression


@pytest.mark.parametrize(("change", "message"), case_table("wrong_inputs")["patch_records"])
def test_a_model_file_whose_records_do_not_fit_is_damaged(moons, change, message):
    content = moons.patch([0.0, 1.0], 1).repairs.content()
    with pytest.raises(ModelFileError, match=message):
        Repairs.parse([content["contents"][0] | change], content["inputs"], content["values"])


# What a repair reports


def test_the_effect_is_measured_on_the_data_of_the_training_and_stored_with_just_these_patches(moons, data, tmp_path):
    label = 1 - int(moons.network.predict(data.test.inputs[:1])[0])
    made = repair(moons, [PatchLine("two_moons:test:0", str(label))], radius=0.8)
    old, new = (model.outputs(data.test.inputs).argmax(1) for model in (moons, made.after))
    others = np.arange(40) != 0
    effect = made.effects["test"]
    assert effect.changed == (old != new).sum() > 1
    assert effect.better == ((old != data.test.labels) & (new == data.test.labels))[others].sum()
    assert effect.worse == ((old == data.test.labels) & (new != data.test.labels))[others].sum() > 0
    assert sum(worse for _, worse in effect.classes.values()) == effect.worse
    assert effect.after["accuracy"] == pytest.approx((new == data.test.labels).mean())
    assert made.probabilities[0] > 0.5 and made.kept["noise"] == 1.0
    assert made.after.patched_metrics["test"] == {"accuracy": effect.after["accuracy"]}
    card = saved_model_card(made.after)
    assert (card["prototypes"], card["metrics_with_patches"]) == (17, made.after.patched_metrics)
    assert [patch["x"] for patch in card["patches"]] == ["two_moons:test:0"]
    made.after.save(tmp_path / "patched.pt")
    assert load_model(tmp_path / "patched.pt").patched_metrics == made.after.patched_metrics
    assert saved_model_card(repair(made.after, undo=1).after) == saved_model_card(moons)
    assert made.after.patch([0.0, 1.0], 1, radius=0.1).patched_metrics == {}


def test_the_effect_on_a_regression_is_measured_in_its_own_units():
    data = load_dataset(parse_dataset("diabetes"))
    rows, x, own = data.test.inputs, data.scaling.invert(data.test.inputs[0]), data.target_scaling.invert
    # Its values are in the targets' own units, unlike those of a model that was trained.
    model = import_prototypes(data.train.inputs[::9], dataset="diabetes", scaled=True)
    made = repair(model, [PatchLine(x.tolist(), target=200.0)], radius=3.0)
    outputs = [one.outputs(rows) for one in (model, made.after)]
    errors = [np.abs(one - own(data.test.targets))[1:, 0] for one in outputs]
    effect, slack = made.effects["test"], 0.01 * own(data.train.targets).std()
    assert effect.changed == (np.abs(outputs[1] - outputs[0]) > slack).sum()
    gains = errors[0] - errors[1]
    assert (effect.better, effect.worse) == ((gains > slack).sum(), (-gains > slack).sum())
    assert effect.better > 0 and effect.worse > 0 and effect.patched == 1
    assert effect.before["rmse"] == pytest.approx(model.metrics["test"]["rmse"], rel=1e-5)
    assert str(effect).endswith(f"rmse {effect.before['rmse']:.4g} -> {effect.after['rmse']:.4g}")
    assert (made.after.patched_metrics["test"], made.after.metrics) == ({"rmse": effect.after["rmse"]}, model.metrics)
    widest = repair(model, [PatchLine(x.tolist(), target=200.0)])
    assert widest.effects["train"].worse == 0 and widest.kept == {}


def test_nothing_is_measured_on_other_or_unknown_or_missing_data_which_is_said(moons, data):
    def missing(config, folder):
        raise DatasetError("no such file", file="mine.csv")

    other = dataclasses.replace(data, sha256="f" * 64)
    assert own_data(moons, None, missing) == (None, "mine.csv: no such file")
    found, problem = own_data(moons, None, lambda config, folder: other)
    assert found is None and problem.startswith("the data two_moons is not what the model")
    assert "f" * 12 in problem and data.sha256[:12] in problem
    unknown = dataclasses.replace(moons, provenance={})
    assert "has no checksum of its data" in own_data(unknown, None)[1]
    made = repair(unknown, UPPER, radius=0.1)
    assert made.effects == {} and "the effect on other inputs and the reach of patches are" in made.warnings[0]
    with pytest.raises(PatchError, match="radius: the largest radius needs the training data"):
        repair(unknown, UPPER)


def test_kept_inputs_of_a_file_keep_their_answers_and_a_wrong_one_is_named(moons, tmp_path):
    (tmp_path / "keep.csv").write_text('x\n"0.05,1"\n')
    before = moons.predict([[0.05, 1.0]])
    assert repair(moons, UPPER, radius=0.2).after.predict([[0.05, 1.0]]) != before
    made = repair(moons, UPPER, keep=read_patch_file(tmp_path / "keep.csv", ("x",)))
    assert made.after.predict([[0.05, 1.0]]) == before
    again = made.after.patch([-0.5, 1.0], 1)
    assert again.predict([[0.05, 1.0]]) == before
    made = repair(
        moons, UPPER, keep=read_patch_file(tmp_path / "keep.csv", ("x",)), radius=0.02, steepness=64, margin=1
    )
    made.after.save(tmp_path / "kept.pt")
    assert load_model(tmp_path / "kept.pt").repairs == made.after.repairs
    (tmp_path / "keep.csv").write_text('x\n"0.05,1"\n"0,1,2"\n')
    with pytest.raises(PatchError, match=r"keep\.csv:3: .*expected 2 numbers, got 3"):
        repair(moons, UPPER, keep=read_patch_file(tmp_path / "keep.csv", ("x",)))


# Files of patches


@pytest.mark.parametrize("content", case_table("inputs")["patch_rows"])
def test_rows_are_texts_with_their_line(tmp_path, content):
    (tmp_path / "patches.csv").write_bytes(content.encode())
    rows = read_patch_file(tmp_path / "patches.csv")
    assert [(row.x, row.label, row.row) for row in rows] == [("0.0,1.0", "upper", 4), ("mnist:test:17", "5", 6)]


@pytest.mark.parametrize(("content", "message"), case_table("wrong_inputs")["patch_files"])
def test_a_file_that_is_wrong_is_refused_with_the_line(tmp_path, content, message):
    path = tmp_path / "patches.csv"
    if content is not None:
        path.write_text(content, "latin-1")
    with pytest.raises(PatchError) as error:
        read_patch_file(path)
    assert str(error.value) == f"{path}{message}"
