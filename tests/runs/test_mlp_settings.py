"""Settings of multilayer perceptrons: defaults, labels, data sets, and one line for each mistake."""

from __future__ import annotations

import pytest

from idwbench.errors import ConfigError
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.kinds.mlp import MlpConfig
from idwbench.runs.kinds.models import model_setting_names, parse_model

OF = ["mnist", "fashion_mnist"]


def parsed(**settings) -> MlpConfig:
    model = parse_model({"kind": "mlp", **settings})
    assert isinstance(model, MlpConfig)
    return model


def test_defaults_are_the_published_network() -> None:
    model = parsed()
    assert (model.width, model.depth, model.n_layers) == (800, 2, 3)
    assert (model.record, model.record_dtype, model.fold) == (False, "float32", True)
    assert model.layer_names == ("layer_0", "layer_1", "layer_2")


def test_labels_say_what_differs() -> None:
    assert parsed().label == "mlp · width 800, depth 2"
    labels = [
        parsed(**settings).parameters_label
        for settings in (
            {"width": 7},
            {"depth": 4},
            {"record": True},
            {"record": True, "record_dtype": "float16"},
            {"record": True, "fold": False},
        )
    ]
    assert labels == [
        "width 7, depth 2",
        "width 800, depth 4",
        "width 800, depth 2, recorded in float32",
        "width 800, depth 2, recorded in float16",
        "width 800, depth 2, recorded in float32, not folded",
    ]


@pytest.mark.parametrize("name", ["joint", "sequence"])
def test_a_run_survives_its_json(name: str) -> None:
    config = run_config({"name": name, "of": OF}, kind="mlp", record=True)
    again = RunConfig.model_validate_json(config.model_dump_json())
    assert again == config and again.run_key == config.run_key
    assert config.n_epochs == (16 if name == "sequence" else 8)


def test_axes_of_sweeps_know_every_setting() -> None:
    assert {"width", "depth", "record", "record_dtype", "fold"} <= set(model_setting_names())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 0}, "depth: input should be greater than or equal to 1, got 0"),
        ({"depth": 5}, "depth: input should be less than or equal to 4, got 5"),
        ({"width": 0}, "width: input should be greater than or equal to 1, got 0"),
        ({"record": "yes"}, "record: input should be a valid boolean, got 'yes'"),
        ({"record": True, "record_dtype": "float8"}, "record_dtype: input should be 'float32' or 'float16'"),
        ({"record_dtype": "float16"}, "record_dtype: only with record: true"),
        ({"fold": False}, "fold: only with record: true"),
        ({"widht": 5}, "widht: unknown key (did you mean 'width'?)"),
        ({"prototypes": 5}, "prototypes: unknown key"),
    ],
)
def test_a_mistake_gets_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(**settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("sine", "kind: mlp needs classes, and the data set sine has none (choose mnist, joint or sequence)"),
        ("lookup", "kind: mlp needs classes, and the data set lookup has none"),
        ("aesop", "dataset: aesop is a text, which the kind mlp does not support"),
    ],
)
def test_data_without_classes_is_refused(dataset: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run_config(dataset, kind="mlp")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kind": "baseline", "method": "kmeans"},
        {"kind": "network", "encoder": "mlp"},
        {"kind": "kernel_regression"},
        {"kind": "patch_study", "cases": "wrong"},
    ],
)
def test_only_perceptrons_are_trained_on_one_data_set_after_the_other(settings: dict[str, object]) -> None:
    assert run_config({"name": "joint", "of": OF}, **settings).dataset.name == "joint"
    with pytest.raises(ConfigError, match=r"dataset: the kind .* does not train on one data set after the other"):
        run_config({"name": "sequence", "of": OF}, **settings)
