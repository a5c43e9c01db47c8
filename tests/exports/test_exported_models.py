"""What all exported models share: their answers are those of the network in float64, whatever the inputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import skops.io
from made_models import METHODS, NAMES, exact_outputs, far_inputs, hard_inputs, made_model
from numpy.typing import NDArray

from idwbench.exports.model import export_model, model_card
from idwbench.exports.skops_model import TRUSTED_TYPES

# Labels and probabilities, or predictions, of inputs.
Answers = Callable[[NDArray[Any]], tuple[Any, Any]]


def of_module(path: Path) -> tuple[Answers, dict[str, Any]]:
    module: dict[str, Any] = {}
    exec(compile(path.read_text(), "model.py", "exec"), module)
    card = json.loads(module["__doc__"][module["__doc__"].index("{\n") :])
    return lambda inputs: (module["predict"](inputs), module.get("predict_proba", module["predict"])(inputs)), card


def of_onnx(path: Path) -> tuple[Answers, dict[str, Any]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    first, *_ = names = [output.name for output in session.get_outputs()]
    wanted = [first, "probabilities" if "probabilities" in names else first]
    card = json.loads(session.get_modelmeta().custom_metadata_map["model.json"])
    return lambda inputs: tuple(session.run(wanted, {"inputs": inputs.astype(np.float32)})), card


def of_estimator(path: Path) -> tuple[Answers, dict[str, Any]]:
    estimator = skops.io.load(path, trusted=TRUSTED_TYPES)
    probabilities = getattr(estimator, "predict_proba", estimator.predict)
    return lambda inputs: (estimator.predict(inputs), probabilities(inputs)), json.loads(estimator[-1].model_card_)


def float32(inputs: NDArray[Any]) -> NDArray[np.float64]:
    """Return inputs that ONNX can hold, for which scikit-learn's scaler is given float64."""
    return inputs.astype(np.float32).astype(np.float64)


FORMATS = {"py": of_module, "onnx": of_onnx, "skops": of_estimator}
BOUNDS = {"py": 1e-12, "onnx": 2 * np.finfo(np.float32).eps, "skops": 1e-9}


@pytest.fixture(params=FORMATS)
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(("method", "parameters"), METHODS, ids=NAMES)
def test_an_exported_model_answers_as_the_network_does_in_float64(
    method: str, parameters: dict[str, Any], suffix: str, tmp_path: Path
) -> None:
    model = made_model(method, **parameters)
    inputs = float32(np.concatenate([hard_inputs(model), far_inputs(model)]))
    exact = exact_outputs(model, inputs)
    terms = np.exp(exact - exact.max(1, keepdims=True))
    export_model(model, tmp_path / f"model.{suffix}")
    answers, card = FORMATS[suffix](tmp_path / f"model.{suffix}")
    # The tangent beyond d^p = 1e9 multiplies the rounding of p·log d, about 150, by 1e9.
    bound = max(BOUNDS[suffix], 1e9 * 150 * 2.0**-52 * 4 if parameters == {"power": 7.5} else 0.0)
    labels, probabilities = answers(inputs)
    np.testing.assert_allclose(probabilities, terms / terms.sum(1, keepdims=True), rtol=bound, atol=bound)
    assert list(labels) == [model.class_names[label] for label in exact.argmax(1)]
    assert card == model_card(model)


@pytest.mark.parametrize("method", ["idw", "fc_relu"])
def test_a_regression_predicts_in_the_units_of_its_targets(method: str, suffix: str, tmp_path: Path) -> None:
    model = made_model(method, regression=True)
    inputs = float32(hard_inputs(model))
    export_model(model, tmp_path / f"model.{suffix}")
    predictions, _ = FORMATS[suffix](tmp_path / f"model.{suffix}")[0](inputs)
    np.testing.assert_allclose(predictions, exact_outputs(model, inputs) * 3 + 5, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(predictions, model.predict(inputs), rtol=0, atol=1e-4)


def test_the_same_model_gives_the_same_file(suffix: str, tmp_path: Path) -> None:
    first, second = (tmp_path / f"{name}.{suffix}" for name in ("first", "second"))
    for path in (first, second):
        export_model(made_model(power=3, epsilon=0), path)
    assert first.read_bytes() == second.read_bytes()
