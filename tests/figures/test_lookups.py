"""Figures and tables of lookups, from runs whose metrics are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made import assert_no_words_overlap, words

from idwbench.errors import ConfigError
from idwbench.figures.stored import stored_drawing
from idwbench.report.lookups import lookup_capacities, lookup_runs
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.results import RunResult

ITEMS = (2, 8, 32, 128)


@pytest.fixture
def stored(tmp_path):
    """A function that stores runs with given metrics and returns them."""
    results = Results(tmp_path / "runs.db")

    def store(metrics, dimensions=(4, 8, 16), items=ITEMS, seeds=3, data=None, **settings) -> list[StoredRun]:
        settings = {"similarity": "inner_product", **settings}
        made = []
        for d in dimensions:
            for n in items:
                for seed in range(seeds):
                    dataset = {"name": "lookup", "dimensions": d, "items": n, "noise": 0.0, **(data or {})}
                    config = run_config(dataset, kind="hash_table", seed=seed, **settings)
                    n_learned = int(config.model.projections != "none")
                    found = {("test", name): value for name, value in metrics(d, n, seed).items()}
                    made.append(
                        RunResult(config, "complete", (), found, {}, n_learned, None, 0.0, "hash_table", "cpu", 1)
                    )
        results.finish(made, data_sha256=None)
        return results.find_runs()

    return store


def recall_with_capacity(law):
    def metrics(d: int, n: int, seed: int) -> dict[str, float]:
        return {"recall": min(1.0, 0.99 - 0.1 * math.log(n / (law(d) * 1.1**seed)))}

    return metrics


def lines_of(figure, panel: int = 0) -> list[np.ndarray]:
    return [line.get_xydata() for line in figure.axes[panel].get_lines()]


def test_capacities_and_their_law_are_found_in_stored_runs(stored) -> None:
    runs = stored(recall_with_capacity(lambda d: d))
    (found,) = lookup_capacities(runs)
    # The recall is 1 below the capacity, so the interpolation between 2 or 8 items and more is from 1.
    assert found.fit is not None and found.fit.dimensions == (4, 8, 16)
    for d in (4, 8, 16):
        below, above = max(n for n in ITEMS if n <= d), min(n for n in ITEMS if n > d)
        recalls = [recall_with_capacity(lambda d: d)(d, n, 0)["recall"] for n in (below, above)]
        share = (recalls[0] - 0.99) / (recalls[0] - recalls[1])
        assert found.by_dimensions[d][0].items == pytest.approx(below * (above / below) ** share)
    assert lookup_capacities(runs, 0.5)[0].by_dimensions[4][0].items > found.by_dimensions[4][0].items


def test_dimensions_and_seeds_that_lack_some_numbers_of_items_have_no_capacity(stored) -> None:
    stored(recall_with_capacity(lambda d: d), dimensions=(4,))
    runs = stored(recall_with_capacity(lambda d: d), dimensions=(8,), items=(2, 128))
    runs = [run for run in runs if (run.config.seed, run.config.dataset.items) != (2, 8)]
    (found,) = lookup_capacities(runs)
    assert {d: sorted(seeds) for d, seeds in found.by_dimensions.items()} == {4: [0, 1]}


def test_a_table_without_learned_numbers_has_no_learning_rate(stored) -> None:
    stored(recall_with_capacity(lambda d: d), learning_rate=0.1)
    (found,) = lookup_runs(stored(recall_with_capacity(lambda d: d), learning_rate=0.2))
    assert found.label == "inner_product softmax"


def test_learned_runs_of_different_rates_are_different_models(stored) -> None:
    stored(recall_with_capacity(lambda d: d), learning_rate=0.1, projections="linear")
    runs = stored(recall_with_capacity(lambda d: d), learning_rate=0.2, projections="linear")
    assert {found.label for found in lookup_runs(runs)} == {
        "inner_product softmax, linear projections, learning rate 0.1",
        "inner_product softmax, linear projections, learning rate 0.2",
    }


def test_a_figure_leaves_out_dimensions_without_its_metric(stored) -> None:
    stored(lambda d, n, seed: {"recall": 1, "weight_entropy": 1.0}, items=(8,), dimensions=(4, 8))
    runs = stored(lambda d, n, seed: {"recall": 1}, items=(8,), dimensions=(16,))
    assert len(lines_of(stored_drawing("weight_entropy", None, runs).figure)[1]) == 2


def test_the_figure_of_recall_shows_recall_against_the_load(stored) -> None:
    stored(lambda d, n, seed: {"recall": 0.5 + 0.1 * seed})
    runs = stored(lambda d, n, seed: {"recall": 0.2}, similarity="idw", weighting="argmax")
    figure = stored_drawing("recall", None, runs).figure
    assert [axes.get_title() for axes in figure.axes] == ["4 dimensions", "8 dimensions", "16 dimensions"]
    softmax, argmax = lines_of(figure, 1)
    np.testing.assert_allclose(softmax[:, 0], np.array(ITEMS) / 8)
    np.testing.assert_allclose(softmax[:, 1], 60)
    np.testing.assert_allclose(argmax[:, 1], 20)
    assert any("mean over 3 seeds" in text for text in words(figure))
    assert_no_words_overlap(figure)


def test_the_figure_of_recall_names_what_it_leaves_out(stored) -> None:
    stored(lambda d, n, seed: {"recall": 0.5}, data={"noise": 0.3}, dimensions=(4,))
    for k in range(1, 13):
        runs = stored(lambda d, n, seed: {"recall": 0.5}, weighting="top_k", k=k, seeds=1, dimensions=(4, 8))
    drawing = stored_drawing("recall", None, runs)
    assert drawing.left_out == ("not drawn: noise 0.3 · mean 0 · queries 256", "not drawn: 2 other models")


def test_the_figure_of_capacity_shows_points_and_laws(stored) -> None:
    figure = stored_drawing("capacity", None, stored(recall_with_capacity(lambda d: 2 * d))).figure
    legend = " ".join(words(figure))
    assert "inner_product softmax: 4.57 · exp(0.121 d)" in legend
    assert_no_words_overlap(figure)


def test_the_figure_of_capacity_needs_a_capacity(stored) -> None:
    with pytest.raises(ConfigError, match="no seed has a recall of 99 %"):
        stored_drawing("capacity", None, stored(lambda d, n, seed: {"recall": 1.0}))


def test_the_figure_of_entropy_shows_softmax_beside_equal_weights(stored) -> None:
    stored(lambda d, n, seed: {"recall": 1, "weight_entropy": 9.0}, weighting="argmax")
    runs = stored(lambda d, n, seed: {"recall": 1, "weight_entropy": d / 16 + seed}, items=(32,), seeds=5)
    drawing = stored_drawing("weight_entropy", None, runs)
    equal, softmax = lines_of(drawing.figure)
    np.testing.assert_allclose(equal[:, 1], math.log(32))
    np.testing.assert_allclose(softmax, [[4, 2.25], [8, 2.5], [16, 3]])


def test_the_figure_of_variance_shows_the_theory_for_each_mean(stored) -> None:
    for mean in (0.0, 2.0):
        for scaling in ("none", "sqrt_dimensions", "qk_norm"):
            runs = stored(
                lambda d, n, seed: {"recall": 1, "score_variance": 1.0 + seed},
                items=(8,),
                data={"mean": mean},
                scaling=scaling,
            )
    figure = stored_drawing("score_variance", None, runs).figure
    for panel, mean in enumerate((0.0, 2.0)):
        theory, divided = lines_of(figure, panel)[:2]
        d = np.array([4, 8, 16])
        np.testing.assert_allclose(theory[:, 1], d + 2 * d * mean**2)
        np.testing.assert_allclose(divided[:, 1], 1 + 2 * mean**2)
    legend = words(figure)
    assert "theory: d σ⁴ + 2 σ² ‖μ‖²" in legend and not any("QK-norm" in text for text in legend)
    assert_no_words_overlap(figure)
