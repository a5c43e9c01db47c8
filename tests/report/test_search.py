import math

import numpy as np
import pandas
import pytest
from stored_runs import stored_run

from idwbench.errors import ConfigError
from idwbench.report.search import RANDOM, importance, search_trials, setting_axis

MOONS = {"name": "two_moons", "validation": 0.3}


def trial(value, power, seeds=(0, 1), **facts):
    """Return the runs of a trial, whose values on validation rows differ by 0.02; on test rows all are equal."""
    values = {"validation": value, "test": 0.9, **facts}
    shifts = [0.01 * (2 * seed - 1) for seed in seeds]
    return [
        stored_run(**{**values, "validation": values["validation"] and values["validation"] + shift}, dataset=MOONS,
                   seed=seed, method="idw", prototypes=4, power=power, epochs=3)
        for seed, shift in zip(seeds, shifts, strict=True)
    ]  # fmt: skip


def test_the_history_is_by_validation_and_trials_without_a_value_keep_their_number():
    diverged = trial(0.5, 4.0, state="diverged")
    runs = [*trial(0.7, 2.0), *trial(0.9, 3.0), *diverged[:1], *trial(0.5, 4.0)[1:], *trial(0.8, 5.0)]
    search = search_trials(runs)
    assert (search.split, search.label) == ("validation", "validation accuracy in %")
    assert [*search.trials.index] == [1, 2, 4]
    assert [*search.trials.value] == pytest.approx([70, 90, 80])
    assert [*search.trials.best] == pytest.approx([70, 90, 90])
    assert [*search.trials["rank"]] == [0, 1, 0.5]
    assert search.trials.text[1] == "70.00 ± 1.41"
    assert search.settings.power.tolist() == [2, 3, 5]
    assert search.trials.label[4] == "power 5"


def test_the_history_is_by_test_where_there_is_no_validation_and_the_best_of_an_error_is_the_lowest():
    runs = [stored_run(test, dataset="sine", method="idw", prototypes=n) for n, test in ((2, 0.5), (4, 0.3), (8, 0.4))]
    search = search_trials(runs)
    assert search.split == "test"
    assert [*search.trials.best] == [0.5, 0.3, 0.3]
    assert [*search.trials["rank"]] == [0, 1, 0.5]
    assert search.settings.columns.tolist() == ["prototypes"]
    with pytest.raises(ConfigError, match="fewer than two trials have a value"):
        search_trials(runs[:1])
    with pytest.raises(ConfigError, match="no run has a metric 'accuracyy'"):
        search_trials(runs, "accuracyy")


def test_an_axis_is_linear_or_logarithmic_or_has_categories_and_a_missing_value_has_no_place():
    linear = setting_axis(pandas.Series([2, 6, 10], [3, 5, 9], dtype=object))
    assert linear.places.to_dict() == {3: 0, 5: 0.5, 9: 1} and linear.ticks == {0: "2", 0.5: "6", 1: "10"}
    wide = setting_axis(pandas.Series([1e-4, 1e-2, math.nan, 1.0], dtype=object))
    assert [*wide.places[[0, 1, 3]]] == pytest.approx([0, 0.5, 1]) and math.isnan(wide.places[2])
    assert list(wide.ticks.values()) == ["0.0001", "0.01", "1"]
    words = setting_axis(pandas.Series(["mean", "kmeans", math.nan, "mean"], dtype=object))
    assert words.places.tolist()[:2] == [1, 0] and words.ticks == {0: "kmeans", 1: "mean"}
    assert setting_axis(pandas.Series([None, 3, True], dtype=object)).places.notna().all()


def test_importance_finds_the_setting_that_matters_and_compares_it_with_random_numbers():
    generator = np.random.default_rng(0)
    powers, rates = generator.uniform(1, 16, 60), generator.uniform(1e-3, 1e-1, 60)
    runs = [
        stored_run(0.5, validation=0.9 - abs(power - 8) / 20, dataset=MOONS, method="idw", prototypes=4, power=power,
                   learning_rate=rate, epochs=3)
        for power, rate in zip(powers.tolist(), rates.tolist(), strict=True)
    ]  # fmt: skip
    table, score = importance(search_trials(runs))
    assert [*table.index] == ["power", "learning rate", RANDOM]
    assert score > 0.8
    # The effect is not monotone: a correlation would miss it.
    assert table.low["power"] > 1 > 0.1 > table.high["learning rate"] > table.low["learning rate"]
    assert abs(table["mean"][RANDOM]) < 0.1
    assert importance(search_trials(runs))[0].equals(table)
    with pytest.raises(ConfigError, match="needs at least 20 trials with a value, got 19"):
        importance(search_trials(runs[:19]))


def test_the_importance_of_settings_without_an_effect_is_that_of_chance():
    generator = np.random.default_rng(1)
    values, powers = generator.uniform(0.5, 0.9, 30).tolist(), generator.uniform(1, 16, 30).tolist()
    table, score = importance(search_trials([run for pair in zip(values, powers, strict=True) for run in trial(*pair)]))
    assert score < 0.1
    assert table.low["power"] < 0.1
