"""Wrong settings of data sets: each is one line with the place of the mistake."""

from __future__ import annotations

import pytest

from idwbench.errors import ConfigError
from idwbench.runs.config import run_config
from idwbench.runs.datasets import parse_dataset

OF = ["mnist", "fashion_mnist"]
PARTS = [
    (["mnist"], "of: expected a list of two data sets, got 1 (expected mnist and fashion_mnist, in any order)"),
    ([], "of: expected a list of two data sets, got 0 (expected"),
    ("mnist", "of: expected a list of two data sets, got 'mnist' (expected"),
    (["mnist", "mnist"], "of[1]: mnist is already a part (expected"),
    ([*OF, "mnist"], "of[2]: mnist is already a part (expected"),
    (["mnist", "fashion"], "of[1]: unknown data set 'fashion' (did you mean 'fashion_mnist'?)"),
    (["mnist", 3], "of[1]: unknown data set 3 (expected one of"),
    (["digits", "mnist"], "of[0]: digits has no images of 28 x 28 pixels as the parts need (expected"),
    (["mnist", ["mnist"]], "of[1]: unknown data set ['mnist'] ("),
]
SETTINGS = [
    *(({"name": name, "of": of}, message) for name in ("joint", "sequence") for of, message in PARTS),
    ({"name": "joint"}, "'of' is missing"),
    ({"name": "lookup", "items": 0}, "items: "),
    ({"name": "lookup", "dimensions": 1.5}, "dimensions: "),
    ({"name": "lookup", "noise": -0.1}, "noise: "),
    ({"name": "lookup", "mean": float("nan")}, "mean: "),
    ({"name": "lookup", "validation": 0.5}, "validation: "),
    ({"name": "lookup", "items_": 3}, "items_: "),
    ({"name": "hypercube", "informative": 11}, "informative: expected at most the 10 features, got 11"),
    ({"name": "hypercube", "classes": 17}, "classes: 17 classes of two clusters need more vertices"),
    ({"name": "circles", "factor": 1}, "factor: "),
    ({"name": "blobs", "classes": 1}, "classes: "),
    ({"name": "wine", "test_fractio": 0.1}, "test_fractio: unknown key (did you mean 'test_fraction'?)"),
]


@pytest.mark.parametrize(("settings", "message"), SETTINGS)
def test_a_wrong_setting_is_one_line_with_its_name(settings, message):
    with pytest.raises(ConfigError) as caught:
        parse_dataset(settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("dataset", "model", "message"),
    [
        ("two_moons", {"kind": "transformer_lm"}, "kind: .*needs a text"),
        ("aesop", {"prototypes": 2}, "dataset: "),
        ("digits", {"kind": "hash_table", "similarity": "idw"}, "needs the data set lookup, not digits"),
        ({"name": "hypercube", "classes": 17}, {}, "dataset.classes: 17 classes"),
    ],
)
def test_a_model_that_cannot_read_the_data_is_refused(dataset, model, message):
    with pytest.raises(ConfigError, match=message):
        run_config(dataset, **model)
