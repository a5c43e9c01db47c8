"""The paired test, the bootstrap interval and the marks, against SciPy and counting; and what the spread is over."""

import json
from dataclasses import replace
from itertools import product
from statistics import stdev

import numpy as np
import pytest
from stored_runs import stored_run

from idwbench.report.frame import rows, run_table
from idwbench.report.labels import metric_label
from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import render
from idwbench.report.statistics import ALPHA, compare, mean_interval, signed_rank_p_value, statistic
from idwbench.report.summaries import section_tables, summarise

TIE = 1e-12


def p_value(first, second):
    return signed_rank_p_value([a - b for a, b in zip(first, second, strict=True)], TIE)


def test_of_descriptions_such_as_entropies_none_is_the_best():
    values = ({"block 1": statistic({seed: value + seed for seed in range(6)})} for value in (1.0, 20.0))
    measured = [("", one) for one in values]
    for metric, marked in (("weight_entropy", []), ("rmse", [0]), ("accuracy", [1])):
        compared, notes = compare(measured, metric)
        assert [place for place, one in enumerate(compared) if one["block 1"].best] == marked
        assert bool(notes) == bool(marked)
    assert metric_label("weight_entropy") == "weight entropy" and metric_label("rmse") == "rmse (lower is better)"


def by_enumeration(differences):
    """The two-sided p-value, 2 · min(P(W ≤ w), P(W ≥ w)), over all signs of the ranks, each as likely as another."""
    from scipy import stats

    present = differences[differences != 0]
    ranks = stats.rankdata(abs(present))
    observed = ranks[present > 0].sum()
    sums = np.array([ranks[np.array(signs)].sum() for signs in product((False, True), repeat=len(ranks))])
    return float(min(1, 2 * min((sums <= observed).mean(), (sums >= observed).mean())))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 5, 6, 10, 13, 14, 25, 50])
def test_without_ties_it_is_scipys_exact_test(n):
    from scipy import stats

    generator = np.random.default_rng(n)
    for shift in (0.0, 0.3, 2.0):
        differences = generator.normal(shift, 1, n)
        expected = stats.wilcoxon(differences, method="exact").pvalue
        assert signed_rank_p_value(differences.tolist(), TIE) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n", range(1, 11))
def test_with_ties_and_zeros_it_counts_all_signs(n):
    differences = np.random.default_rng(n).integers(-2, 5, n)
    # Accuracies on 40 points: the differences of fractions are equal only up to rounding.
    second = np.arange(20, 20 + n) / 40
    first = (np.arange(20, 20 + n) + differences) / 40
    expected = by_enumeration(differences)
    assert p_value(first, second) == pytest.approx(expected, rel=1e-12)
    assert p_value(second, first) == pytest.approx(expected, rel=1e-12)


def test_six_pairs_are_the_fewest_that_can_differ_and_equal_values_have_p_value_one():
    assert p_value(range(1, 7), [0.0] * 6) == 2 / 2**6 < ALPHA < p_value(range(1, 6), [0.0] * 5)
    assert p_value([0.9] * 8, [0.9] * 8) == p_value([], []) == 1


def scipys_interval(values, method):
    from scipy import stats

    found = stats.bootstrap((values,), np.mean, n_resamples=9_999, method=method, rng=np.random.default_rng(0))
    return found.confidence_interval.low, found.confidence_interval.high


@pytest.mark.parametrize("n", [3, 10, 20])
def test_the_interval_of_a_mean_is_scipys_bca_interval_in_any_order(n):
    values = np.random.default_rng(n).beta(20, 2, n).tolist()
    found = mean_interval(dict(enumerate(values)))
    assert (found.low, found.high) == pytest.approx(scipys_interval(values, "BCa"), rel=1e-12)
    assert found.method == "BCa"
    assert found.low < np.mean(values) < found.high
    assert mean_interval(dict([*enumerate(values)][::-1])) == found


def test_where_bca_is_undefined_the_percentile_interval_takes_its_place():
    equal = mean_interval({0: 0.1, 1: 0.1, 2: 0.1})
    assert equal is not None and (equal.low, equal.high, equal.method) == (0.1, 0.1, "percentile")
    # The difference is below the rounding of the means: SciPy returns NaN for BCa.
    values = [1e16, 1e16, 1e16 + 2]
    found = mean_interval(dict(enumerate(values)))
    assert (found.low, found.high, found.method) == (*scipys_interval(values, "percentile"), "percentile")


NOTE = "The result of kernel regression does not depend on the seed; it counts once and has no spread."


def stored(accuracy, *, data_seed=0, noise=0.1, **settings):
    data = {"name": "two_moons", "noise": noise, "seed": data_seed}
    return stored_run(accuracy, dataset=data, validation=accuracy, train=None, **settings)


def networks(n=6, **settings):
    return [stored(0.8 + seed / 100, seed=seed, **settings) for seed in range(n)]


def kernels(n=6):
    return [stored(0.9, seed=seed, kind="kernel_regression") for seed in range(n)]


def over_data(n=6, step=0.01, **settings):
    return [stored(0.8 + step * seed, data_seed=seed, **settings) for seed in range(n)]


def test_copies_of_one_result_have_no_spread_and_no_test_and_the_first_complete_one_counts():
    runs = networks() + kernels()
    (section,) = summarise(runs, intervals=True)
    copies, network = section.rows
    assert (copies.model.kind, copies.n, network.n) == ("kernel_regression", 1, 6)
    found = copies.statistics["test"]
    assert (found.mean, found.std, found.interval) == (0.9, None, None)
    assert NOTE in section.notes
    board = leaderboard(runs)
    assert "n = 1: too few seeds for a paired test (6 are needed)." in board.notes
    assert [(row["n"], row["test_std"] is None) for row in board.records()] == [(1, True), (6, False)]
    assert NOTE in board.notes
    assert "± 0.00" not in render(section_tables(summarise(runs)), "markdown")
    first, second, third = kernels(3)
    first = replace(first, state="failed", metrics={})
    assert [*run_table([third, first, second, third]).run_key] == [second.run_key]
    assert [*run_table([*networks(2), *networks(2)]).run_key] == [run.run_key for run in networks(2)]


def test_seeds_of_the_data_are_replicates_if_each_has_one_run():
    runs = over_data(kind="kernel_regression") + over_data(step=0.02, method="idw")
    (section,) = summarise(runs, intervals=True)
    assert section.title.startswith("two_moons · 6 seeds of the data · epochs")
    assert section.data_seeds == tuple(range(6))
    kernel, _ = section.rows
    found = kernel.statistics["test"]
    assert (kernel.n, found.std) == (6, pytest.approx(stdev(0.8 + 0.01 * seed for seed in range(6))))
    assert found.interval is not None
    network, kernel = leaderboard(runs).records()
    assert (network["method"], network["best_test"]) == ("idw", True)
    # Six pairs, of which the first is a tie: the smallest p-value of five is 2/2⁵.
    assert kernel["p_value_test"] == pytest.approx(2 / 2**5)
    assert "Spread and tests: over the 6 seeds 0 to 5 of the data." in section.notes
    assert NOTE not in section.notes


def test_pairs_are_those_of_the_same_data():
    low, high = over_data(7, kind="kernel_regression"), over_data(7, step=0.02, method="idw")
    found = rows(run_table(low[1:] + high[:-1]), "accuracy")
    values = {row.model.kind: {*row.statistics["test"].values} for row in found}
    assert values == {"kernel_regression": {*range(1, 7)}, "prototypes": {*range(6)}}
    assert any("n = 5: too few seeds" in note for note in leaderboard(low[1:] + high[:-1]).notes)


def test_a_leaderboard_pools_the_same_and_chooses_by_all_data_whose_seeds_are_in_json():
    runs = over_data(3, step=0.02, learning_rate=0.1) + over_data(3, learning_rate=0.01)
    board = leaderboard(runs + over_data(3, noise=0.3))
    assert [(row["n"], row.get("dataset_seed")) for row in board.records()] == [(3, None)] * 3
    assert "seed" not in board.title
    assert board.caption.endswith("on the same data.")
    chosen = leaderboard(runs, best_over=["learning_rate"])
    assert [row["learning_rate"] for row in chosen.records()] == [0.1]
    (record,) = json.loads(render(section_tables(summarise(over_data(3))), "json"))
    assert (record["dataset_config"]["seed"], record["n"]) == ([0, 1, 2], 3)


def test_several_runs_on_each_data_set_stay_apart():
    runs = networks() + networks(data_seed=1) + [stored(0.9, data_seed=1, kind="kernel_regression")]
    sections = summarise(runs)
    assert [(section.data_seeds, [row.n for row in section.rows]) for section in sections] == [((), [6]), ((), [1, 6])]
    assert [section.title.split(" · epochs")[0] for section in sections] == ["two_moons · seed 0", "two_moons · seed 1"]
    assert "dataset_seed" in [column.name for column in leaderboard(runs).columns]
