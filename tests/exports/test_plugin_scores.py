"""The scores of plugins in ONNX files: those that PyTorch can trace give the same answers, and others are refused."""

import numpy as np
import pytest
import torch
from made_models import exact_outputs, hard_inputs, made_model, run_onnx

from idwbench import export_model
from idwbench.attention.records import Method, Parameter
from idwbench.attention.scores import METHODS
from idwbench.errors import OutputError

CHOICES = {"norm": ("l1", "l2")}


def city_block(inputs, keys, *, temperature):
    return -(inputs.unsqueeze(-2) - keys.unsqueeze(-3)).abs().sum(-1) / temperature


def minkowski(inputs, keys, *, norm):
    differences = inputs.unsqueeze(-2) - keys.unsqueeze(-3)
    return -torch.linalg.vector_norm(differences, {"l1": 1, "l2": 2}[norm], dim=-1)


def normalised(inputs, keys):
    unit = torch.nn.functional.normalize
    return unit(inputs, dim=-1) @ unit(keys, dim=-1).mT


def quantile_loss(inputs, keys):
    differences = inputs.unsqueeze(-2) - keys.unsqueeze(-3)
    return -torch.logsumexp(torch.where(differences > 0, differences, -2 * differences), -1)


def by_largest(inputs, keys):
    products = inputs @ keys.mT
    return products if products.max() > 1 else -products


def by_row(inputs, keys):
    return torch.stack([(one * keys).sum(-1) for one in inputs])


def bessel(inputs, keys):
    return torch.special.i0(inputs @ keys.mT)


def plugin(score, weighting="softmax", **parameters):
    declared = tuple(Parameter(name, default, choices=CHOICES.get(name, ())) for name, default in parameters.items())
    METHODS[score.__name__] = Method(
        score.__name__, "", score, weighting=weighting, sha256="0" * 64, parameters=declared
    )
    return score.__name__


@pytest.mark.parametrize(
    ("score", "settings"),
    [
        (city_block, {"temperature": 0.7}),
        (minkowski, {"norm": "l1"}),
        (minkowski, {"norm": "l2"}),
        (normalised, {"weighting": "relu"}),
        (normalised, {}),
        (quantile_loss, {}),
    ],
)
def test_a_score_of_operators_gives_the_same_answers_in_onnx_also_with_a_patch(score, settings, tmp_path):
    model = made_model(plugin(score, **settings))
    inputs = hard_inputs(model).astype(np.float32).astype(np.float64)
    export_model(model, tmp_path / "model.onnx")
    export_model(model, tmp_path / "again.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == (tmp_path / "again.onnx").read_bytes()
    for rows in (inputs, inputs[:1]):
        [found] = run_onnx(tmp_path / "model.onnx", rows.astype(np.float32))
        np.testing.assert_allclose(found["logits"], exact_outputs(model, rows), rtol=1e-6, atol=1e-6)
    if "weighting" in settings:
        return
    patched = model.patch(inputs[0], label := (int(found["class_index"][0]) + 1) % 3, radius=0.5)
    export_model(patched, tmp_path / "patched.onnx")
    [found] = run_onnx(tmp_path / "patched.onnx", inputs.astype(np.float32))
    assert found["class_index"][0] == label
    np.testing.assert_allclose(found["logits"], patched.outputs(patched.scaling.apply(inputs)), atol=1e-5)


@pytest.mark.parametrize(
    ("score", "reason"),
    [(by_largest, "no fixed sequence of operators"), (by_row, "could not be broadcast"), (bessel, "aten::i0")],
)
def test_a_score_that_depends_on_values_or_rows_or_has_no_operator_is_refused_in_one_line(
    score, reason, tmp_path, capfd
):
    with pytest.raises(OutputError, match=rf"^the score of '{score.__name__}' cannot be written as ONNX: .*{reason}"):
        export_model(made_model(plugin(score)), tmp_path / "model.onnx")
    assert not [*tmp_path.iterdir()] and capfd.readouterr() == ("", "")
