"""A saved model in Python: predict, explain, patch, save."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Scaling
from idwbench.errors import PatchError
from idwbench.models.model_file import load_model
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.saved_model import SavedModel
from idwbench.runs.config import run_config

KEYS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], dtype=np.float32)
VALUES = np.array([[4.0, 0.0], [0.0, 4.0], [0.0, 5.0]], dtype=np.float32)
SCALING = Scaling(np.array([10.0, 20.0]), np.array([2.0, 4.0]))


def model(**facts) -> SavedModel:
    config = run_config(facts.pop("dataset", "two_moons"), prototypes=3)
    values = torch.from_numpy(facts.pop("values", VALUES))
    network = PrototypeNetwork(METHODS["idw"], config.model.parameters, torch.from_numpy(KEYS), values)
    return SavedModel(network, config, SCALING, None, facts.pop("class_names", ("cold", "hot")), **facts)


def test_predictions_are_class_names_for_inputs_in_the_data_s_own_units():
    assert model().predict([[10.0, 20.0], [12.0, 20.0], [10.1, 28.0]]).tolist() == ["cold", "hot", "hot"]


def test_a_regression_predicts_numbers_in_their_own_units():
    regression = model(
        dataset="sine", class_names=(), values=VALUES[:, :1], target_scaling=Scaling(np.array([100.0]), np.array([5.0]))
    )
    np.testing.assert_allclose(regression.predict([[10.0, 20.0]]), [[100 + 5 * 4]], rtol=1e-2)
    explanation = regression.explain([10.0, 20.0])
    np.testing.assert_allclose(explanation.outputs, regression.predict([[10.0, 20.0]])[0], rtol=1e-6)


@pytest.mark.parametrize("inputs", [[], np.zeros((0, 2)), np.zeros((0, 1, 2), np.uint8)])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_no_inputs_have_no_predictions_of_the_same_type(method, inputs):
    config = run_config("two_moons", prototypes=3, method=method)
    network = PrototypeNetwork(METHODS[method], config.model.parameters, *map(torch.from_numpy, (KEYS, VALUES)))
    classifier, regression = replace(model(), network=network), replace(model(class_names=()), network=network)
    for saved, shape in ((classifier, (0,)), (regression, (0, 2))):
        nothing, one = saved.predict(inputs), saved.predict([[10.0, 20.0]])
        assert (nothing.shape, nothing.dtype) == (shape, one.dtype)


def test_an_explanation_adds_up_to_the_answer_heaviest_first():
    explanation = model().explain([12.5, 20.0])
    assert explanation.prototypes[0] == 1
    assert explanation.prediction == model().predict([[12.5, 20.0]])[0]
    assert explanation.labels is not None and str(explanation).startswith(f"prediction: {explanation.prediction}\n")
    assert (np.diff(explanation.weights) <= 0).all()
    np.testing.assert_allclose(explanation.weights.sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(explanation.weights @ explanation.values, explanation.outputs, rtol=1e-5)
    np.testing.assert_allclose(explanation.keys[0], [12.0, 20.0])


def test_a_patch_changes_the_answer_is_recorded_and_survives_a_file(tmp_path):
    patched = model().patch([10.0, 20.0], "hot", confidence=0.9)
    patched.save(tmp_path / "patched.safetensors")
    again = load_model(tmp_path / "patched.safetensors")
    assert again.predict([[10.0, 20.0]]).tolist() == ["hot"]
    assert [(patch["label"], patch["criterion"], patch["x"]) for patch in again.patches] == [
        (1, "confidence", [10.0, 20.0])
    ]


def test_a_patch_that_is_not_needed_gives_the_same_model():
    same = model()
    assert same.patch([10.0, 20.0], "cold") is same


@pytest.mark.parametrize(
    ("x", "label", "amounts", "location"),
    [
        ([1.0], "hot", {}, ("x",)),
        ([1.0, np.nan], "hot", {}, ("x",)),
        ([1e300, 0.0], "hot", {}, ("x",)),
        ([10.0, 20.0], "warm", {}, ("label",)),
        ([10.0, 20.0], 2, {}, ("label",)),
        ([10.0, 20.0], 1, {"confidence": 2.0}, ("confidence",)),
        ([10.0, 20.0], 1, {"confidence": 0.9, "margin": 1.0}, ("confidence",)),
    ],
)
def test_wrong_arguments_are_named(x, label, amounts, location):
    with pytest.raises(PatchError) as error:
        model().patch(x, label, **amounts)
    assert error.value.location == location
