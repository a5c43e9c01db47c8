from dataclasses import replace

import numpy as np
import pytest
from made import Store, assert_no_words_overlap, made_dataset, made_run, words

from idwbench.errors import ConfigError
from idwbench.figures import power_epsilon
from idwbench.figures.power_epsilon import power_epsilon_figure
from idwbench.figures.power_epsilon_heatmap import (
    HeatCell,
    HeatMap,
    collect_heat_maps,
    draw_heat_maps,
    power_epsilon_heatmap_figure,
)
from idwbench.report.statistics import statistic
from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config

KEYS = np.array([[-0.6, 0.1], [9.0, 9.0]], np.float32)
VALUES = np.eye(2, dtype=np.float32)


def test_each_cell_of_a_heat_map_has_mean_spread_and_number() -> None:
    cells = {
        (1.0, 0.0): HeatCell(statistic({0: 0.9, 1: 1.0}), 2),
        (1.0, 0.1): HeatCell(None, 5),
        (2.0, 0.1): HeatCell(statistic({0: 0.5})),
    }
    ratio = {place: replace(cell, n_diverged=0) for place, cell in cells.items()}
    maps = [HeatMap("accuracy in %", True, True, cells), HeatMap("coverage", False, False, ratio)]
    figure = draw_heat_maps(maps, source="two_moons")
    first, second = ([text.get_text() for text in axes.texts] for axes in figure.axes)
    assert first == ["95.0 ± 7.1", "n=2, 2 diverged", "5 diverged", "no run", "50.0", "n=1"]
    assert second == ["0.95 ± 0.07", "n=2", "no run", "no run", "0.50", "n=1"]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0", "0.1"]
    assert [axes.get_title(loc="right") for axes in figure.axes] == ["", "lower is better"]
    assert_no_words_overlap(figure)


def test_the_best_cell_is_the_lightest_and_wide_ranges_are_logarithmic() -> None:
    means = (0.01, 0.1, 10.0)
    cells = {(1.0, epsilon): HeatCell(statistic({0: mean})) for epsilon, mean in zip((0, 1, 2), means, strict=True)}
    for higher in (True, False):
        (axes,) = draw_heat_maps([HeatMap("x", False, higher, cells)]).axes
        light = [sum(patch.get_facecolor()[:3]) for patch in axes.patches]
        assert light == sorted(light, reverse=not higher)
        assert "logarithmic colours" in axes.get_title(loc="right")


def test_a_cell_without_the_metric_says_why() -> None:
    assert HeatCell().absence == "no run"
    assert HeatCell(None, 5).absence == "5 diverged"
    assert HeatCell(None, 1, n_complete=2).absence == "not measured"


def runs(epsilons=(0.0, 0.1), powers=(1, 2), prototypes=2, method="idw", **metrics: float) -> list[StoredRun]:
    configs = [
        run_config("two_moons", method=method, prototypes=prototypes, power=power, epsilon=epsilon, seed=seed)
        for power in powers
        for epsilon in epsilons
        for seed in (0, 1)
    ]
    return [made_run(config, 0.8 + config.seed / 10, **metrics) for config in configs]


@pytest.fixture
def store(monkeypatch) -> Store:
    monkeypatch.setattr(power_epsilon, "load_dataset", lambda config, data_dir: made_dataset())
    return Store(default={"keys": KEYS, "values": VALUES})


def test_rows_are_powers_and_columns_epsilons_with_accuracies_over_seeds_and_diverged_runs(store) -> None:
    stored = [*runs(), made_run(run_config("two_moons", prototypes=2, power=1, epsilon=1.0))]
    stored = [
        replace(run, state="diverged", metrics={}) if place in (0, 1, 2) else run for place, run in enumerate(stored)
    ]
    figure = power_epsilon_figure(store, stored).figure
    texts = words(figure)
    assert len(figure.axes) == 6
    assert [text for text in texts if text.startswith("ε = ")] == ["ε = 0", "ε = 0.1", "ε = 1"]
    assert [text for text in texts if text.startswith("p = ")] == ["p = 1", "p = 2"]
    assert texts.count("no run") == 1
    assert texts.count("85.0 ± 7.1") == 2 and "90.0" in texts
    assert {"2 diverged", "1 diverged, 1 outside", "1 outside"} <= set(texts)
    assert any("mean ± std over 2 seeds" in text for text in texts)
    assert any("idw · 2 prototypes · two_moons" in text for text in texts)
    assert_no_words_overlap(figure)


def test_a_heat_map_says_where_complete_runs_lack_the_metric(store) -> None:
    stored = [*runs(powers=(1,), dead_keys=2.0), *runs(powers=(2,))]
    for run in stored[:4]:
        run.metrics["train", "dead_keys"] = 2.0
    maps, _, _ = collect_heat_maps(stored)
    (dead,) = [one for one in maps if one.title == "dead keys"]
    assert [cell.absence for (power, _), cell in dead.cells.items() if power == 2] == ["not measured"] * 2
    assert "not measured" in words(draw_heat_maps(maps))


def test_heat_maps_show_the_metrics_that_runs_have_and_name_the_others(store) -> None:
    stored = runs(relative_coverage=2.5)
    stored = [replace(run, metrics={**run.metrics, ("holdout", "accuracy"): 0.75}) for run in stored]
    drawing = power_epsilon_heatmap_figure(store, stored)
    titles = [axes.get_title(loc="left") for axes in drawing.figure.axes]
    assert titles == ["holdout accuracy in %", "relative coverage"]
    assert words(drawing.figure).count("75.0 ± 0.0") == 4
    assert drawing.left_out == ("not drawn: key_distance, dead_keys, which no run has",)


def test_the_model_with_the_most_places_is_drawn_and_others_are_counted(store) -> None:
    others = runs(method="inv_dist", powers=(1,)) + runs(prototypes=4, powers=(1,))
    fixed = [made_run(run_config("two_moons", method="neg_dist", prototypes=2))]
    drawing = power_epsilon_heatmap_figure(store, runs() + others + fixed)
    assert "not drawn: 9 runs of other models (drawn: idw · 2 prototypes)" in drawing.left_out


def test_a_single_power_and_epsilon_make_no_figure(store) -> None:
    with pytest.raises(ConfigError, match="at least two pairs of power and epsilon") as caught:
        power_epsilon_figure(store, runs(powers=(2,), epsilons=(0.1,)))
    assert "paper_power_epsilon" in (caught.value.hint or "")
