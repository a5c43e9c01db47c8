from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from blob_data import make_dataset, make_regression
from made_models import METHODS, NAMES, hard_inputs, made_model
from numpy.typing import NDArray

import idwbench
from idwbench.attention.records import Method
from idwbench.attention.scores import METHODS as REGISTERED
from idwbench.attention.scores import idw
from idwbench.data.dataset import Dataset, Scaling
from idwbench.errors import OutputError
from idwbench.exports import onnx_model
from idwbench.exports.array_model import array_model
from idwbench.exports.model import export_model
from idwbench.exports.onnx_graph import Graph, GraphArray
from idwbench.exports.onnx_model import network_content, onnx_content
from idwbench.models.networks import Network, initial_network, load_network
from idwbench.models.saved_model import SavedModel
from idwbench.results.store import Results
from idwbench.runs.kinds.models import parse_model

SINGLE = 2 * np.finfo(np.float32).eps


def run_onnx(file: Any, *batches: NDArray[Any]) -> list[dict[str, NDArray[Any]]]:
    """Return the outputs of a file, or of its bytes, by name, for each batch in one session."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(None, {"inputs": batch}), strict=True)) for batch in batches]


def exported(model: SavedModel, *batches: NDArray[Any]) -> list[dict[str, NDArray[Any]]]:
    return run_onnx(onnx_content(array_model(model)), *batches)


@pytest.mark.parametrize(("method", "parameters"), METHODS[:-1], ids=NAMES[:-1])
def test_an_onnx_file_agrees_with_the_model_in_batches_of_one_and_many(method, parameters):
    model = made_model(method, **parameters)
    inputs = hard_inputs(model).astype(np.float32)
    many, one, none = exported(model, inputs, inputs[20:21], inputs[:0])
    np.testing.assert_allclose(many["logits"], model.network.outputs(model.scaling.apply(inputs)), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(many["label"], model.predict(inputs))
    for name, values in one.items():
        np.testing.assert_array_equal(values, many[name][20:21], err_msg=name)
        assert none[name].shape == (0, *values.shape[1:])


def test_an_onnx_file_is_valid_takes_float32_and_names_its_shapes(tmp_path):
    model = made_model()
    export_model(model, tmp_path / "model.onnx")
    content = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(content, full_check=True)
    [given] = content.graph.input
    assert given.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert [dim.dim_param or dim.dim_value for dim in given.type.tensor_type.shape.dim] == ["batch", 3]
    assert [output.name for output in content.graph.output][:2] == ["label", "class_index"]


def test_a_model_that_is_too_large_for_one_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_model, "_LARGEST", 100)
    with pytest.raises(OutputError, match=r"^the model is too large for one \.onnx file, which has at most 2 GiB$"):
        export_model(made_model(), tmp_path / "model.onnx")


def test_a_graph_refuses_what_it_cannot_record():
    graph = Graph()
    array = GraphArray(graph, "inputs")
    for refused in (np.sin, np.cumsum, np.maximum.reduce):
        with pytest.raises(TypeError):
            refused(array)
    assert graph.nodes == []


@pytest.mark.parametrize("name", ["model.onnx", "model.py"])
def test_a_method_of_a_plugin_is_refused_in_one_line_and_nothing_is_written(name, tmp_path):
    REGISTERED["laplace"] = Method("laplace", "-d", idw, sha256="0" * 64)
    with pytest.raises(OutputError, match=r"^the method 'laplace' cannot be exported: a plugin defines it \(supported"):
        export_model(made_model("laplace"), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


# Networks

CARD = {"kind": "network", "model": "a network"}
PIXELS = Scaling(np.full(24, 2.0), np.linspace(0.5, 3, 24))


def image_data() -> Dataset:
    return replace(make_dataset(n_features=24), image_shape=(4, 6), scaling=PIXELS)


def made_network(dataset: Dataset, **settings: Any) -> Network:
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
    [found] = run_onnx(network_content(network, dataset, CARD), inputs)
    scaled = dataset.scaling.apply(inputs)
    expected = network.outputs(scaled)
    np.testing.assert_allclose(found["logits"], expected, rtol=0, atol=1e-5)
    with torch.no_grad():
        exact = copy.deepcopy(network).double()(torch.from_numpy(scaled).double()).numpy()
    bound = 2e-7 * np.abs(exact).max() if encoder == "mlp" else 1e-5  # convolutions are in float32
    np.testing.assert_allclose(found["logits"], exact, rtol=0, atol=bound)
    assert found["label"].tolist() == [dataset.class_names[label] for label in expected.argmax(1)]
    assert ("weights" in found) == (head != "linear")


def test_a_network_for_regression_predicts_in_the_units_of_its_targets():
    dataset = make_regression()
    network = made_network(dataset, encoder="mlp", head="idw", prototypes=4, width=5)
    [found] = run_onnx(network_content(network, dataset, CARD), dataset.test.inputs)
    expected = dataset.target_scaling.invert(network.outputs(dataset.test.inputs))
    np.testing.assert_allclose(found["predictions"], expected, rtol=0, atol=1e-5)


def test_a_transformer_is_refused_in_one_line():
    dataset = image_data()
    network = made_network(dataset, encoder="vit_tiny", width=8, depth=1, heads=2, patch=2)
    with pytest.raises(OutputError, match=r"an encoder vit_tiny cannot be exported \(supported are mlp and conv\)"):
        network_content(network, dataset, CARD)


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
    meta = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_modelmeta()
    assert json.loads(meta.custom_metadata_map["model.json"]) == card
    assert (card["method"], card["run_key"], card["prototypes"]) == ("mlp+idw", run.run_key, 4)
    assert card["metrics"]["test"]["accuracy"] == run.metric("accuracy")
    for name in ("model.py", "model.skops", "model.pt"):
        with pytest.raises(OutputError, match=r"a run of kind network can only be exported as \.onnx"):
            idwbench.export_model(run, tmp_path / name, results=results)
