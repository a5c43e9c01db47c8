from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from made_models import METHODS, NAMES, exact_outputs, far_inputs, hard_inputs, made_model
from numpy.typing import NDArray

from idwbench.attention.records import Method
from idwbench.attention.scores import METHODS as REGISTERED
from idwbench.attention.scores import idw
from idwbench.errors import OutputError
from idwbench.exports import onnx_model
from idwbench.exports.model import export_model, model_card
from idwbench.exports.onnx_graph import Graph, GraphArray
from idwbench.models.saved_model import SavedModel

SINGLE = 2 * np.finfo(np.float32).eps


def run_onnx(model: SavedModel, tmp_path: Any, *batches: NDArray[Any]) -> list[dict[str, NDArray[Any]]]:
    """Return the outputs of the exported file by name, for each batch in one session."""
    export_model(model, tmp_path / "model.onnx", overwrite=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(None, {"inputs": batch}), strict=True)) for batch in batches]


@pytest.mark.parametrize(("method", "parameters"), METHODS, ids=NAMES)
def test_an_onnx_file_computes_what_the_network_computes_in_float64_far_away_too(method, parameters, tmp_path):
    model = made_model(method, **parameters)
    inputs = np.concatenate([hard_inputs(model), far_inputs(model)])
    exact = exact_outputs(model, inputs)
    [found] = run_onnx(model, tmp_path, inputs)
    # The tangent beyond d^p = 1e9 multiplies the rounding of p·log d, about 150, by 1e9.
    bound = 1e9 * 150 * 2.0**-52 * 4 if parameters == {"power": 7.5} else 2 * SINGLE
    np.testing.assert_allclose(found["logits"], exact, rtol=SINGLE, atol=bound)
    terms = np.exp(exact - exact.max(1, keepdims=True))
    np.testing.assert_allclose(found["probabilities"], terms / terms.sum(1, keepdims=True), rtol=SINGLE, atol=bound)
    np.testing.assert_array_equal(found["class_index"], exact.argmax(1))
    assert found["label"].tolist() == [model.class_names[label] for label in exact.argmax(1)]


@pytest.mark.parametrize(("method", "parameters"), METHODS[:-1], ids=NAMES[:-1])
def test_an_onnx_file_agrees_with_the_model_in_batches_of_one_and_many(method, parameters, tmp_path):
    model = made_model(method, **parameters)
    inputs = hard_inputs(model)
    many, one, none = run_onnx(model, tmp_path, inputs, inputs[20:21], inputs[:0])
    np.testing.assert_allclose(many["logits"], model.network.outputs(model.scaling.apply(inputs)), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(many["label"], model.predict(inputs))
    for name, values in one.items():
        np.testing.assert_array_equal(values, many[name][20:21], err_msg=name)
        assert none[name].shape == (0, *values.shape[1:])


@pytest.mark.parametrize("method", ["idw", "fc_relu"])
def test_predictions_of_a_regression_are_in_the_units_of_its_targets(method, tmp_path):
    model = made_model(method, regression=True)
    inputs = hard_inputs(model)
    [found] = run_onnx(model, tmp_path, inputs)
    assert found.keys() == {"predictions", "weights"}
    np.testing.assert_allclose(found["predictions"], exact_outputs(model, inputs) * 3 + 5, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["predictions"], model.predict(inputs), rtol=0, atol=1e-5)


def test_an_onnx_file_is_valid_names_its_shapes_and_holds_the_model_card(tmp_path):
    model = made_model()
    export_model(model, tmp_path / "model.onnx")
    content = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(content, full_check=True)
    [given] = content.graph.input
    assert [dim.dim_param or dim.dim_value for dim in given.type.tensor_type.shape.dim] == ["batch", 3]
    assert [output.name for output in content.graph.output][:2] == ["label", "class_index"]
    assert json.loads(content.metadata_props[0].value) == model_card(model)
    assert content.metadata_props[0].key == "model.json"
    export_model(model, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()


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
