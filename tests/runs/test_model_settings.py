"""The settings of the kinds of models: defaults, labels, advice, and one line for each mistake."""

import inspect
from dataclasses import replace
from importlib import import_module

import pytest
from case_tables import case_table

from idwbench.attention.records import Parameter
from idwbench.attention.scores import METHODS, register_method
from idwbench.errors import ConfigError
from idwbench.runs.advice import LOW_ACCURACY, training_advice
from idwbench.runs.config import run_config
from idwbench.runs.kinds.hash_table import SIMILARITIES
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.kinds.prototypes import TABLE_DEFAULTS
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS
from idwbench.runs.protocol import Protocol

OF = ["mnist", "fashion_mnist"]
WORDS = {"none": None, "all": None, "true": True, "false": False}


def parsed(kind, dataset=None, **settings):
    """Return a model, or that of a run on a data set."""
    if dataset is not None:
        return run_config(dataset, kind=kind, **settings).model
    return parse_model({"kind": kind, **settings})


def test_perceptrons_networks_and_hash_tables_have_their_defaults_and_the_parameters_of_all_scores():
    model = parsed("mlp")
    assert model.layer_names == ("layer_0", "layer_1", "layer_2")
    assert (model.record, model.record_dtype, model.fold) == (False, "float32", True)
    epochs = [run_config({"name": name, "of": OF}, kind="mlp").n_epochs for name in ("joint", "sequence")]
    assert epochs == [8, 16]
    model = parsed("network", encoder="vit_tiny", attention="idw", attention_power=4, head="cosine", prototypes=7)
    assert model.parameters == {"temperature": 1.0, "attention_power": 4.0, "attention_epsilon": 1e-3}
    assert (model.width, model.depth, model.heads, model.patch) == (32, 2, 4, 2)
    assert model.attention_parameters == {"power": 4.0, "epsilon": 1e-3}
    assert model.head_parameters == {"temperature": 1.0}
    assert parsed("network", encoder="vit_tiny").attention == "scaled_dot"
    assert parsed("network", encoder="mlp").heads is None
    assert parsed("hash_table", similarity="inner_product").parameters == {}
    assert parsed("hash_table", similarity="idw", power=4).parameters == {"power": 4.0, "epsilon": 0.001}
    model = parsed("hash_table", similarity="neg_dist", weighting="top_k", k=3)
    assert (model.score_parameters, model.weighting_parameters) == ({"power": 2.0}, {"k": 3.0})
    assert parsed("hash_table", weighting="exact_match").similarity == "equality"
    assert {name: parsed("hash_table", similarity=name).score.name for name in SIMILARITIES} == dict(SIMILARITIES)


@pytest.mark.parametrize("name", SCIKIT_LEARN_METHODS)
def test_defaults_are_those_of_scikit_learn(name):
    module, *names = case_table("scikit_learn_methods")[name]
    estimators = [getattr(import_module(f"sklearn.{module}"), estimator) for estimator in names]
    signatures = [inspect.signature(estimator).parameters for estimator in estimators]
    for parameter in SCIKIT_LEARN_METHODS[name].parameters:
        own = "learning_rate" if parameter.name == "shrinkage" else parameter.name
        known = [signature[own] for signature in signatures if own in signature]
        assert known, own
        if parameter.default != "default":
            assert {found.default for found in known} == {WORDS.get(parameter.default, parameter.default)}
    own = {parameter.name for parameter in SCIKIT_LEARN_METHODS[name].parameters}
    assert parsed("scikit_learn", method=name).parameters.keys() <= own
    assert not own & Protocol.model_fields.keys()


def test_parameters_of_scikit_learn_are_words_and_numbers_that_are_used_and_some_need_seeds():
    forest = parsed("scikit_learn", method="random_forest", max_depth=None, bootstrap=False)
    assert (forest.parameters["max_depth"], forest.parameters["bootstrap"]) == ("none", "false")
    assert "p" not in parsed("scikit_learn", method="knn", metric="cosine").parameters
    assert {"degree", "coef0"} & parsed("scikit_learn", method="svc").parameters.keys() == set()
    assert {"gamma", "degree", "coef0"} <= parsed("scikit_learn", method="svc", kernel="poly").parameters.keys()
    random = {name for name in SCIKIT_LEARN_METHODS if not parsed("scikit_learn", method=name).is_deterministic}
    assert random == {"nca_knn", "random_forest", "hist_gradient_boosting"}


# Prototypes: the paper's protocol on its data, another on tables, and none in place of what is given


def chosen(dataset, **settings):
    """Return what a network of prototypes begins with on a data set."""
    run = run_config(dataset, **settings)
    names = ("initialisation", "key_bounds", "learning_rate")
    return {name: getattr(run.protocol if name == "learning_rate" else run.model, name) for name in names}


PAPER = {"initialisation": "default", "key_bounds": "none", "learning_rate": 0.01}


@pytest.mark.parametrize("dataset", ["iris", "digits", "blobs", "sine", "diabetes", {"name": "csv", "path": "x.csv"}])
def test_keys_that_are_points_start_at_rows_of_a_table_and_stay_within_its_range(dataset):
    assert chosen(dataset) == TABLE_DEFAULTS
    given = {"initialisation": "kmeans", "learning_rate": 0.2}
    assert chosen(dataset, **given) == {**TABLE_DEFAULTS, **given}
    assert chosen(dataset, method="fc_relu") == PAPER == chosen(dataset, **PAPER)
    assert run_config(dataset, kind="network", head="idw", prototypes=4).protocol.learning_rate == 0.01


LOW = {("train", "accuracy"): 0.5}
ADVICE = [
    ({}, "more than 16 prototypes, power 8, initialisation samples, learning_rate 0.05 and 50 epochs"),
    ({"power": 8.0, "learning_rate": 0.1, "epochs": 60}, "more than 16 prototypes and initialisation samples"),
    ({"method": "fc_relu", "prototypes": 4, "epochs": 50}, "more than 4 prototypes"),
]


@pytest.mark.parametrize(("settings", "helps"), ADVICE)
def test_advice_is_what_a_run_has_not_and_is_given_to_prototypes_that_have_not_learned(settings, helps):
    run = run_config("two_moons", **settings)
    assert training_advice(run, LOW) == f"the train accuracy 50.0 % is low; what usually helps: {helps}"
    learned, numbers = {("train", "accuracy"): LOW_ACCURACY}, {("train", "rmse"): 3.0}
    baseline = run_config("two_moons", kind="baseline", method="kmeans")
    assert {training_advice(*given) for given in ((run, learned), (run, numbers), (baseline, LOW))} == {""}


# Labels


@pytest.mark.parametrize(("kind", "settings", "label"), case_table("model_labels"))
def test_a_label_says_what_differs_in_the_order_of_the_method(kind, settings, label):
    model = parsed(kind, **settings) if kind != "prototypes" else run_config("two_moons", **settings).model
    assert model.label == label
    # A database may return parameters in any order.
    assert model.model_copy(update={"parameters": dict(sorted(model.parameters.items()))}).label == label


OF_METHODS = [
    ("prototypes", {"method": "planned", "prototypes": 3}),
    ("network", {"encoder": "mlp", "head": "planned", "prototypes": 3}),
    ("network", {"encoder": "vit_tiny", "attention": "planned"}),
    ("transformer_lm", {"method": "planned"}),
    ("sequence_to_sequence", {"method": "planned"}),
]


@pytest.mark.parametrize(("kind", "settings"), OF_METHODS)
def test_the_method_of_a_plugin_is_part_of_every_model_that_uses_it_and_of_its_versioned_label(kind, settings):
    register_method(replace(METHODS["idw"], name="planned", sha256="ab" * 32))
    model = parsed(kind, **settings)
    assert model.plugin_sha256 == "ab" * 32 and model.versioned_label.endswith("plugin abababab")


# Mistakes

REFUSED = case_table("wrong_models")


@pytest.mark.parametrize(("kind", "settings", "message"), [(kind, *row) for kind in REFUSED for row in REFUSED[kind]])
def test_a_mistake_gets_one_line_that_begins_with_its_place(kind, settings, message):
    with pytest.raises(ConfigError) as caught:
        parsed(kind, **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not caught.value.location or caught.value.location[-1] in (*settings, "kind", "dataset")


def test_a_method_whose_parameter_is_called_like_a_setting_is_refused():
    register_method(replace(METHODS["cosine"], name="wide", parameters=(Parameter("width", 1.0),)))
    assert parse_model({"method": "wide", "prototypes": 3, "width": 2}).parameters == {"width": 2.0}
    vit = parsed("network", encoder="vit_tiny", attention="wide", attention_width=2)
    assert vit.attention_parameters == {"width": 2.0}
    network = {"kind": "network", "encoder": "mlp", "head": "wide", "prototypes": 3}
    for place, settings in (("head", network), ("method", {"kind": "transformer_lm", "method": "wide"})):
        with pytest.raises(ConfigError, match=rf"^{place}: method 'wide' has a parameter 'width'"):
            parse_model(settings)
