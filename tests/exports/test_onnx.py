"""What ONNX files have beside the answers of `test_exported_models`: shapes and types, and networks."""

import copy
import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from blob_data import make_dataset, make_regression
from made_models import hard_inputs, made_model, onnx_session, run_onnx

import idwbench
from idwbench.data.dataset import Scaling
from idwbench.errors import OutputError
from idwbench.exports.model import export_model
from idwbench.exports.onnx_model import onnx_content
from idwbench.models.networks import initial_network, load_network
from idwbench.models.patched_network import PatchedNetwork
from idwbench.results.store import Results
from idwbench.runs.kinds.models import parse_model


@pytest.mark.parametrize("parameters", [{"epsilon": 1e-3}, {"epsilon": 0}, {"method": "scaled_dot"}])
def test_an_onnx_file_takes_float32_in_batches_of_none_one_and_many(parameters, tmp_path):
    model = made_model(**parameters)
    export_model(model, tmp_path / "model.onnx")
    content = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(content, full_check=True)
    [given] = content.graph.input
    assert given.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert [dim.dim_param or dim.dim_value for dim in given.type.tensor_type.shape.dim] == ["batch", 3]
    inputs = hard_inputs(model).astype(np.float32)
    many, one, none = run_onnx(tmp_path / "model.onnx", inputs, inputs[20:21], inputs[:0])
    assert list(many) == ["label", "class_index", "logits", "probabilities", "weights"]
    np.testing.assert_allclose(many["logits"], model.network.outputs(model.scaling.apply(inputs)), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(many["label"], model.predict(inputs))
    for name, values in one.items():
        np.testing.assert_array_equal(values, many[name][20:21], err_msg=name)
        assert none[name].shape == (0, *values.shape[1:])


# Networks

CARD = {"kind": "network", "model": "a network"}
PIXELS = Scaling(np.full(24, 2.0), np.linspace(0.5, 3, 24))


def image_data():
    return replace(make_dataset(n_features=24), image_shape=(4, 6), scaling=PIXELS)


def made_network(dataset, **settings):
    """Return an untrained network whose head and biases are not 0."""
    network = initial_network(parse_model({"kind": "network", **settings}), dataset, np.random.default_rng(0)).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return network


@pytest.mark.parametrize("encoder", ["mlp", "conv"])
@pytest.mark.parametrize("head", ["linear", "idw", "cosine"])
def test_an_onnx_file_computes_what_a_network_computes(encoder, head):
    dataset = image_data()
    prototypes = {} if head == "linear" else {"prototypes": 4}
    network = made_network(dataset, encoder=encoder, head=head, width=5, depth=2, **prototypes)
    inputs = dataset.scaling.invert(dataset.test.inputs).astype(np.float32)
    [found] = run_onnx(onnx_content(network, dataset, CARD), inputs)
    with torch.no_grad():
        exact = copy.deepcopy(network).double()(torch.from_numpy(dataset.scaling.apply(inputs)).double()).numpy()
    bound = 2e-7 * np.abs(exact).max() if encoder == "mlp" else 1e-5  # convolutions are in float32
    np.testing.assert_allclose(found["logits"], exact, rtol=0, atol=bound)
    assert found["label"].tolist() == [dataset.class_names[label] for label in exact.argmax(1)]
    assert ("weights" in found) == (head != "linear")


@pytest.mark.parametrize("encoder", ["mlp", "conv"])
def test_a_patched_network_is_exported_with_its_patches(encoder, tmp_path):
    dataset = image_data()
    network = made_network(dataset, encoder=encoder, head="neg_dist", prototypes=4, width=5, depth=2)
    inputs = dataset.test.inputs
    wanted = (network.predict(inputs[:2]) + 1) % 3
    patched = PatchedNetwork.of(network, dataset).patch_all(inputs[:2], wanted.tolist(), radius=0.5)
    export_model(patched, tmp_path / "network.onnx")
    [found] = run_onnx(tmp_path / "network.onnx", dataset.scaling.invert(inputs).astype(np.float32))
    np.testing.assert_allclose(found["logits"], patched.outputs(inputs), rtol=1e-5, atol=1e-5)
    assert found["label"][:2].tolist() == [dataset.class_names[label] for label in wanted]
    assert found["weights"].shape == (len(inputs), 6)
    card = json.loads(onnx.load(tmp_path / "network.onnx").metadata_props[0].value)
    assert [patch["radius"] for patch in card["patches"]] == [0.5, 0.5]
    assert (card["kind"], card["features"], card["image_shape"]) == ("network", 24, [4, 6])
    with pytest.raises(OutputError, match=r"only be exported as \.onnx"):
        export_model(patched, tmp_path / "network.py")


def test_a_network_for_regression_predicts_in_the_units_of_its_targets():
    dataset = make_regression()
    network = made_network(dataset, encoder="mlp", head="idw", prototypes=4, width=5)
    [found] = run_onnx(onnx_content(network, dataset, CARD), dataset.test.inputs)
    expected = dataset.target_scaling.invert(network.outputs(dataset.test.inputs))
    np.testing.assert_allclose(found["predictions"], expected, rtol=0, atol=1e-5)


def test_a_transformer_is_refused_in_one_line():
    dataset = image_data()
    network = made_network(dataset, encoder="vit_tiny", width=8, depth=1, heads=2, patch=2)
    with pytest.raises(OutputError, match=r"an encoder vit_tiny cannot be exported \(supported are mlp and conv\)"):
        onnx_content(network, dataset, CARD)


def test_a_stored_network_is_exported_with_its_card_as_onnx_only(tmp_path):
    data = {"name": "two_moons", "train_per_class": 20, "test_per_class": 10, "holdout_per_class": 10}
    settings = {"kind": "network", "encoder": "mlp", "head": "idw", "prototypes": 4, "width": 6, "epochs": 1}
    run = idwbench.train(idwbench.run_config(data, **settings), tmp_path / "r.db")
    results = Results(tmp_path / "r.db", read_only=True)
    path = tmp_path / "model.onnx"
    idwbench.export_model(run.run_key, path, results=results)
    [found] = run_onnx(path, np.float32([[0, 1], [1, -0.5]]))
    network = load_network(results, run.run_key)
    np.testing.assert_allclose(found["logits"], network.outputs(np.float32([[0, 1], [1, -0.5]])), rtol=0, atol=1e-5)
    card = idwbench.model_card(run, results)
    assert json.loads(onnx_session(path).get_modelmeta().custom_metadata_map["model.json"]) == card
    assert (card["method"], card["run_key"], card["prototypes"]) == ("mlp+idw", run.run_key, 4)
    assert card["metrics"]["test"]["accuracy"] == run.metric("accuracy")
    for name in ("model.py", "model.skops", "model.pt"):
        with pytest.raises(OutputError, match=r"a run of kind network can only be exported as \.onnx"):
            idwbench.export_model(run, tmp_path / name, results=results)
