from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_models import exact_outputs, hard_inputs, made_model

from idwbench.errors import OutputError, OutputExistsError
from idwbench.exports import numpy_module
from idwbench.exports.array_model import array_model
from idwbench.exports.model import export_model, model_card
from idwbench.exports.numpy_module import numpy_source
from idwbench.models.saved_model import SavedModel


def module_of(model: SavedModel) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(numpy_source(array_model(model)), "model.py", "exec"), names)
    return names


def test_a_module_explains_an_answer_as_the_model_does():
    model = made_model()
    x = hard_inputs(model)[3]
    found, expected = module_of(model)["explain"](x), model.explain(x)
    np.testing.assert_array_equal(found.prototypes, expected.prototypes)
    for name in ("outputs", "weights", "keys", "values"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-6, err_msg=name)


def test_long_arrays_are_written_in_base64_and_are_the_same_numbers(monkeypatch):
    model = made_model()
    short = module_of(model)
    monkeypatch.setattr(numpy_module, "_LONGEST_LIST", 2)
    long = module_of(model)
    assert "KEYS = _decoded(" in numpy_source(array_model(model))
    for name in ("KEYS", "VALUES", "MEAN", "STD"):
        np.testing.assert_array_equal(short[name], long[name])
    np.testing.assert_array_equal(long["KEYS"], model.network.keys.detach().numpy())


def test_images_may_keep_their_shape_and_wrong_inputs_are_refused():
    module = module_of(made_model())
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
    export_model(model, tmp_path / "model.py")
    inputs = hard_inputs(model)
    program = [sys.executable, "-I", "-W", "error", "-c", PROGRAM]
    text = json.dumps(inputs.tolist())
    result = subprocess.run(program, input=text, capture_output=True, text=True, cwd=tmp_path, check=True)
    np.testing.assert_allclose(json.loads(result.stdout), exact_outputs(model, inputs), rtol=1e-12, atol=1e-12)


HOSTILE = '"""\nimport os\nos.system("x")\n\\', "\u202eevil\x7f\x1b[31m", "'); raise SystemExit #", "é\ud800"


def test_names_of_classes_cannot_leave_the_text_of_the_module():
    model = replace(made_model(), class_names=HOSTILE[:3])
    source = numpy_source(array_model(model))
    tree = ast.parse(source)
    assert [type(node) for node in tree.body[1:4]] == [ast.Import, ast.Import, ast.ImportFrom]
    assert module_of(model)["CLASSES"] == list(HOSTILE[:3])
    assert all(char.isprintable() or char == "\n" for char in source)
    docstring = ast.get_docstring(tree, clean=False)
    assert json.loads(docstring[docstring.index("{\n") :]) == model_card(model)


def test_a_module_says_its_formula():
    source = numpy_source(array_model(made_model(power=3, epsilon=0)))
    assert "s_j = −log(ε + d^p),  d = ‖x − k_j‖" in source
    assert "keys at distance 0 share the weight equally" in source


def test_an_existing_file_and_an_unknown_ending_are_refused(tmp_path):
    (tmp_path / "model.py").write_text("mine")
    with pytest.raises(OutputExistsError, match="exists already"):
        export_model(made_model(), tmp_path / "model.py")
    assert (tmp_path / "model.py").read_text() == "mine"
    with pytest.raises(OutputError, match=r"expected a name ending in .onnx, .py, .skops, .pt, .safetensors"):
        export_model(made_model(), tmp_path / "model.h5")
    export_model(made_model(), tmp_path / "model.txt", format="numpy")
    assert (tmp_path / "model.txt").read_text().startswith('r"""idw · 5 prototypes')
