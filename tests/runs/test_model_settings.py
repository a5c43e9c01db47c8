"""The settings of the kinds of models: defaults, labels, and one line for each mistake."""

import inspect
from dataclasses import replace

import pytest
from sklearn import ensemble, linear_model, neighbors, svm

from idwbench.attention.records import Parameter
from idwbench.attention.scores import METHODS, register_method
from idwbench.errors import ConfigError
from idwbench.runs.config import run_config
from idwbench.runs.kinds.hash_table import SIMILARITIES
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS
from idwbench.runs.protocol import Protocol

OF = ["mnist", "fashion_mnist"]
VIT = {"encoder": "vit_tiny", "attention": "idw", "head": "idw", "prototypes": 5, "power": 4, "patches": 7}
ESTIMATORS = {
    "knn": (neighbors, "KNeighborsClassifier", "KNeighborsRegressor"),
    "nearest_centroid": (neighbors, "NearestCentroid"),
    "nca_knn": (neighbors, "NeighborhoodComponentsAnalysis", "KNeighborsClassifier"),
    "svc": (svm, "SVC"),
    "svr": (svm, "SVR"),
    "logistic_regression": (linear_model, "LogisticRegression"),
    "ridge": (linear_model, "Ridge"),
    "linear_regression": (linear_model, "LinearRegression"),
    "random_forest": (ensemble, "RandomForestClassifier", "RandomForestRegressor"),
    "hist_gradient_boosting": (ensemble, "HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
}
WORDS = {"none": None, "all": None, "true": True, "false": False}


def parsed(kind, dataset=None, **settings):
    """Return a model, or that of a run on a data set."""
    if dataset is not None:
        return run_config(dataset, kind=kind, **settings).model
    return parse_model({"kind": kind, **settings})


def test_a_perceptron_is_by_default_the_published_network():
    model = parsed("mlp")
    assert (model.width, model.depth, model.layer_names) == (800, 2, ("layer_0", "layer_1", "layer_2"))
    assert (model.record, model.record_dtype, model.fold) == (False, "float32", True)
    epochs = [run_config({"name": name, "of": OF}, kind="mlp").n_epochs for name in ("joint", "sequence")]
    assert epochs == [8, 16]


def test_networks_and_hash_tables_have_the_parameters_of_all_their_scores():
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
    module, *names = ESTIMATORS[name]
    signatures = [inspect.signature(getattr(module, estimator)).parameters for estimator in names]
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


# Labels

QK_TABLE = {"similarity": "idw", "scaling": "qk_norm", "weighting": "top_k", "k": 3, "projections": "mlp"}
VIT_LABEL = "width 32, depth 2, heads 4, patch 2, attention p=2, ε=0.001, head p=4, ε=0.001"
LABELS = [
    ("prototypes", {"epsilon": 0.1, "power": 3}, "idw · 16 prototypes · p=3, ε=0.1"),
    ("mlp", {}, "mlp · width 800, depth 2"),
    ("mlp", {"record": True, "record_dtype": "float16"}, "mlp · width 800, depth 2, recorded in float16"),
    ("mlp", {"record": True, "fold": False}, "mlp · width 800, depth 2, recorded in float32, not folded"),
    ("lstm_lm", {}, "lstm_lm · embedding 64, width 128, context 64"),
    ("hash_table", {"weighting": "exact_match"}, "equality table · exact_match"),
    ("hash_table", QK_TABLE, "idw table · top_k, QK-norm, p=2, ε=0.001, k=3, mlp projections"),
    ("network", {"encoder": "mlp"}, "mlp+linear · width 64, depth 2"),
    ("network", VIT, f"vit_tiny(idw)+idw · 5 prototypes · {VIT_LABEL}, 7 patches"),
    ("scikit_learn", {"method": "knn", "n_neighbors": 1}, "knn · k=1"),
    ("scikit_learn", {"method": "knn", "standardise": True}, "knn · k=5, standardised"),
    ("scikit_learn", {"method": "svc", "gamma": 0.5}, "svc · C=1, kernel=rbf, gamma=0.5"),
]


@pytest.mark.parametrize(("kind", "settings", "label"), LABELS)
def test_a_label_says_what_differs_in_the_order_of_the_method(kind, settings, label):
    model = parsed(kind, **settings) if kind != "prototypes" else run_config("two_moons", **settings).model
    assert model.label == label
    # A database may return parameters in any order.
    assert model.model_copy(update={"parameters": dict(sorted(model.parameters.items()))}).label == label


def test_every_setting_of_a_network_is_part_of_its_label():
    others = [{"width": 16}, {"heads": 2}, {"attention_power": 3}, {"epsilon": 0.1}, {"initialisation": "kmeans"}]
    others += [{"patches": 8}, {"patch": 4}, {}]
    assert len({parsed("network", **{**VIT, **other}).parameters_label for other in others}) == len(others)


# Mistakes

REFUSED = {
    "mlp": [
        ({"depth": 5}, "depth: input should be less than or equal to 4, got 5"),
        ({"record_dtype": "float16"}, "record_dtype: only with record: true"),
        ({"fold": False}, "fold: only with record: true"),
        ({"widht": 5}, "widht: unknown key (did you mean 'width'?)"),
        ({"dataset": "sine"}, "mlp needs classes, and the data set sine has none (choose mnist, joint or sequence)"),
        ({"dataset": "aesop"}, "dataset: aesop is a text, which the kind mlp does not support"),
    ],
    "lstm_lm": [({"dataset": "digits"}, "lstm_lm needs a text, and the data set digits is not a text")],
    "baseline": [
        ({"dataset": "sine", "method": "kmeans_per_class"}, "method: kmeans_per_class needs classes, and sine has")
    ],
    "hash_table": [
        ({}, "'similarity' is missing"),
        ({"similarity": "cosin"}, "similarity: unknown similarity 'cosin' (did you mean 'cosine'?)"),
        ({"similarity": "equality"}, "similarity: only the weighting exact_match has the similarity 'equality'"),
        ({"similarity": "idw", "weighting": "softmx"}, "unknown weighting 'softmx' (did you mean 'softmax'?)"),
        ({"similarity": "idw", "k": 3}, "k: similarity 'idw' with 'softmax' does not take 'k' (it takes eps"),
        ({"weighting": "exact_match", "similarity": "idw"}, "similarity: weighting 'exact_match' compares a query"),
        ({"weighting": "exact_match", "scaling": "qk_norm"}, "a query and a key itself and takes no scaling"),
        ({"similarity": "idw", "method": "idw"}, "method: similarity 'idw' with 'softmax' does not take 'method'"),
    ],
    "network": [
        ({}, "'encoder' is missing (expected one of: conv, mlp, vit_tiny)"),
        ({"encoder": "vittiny"}, "did you mean 'vit_tiny'?"),
        ({"encoder": "mlp", "heads": 2}, "heads: encoder 'mlp' has no heads: only vit_tiny has"),
        ({"encoder": "mlp", "attention": "idw"}, "attention: encoder 'mlp' has no attention"),
        ({"encoder": "vit_tiny", "heads": 5}, "heads: 5 heads do not divide a width of 32"),
        ({"encoder": "vit_tiny", "attention": "fc_relu"}, "attention: the weights of fc_relu are not a softmax"),
        ({"encoder": "vit_tiny", "attention_power": 2}, "attention_power: method 'scaled_dot' does not take 'power'"),
        ({"encoder": "mlp", "head": "idw"}, "'prototypes' is missing: a head of prototypes needs their number"),
        ({"encoder": "mlp", "prototypes": 5}, "prototypes: a linear head has no prototypes"),
        ({"encoder": "mlp", "power": 2}, "power: a linear head has no power"),
        ({"encoder": "mlp", "head": "cosine", "prototypes": 5, "power": 2}, "power: method 'cosine' does not take"),
        ({"encoder": "mlp", "head": "cosine", "prototypes": 5, "patches": 9}, "patches: only idw heads can be patched"),
    ],
    "scikit_learn": [
        ({"method": "kn"}, "method: unknown method 'kn' (did you mean 'knn'?)"),
        ({"dataset": "iris", "method": "knn", "n_neighbours": 3}, "unknown setting (did you mean 'n_neighbors'?)"),
        ({"method": "knn", "n_neighbors": 2.5}, "n_neighbors: expected a whole number, got 2.5"),
        ({"method": "knn", "metric": "cosine", "p": 1}, "p: only with metric minkowski, not cosine"),
        ({"method": "svc", "gamma": "scal"}, "gamma: 'scal' is neither a number nor a valid word (did"),
        ({"method": "svc", "kernel": "linear", "gamma": 1}, "gamma: only with kernel rbf or poly or sigmoid, not"),
        ({"method": "random_forest", "max_depth": True}, "max_depth: expected a number, got True"),
        ({"method": "random_forest", "standardise": True}, "standardise: the predictions of random_forest do"),
        ({"dataset": "iris", "method": "ridge"}, "ridge supports regression, and iris has classes (choose logistic_"),
        ({"dataset": "diabetes", "method": "svc"}, "and diabetes is a regression (choose svr)"),
        ({"dataset": "lookup", "method": "knn"}, "knn supports classification and regression, and lookup is a lookup"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "settings", "message"), [(kind, *row) for kind, rows in REFUSED.items() for row in rows]
)
def test_a_mistake_gets_one_line_that_begins_with_its_place(kind, settings, message):
    with pytest.raises(ConfigError) as caught:
        parsed(kind, **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not caught.value.location or caught.value.location[-1] in (*settings, "kind", "dataset")


@pytest.mark.parametrize("kind", [{}, {"kind": "baseline", "method": "kmeans"}, {"kind": "network", "encoder": "mlp"}])
def test_only_perceptrons_are_trained_on_one_data_set_after_the_other(kind):
    assert run_config({"name": "joint", "of": OF}, **kind).dataset.name == "joint"
    with pytest.raises(ConfigError, match=r"dataset: the kind .* does not train on one data set after the other"):
        run_config({"name": "sequence", "of": OF}, **kind)


def test_a_method_whose_parameter_is_called_like_a_setting_is_refused():
    register_method(replace(METHODS["cosine"], name="wide", parameters=(Parameter("width", 1.0),)))
    assert parse_model({"method": "wide", "prototypes": 3, "width": 2}).parameters == {"width": 2.0}
    vit = parsed("network", encoder="vit_tiny", attention="wide", attention_width=2)
    assert vit.attention_parameters == {"width": 2.0}
    network = {"kind": "network", "encoder": "mlp", "head": "wide", "prototypes": 3}
    for place, settings in (("head", network), ("method", {"kind": "transformer_lm", "method": "wide"})):
        with pytest.raises(ConfigError, match=rf"^{place}: method 'wide' has a parameter 'width'"):
            parse_model(settings)
