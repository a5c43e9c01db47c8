"""The settings of hash tables: names, defaults, and combinations that are refused."""

from __future__ import annotations

import pytest

from idwbench.errors import ConfigError
from idwbench.runs.config import run_config
from idwbench.runs.kinds.hash_table import SIMILARITIES, HashTableConfig
from idwbench.runs.kinds.models import parse_model


def a_table(**settings: object) -> HashTableConfig:
    found = parse_model({"kind": "hash_table", **settings})
    assert isinstance(found, HashTableConfig)
    return found


def test_parameters_are_those_of_the_similarity_and_of_the_weighting_with_defaults() -> None:
    assert a_table(similarity="inner_product").parameters == {}
    assert a_table(similarity="idw", power=4).parameters == {"power": 4.0, "epsilon": 0.001}
    found = a_table(similarity="neg_dist", weighting="top_k", k=3)
    assert (found.score_parameters, found.weighting_parameters) == ({"power": 2.0}, {"k": 3.0})
    assert a_table(weighting="exact_match").similarity == "equality"


def test_labels_name_everything_that_differs() -> None:
    assert a_table(similarity="inner_product").label == "inner_product table · softmax"
    found = a_table(similarity="idw", scaling="qk_norm", weighting="top_k", k=3, projections="mlp")
    assert found.parameters_label == "top_k, QK-norm, p=2, ε=0.001, k=3, mlp projections"
    assert (found.method, found.prototypes) == ("idw", 0)
    assert a_table(weighting="exact_match").label == "equality table · exact_match"


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_score_of_a_similarity_is_that_of_the_registry(similarity: str) -> None:
    score = a_table(similarity=similarity).score
    assert score is not None and score.name == SIMILARITIES[similarity]


def test_the_keys_of_runs_stay() -> None:
    run = run_config("lookup", kind="hash_table", similarity="idw", scaling="sqrt_dimensions")
    assert run.run_key == "50703eb1adbdcbea17b36b030b6d37ccf73c1e0c1fa5bfcb460b6c447667004b"
    # Settings at their default are part of the key, given or not.
    same = run_config("lookup", kind="hash_table", similarity="idw", scaling="sqrt_dimensions", weighting="softmax")
    assert same == run


@pytest.mark.parametrize(
    ("settings", "location", "words"),
    [
        ({}, (), "'similarity' is missing"),
        ({"similarity": "dot"}, ("similarity",), "unknown similarity 'dot'"),
        ({"similarity": "cosin"}, ("similarity",), "did you mean 'cosine'?"),
        ({"similarity": ["idw"]}, ("similarity",), "unknown similarity"),
        ({"similarity": "equality"}, ("similarity",), "of the weighting exact_match alone"),
        ({"similarity": "idw", "weighting": "softmx"}, ("weighting",), "did you mean 'softmax'?"),
        ({"similarity": "idw", "weighting": 3}, ("weighting",), "expected the name of a weighting, got 3"),
        ({"similarity": "idw", "scaling": "sqrt"}, ("scaling",), "'none', 'sqrt_dimensions' or 'qk_norm'"),
        ({"similarity": "idw", "projections": "deep"}, ("projections",), "'none', 'linear' or 'mlp'"),
        ({"similarity": "idw", "power": 0}, ("power",), "must be > 0"),
        ({"similarity": "idw", "weighting": "top_k", "k": 1.5}, ("k",), "expected a whole number"),
        ({"similarity": "idw", "k": 3}, ("k",), "does not take 'k' (it takes epsilon, power)"),
        ({"similarity": "inner_product", "power": 2}, ("power",), "it takes no parameters"),
        ({"weighting": "exact_match", "similarity": "idw"}, ("similarity",), "compares a query and a key itself"),
        ({"weighting": "exact_match", "scaling": "qk_norm"}, ("scaling",), "takes no scaling"),
        ({"weighting": "exact_match", "power": 2}, ("power",), "does not take 'power'"),
        ({"similarity": "idw", "method": "idw"}, ("method",), "does not take 'method'"),
    ],
)
def test_a_wrong_setting_is_one_line_with_its_place(settings: dict, location: tuple, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        a_table(**settings)
    assert caught.value.location == location
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
