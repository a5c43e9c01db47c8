from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import numpy as np
import pytest

from idwbench.report.formats import render
from idwbench.report.intervals import mean_interval
from idwbench.report.layout import tables_of
from idwbench.report.leaderboard import leaderboard
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun

Make = Callable[..., StoredRun]


def scipys_interval(values: list[float], method: str) -> tuple[float, float]:
    from scipy import stats

    found = stats.bootstrap(
        (values,), np.mean, n_resamples=9_999, confidence_level=0.95, method=method, rng=np.random.default_rng(0)
    )
    return found.confidence_interval.low, found.confidence_interval.high


@pytest.mark.parametrize("n", [3, 10, 20])
def test_the_interval_of_a_mean_is_scipys_bca_interval(n: int) -> None:
    values = np.random.default_rng(n).beta(20, 2, n).tolist()
    found = mean_interval(dict(enumerate(values)))
    assert found is not None
    assert (found.low, found.high) == pytest.approx(scipys_interval(values, "BCa"), rel=1e-12)
    assert found.method == "BCa"
    assert found.low < np.mean(values) < found.high


def test_the_interval_of_many_values_is_near_that_of_the_normal_distribution() -> None:
    values = np.random.default_rng(1).normal(3.0, 1.0, 400)
    found = mean_interval(dict(enumerate(values.tolist())))
    assert found is not None
    half = 1.96 * values.std(ddof=1) / np.sqrt(400)
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)


def test_equal_values_have_an_interval_without_width() -> None:
    found = mean_interval({0: 0.1, 1: 0.1, 2: 0.1})
    assert found is not None
    assert (found.low, found.high, found.method) == (0.1, 0.1, "percentile")


def test_where_bca_is_undefined_the_percentile_interval_takes_its_place() -> None:
    # The difference is below the rounding of the means: SciPy returns NaN for BCa.
    values = [1e16, 1e16, 1e16 + 2]
    found = mean_interval(dict(enumerate(values)))
    assert found is not None
    assert found.method == "percentile"
    assert (found.low, found.high) == scipys_interval(values, "percentile")


def test_the_interval_does_not_depend_on_the_order_of_runs() -> None:
    values = dict(enumerate(np.random.default_rng(0).random(12).tolist()))
    assert mean_interval(values) == mean_interval(dict(reversed(values.items())))


def test_fewer_than_three_seeds_have_no_interval_and_a_note_says_so(stored_run: Make) -> None:
    runs = [stored_run(0.8 + seed / 100, seed=seed) for seed in range(2)]
    runs += [stored_run(0.8 + seed / 100, seed=seed, method="neg_dist") for seed in range(5)]
    (section,) = summarise(runs, intervals=True).sections
    intervals = {row.model.method: row.statistics["test"].interval for row in section.rows}
    assert intervals["idw"] is None
    assert intervals["neg_dist"] is not None
    assert "n < 3: no interval." in section.notes


def test_test_and_holdout_have_intervals_and_other_splits_have_none(stored_run: Make) -> None:
    runs = [stored_run(0.8 + seed / 100, seed=seed, holdout=0.7 + seed / 50, validation=0.5) for seed in range(4)]
    (section,) = summarise(runs, intervals=True).sections
    statistics = section.rows[0].statistics
    assert {split for split, one in statistics.items() if one.interval} == {"test", "holdout"}
    (table,) = tables_of(summarise(runs, intervals=True))
    assert [column.name for column in table.columns][4:8] == ["test", "test interval", "holdout", "holdout interval"]


def test_a_metric_of_the_training_data_has_its_interval_there(stored_run: Make) -> None:
    runs = [stored_run(seed=seed, metrics={("train", "depth"): 2.0 + seed}) for seed in range(4)]
    (section,) = summarise(runs, "depth", intervals=True).sections
    assert section.rows[0].statistics["train"].interval is not None


def test_a_leaderboard_has_the_intervals_of_the_split_that_sorts_it(stored_run: Make) -> None:
    runs = [stored_run(0.8, seed=seed, train=0.9 + seed / 100) for seed in range(4)]
    board = leaderboard(runs, split="train", intervals=True)
    assert {split for split, one in board.rows[0].statistics.items() if one.interval} == {"test", "train"}


def test_every_format_shows_the_interval(stored_run: Make) -> None:
    values = [0.81, 0.84, 0.86, 0.79]
    runs = [stored_run(value, seed=seed) for seed, value in enumerate(values)]
    low, high = scipys_interval(values, "BCa")
    label = f"{100 * low:.2f} to {100 * high:.2f}"
    for shown in (summarise(runs, intervals=True), leaderboard(runs, intervals=True)):
        for table_format in ("rich", "markdown", "latex"):
            text = render(shown, table_format)
            assert label in text
            assert "BCa bootstrap with 9,999 resamples" in " ".join(text.split())
        (record,) = json.loads(render(shown, "json"))
        assert (record["test_low"], record["test_high"]) == pytest.approx((low, high), rel=1e-12)
        assert (record["test_interval"], record["train_low"]) == ("BCa", None)
        (line,) = csv.DictReader(io.StringIO(render(shown, "csv")))
        assert float(line["test_low"]) == record["test_low"]


def test_without_being_asked_for_there_are_no_intervals(stored_run: Make) -> None:
    runs = [stored_run(0.8 + seed / 100, seed=seed) for seed in range(4)]
    assert "interval" not in render(summarise(runs), "markdown")
    assert "test_low" not in json.loads(render(summarise(runs), "json"))[0]
