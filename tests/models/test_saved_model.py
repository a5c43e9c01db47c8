"""A saved model in Python: predict, explain, patch, save; its model card; scores and weightings of any kind."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_model_file import random_model

import idwbench
from idwbench import Results, run_config, train
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.data.dataset import Scaling
from idwbench.errors import ConfigError, OutputError, PatchError
from idwbench.exports.model import export_model
from idwbench.models.model_card import card_text
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.saved_model import SavedModel, stored_model

KEYS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], dtype=np.float32)
VALUES = np.array([[4.0, 0.0], [0.0, 4.0], [0.0, 5.0]], dtype=np.float32)
SCALING = Scaling(np.array([10.0, 20.0]), np.array([2.0, 4.0]))


def model(**facts):
    config = run_config(facts.pop("dataset", "two_moons"), prototypes=3)
    values = torch.from_numpy(facts.pop("values", VALUES))
    network = PrototypeNetwork(METHODS["idw"], config.model.parameters, torch.from_numpy(KEYS), values)
    return SavedModel(network, config, SCALING, None, facts.pop("class_names", ("cold", "hot")), **facts)


def test_predictions_are_class_names_or_numbers_for_inputs_in_the_data_s_own_units_also_for_none():
    assert model().predict([[10.0, 20.0], [12.0, 20.0], [10.1, 28.0]]).tolist() == ["cold", "hot", "hot"]
    targets = {"values": VALUES[:, :1], "target_scaling": Scaling(np.array([100.0]), np.array([5.0]))}
    regression = model(dataset="sine", class_names=(), **targets)
    np.testing.assert_allclose(regression.predict([[10.0, 20.0]]), [[100 + 5 * 4]], rtol=1e-2)
    explanation = regression.explain([10.0, 20.0])
    np.testing.assert_allclose(explanation.outputs, regression.predict([[10.0, 20.0]])[0], rtol=1e-6)
    for saved, shape in ((model(), (0,)), (regression, (0, 1))):
        nothing, one = (saved.predict(inputs) for inputs in (np.zeros((0, 2)), [[10.0, 20.0]]))
        assert (nothing.shape, nothing.dtype) == (shape, one.dtype) and saved.predict([]).shape == shape


# Model cards

DATA = {"name": "two_moons", "train_per_class": 20, "test_per_class": 10, "holdout_per_class": 10}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("card") / "results.db"
    idwbench.train(idwbench.run_config(dict(DATA), prototypes=4, epochs=3, seed=5), path)
    return Results(path)


@pytest.fixture(scope="module")
def trained(results):
    return stored_model(results, results.find_runs()[0])


def test_a_card_says_data_protocol_accuracies_and_run_and_provenance_is_that_of_the_run(results, trained):
    run = results.find_runs()[0]
    card = idwbench.model_card(run.run_key[:12], results)
    assert card == idwbench.model_card(trained) == idwbench.model_card(run, results)
    settings = run.config.dataset.model_dump(mode="json")
    assert card["dataset"] == {"label": "two_moons", "sha256": run.data_sha256, "settings": settings}
    assert card["protocol"]["epochs"] == 3
    assert {name for _, name in run.metrics} > {"accuracy"}  # some were added to the run later
    assert (card["seed"], card["run_key"]) == (5, run.run_key)
    for split in ("train", "test", "holdout"):
        assert card["metrics"][split] == {"accuracy": run.metric("accuracy", split)}
    assert (card["metrics_with_patches"], card["patches"]) == (None, [])
    assert card["provenance"]["versions"] == run.versions
    assert json.loads(card_text(card)) == card
    versions = {"torch": "1.0", "numba": "0.1"}
    stored = stored_model(results, replace(run, engine="other", versions=versions, data_sha256="abc")).provenance
    assert (stored["engine"], stored["data_sha256"]) == ("other", "abc")
    assert list(stored["versions"].items()) == [("numba", "0.1"), ("torch", "1.0")]
    unknown = stored_model(results, replace(run, versions=None, data_sha256=None)).provenance
    assert unknown["versions"].keys() >= {"idwbench", "numpy", "python", "torch"}
    assert unknown["data_sha256"] == run.data_sha256


# Scores that learn arrays of their own, and other weightings


def test_what_a_weighting_does_not_support_is_refused_in_one_line(blobs, tmp_path):
    sparse = random_model(blobs, weighting="sparsemax")
    with pytest.raises(PatchError, match=r"^.*'idw with sparsemax' cannot be patched.*$"):
        sparse.patch(blobs.test.inputs[0], "a")
    with pytest.raises(OutputError, match=r"^.*only softmax and ReLU weights can.*$"):
        export_model(sparse, tmp_path / "m.onnx")
    with pytest.raises(ConfigError, match=r"^.*'fused' has no kernel for method 'idw'.*$"):
        train(run_config("two_moons", weighting="sparsemax"), tmp_path / "r.db", engine="fused")


@pytest.mark.parametrize("weighting", sorted(WEIGHTINGS.keys() - {"exact_match"}))
def test_the_weighting_of_a_method_itself_is_no_setting_and_another_one_is(weighting):
    for method, own in (("idw", "softmax"), ("fc_relu", "relu")):
        plain, other = (
            run_config("two_moons", method=method),
            run_config("two_moons", method=method, weighting=weighting),
        )
        assert (plain.run_key == other.run_key) == (weighting == own)
        assert (other.model.weighting is None) == (weighting == own)
        assert (weighting in other.model.parameters_label) == (weighting != own)
        assert ("k" in other.model.parameters) == (weighting == "top_k")
