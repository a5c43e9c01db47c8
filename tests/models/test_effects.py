"""The effect of patches on a model's own data, and warnings of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from array_models import saved_array_model

from idwbench.data.dataset import Dataset
from idwbench.errors import DatasetError
from idwbench.models.effects import SplitEffect, large_effect, measured_effects
from idwbench.models.saved_model import SavedModel
from idwbench.runs.config import run_config


@pytest.fixture
def model(blobs: Dataset) -> SavedModel:
    config = run_config(blobs.config, prototypes=6)
    arrays = {"keys": blobs.train.inputs[:6], "values": np.eye(3, dtype=np.float32)[blobs.train.labels[:6]]}
    return saved_array_model(config, blobs, arrays)


def patched(model: SavedModel, x: np.ndarray, **options: float) -> SavedModel:
    label = (int(model.network.predict(x[None])[0]) + 1) % 3
    return model.patch(x, label, **options)


def test_the_effect_is_measured_on_the_data_of_the_training(model, blobs):
    after = patched(model, blobs.test.inputs[0], logit_margin=5.0)
    effects, problem = measured_effects(model, after, load=lambda config, folder: blobs)
    assert problem == ""
    old, new = (one.network.predict(blobs.test.inputs) for one in (model, after))
    assert effects["test"].changed == (old != new).sum()
    assert effects["test"].changed_others == (old != new)[1:].sum() == effects["test"].changed - 1
    assert effects["test"].accuracy_after == pytest.approx((new == blobs.test.labels).mean())
    assert set(effects) == {"train", "test"}


def test_nothing_is_measured_on_other_data_which_is_named(model, blobs):
    other = dataclasses.replace(blobs, sha256="f" * 64)
    effects, problem = measured_effects(model, model, load=lambda config, folder: other)
    assert effects == {}
    assert problem.startswith("the effect on other inputs is not measured: the data two_moons is not what the model")
    assert "ffffffffffff" in problem
    assert "000000000000" in problem


def test_nothing_is_measured_without_a_checksum_or_without_the_data(model, blobs):
    unknown = dataclasses.replace(model, provenance={})
    effects, problem = measured_effects(unknown, unknown, load=lambda config, folder: blobs)
    assert effects == {}
    assert "has no checksum of its data" in problem

    def missing(config, folder):
        raise DatasetError("no such file", file="mine.csv")

    assert measured_effects(model, model, load=missing) == (
        {},
        "the effect on other inputs is not measured: mine.csv: no such file",
    )


def test_a_patch_on_a_key_that_changes_many_predictions_is_reported_with_the_key(model, blobs):
    after = patched(model, blobs.train.inputs[2])
    many = {"test": SplitEffect(1000, 31, 30, 0.5, 0.5), "train": SplitEffect(1000, 11, 10, 0.5, 0.5)}
    warning = large_effect(model, after, many)
    assert warning.startswith(
        "30 of 1000 other test predictions changed; the nearest key, of prototype 2, is at distance 0"
    )
    assert "train" not in warning
    assert "a patch outweighs it" in warning


@pytest.mark.parametrize(
    ("options", "hint"),
    [({"logit_margin": 9.0}, "a smaller amount changes fewer"), ({"keep_logits": True}, "without keep_logits fewer")],
)
def test_the_warning_says_what_would_change_fewer(model, blobs, options, hint):
    after = patched(model, blobs.train.inputs[2] + 5, **options)
    assert hint in large_effect(model, after, {"test": SplitEffect(1000, 31, 30, 0.5, 0.5)})


@pytest.mark.parametrize("effect", [SplitEffect(40, 2, 1, 0.5, 0.5), SplitEffect(1000, 200, 10, 0.5, 0.5)])
def test_one_prediction_or_a_hundredth_or_those_patched_are_no_reason_to_warn(model, blobs, effect):
    assert large_effect(model, patched(model, blobs.train.inputs[2]), {"test": effect}) == ""
