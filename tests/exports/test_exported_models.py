"""Exported models: their answers are those of the network in float64, whatever the inputs; ONNX files of networks."""

import ast
import copy
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import pandas
import pytest
import skops.io
import torch
from blob_data import make_dataset, make_regression
from case_tables import PENGUINS
from made_models import METHODS, NAMES, exact_outputs, far_inputs, hard_inputs, made_model, onnx_session, run_onnx

import idwbench
from idwbench import Results, export_model, model_card, run_config, train
from idwbench.attention.records import Method
from idwbench.attention.scores import METHODS as REGISTERED
from idwbench.attention.scores import idw
from idwbench.data.dataset import Scaling
from idwbench.errors import OutputError
from idwbench.exports import numpy_module, onnx_model
from idwbench.exports.numpy_module import numpy_source
from idwbench.exports.onnx_model import onnx_content
from idwbench.exports.skops_model import TRUSTED_TYPES
from idwbench.models.networks import initial_network, load_network
from idwbench.models.patched_network import PatchedNetwork
from idwbench.models.saved_model import stored_model
from idwbench.runs.kinds.models import parse_model


def module_of(source):
    names = {}
    exec(compile(source, "model.py", "exec"), names)
    return names


def of_module(path):
    module = module_of(path.read_text())
    card = json.loads(module["__doc__"][module["__doc__"].index("{\n") :])
    return lambda inputs: (module["predict"](inputs), module.get("predict_proba", module["predict"])(inputs)), card


def of_onnx(path):
    def answers(inputs):
        [found] = run_onnx(path, inputs.astype(np.float32))
        return found.get("label", found.get("predictions")), found.get("probabilities", found.get("predictions"))

    return answers, json.loads(onnx_session(path).get_modelmeta().custom_metadata_map["model.json"])


def of_estimator(path):
    estimator = skops.io.load(path, trusted=TRUSTED_TYPES)
    probabilities = getattr(estimator, "predict_proba", estimator.predict)

    def answers(inputs):  # in float32, which scikit-learn's scaler would compute in
        return estimator.predict(inputs.astype(np.float32)), probabilities(inputs.astype(np.float32))

    return answers, json.loads(estimator[-1].model_card_)


def float32(inputs):
    """Return inputs that float32 can hold."""
    return inputs.astype(np.float32).astype(np.float64)


FORMATS = {"py": of_module, "onnx": of_onnx, "skops": of_estimator}
BOUNDS = {"py": 1e-12, "onnx": 2 * np.finfo(np.float32).eps, "skops": 1e-9}


@pytest.fixture(params=FORMATS)
def suffix(request):
    return str(request.param)


@pytest.mark.parametrize(("method", "parameters"), METHODS, ids=NAMES)
def test_an_exported_model_answers_in_float64_as_the_network_does_and_has_its_patches(
    method, parameters, suffix, tmp_path
):
    model, file = made_model(method, **parameters), tmp_path / f"model.{suffix}"
    inputs = float32(np.concatenate([hard_inputs(model), far_inputs(model)]))
    if suffix == "skops" and (model.config.model.weighting or model.network.arrays):
        with pytest.raises(OutputError, match=r"^scikit-learn's estimators have no method '"):
            export_model(model, file)
        return

    def check(model, inputs, exact, relative, absolute):
        export_model(model, file, overwrite=True)
        answers, card = FORMATS[suffix](file)
        labels, probabilities = answers(inputs)
        terms = np.exp(exact - exact.max(1, keepdims=True))
        np.testing.assert_allclose(probabilities, terms / terms.sum(1, keepdims=True), rtol=relative, atol=absolute)
        assert list(labels) == [model.class_names[label] for label in exact.argmax(1)]
        assert card == model_card(model)

    # The tangent beyond d^p = 1e9 multiplies the rounding of p·log d, about 150, by 1e9.
    bound = max(BOUNDS[suffix], 1e9 * 150 * 2.0**-52 * 4 if parameters == {"power": 7.5} else 0.0)
    check(model, inputs, exact_outputs(model, inputs), bound, bound)
    if model.network.method.weighting == "softmax":
        near = float32(hard_inputs(model))
        label = (int(model.outputs(model.scale(near[0])[None]).argmax()) + 1) % model.n_outputs
        patched = model.patch(near[0], label, radius=0.5)
        exact = patched.outputs(np.stack([patched.scale(x) for x in near]))
        check(patched, near, exact, 0, 1e-6)
        assert exact[0].argmax() == label


@pytest.mark.parametrize("method", ["idw", "fc_relu"])
def test_a_regression_predicts_in_the_units_of_its_targets_also_when_patched(method, suffix, tmp_path):
    model = made_model(method, regression=True)
    inputs = float32(hard_inputs(model))
    export_model(model, tmp_path / f"model.{suffix}")
    predictions, _ = FORMATS[suffix](tmp_path / f"model.{suffix}")[0](inputs)
    np.testing.assert_allclose(predictions, exact_outputs(model, inputs) * 3 + 5, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(predictions, model.predict(inputs), rtol=0, atol=1e-4)
    export_model(model, tmp_path / f"again.{suffix}")  # the same file
    assert (tmp_path / f"again.{suffix}").read_bytes() == (tmp_path / f"model.{suffix}").read_bytes()
    if method == "idw":
        wanted = model.predict(inputs[:1])[0] + 7
        patched = model.patch(inputs[0], target=wanted, radius=0.5)
        export_model(patched, tmp_path / f"patched.{suffix}")
        predictions, _ = FORMATS[suffix](tmp_path / f"patched.{suffix}")[0](inputs)
        np.testing.assert_allclose(predictions[0], wanted, atol=1e-6)
        np.testing.assert_allclose(predictions, patched.predict(inputs), atol=1e-6)


def test_a_refused_export_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_model, "_LARGEST", 100)
    with pytest.raises(OutputError, match=r"^the model is too large for one \.onnx file, which has at most 2 GiB$"):
        export_model(made_model(), tmp_path / "large.onnx")
    REGISTERED["laplace"] = Method("laplace", "-d", idw, sha256="0" * 64)
    for suffix in ("py", "skops"):
        with pytest.raises(OutputError, match=r"^the method 'laplace' cannot be exported in this format: a plugin"):
            export_model(made_model("laplace"), tmp_path / f"model.{suffix}")
    assert [*tmp_path.iterdir()] == []


# Modules of NumPy


def test_a_module_explains_an_answer_says_its_formula_and_has_long_arrays_in_base64(monkeypatch):
    for slope_rank, formula in ((2, "z(x) = Σ_j w_j (v_j + A_j (x − k_j))"), (0, "z(x) = Σ_j w_j v_j ")):
        model = made_model(power=3, epsilon=0, slope_rank=slope_rank)
        source, x = numpy_source(model), hard_inputs(model)[3]
        found, expected = module_of(source)["explain"](x), model.explain(x)
        np.testing.assert_array_equal(found.prototypes, expected.prototypes)
        for name in ("outputs", "weights", "keys", "values"):
            pair = getattr(found, name), getattr(expected, name)
            np.testing.assert_allclose(*pair, rtol=1e-5, atol=1e-5, err_msg=name)
        assert formula in source
    assert "s_j = −log(ε + d^p),  d = ‖x − k_j‖" in source
    assert "keys at distance 0 share the weight equally" in source
    short = module_of(numpy_source(made_model()))
    monkeypatch.setattr(numpy_module, "_LONGEST_LIST", 2)
    source = numpy_source(made_model())
    assert "KEYS = _decoded(" in source
    for name in ("KEYS", "VALUES", "MEAN", "STD"):
        np.testing.assert_array_equal(module_of(source)[name], short[name])
    np.testing.assert_array_equal(short["KEYS"], made_model().network.keys.detach().numpy())


def test_images_may_keep_their_shape_and_wrong_inputs_are_refused():
    module = module_of(numpy_source(made_model()))
    rows = hard_inputs(made_model())
    np.testing.assert_array_equal(module["predict"](rows[:, None, :]), module["predict"](rows))
    assert module["predict"](rows[:0]).shape == (0,)
    for wrong, message in (
        (rows[0], r"expected inputs \(n, 3\), got \(3,\)"),
        (rows[:, :2], r"got \(31, 2\)"),
        (rows * np.nan, "expected finite numbers"),
        (rows * 1e300, "expected finite numbers that float32 can hold"),
    ):
        with pytest.raises(ValueError, match=message), np.errstate(over="ignore"):
            module["predict"](wrong)


PROGRAM = """
import json, sys
sys.modules.update(dict.fromkeys(("idwbench", "torch", "sklearn", "scipy", "pandas")))  # none of them can be imported
sys.path.insert(0, ".")
import model
print(json.dumps(model.logits(json.load(sys.stdin)).tolist()))
"""


def test_a_module_is_imported_where_only_numpy_is(tmp_path):
    model = made_model(power=3)
    export_model(model, tmp_path / "model.txt", format="numpy")  # whatever the suffix
    (tmp_path / "model.txt").rename(tmp_path / "model.py")
    inputs = hard_inputs(model)
    program = [sys.executable, "-I", "-W", "error", "-c", PROGRAM]
    text = json.dumps(inputs.tolist())
    result = subprocess.run(program, input=text, capture_output=True, text=True, cwd=tmp_path, check=True)
    np.testing.assert_allclose(json.loads(result.stdout), exact_outputs(model, inputs), rtol=1e-12, atol=1e-12)


def test_names_of_classes_cannot_leave_the_text_of_the_module():
    hostile = ('"""\nimport os\nos.system("x")\n\\', "\u202eevil\x7f\x1b[31m", "'); raise SystemExit #")
    model = replace(made_model(), class_names=hostile)
    source = numpy_source(model)
    tree = ast.parse(source)
    assert [type(node) for node in tree.body[1:4]] == [ast.Import, ast.Import, ast.ImportFrom]
    assert module_of(source)["CLASSES"] == list(hostile)
    assert all(char.isprintable() or char == "\n" for char in source)
    docstring = str(ast.get_docstring(tree, clean=False))
    assert json.loads(docstring[docstring.index("{\n") :]) == model_card(model)


def test_a_regressor_keeps_the_mean_of_its_targets_when_it_is_trained_further(tmp_path):
    model = made_model("fc_relu", regression=True)
    model = replace(model, target_scaling=Scaling(np.array(1000.0), np.array(3.0)), scaling=Scaling.identity())
    export_model(model, tmp_path / "model.skops")
    regressor, inputs = skops.io.load(tmp_path / "model.skops", trusted=TRUSTED_TYPES), hard_inputs(model)
    before = regressor.predict(inputs)
    np.testing.assert_allclose(before, exact_outputs(model, inputs) * 3 + 1000, rtol=1e-12)
    regressor.set_params(learning_rate=1e-6).partial_fit(inputs, before)
    np.testing.assert_allclose(regressor.predict(inputs), before, atol=1e-2)


def test_classes_are_sorted_and_a_model_that_scales_nothing_needs_no_pipeline(tmp_path):
    model = replace(made_model(), class_names=("9", "10", "1"), scaling=Scaling.identity())
    export_model(model, tmp_path / "model.skops")
    estimator = skops.io.load(tmp_path / "model.skops", trusted=TRUSTED_TYPES)
    assert estimator.classes_.tolist() == ["1", "10", "9"]
    inputs = np.random.default_rng(3).normal(size=(20, 3))
    np.testing.assert_array_equal(estimator.predict(inputs), model.predict(inputs))


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


HEADS = [{"head": "linear"}, *({"head": name, "prototypes": 4} for name in ("idw", "cosine"))]
HEADS += [{"head": "idw", "prototypes": 4, "learned_power": True}]


@pytest.mark.parametrize("encoder", ["mlp", "conv", "mlp for a regression"])
@pytest.mark.parametrize("head", HEADS)
def test_an_onnx_file_computes_what_a_network_computes(encoder, head):
    dataset = make_regression() if "regression" in encoder else image_data()
    network = made_network(dataset, encoder=encoder.split()[0], width=5, depth=2, **head)
    inputs = dataset.scaling.invert(dataset.test.inputs).astype(np.float32)
    [found] = run_onnx(onnx_content(network, dataset, CARD), inputs)
    with torch.no_grad():
        exact = copy.deepcopy(network).double()(torch.from_numpy(dataset.scaling.apply(inputs)).double()).numpy()
    bound = 1e-5 if encoder == "conv" else 2e-7 * np.abs(exact).max()  # convolutions are in float32
    if dataset.class_names:
        np.testing.assert_allclose(found["logits"], exact, rtol=0, atol=bound)
        assert found["label"].tolist() == [dataset.class_names[label] for label in exact.argmax(1)]
    else:
        expected = dataset.target_scaling.invert(exact)
        np.testing.assert_allclose(found["predictions"], expected, rtol=0, atol=1e-5)
    assert ("weights" in found) == (head["head"] != "linear")


def test_a_network_with_a_normalised_head_or_a_transformer_is_refused():
    dataset, settings = image_data(), {"encoder": "mlp", "head": "idw", "prototypes": 4, "width": 5}
    with pytest.raises(OutputError, match="a head with normalised queries and keys is not a score of its method alone"):
        onnx_content(made_network(dataset, **settings, qk_norm="rms"), dataset, CARD)
    transformer = made_network(dataset, encoder="vit_tiny", width=8, depth=1, heads=2, patch=2)
    with pytest.raises(OutputError, match=r"an encoder vit_tiny cannot be exported \(supported are mlp and conv\)"):
        onnx_content(transformer, dataset, CARD)


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


def test_a_module_of_a_table_takes_rows_by_the_names_of_their_columns(tmp_path):
    config = run_config({"name": str(PENGUINS), "label": "species", "drop": ["year"]}, prototypes=6, epochs=5)
    model = stored_model(Results(tmp_path / "r.db"), train(config, tmp_path / "r.db"))
    export_model(model, tmp_path / "birds.py")
    birds = module_of((tmp_path / "birds.py").read_text())
    frame = pandas.read_csv(PENGUINS).drop(columns=["species", "year"])
    rows = frame.head(20).to_dict("records")
    np.testing.assert_array_equal(birds["features"](rows), [model.columns.row(row) for row in rows])
    assert birds["predict"](birds["features"](rows)).tolist() == model.predict(frame.head(20)).tolist()
    assert birds["features"]([{"island": "Dream"}])[0].tolist() == model.columns.row({"island": "Dream"}).tolist()
    for row, problem in (({"island": "Drean"}, "'Drean' is not one of"), ({"iland": "Dream"}, "no column is called")):
        with pytest.raises(ValueError, match=problem):
            birds["features"]([row])
