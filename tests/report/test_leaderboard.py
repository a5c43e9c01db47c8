"""Leaderboards, and reports with data sets as columns: pandas and SciPy say how rows are chosen, sorted and ranked."""

import json
from dataclasses import replace

import numpy as np
import pytest
from case_tables import case_table
from scipy.stats import rankdata
from stored_runs import columns, stored_run

from idwbench.errors import ConfigError
from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import render
from idwbench.report.summaries import by_dataset, section_tables, summarise


@pytest.fixture
def grid():
    """Methods with different parameters, prototypes, learning rates and numbers of seeds; random metrics."""
    rng = np.random.default_rng(0)
    axes = [
        {"method": method, "prototypes": prototypes, "learning_rate": rate, **parameters}
        for method, parameters in (("idw", {"power": 2.0}), ("idw", {"power": 4.0}), ("fc_relu", {}))
        for prototypes in (2, 16)
        for rate in (0.001, 0.01, 0.1)
    ]
    runs = []
    for place, settings in enumerate(axes):
        for seed in range(3 if place % 4 else 2):
            values = dict(zip(("test", "train", "validation"), (rng.integers(20, 40, 3) / 40).tolist(), strict=True))
            state = "diverged" if settings["learning_rate"] == 0.1 and settings["prototypes"] == 2 else "complete"
            runs.append(stored_run(dataset="two_moons", seed=seed, state=state, **values, **settings))
    return runs


def frame(runs, by):  # type: ignore[no-untyped-def]
    """The oracle: pandas' mean of each group, of complete runs."""
    from idwbench.results.frame import runs_frame, with_settings

    table = with_settings(runs_frame(runs))
    complete = table[table.state == "complete"]
    return complete.groupby(by, dropna=False)[["test_accuracy", "validation_accuracy"]].mean().reset_index()


def key(values, names):
    """Settings in a form that can be compared, where pandas has NaN for what is missing."""
    return tuple(None if value is None or value != value else value for value in (values[name] for name in names))


NAMES = ["method", "power", "prototypes", "learning_rate"]


def test_columns_are_the_settings_that_vary_and_rows_are_sorted_and_ranked_as_pandas_does(grid):
    board = leaderboard(grid[::-1])  # by validation, which all have
    assert board.title == "two_moons · epsilon 0.001 · epochs 25 · batch size 10"
    results = ["n", "diverged", "validation", "test", "train", "learned_parameters"]
    assert [column.name for column in board.columns] == ["rank", *NAMES, *results]
    expected = frame(grid, NAMES)
    expected["rank"] = expected.validation_accuracy.round(12).rank(method="min", ascending=False)
    means = {key(row, NAMES): row for row in expected.to_dict("records")}
    shown = [row for row in board.records() if row["n"]]
    assert len(shown) == len(means) == 15
    for row in shown:
        oracle = means[key({**row, "power": row.get("power")}, NAMES)]
        assert row["test_mean"] == pytest.approx(oracle["test_accuracy"], rel=1e-12)
        assert row["rank"] == oracle["rank"]
    ranks = [row["rank"] for row in shown]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) < len(ranks)  # some are equal
    assert len(board.groups) == 18
    assert f"{sum(row['n'] == 2 for row in shown)} rows of 18 with fewer than 3 seeds; see n." in board.notes


def test_equal_means_share_a_rank_and_stand_in_the_order_of_their_settings():
    first, second = (0.95, 0.975, 1.0), (1.0, 0.975, 0.95)
    runs = [stored_run(a, seed=s, method="idw", prototypes=16) for s, a in enumerate(first)]
    runs += [stored_run(a, seed=s, method="idw", prototypes=2) for s, a in enumerate(second)]
    runs += [stored_run(a, seed=s, method="fc_relu", prototypes=128) for s, a in enumerate(second)]
    runs += [stored_run(0.5, seed=s, method="fc_relu", prototypes=2) for s in range(3)]
    rows = leaderboard(runs).records()
    assert [(row["rank"], row["method"], row["prototypes"]) for row in rows] == [
        *((1, "fc_relu", 128), (1, "idw", 2), (1, "idw", 16), (4, "fc_relu", 2))
    ]


def test_the_highest_comes_first_of_an_error_the_lowest_and_another_split_may_sort():
    runs = [stored_run(test, dataset="diabetes", power=power) for test, power in ((60.0, 1), (50.0, 2), (55.0, 4))]
    lowest = leaderboard(runs)
    assert [row["power"] for row in lowest.records()] == [2, 4, 1]
    assert "sorted by test, lowest first" in render([lowest], "markdown")
    runs = [stored_run(power=n, train=1 / n, metrics={("test", "depth"): float(n)}) for n in (1, 4, 2)]
    unknown, other = leaderboard(runs, "depth"), leaderboard(runs, split="train")
    assert [row["power"] for row in unknown.records()] == [4, 2, 1]
    assert "Whether a higher depth is better is not known." in unknown.notes
    assert "sorted by test, highest first" in render([unknown], "markdown")
    assert [row["power"] for row in other.records()] == [1, 2, 4]
    assert [column.name for column in other.columns][3:5] == ["train", "test"]


def test_rows_of_diverged_runs_only_come_last_without_a_rank_and_top_keeps_the_first_rows_with_their_marks(grid):
    without_test = stored_run(None, dataset="two_moons", prototypes=99)
    rows = leaderboard([*grid, without_test]).records()
    assert [(row["rank"], row["n"]) for row in rows[-4:]] == [(None, 1), (None, 0), (None, 0), (None, 0)]
    assert all(row["diverged"] for row in rows[-3:])
    assert rows[-4]["prototypes"] == 99
    board, first = leaderboard(grid), leaderboard(grid, top=4)
    assert first.records() == board.records()[:4]
    assert first.notes[0] == "The first 4 of 18 rows."
    assert leaderboard(grid, top=100).records() == board.records()


def test_the_best_is_marked_on_the_whole_board_but_not_compared_with_rows_on_other_data():
    seeds = [0.5 + s / 100 for s in range(10)]
    runs = [stored_run(a, seed=s, prototypes=2) for s, a in enumerate(seeds)]
    runs += [stored_run(a - 0.001, seed=s, prototypes=16) for s, a in enumerate(seeds)]
    runs += [stored_run(a + (0.02 if s % 2 else -0.03), seed=s, prototypes=99) for s, a in enumerate(seeds)]
    board = leaderboard(runs)
    best = {row["prototypes"]: row["best_test"] for row in board.records()}
    assert best == {2: True, 16: False, 99: True}
    assert "best mean, or not distinguishable from it." in render([board], "markdown")
    runs = [
        stored_run(0.5 + seed / 100 + noise, seed=seed, dataset={"name": "two_moons", "noise": noise})
        for seed in range(10)
        for noise in (0.1, 0.2)
    ]
    board = leaderboard(runs)
    assert [(row["rank"], row["best_test"]) for row in board.records()] == [(1, True), (2, True)]
    assert "bold: best mean on the same data." in render([board], "markdown")


def test_data_sets_of_several_tasks_need_a_metric_and_a_choice_needs_data_for_validation():
    runs = [stored_run(0.9, dataset="digits"), stored_run(50.0, dataset="diabetes")]
    with pytest.raises(ConfigError, match="have different metrics") as caught:
        leaderboard(runs)
    assert (caught.value.location, caught.value.hint) == (("metric",), "one of: accuracy, rmse")
    with pytest.raises(ConfigError, match="there are no runs"):
        leaderboard([])
    for validation, hint in ((0, "add `validation: 0.1` to the data set of the sweep"), (0.1, "")):
        with pytest.raises(ConfigError, match="1 of 1 complete run have no validation accuracy") as caught:
            leaderboard([stored_run(dataset={"name": "mnist", "validation": validation})], best_over=["learning_rate"])
        assert caught.value.hint == hint


@pytest.mark.parametrize(("options", "message"), case_table("wrong_calls")["leaderboard"])
def test_what_no_run_has_is_refused(options, message):
    runs = [stored_run(power=power, validation=value) for power, value in ((1, 0.9), (2, None))]
    with pytest.raises(ConfigError) as caught:
        leaderboard(runs, **options)
    assert str(caught.value).startswith(message)


def test_the_best_over_axes_is_what_pandas_finds_by_the_validation_mean(grid):
    board = leaderboard(grid, best_over=["learning_rate", "power"])
    found = {(row["method"], row["prototypes"]): row for row in board.records()}
    means = frame(grid, NAMES)
    assert len(found) == 4
    for (method, prototypes), candidates in means.groupby(["method", "prototypes"]):
        top = candidates[candidates.validation_accuracy > candidates.validation_accuracy.max() - 1e-12]
        first = top.sort_values(["learning_rate", "power"]).iloc[0].to_dict()
        chosen = {**found[method, prototypes]}
        assert key({"power": None, **chosen}, NAMES) == key(first, NAMES)
    best_by_test = means.groupby(["method", "prototypes"]).test_accuracy.max()
    assert sorted(row["test_mean"] for row in board.records()) != pytest.approx(sorted(best_by_test))
    note = "learning_rate, power: chosen by the mean over seeds of accuracy on the validation split, not by test; 4 of"
    assert any(line.startswith(note) for line in board.notes)


def test_a_metric_without_validation_is_shown_for_the_best_headline_metric_which_of_an_error_is_the_lowest():
    for dataset, validation, chosen in (("mnist", (0.9, 0.8), 0.01), ("diabetes", (3.0, 2.0), 0.1)):
        runs = [
            stored_run(dataset=dataset, learning_rate=rate, validation=value, metrics={("train", "depth"): rate})
            for rate, value in zip((0.01, 0.1), validation, strict=True)
        ]
        board = leaderboard(runs, "depth", best_over=["learning_rate"])
        assert [row["learning_rate"] for row in board.records()] == [chosen]
        assert any(f"of {'rmse' if chosen == 0.1 else 'accuracy'} on the validation split" in n for n in board.notes)


def test_diverged_settings_are_chosen_only_if_nothing_else_is_left():
    runs = [
        stored_run(learning_rate=0.01, prototypes=2, state="diverged"),
        stored_run(learning_rate=0.1, prototypes=2, validation=0.5),
        stored_run(learning_rate=0.01, prototypes=4, state="diverged"),
        stored_run(learning_rate=0.1, prototypes=4, state="diverged"),
    ]
    rows = leaderboard(runs, best_over=["learning_rate"]).records()
    assert [(row["prototypes"], row["learning_rate"], row["n"]) for row in rows] == [(2, 0.1, 1), (4, 0.01, 0)]


def test_a_choice_among_different_numbers_of_seeds_is_noted_and_an_axis_that_does_not_vary():
    runs = [stored_run(learning_rate=0.01, seed=seed, validation=0.5) for seed in range(5)]
    runs += [stored_run(learning_rate=0.1, validation=0.6)]
    board = leaderboard(runs, best_over=["learning_rate", "epsilon", "epsilon"])
    assert board.records()[0]["n"] == 1
    assert "Some were chosen among settings with different numbers of seeds (1 to 5)." in board.notes
    assert "epsilon does not vary." in board.notes


def test_files_of_one_method_are_told_apart_and_of_a_single_one_nothing_is_shown():
    run = stored_run()
    model = run.config.model.model_copy(update={"plugin_sha256": "a" * 64})
    other = replace(run, run_key="b", config=run.config.model_copy(update={"model": model}))
    built_in = stored_run(method="neg_dist")
    assert "plugin_sha256" not in [column.name for column in leaderboard([other, built_in]).columns]
    board = leaderboard([run, other])
    assert [column.name for column in board.columns][:3] == ["rank", "plugin_sha256", "n"]
    assert "aaaaaaaa |" in render([board], "markdown")
    assert "a" * 9 not in render([board], "markdown")
    for runs, shown in (([run, other], ["p=2, ε=0.001", "p=2, ε=0.001, plugin aaaaaaaa"]), ([other], ["p=2, ε=0.001"])):
        [setting] = [
            column for table in section_tables(summarise(runs)) for column in table.columns if column.name == "setting"
        ]
        assert sorted(setting.texts) == shown


SETS = ("two_moons", "digits", "iris", "wine", "blobs")
MODELS = ({"kind": "scikit_learn", "method": "knn"}, {"kind": "scikit_learn", "method": "svc"}, {"method": "idw"})
PROTOCOL = {"epochs": 5, "batch_size": 4, "learning_rate": 0.1}


def settings_of(model):
    network = {"prototypes": 8, "initialisation": "default", "key_bounds": "none"}
    return {**model, **PROTOCOL, **({} if "kind" in model else network)}


@pytest.fixture
def accuracies():
    """By data set, model and seed of the data; two models tie on the first data set."""
    found = np.random.default_rng(0).uniform(0.5, 1, (len(SETS), len(MODELS), 5)).round(3)
    found[0, 1] = found[0, 0]
    return found


@pytest.fixture
def report(accuracies):
    runs = [
        stored_run(value, dataset={"name": name, "seed": seed}, train=0.9, **settings_of(model))
        for name, of_models in zip(SETS, accuracies, strict=True)
        for model, values in zip(MODELS, of_models, strict=True)
        for seed, value in enumerate(values.tolist())
    ]
    return summarise(runs)


def test_a_cell_is_a_mean_with_its_spread_the_best_is_marked_and_ranks_are_over_all_data_sets(report, accuracies):
    tables = by_dataset(report)
    assert [[column.name for column in table.columns] for table in tables] == [
        ["method", "setting", "prototypes", "two_moons", "digits", "iris", "wine"],
        ["method", "setting", "prototypes", "blobs", "rank"],
    ]
    found = columns(*tables)
    assert found["method"] == ["knn", "svc", "idw"] and found["prototypes"] == ["–", "–", "8"]
    for name, of_models in zip(SETS, 100 * accuracies, strict=True):
        assert found[name] == [f"{values.mean():.2f} ± {values.std(ddof=1):.2f}" for values in of_models]
    marked = {column.name: column.best for table in by_dataset(report) for column in table.columns}
    for name, means in zip(SETS, accuracies.mean(2), strict=True):
        assert marked[name] == np.isclose(means, means.max(), rtol=1e-12).tolist()
    ranks = rankdata(-accuracies.mean(2), axis=1).mean(0)
    assert columns(*by_dataset(report))["rank"] == [f"{rank:.1f}" for rank in ranks]
    assert render(by_dataset(report), "csv") == render(section_tables(report), "csv")
    assert len(json.loads(render(by_dataset(report), "json"))) == len(SETS) * len(MODELS)
    trained = by_dataset(report, "train")
    assert columns(*trained)["iris"] == ["90.00 ± 0.00"] * 3 and "on the split train" in trained[0].caption


def test_a_model_that_a_data_set_lacks_has_no_mean_rank():
    pairs = [(name, model) for name in SETS[:2] for model in MODELS if name != "digits" or "kind" in model]
    runs = [stored_run(0.8, dataset=name, **settings_of(model)) for name, model in pairs]
    found = columns(*by_dataset(summarise(runs)))
    assert found["digits"] == ["80.00", "80.00", "–"]
    assert found["rank"] == ["1.8", "1.8", "–"]


def test_data_sets_are_named_by_what_differs_from_each_other_and_what_differs_from_the_default_is_noted():
    runs = [
        stored_run(0.8, dataset={"name": name, "seed": seed, **extra}, **settings_of(MODELS[0]))
        for name, extra in (("two_moons", {"noise": 0.3}), ("iris", {}))
        for seed in range(2)
    ]
    *_, table = by_dataset(summarise(runs))
    assert table.notes[0] == "two_moons · noise 0.3."
    assert "Spread and tests: over the 2 seeds 0 to 1 of the data." in table.notes
    runs = [
        stored_run(0.8, dataset="mnist", method=method, seed=seed, epochs=epochs)
        for method in ("idw", "fc_relu")
        for seed in range(2)
        for epochs in (3, 5)
    ]
    (table,) = by_dataset(summarise(runs))
    assert [column.header for column in table.columns[-3:]] == ["mnist · epochs 3", "mnist · epochs 5", "mean rank"]
    assert table.notes == (
        *(f"mnist · epochs {n}: mnist · epochs {n} · batch size 4 · learning rate 0.001." for n in (3, 5)),
        "n = 2: too few seeds for a paired test (6 are needed).",
    )
