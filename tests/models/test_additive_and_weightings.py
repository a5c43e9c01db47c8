"""Scores that learn arrays of their own, and weightings of any kind, from training to files, patches and exports."""

import numpy as np
import pytest
import torch
from array_models import tensors_in
from blob_data import make_dataset
from case_tables import case_table
from test_model_file import write_changed

from idwbench import Results, load_model, run_config, train
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.errors import ConfigError, IdwbenchError, ModelFileError, OutputError, PatchError, TrainingError
from idwbench.estimators.classifier import PrototypeClassifier
from idwbench.exports.model import export_model
from idwbench.models.imported import import_prototypes
from idwbench.models.saved_model import stored_model
from idwbench.training.replay import key_history

LEARNED = ("query_weight", "key_weight", "vector")
MOONS = {"epochs": 40, "learning_rate": 0.05, "batch_size": 20, "prototypes": 8}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("learned") / "r.db"


@pytest.fixture(scope="module")
def store(path):
    return Results(path)


@pytest.fixture(scope="module")
def trained(store, path):
    """Return a function from settings to the model of a run on Two Moons, and the run."""

    def model(**settings):
        result = train(run_config("two_moons", **{**MOONS, **settings}), path)
        run = store.find_run(result.run_key)
        return stored_model(store, run), run

    return model


def test_an_additive_score_learns_two_moons_and_its_linear_form_cannot_tell_inputs_apart(trained):
    model, run = trained(method="additive")
    assert run.metrics["test", "accuracy"] > 0.95 and run.engine == "torch"
    assert run.n_parameters == 8 * (2 + 2) + 2 * 16 * 2 + 16 == sum(part.numel() for part in model.network.parameters())
    linear, run = trained(method="additive", form="linear", hidden=3)
    assert run.metrics["test", "accuracy"] == 0.5
    weights = linear.weights(np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32))
    np.testing.assert_allclose(weights, weights[:1].repeat(5, 0), atol=1e-6)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize("settings", [{"method": "additive"}, {"method": "idw", "weighting": "top_k", "k": 2}])
def test_a_model_file_has_what_a_score_learned_and_the_weighting(trained, settings, suffix, tmp_path):
    model, run = trained(**settings)
    model.save(tmp_path / f"model.{suffix}")
    again, inputs = load_model(tmp_path / f"model.{suffix}"), make_dataset(n_features=2).test.inputs
    for name, array in model.network.state_dict().items():
        assert torch.equal(again.network.state_dict()[name], array)
    np.testing.assert_array_equal(again.outputs(inputs), model.outputs(inputs))
    terms = again.explain([0.5, 0.25])
    assert (terms.weights > 0).sum() == (8 if "k" not in settings else 2)
    np.testing.assert_allclose(terms.weights @ terms.values, terms.outputs, atol=1e-5)
    assert again.config == run.config


@pytest.mark.parametrize(("changes", "message"), case_table("wrong_arrays")["additive_model_files"])
def test_a_damaged_array_of_a_score_is_named(trained, changes, message, tmp_path):
    trained(method="additive")[0].save(tmp_path / "model.pt")
    write_changed(tmp_path / "model.pt", tmp_path / "changed.pt", **tensors_in(changes))
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "changed.pt")


def test_local_patches_of_an_additive_score_hold_without_a_certificate(trained):
    model, _ = trained(method="additive")
    inputs = np.array([[0.5, 0.25], [1.5, -0.4]])
    other = dict(zip(model.class_names, reversed(model.class_names), strict=True))
    wanted = [other[label] for label in model.predict(inputs)]
    patched = model.patch_all(list(inputs), wanted, radius=0.1)
    assert list(patched.predict(inputs)) == wanted
    assert patched.repairs.records[0].certified_radius is None
    far = np.array([[30.0, 30.0]])
    np.testing.assert_allclose(patched.explain(far[0]).outputs, model.explain(far[0]).outputs, atol=1e-5)


REFUSED = {
    "patch": (PatchError, "a network with method 'idw with sparsemax' cannot be patched"),
    "onnx": (OutputError, "'idw with sparsemax' cannot be exported: only softmax and ReLU weights can"),
    "history": (TrainingError, "learned query_weight, key_weight, vector too"),
    "import": (ModelFileError, "'additive' also learns query_weight, key_weight, vector"),
    "estimator": (ValueError, "unknown method 'additive'"),
    "fused": (ConfigError, "'fused' has no kernel for method 'idw' with sparsemax"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_supported_is_refused_in_one_line(what, trained, store, path, tmp_path):
    sparse = {"method": "idw", "weighting": "sparsemax"}
    ways = {
        "patch": lambda: trained(**sparse)[0].patch([0.5, 0.25], "1"),
        "onnx": lambda: export_model(trained(**sparse)[0], tmp_path / "model.onnx"),
        "history": lambda: key_history(store, trained(method="additive")[1].run_key),
        "import": lambda: import_prototypes(np.eye(2), labels=[0, 1], method="additive"),
        "estimator": lambda: PrototypeClassifier(method="additive").fit(np.eye(2), [0, 1]),
        "fused": lambda: train(run_config("two_moons", **sparse), path, engine="fused"),
    }
    error, message = REFUSED[what]
    with pytest.raises(error, match=message) as raised:
        ways[what]()
    assert isinstance(raised.value, IdwbenchError | ValueError) and "\n" not in str(raised.value)


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
