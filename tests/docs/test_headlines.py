"""The numbers of the headlines are those of the published tables."""

import json
from pathlib import Path

import pandas
import pytest

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results" / "published"
CLAIMS = {claim["number"]: claim for claim in json.loads((PUBLISHED / "paper/claims.json").read_text(encoding="utf-8"))}


def number(table, column, **row):
    """Return a number of the only row of a published table that has these values."""
    rows = pandas.read_csv(PUBLISHED / f"{table}.csv", dtype=str)
    for name, value in row.items():
        rows = rows[rows[name] == value]
    [text] = set(rows[column])  # tables of layers repeat what does not depend on them
    return float(text)


def accuracy(task, place, column):
    return 100 * number("dual/table_dual_form", column, dataset="sequence", layer="layer_0", **{f"task_{place}": task})


def attention(dataset, column):
    return 100 * number("dual/table_dual_form", f"{column}_if_wrong_mean", dataset=dataset, layer="layer_0")


def calibration(way):
    study = {"prototypes": "20", "mended": "in one network", "way": way}
    return number("repairs/table_repairs_mnist", "calibration_error_mean", **study)


def diabetes(**row):
    return number("family/table_kernel_regression_diabetes", "test_mean", **row)


def forgetting():
    after, before = (accuracy("mnist", 1, f"accuracy_1_{name}mean") for name in ("", "before_"))
    return f"{after:.1f} % after Fashion-MNIST, {before:.1f} % before it, five seeds"


def few_prototypes():
    first = diabetes(method="idw", prototypes="4", power="2.0")
    return f"{first:.2f} against {diabetes(method='triangular_kernel', bandwidth='loo'):.2f}"


def ridge():
    error = number("baselines/table_baselines_regression", "test_mean", dataset="diabetes", method="ridge")
    return f"11 parameters ({error:.2f}"


def answers():
    first, second = (f"{attention('mnist', name):.2f} %" for name in ("output", "target"))
    return f"{first} in the lowest layer on MNIST) than its target ({second})"


def answers_in_sequence():
    first, second = (f"{attention('sequence', name):.2f} %" for name in ("target", "output"))
    return f"the target in {first} and the answer in {second}"


HEADLINES = {
    "best": lambda: f"by {CLAIMS[1]['effect']:.2f} points with 16 prototypes, 4,000 new points",
    "calibration": lambda: f"calibration error from {calibration('unpatched'):.3f} to {calibration('exact'):.3f}",
    **{"few prototypes": few_prototypes, "ridge": ridge, "forgetting": forgetting},
    **{"answers": answers, "answers in sequence": answers_in_sequence},
}


@pytest.mark.parametrize("headline", HEADLINES)
def test_a_headline_has_the_numbers_of_its_published_table(headline):
    page = " ".join((ROOT / "docs/published.md").read_text(encoding="utf-8").split())
    assert HEADLINES[headline]() in page


def test_the_cost_of_interpretability_is_that_of_the_published_claim():
    """In another wording once the table is made anew: the numbers stand in it."""
    text = json.dumps(CLAIMS[24], ensure_ascii=False)
    page = (ROOT / "docs/published.md").read_text(encoding="utf-8")
    for ρ in ("0.656", "0.5", "0.59"):
        assert ρ in page and ρ in text
