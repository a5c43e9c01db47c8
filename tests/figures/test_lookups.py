"""Figures of lookups, from runs whose metrics are known."""

import math

import numpy as np
import pytest
from made import assert_no_words_overlap, draw, words
from stored_runs import stored_run

from idwbench.errors import ConfigError
from idwbench.report.lookups import lookup_capacities, lookup_runs

ITEMS = (2, 8, 32, 128)


def lookups(
    metrics,
    dimensions=(4, 8, 16),
    items=ITEMS,
    seeds=3,
    data=None,
    **settings,
):
    """Runs whose metrics are a function of dimensions, items and seed."""
    settings = {"kind": "hash_table", "similarity": "inner_product", **settings}
    runs = []
    for d, n, seed in ((d, n, seed) for d in dimensions for n in items for seed in range(seeds)):
        dataset = {"name": "lookup", "dimensions": d, "items": n, "noise": 0.0, **(data or {})}
        measured = {("test", name): value for name, value in metrics(d, n, seed).items()}
        n_learned = int(settings.get("projections", "none") != "none")
        facts = {"metrics": measured, "n_parameters": n_learned, "train": None}
        runs.append(stored_run(None, dataset=dataset, seed=seed, **facts, **settings))
    return runs


def recall_with_capacity(law):
    def metrics(d, n, seed):
        return {"recall": min(1.0, 0.99 - 0.1 * math.log(n / (law(d) * 1.1**seed)))}

    return metrics


def lines_of(figure, panel=0):
    return [line.get_xydata() for line in figure.axes[panel].get_lines()]


GROWING, CONSTANT = recall_with_capacity(lambda d: d), recall_with_capacity(lambda d: 1e9)


def test_capacities_and_their_law_are_interpolated_between_the_items_of_stored_runs():
    runs = lookups(GROWING)
    (capacities,) = lookup_capacities(runs)
    # The recall is 1 below the capacity, so the interpolation between 2 or 8 items and more is from 1.
    assert capacities.fit is not None and capacities.fit.dimensions == (4, 8, 16)
    for d in (4, 8, 16):
        below, above = max(n for n in ITEMS if n <= d), min(n for n in ITEMS if n > d)
        recalls = [GROWING(d, n, 0)["recall"] for n in (below, above)]
        share = (recalls[0] - 0.99) / (recalls[0] - recalls[1])
        assert capacities.by_dimensions[d][0].items == pytest.approx(below * (above / below) ** share)
    assert lookup_capacities(runs, 0.5)[0].by_dimensions[4][0].items > capacities.by_dimensions[4][0].items
    # Dimensions and seeds that lack some numbers of items have none.
    runs = lookups(GROWING, dimensions=(4,)) + lookups(GROWING, dimensions=(8,), items=(2, 128))
    runs = [run for run in runs if (run.config.seed, run.config.dataset.items) != (2, 8)]
    (capacities,) = lookup_capacities(runs)
    assert {d: sorted(seeds) for d, seeds in capacities.by_dimensions.items()} == {4: [0, 1]}


@pytest.mark.parametrize(
    ("projections", "labels"),
    [
        ("none", ["inner_product softmax"]),
        ("linear", [f"inner_product softmax, linear projections, learning rate {rate}" for rate in (0.1, 0.2)]),
    ],
)
def test_only_models_that_learn_differ_in_their_learning_rate(projections, labels):
    runs = [run for rate in (0.1, 0.2) for run in lookups(GROWING, learning_rate=rate, projections=projections)]
    assert [each.label for each in lookup_runs(runs)] == labels


def test_recall_is_drawn_against_the_load():
    runs = lookups(lambda d, n, seed: {"recall": 0.5 + 0.1 * seed})
    runs += lookups(lambda d, n, seed: {"recall": 0.2}, similarity="idw", weighting="argmax")
    figure = draw("recall", runs).figure
    assert [axes.get_title() for axes in figure.axes] == ["4 dimensions", "8 dimensions", "16 dimensions"]
    softmax, argmax = lines_of(figure, 1)
    np.testing.assert_allclose(softmax, np.transpose([np.array(ITEMS) / 8, [60] * 4]))
    np.testing.assert_allclose(argmax[:, 1], 20)
    assert any("mean over 3 seeds" in text for text in words(figure))
    assert_no_words_overlap(figure)


def test_the_figure_of_recall_names_what_it_leaves_out():
    runs = lookups(lambda d, n, seed: {"recall": 0.5}, data={"noise": 0.3}, dimensions=(4,), seeds=1)
    for k in range(1, 13):
        runs += lookups(lambda d, n, seed: {"recall": 0.5}, weighting="top_k", k=k, seeds=1, items=(2, 8))
    lines = ("not drawn: noise 0.3 · mean 0 · queries 256", "not drawn: 2 other models")
    assert draw("recall", runs).left_out == lines


def test_capacities_are_drawn_with_their_laws_if_there_are_any():
    figure = draw("capacity", lookups(recall_with_capacity(lambda d: 2 * d))).figure
    assert "inner_product softmax: 4.57 · exp(0.121 d)" in " ".join(words(figure))
    with pytest.raises(ConfigError, match="no seed has a recall of 99 %"):
        draw("capacity", lookups(CONSTANT))


def test_the_entropy_of_softmax_is_drawn_beside_that_of_equal_weights_where_it_was_measured():
    def measured(d, n, seed):
        return {"recall": 1, "weight_entropy": d / 16 + seed}

    runs = lookups(measured, items=(32,), seeds=5) + lookups(measured, items=(32,), weighting="argmax")
    runs += lookups(lambda d, n, seed: {"recall": 1}, items=(32,), dimensions=(32,))
    equal, softmax = lines_of(draw("weight_entropy", runs).figure)
    np.testing.assert_allclose(equal[:, 1], math.log(32))
    np.testing.assert_allclose(softmax, [[4, 2.25], [8, 2.5], [16, 3]])


def test_the_variance_of_scores_is_drawn_with_the_theory_for_each_mean():
    runs = []
    for mean in (0.0, 2.0):
        for scaling in ("none", "sqrt_dimensions", "qk_norm"):
            settings = {"items": (8,), "data": {"mean": mean}, "scaling": scaling}
            runs += lookups(lambda d, n, seed: {"recall": 1, "score_variance": 1.0 + seed}, **settings)
    figure = draw("score_variance", runs).figure
    d = np.array([4, 8, 16])
    for panel, mean in enumerate((0.0, 2.0)):
        theory, divided = lines_of(figure, panel)[:2]
        np.testing.assert_allclose(theory[:, 1], d + 2 * d * mean**2)
        np.testing.assert_allclose(divided[:, 1], 1 + 2 * mean**2)
    legend = words(figure)
    assert "theory: d σ⁴ + 2 σ² ‖μ‖²" in legend and not any("QK-norm" in text for text in legend)
