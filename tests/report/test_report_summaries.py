import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from idwbench.methods import METHODS
from idwbench.report.references import REFERENCES, find_reference
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun

Make = Callable[..., StoredRun]


def test_means_and_deviations_are_those_of_pandas(stored_run: Make) -> None:
    generator = np.random.default_rng(0)
    runs = [
        stored_run(
            float(generator.random()),
            method=method,
            prototypes=prototypes,
            seed=seed,
            train=float(generator.random()),
            holdout=float(generator.random()),
        )
        for method in ("idw", "neg_dist", "fc_relu")
        for prototypes in (2, 16)
        for seed in range(7)
    ]
    frame = pd.DataFrame(
        [(r.config.method, r.config.prototypes, r.test_accuracy, r.train_accuracy, r.holdout_accuracy) for r in runs],
        columns=["method", "prototypes", "test", "train", "holdout"],
    )
    oracle = frame.groupby(["method", "prototypes"]).agg(["mean", "std", "count"])
    (section,) = summarise(runs[::-1]).sections
    assert len(section.rows) == len(oracle)
    for row in section.rows:
        for split in ("test", "train", "holdout"):
            expected = oracle.loc[(row.method, row.prototypes), split]
            statistic = getattr(row, split)
            assert statistic.mean == pytest.approx(expected["mean"], rel=1e-12)
            assert statistic.std == pytest.approx(expected["std"], rel=1e-12)
            assert statistic.n == expected["count"] == row.n


def test_one_run_has_no_spread_and_a_note_says_so(stored_run: Make) -> None:
    (section,) = summarise([stored_run(0.9)]).sections
    assert section.rows[0].test is not None
    assert section.rows[0].test.std is None
    assert "n = 1: no spread." in section.notes


def test_a_run_given_twice_counts_once(stored_run: Make) -> None:
    run = stored_run(0.9)
    assert summarise([run, run]).sections[0].rows[0].n == 1


def test_rows_stand_by_prototypes_then_the_papers_order_then_parameters(stored_run: Make) -> None:
    runs = [stored_run(method=method, prototypes=count) for method in reversed(METHODS) for count in (16, 2)]
    runs += [stored_run(parameters={"power": power}, prototypes=2) for power in (16.0, 1.0, 4.0)]
    rows = summarise(runs).sections[0].rows
    assert [row.method for row in rows if row.prototypes == 16] == list(METHODS)
    assert [row.prototypes for row in rows] == sorted(row.prototypes for row in rows)
    powers = [dict(row.parameters)["power"] for row in rows if row.prototypes == 2 and row.method == "idw"]
    assert powers == [1.0, 2.0, 4.0, 16.0]
    idw = next(row for row in rows if row.method == "idw")
    assert [name for name, _ in idw.parameters] == ["power", "epsilon"]


def test_the_best_is_chosen_among_equal_numbers_of_prototypes(stored_run: Make) -> None:
    runs = [
        stored_run(0.8, method="idw", prototypes=2, holdout=0.7),
        stored_run(0.7, method="fc_relu", prototypes=2, holdout=0.9),
        stored_run(0.9, method="idw", prototypes=16),
        stored_run(0.95, method="fc_relu", prototypes=16),
    ]
    rows = summarise(runs).sections[0].rows
    assert [(r.method, r.prototypes) for r in rows if r.best_test] == [("idw", 2), ("fc_relu", 16)]
    assert [(r.method, r.prototypes) for r in rows if r.best_holdout] == [("fc_relu", 2)]


def test_equal_means_share_the_flag_whatever_seeds_they_come_from(stored_run: Make) -> None:
    first, second = (0.95, 0.975, 1.0), (1.0, 0.975, 0.95)
    runs = [stored_run(a, method="idw", seed=s) for s, a in enumerate(first)]
    runs += [stored_run(a, method="inv_dist", seed=s) for s, a in enumerate(second)]
    runs += [stored_run(0.975, method="fc_relu", seed=s) for s in range(3)]
    assert all(row.best_test for row in summarise(runs).sections[0].rows)


def test_a_diverged_run_is_counted_and_in_no_mean(stored_run: Make) -> None:
    runs = [stored_run(0.8), stored_run(seed=1, state="diverged"), stored_run(method="gaussian", state="diverged")]
    (section,) = summarise(runs).sections
    gaussian, idw = section.rows
    assert (idw.n, idw.n_diverged) == (1, 1)
    assert idw.test is not None
    assert idw.test.mean == 0.8
    assert (gaussian.n, gaussian.n_diverged, gaussian.test, gaussian.best_test) == (0, 1, None, False)
    assert gaussian.n_learned == 20 * (784 + 10)
    assert "2 runs diverged; no mean counts them." in section.notes


def test_failed_and_open_runs_are_told_in_a_note(stored_run: Make) -> None:
    runs = [stored_run(), stored_run(seed=1, state="failed"), stored_run(seed=2, state="planned")]
    (section,) = summarise(runs).sections
    assert [row.n for row in section.rows] == [1]
    assert "1 run failed; not shown." in section.notes
    assert "1 run not done yet; not shown." in section.notes


def test_an_accuracy_that_is_no_number_is_left_out(stored_run: Make) -> None:
    row = summarise([stored_run(math.nan), stored_run(0.5, seed=1)]).sections[0].rows[0]
    assert row.test is not None
    assert (row.test.mean, row.test.n) == (0.5, 1)


def test_two_protocols_give_two_tables_the_papers_first(stored_run: Make) -> None:
    runs = [stored_run(protocol={"epochs": 2, "batch_size": 64}), stored_run()]
    titles = [section.title for section in summarise(runs).sections]
    assert titles == [
        "mnist · 50 epochs · batch 4 · learning rate 0.001",
        "mnist · 2 epochs · batch 64 · learning rate 0.001",
    ]


def test_titles_name_what_differs_from_the_default_or_between_sections(stored_run: Make) -> None:
    runs = [
        stored_run(dataset={"name": "two_moons", "noise": 0.2}),
        stored_run(dataset={"name": "two_moons"}, protocol={"epochs": 1, "schedule": "constant"}),
        stored_run(dataset="digits"),
    ]
    assert [section.title for section in summarise(runs).sections] == [
        "two_moons · noise 0.1 · 1 epoch · batch 10 · learning rate 0.01 · constant schedule",
        "two_moons · noise 0.2 · 25 epochs · batch 10 · learning rate 0.01",
        "digits · 50 epochs · batch 16 · learning rate 0.01",
    ]
    (alone,) = summarise(runs[:1]).sections
    assert alone.title.startswith("two_moons · noise 0.2 ·")


def test_a_users_file_is_named_by_itself_and_by_content_only_when_two_share_a_name(stored_run: Make) -> None:
    def file(folder: str, sha: str, seed: int) -> StoredRun:
        return stored_run(dataset={"name": "npz", "path": f"{folder}/mine.npz", "sha256": sha * 64}, seed=seed)

    moved = summarise([file("here", "a", 0), file("there", "a", 1)]).sections
    assert [section.rows[0].n for section in moved] == [2]
    assert moved[0].title.startswith("mine.npz · 50 epochs")
    renamed = replace(file("there", "a", 1), dataset="yours.npz")
    assert [section.rows[0].n for section in summarise([file("here", "a", 0), renamed]).sections] == [2]
    two = summarise([file("here", "a", 0), file("there", "b", 0)]).sections
    assert [section.title.split(" · ")[1] for section in two] == ["sha256 aaaaaaaa", "sha256 bbbbbbbb"]


def test_references_stand_beside_their_setting_and_no_other(stored_run: Make) -> None:
    runs = [
        stored_run(method="neg_dist"),
        stored_run(method="neg_dist", parameters={"power": 4.0}),
        stored_run(method="scaled_dot"),
        stored_run(method="scaled_dot", parameters={"scale": "prototypes"}),
        stored_run(method="idw", prototypes=10),
    ]
    (section,) = summarise(runs).sections
    found = {
        (r.method, r.prototypes, *r.parameters): (r.paper, r.authors) for r in section.rows if r.paper or r.authors
    }
    assert found == {
        ("neg_dist", 20, ("power", 2.0)): (0.8363, 0.937),
        ("scaled_dot", 20, ("scale", "prototypes")): (None, 0.934),
    }
    assert [note.split(":")[0] for note in section.notes if "accuracy" in note] == ["paper", "authors' code"]
    assert not any("did not" in note for note in section.notes)


def test_another_protocol_is_told_beside_a_reference(stored_run: Make) -> None:
    (section,) = summarise([stored_run(protocol={"epochs": 2})]).sections
    assert section.rows[0].authors == 0.878
    assert "50 epochs · batch 4" in section.notes[-1]
    assert section.notes[-1].endswith("these runs did not.")


def test_a_reference_belongs_to_the_same_data(stored_run: Make) -> None:
    same = {"name": "two_moons", "seed": 3, "holdout_per_class": 10}
    other = {"name": "two_moons", "noise": 0.3}
    for dataset, expected in ((same, 0.975), (other, None), ("fashion_mnist", None)):
        assert summarise([stored_run(dataset=dataset, prototypes=16)]).sections[0].rows[0].authors == expected


def test_every_reference_names_a_setting_that_can_be_run(stored_run: Make) -> None:
    for r in REFERENCES:
        run = stored_run(dataset=r.dataset, method=r.method, prototypes=r.prototypes, parameters=dict(r.parameters))
        assert dict(r.parameters) == run.config.parameters
        found = find_reference(r.source, run.config.dataset, r.method, r.prototypes, r.parameters)
        assert found == r.test_accuracy


def test_two_versions_of_a_plugin_are_two_rows(stored_run: Make) -> None:
    runs = [stored_run(), stored_run(seed=1)]
    configs = [run.config.model_copy(update={"plugin_sha256": sha * 64}) for run, sha in zip(runs, "ab", strict=True)]
    runs = [replace(run, config=config) for run, config in zip(runs, configs, strict=True)]
    assert [row.n for row in summarise(runs).sections[0].rows] == [1, 1]


def test_ten_thousand_runs_take_less_than_two_seconds(stored_run: Make) -> None:
    import time

    runs = [
        replace(run, run_key=f"{run.run_key}{place}")
        for run in [stored_run(seed=s) for s in range(50)]
        for place in range(200)
    ]
    start = time.perf_counter()
    assert summarise(runs).sections[0].rows[0].n == 10_000
    assert time.perf_counter() - start < 2
