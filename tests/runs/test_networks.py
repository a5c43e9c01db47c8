"""Settings of networks: defaults, labels, and one line for each mistake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idwbench.attention.records import Parameter
from idwbench.attention.scores import METHODS, register_method
from idwbench.errors import ConfigError
from idwbench.runs.config import run_config
from idwbench.runs.kinds.models import model_setting_names, parse_model
from idwbench.runs.kinds.network import NetworkConfig


def parsed(**settings) -> NetworkConfig:
    model = parse_model({"kind": "network", **settings})
    assert isinstance(model, NetworkConfig)
    return model


def test_every_setting_is_stored_with_its_default() -> None:
    model = parsed(encoder="vit_tiny", attention="idw", attention_power=4, head="cosine", prototypes=7)
    assert model.parameters == {"temperature": 1.0, "attention_power": 4.0, "attention_epsilon": 1e-3}
    assert (model.width, model.depth, model.heads, model.patch) == (32, 2, 4, 2)
    assert model.attention_parameters == {"power": 4.0, "epsilon": 1e-3}
    assert model.head_parameters == {"temperature": 1.0}
    assert parsed(encoder="vit_tiny").attention == "scaled_dot"
    assert parsed(encoder="mlp").heads is None


def test_a_run_of_a_network_survives_its_json() -> None:
    config = run_config("digits", kind="network", encoder="vit_tiny", attention="idw", head="idw", prototypes=5)
    again = type(config).model_validate_json(config.model_dump_json())
    assert again == config and again.run_key == config.run_key


def test_names_and_labels_say_what_differs() -> None:
    plain = parsed(encoder="mlp")
    assert (plain.method, plain.label) == ("mlp+linear", "mlp+linear · width 64, depth 2")
    model = parsed(encoder="vit_tiny", attention="idw", head="idw", prototypes=5, power=4, patches=7)
    assert model.method == "vit_tiny(idw)+idw"
    assert model.parameters_label == (
        "width 32, depth 2, heads 4, patch 2, attention p=2, ε=0.001, head p=4, ε=0.001, 7 patches"
    )
    others = [
        {"width": 16},
        {"heads": 2},
        {"attention_power": 3},
        {"epsilon": 0.1},
        {"initialisation": "kmeans"},
        {"patches": 8},
        {"patch": 4},
    ]
    settings = {"encoder": "vit_tiny", "attention": "idw", "head": "idw", "prototypes": 5, "power": 4, "patches": 7}
    labels = {parsed(**{**settings, **other}).parameters_label for other in others}
    assert len({*labels, model.parameters_label}) == len(others) + 1


def test_axes_of_sweeps_know_every_setting() -> None:
    assert {"encoder", "attention", "attention_power", "head", "patch", "patches"} <= set(model_setting_names())


@pytest.mark.parametrize(
    ("settings", "location"),
    [
        ({"kind": "network", "encoder": "mlp", "head": "wide", "prototypes": 3}, "head"),
        ({"kind": "transformer_lm", "method": "wide"}, "method"),
    ],
)
def test_a_method_whose_parameter_is_called_like_a_setting_is_refused(settings, location: str) -> None:
    register_method(replace(METHODS["cosine"], name="wide", parameters=(Parameter("width", 1.0),)))
    assert parse_model({"method": "wide", "prototypes": 3, "width": 2}).parameters == {"width": 2.0}
    assert parsed(encoder="vit_tiny", attention="wide", attention_width=2).attention_parameters == {"width": 2.0}
    with pytest.raises(ConfigError, match=rf"^{location}: method 'wide' has a parameter 'width'"):
        parse_model(settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "'encoder' is missing (expected one of: conv, mlp, vit_tiny)"),
        ({"encoder": "vit"}, "encoder: unknown encoder 'vit' (expected one of"),
        ({"encoder": "vittiny"}, "did you mean 'vit_tiny'?"),
        ({"encoder": ["mlp"]}, "encoder: unknown encoder ['mlp']"),
        ({"encoder": "mlp", "heads": 2}, "heads: encoder 'mlp' has no heads: only vit_tiny has"),
        ({"encoder": "conv", "patch": 2}, "patch: encoder 'conv' has no patch"),
        ({"encoder": "mlp", "attention": "idw"}, "attention: encoder 'mlp' has no attention"),
        ({"encoder": "mlp", "attention_power": 2}, "attention_power: only vit_tiny has attention"),
        ({"encoder": "vit_tiny", "heads": 5}, "heads: 5 heads do not divide a width of 32"),
        ({"encoder": "vit_tiny", "width": 30}, "width: 4 heads do not divide a width of 30"),
        ({"encoder": "vit_tiny", "heads": 0}, "heads: input should be greater than or equal to 1, got 0"),
        ({"encoder": "vit_tiny", "attention": "idv"}, "attention: unknown attention 'idv' (did you mean 'idw'?)"),
        ({"encoder": "vit_tiny", "attention": 3}, "attention: expected the name of a method, got 3"),
        ({"encoder": "vit_tiny", "attention": "fc_relu"}, "attention: the weights of fc_relu are not a softmax"),
        ({"encoder": "vit_tiny", "attention_power": 2}, "attention_power: method 'scaled_dot' does not take 'power'"),
        ({"encoder": "vit_tiny", "attention": "idw", "attention_power": 0}, "attention_power: must be > 0, got 0"),
        ({"encoder": "mlp", "head": "lineer"}, "head: unknown head 'lineer' (did you mean 'linear'?)"),
        ({"encoder": "mlp", "head": "idw"}, "'prototypes' is missing: a head of prototypes needs their number"),
        ({"encoder": "mlp", "prototypes": 5}, "prototypes: a linear head has no prototypes"),
        ({"encoder": "mlp", "power": 2}, "power: a linear head has no power"),
        ({"encoder": "mlp", "head": "cosine", "prototypes": 5, "power": 2}, "power: method 'cosine' does not take"),
        ({"encoder": "mlp", "head": "cosine", "prototypes": 5, "patches": 9}, "patches: only idw heads can be patched"),
        ({"encoder": "mlp", "width": 0}, "width: input should be greater than or equal to 1, got 0"),
        ({"encoder": "mlp", "width": "wide"}, "width: input should be a valid integer, got 'wide'"),
        ({"encoder": "mlp", "wdith": 5}, "wdith"),
    ],
)
def test_a_mistake_gets_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(**settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
